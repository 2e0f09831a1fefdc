package testkit

import (
	"context"
	"slices"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

// Record is a record of a topic in the topic's types.
type Record[K, V any] struct {
	Key   K
	Value V
	// Timestamp has milliseconds; the zero time is the virtual clock's when pushing.
	Timestamp time.Time
	// Headers are in the order of the record.
	Headers []Header
	// Partition and Offset are where the record lies. They are not used when pushing.
	Partition int32
	Offset    int64
}

// Header is one header of a record. A nil value is null.
type Header struct {
	Key   string
	Value []byte
}

// Input is the way into a topic.
type Input[K, V any] struct {
	k     *Kit
	topic ops.Topic[K, V]
	n     int32
	rule  ops.Partitioner
}

// In returns the way into a source topic of the plan.
func (k *Kit) In[K, V any](topic ops.Topic[K, V]) *Input[K, V] {
	k.tb.Helper()
	n := k.partitions[topic.Name]
	if !slices.ContainsFunc(k.plan.Topics(), func(t topology.TopicSpec) bool { return t.Kind == topology.SourceTopic && t.Name == topic.Name }) {
		k.tb.Fatalf("testkit: topic %s is not a source of the plan\n%s", topic.Name, k.plan.Describe())
	}
	in := &Input[K, V]{k: k, topic: topic, n: int32(n)}
	for _, sub := range k.plan.Subtopologies() {
		for _, spec := range sub.SourceSpecs() {
			if spec.Topic == topic.Name {
				in.rule = spec.Partitioner
			}
		}
	}
	return in
}

// Push produces a record into the partition where the source's partitioner puts its key (ops.PartitionedBy), at the
// virtual clock's time, which it then moves on by a millisecond.
func (i *Input[K, V]) Push(key K, value V) {
	i.k.tb.Helper()
	i.PushRecord(Record[K, V]{Key: key, Value: value})
}

// PushRecord is Push with the record's timestamp and headers.
func (i *Input[K, V]) PushRecord(r Record[K, V]) {
	i.k.tb.Helper()
	kb, err := i.topic.Key.Append([]byte{}, r.Key)
	if err != nil {
		i.k.tb.Fatalf("testkit: topic %s: encode key: %v", i.topic.Name, err)
	}
	vb, err := i.topic.Value.Append([]byte{}, r.Value)
	if err != nil {
		i.k.tb.Fatalf("testkit: topic %s: encode value: %v", i.topic.Name, err)
	}
	p := int32(0)
	if kb != nil {
		p = max(0, i.rule.Partition(kb, i.n)) // -1 is anywhere
	}
	raw := commitlog.Record{Key: kb, Value: vb, Timestamp: i.k.stamp(r.Timestamp), HeaderCount: len(r.Headers)}
	for _, h := range r.Headers {
		raw.Headers = commitlog.AppendHeader(raw.Headers, h.Key, h.Value)
	}
	i.push(p, raw)
}

// PushBytes produces a record of any bytes, nil for null, into any partition: what a broken
// or differently partitioned producer would do.
func (i *Input[K, V]) PushBytes(partition int32, key, value []byte) {
	i.k.tb.Helper()
	i.push(partition, commitlog.Record{Key: key, Value: value, Timestamp: i.k.stamp(time.Time{})})
}

func (i *Input[K, V]) push(partition int32, r commitlog.Record) {
	i.k.tb.Helper()
	if _, err := i.k.log.Append(context.Background(), i.topic.Name, partition, []commitlog.Record{r}); err != nil {
		i.k.tb.Fatalf("testkit: %v", err)
	}
}

// stamp returns t in ms, or the clock's time and moves it on.
func (k *Kit) stamp(t time.Time) int64 {
	if t.IsZero() {
		t = k.clock.Now()
		k.Advance(time.Millisecond)
	}
	return t.UnixMilli()
}

// Output is the way out of a topic.
type Output[K, V any] struct {
	k     *Kit
	topic ops.Topic[K, V]
	read  []int // records read so far, by partition
}

// Out returns the way out of a topic of the plan; it begins at the topic's start.
func (k *Kit) Out[K, V any](topic ops.Topic[K, V]) *Output[K, V] {
	k.tb.Helper()
	n := k.partitions[topic.Name]
	if n == 0 {
		k.tb.Fatalf("testkit: topic %s is not a source or sink of the plan\n%s", topic.Name, k.plan.Describe())
	}
	return &Output[K, V]{k: k, topic: topic, read: make([]int, n)}
}

// Read waits until everything pushed has been processed and returns the records committed
// since the last Read, by timestamp and those of one partition in its order.
func (o *Output[K, V]) Read() []Record[K, V] {
	o.k.tb.Helper()
	o.k.Settle()
	return o.Peek()
}

// Peek returns what is committed since the last Read or Peek, without waiting.
func (o *Output[K, V]) Peek() []Record[K, V] {
	o.k.tb.Helper()
	type sortable struct {
		at time.Time // the record's, or that of a later one before it in the partition
		Record[K, V]
	}
	var all []sortable
	for p := range o.read {
		records, err := o.k.log.Records(o.topic.Name, int32(p), commitlog.ReadCommitted)
		if err != nil {
			o.k.tb.Fatalf("testkit: %v", err)
		}
		var last time.Time
		for _, r := range records[min(o.read[p], len(records)):] {
			rec := Record[K, V]{Partition: int32(p), Offset: r.Offset, Timestamp: time.UnixMilli(r.Timestamp).UTC()}
			if rec.Key, err = o.topic.Key.Decode(r.Key); err != nil {
				o.k.tb.Fatalf("testkit: topic %s partition %d offset %d: decode key: %v", o.topic.Name, p, r.Offset, err)
			}
			if rec.Value, err = o.topic.Value.Decode(r.Value); err != nil {
				o.k.tb.Fatalf("testkit: topic %s partition %d offset %d: decode value: %v", o.topic.Name, p, r.Offset, err)
			}
			if err := r.EachHeader(func(key string, value []byte) bool {
				rec.Headers = append(rec.Headers, Header{key, value})
				return true
			}); err != nil {
				o.k.tb.Fatalf("testkit: topic %s partition %d offset %d: %v", o.topic.Name, p, r.Offset, err)
			}
			if rec.Timestamp.After(last) {
				last = rec.Timestamp
			}
			all = append(all, sortable{last, rec})
		}
		o.read[p] = len(records)
	}
	slices.SortStableFunc(all, func(a, b sortable) int { return a.at.Compare(b.at) })
	out := make([]Record[K, V], len(all))
	for i, r := range all {
		out[i] = r.Record
	}
	return out
}
