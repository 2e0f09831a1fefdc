package exec

import (
	"fmt"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
)

// outputs is where a task's records leave: laid out by partition, sent when a batch is full
// or the transaction closes. It belongs to the task's goroutine (E1).
type outputs struct {
	pool   *commitlog.Pool
	topics []*output
	// batchBytes is the size at which a batch is sent.
	batchBytes int
	// send hands a full batch on.
	send func(tp commitlog.TopicPartition, b *commitlog.Batch) error
	// open is the bytes of batches being built.
	open int
}

// output is the way into one topic. It implements ops.Output.
type output struct {
	*outputs
	topic string
	// maxRecord is the largest record taken.
	maxRecord int
	builders  []*commitlog.Builder // by partition
	next      int32                // where a record without a key goes
	written   int64
}

// topic returns the output of that topic, of which a record may have so many bytes.
func (o *outputs) topic(name string, partitions, maxRecord int) *output {
	for _, t := range o.topics {
		if t.topic == name {
			return t
		}
	}
	t := &output{outputs: o, topic: name, maxRecord: maxRecord, builders: make([]*commitlog.Builder, partitions)}
	for i := range t.builders {
		t.builders[i] = commitlog.NewBuilder(o.pool)
	}
	o.topics = append(o.topics, t)
	return t
}

// Write implements ops.Output. Records without a key go to one partition after the other, a
// batch each.
func (t *output) Write(m *ops.Meta, key, value []byte) error {
	n := int32(len(t.builders))
	p := t.next
	if key != nil {
		if p = 0; n > 1 {
			p = ops.Murmur2.Partition(key, n)
		}
	}
	return t.write(p, m.Timestamp, key, value, m.Headers, m.HeaderCount)
}

// write adds a record to a partition.
func (t *output) write(p int32, timestamp int64, key, value, headers []byte, headerCount int) error {
	size := commitlog.MaxRecordSize(key, value, headers)
	if size > t.maxRecord {
		return fmt.Errorf("topic %s: %w: %d bytes with its headers, must be <= %d (exec.Config.MaxRecordBytes, and max.message.bytes of the topic)", t.topic, commitlog.ErrTooLarge, size, t.maxRecord)
	}
	b := t.builders[p]
	before := b.Size()
	if b.Len() > 0 && before+size > min(t.batchBytes, t.maxRecord+batchHeader) {
		if err := t.flush(p); err != nil {
			return err
		}
		before = 0
	}
	b.Append(timestamp, key, value, headers, headerCount)
	t.open += b.Size() - before
	t.written++
	return nil
}

// flush sends what was built for a partition.
func (t *output) flush(p int32) error {
	b := t.builders[p]
	t.open -= b.Size()
	batch := b.Take()
	if batch == nil {
		return nil
	}
	if p == t.next {
		t.next = (t.next + 1) % int32(len(t.builders))
	}
	return t.send(commitlog.TopicPartition{Topic: t.topic, Partition: p}, batch)
}

// flush sends everything that was built.
func (o *outputs) flush() error {
	for _, t := range o.topics {
		for p := range t.builders {
			if err := t.flush(int32(p)); err != nil {
				return err
			}
		}
	}
	return nil
}

// discard drops what was built.
func (o *outputs) discard() {
	for _, t := range o.topics {
		for _, b := range t.builders {
			b.Discard()
		}
	}
	o.open = 0
}
