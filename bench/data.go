package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/wickerwork/wicker/testkit/kafka"
)

const (
	distinctKeys = 100_000
	valueSize    = 100
)

// generator makes the input's records, the same ones each time; a smaller data set is a prefix
// of a larger one.
type generator struct{ r *rand.Rand }

func newGenerator() *generator { return &generator{rand.New(rand.NewPCG(42, 42))} }

func (g *generator) next() (key, value []byte) {
	key = fmt.Appendf(make([]byte, 0, keySize), "k%015d", g.r.IntN(distinctKeys))
	value = make([]byte, valueSize)
	for i := range value {
		if i < fieldSize {
			value[i] = byte('0' + g.r.IntN(10))
		} else {
			value[i] = byte(33 + g.r.IntN(94))
		}
	}
	return key, value
}

// load makes the data set's topic with its records, unless it is there. It returns where its
// partitions end.
func load(ctx context.Context, c *kafka.Client, addr string, d dataset) (kafka.Offsets, error) {
	topics, err := c.Topics(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := topics[d.topic]; ok {
		ends, err := c.EndOffsets(ctx, kafka.ReadCommitted, d.topic)
		if err != nil {
			return nil, err
		}
		if sum(ends) == int64(d.records) && len(ends) == partitions {
			return ends, nil
		}
		// Left by a load that was interrupted.
		if err := c.DeleteTopics(ctx, d.topic); err != nil {
			return nil, err
		}
	}
	if err := c.CreateTopic(ctx, d.topic, partitions, nil); err != nil {
		return nil, err
	}
	progress("load %s: %d records", d.topic, d.records)
	g := newGenerator()
	if err := fill(ctx, addr, d.topic, d.records, func(int) (k, v []byte) { return g.next() }); err != nil {
		return nil, err
	}
	return c.EndOffsets(ctx, kafka.ReadCommitted, d.topic)
}

// fill writes n records to the topic, as fast as it can.
func fill(ctx context.Context, addr, topic string, n int, next func(i int) (key, value []byte)) error {
	w, err := newWriter(addr, topic, 20*time.Millisecond)
	if err != nil {
		return err
	}
	for i := range n {
		k, v := next(i)
		w.write(ctx, k, v)
	}
	return w.close(ctx)
}

// writer writes records to a topic, each to the partition that Java's default partitioner
// chooses.
type writer struct {
	cl     *kgo.Client
	topic  string
	failed chan error // has the first error
}

// newWriter returns a writer that waits so long for batches to fill. The caller has to close it.
func newWriter(addr, topic string, linger time.Duration) (*writer, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(64<<10), kgo.ProducerLinger(linger),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		return nil, err
	}
	return &writer{cl, topic, make(chan error, 1)}, nil
}

func (w *writer) write(ctx context.Context, key, value []byte) {
	w.cl.Produce(ctx, &kgo.Record{Key: key, Value: value}, func(_ *kgo.Record, err error) {
		if err != nil {
			select {
			case w.failed <- err:
			default:
			}
		}
	})
}

// close returns when all is acknowledged, with the first error that there was.
func (w *writer) close(ctx context.Context) error {
	defer w.cl.Close()
	if err := w.cl.Flush(ctx); err != nil {
		return fmt.Errorf("write to %s: %w", w.topic, err)
	}
	select {
	case err := <-w.failed:
		return fmt.Errorf("write to %s: %w", w.topic, err)
	default:
		return nil
	}
}

func sum(offsets kafka.Offsets) int64 {
	var n int64
	for _, o := range offsets {
		n += o
	}
	return n
}

// each calls visit with every record of a topic that a read_committed reader sees, each
// partition in order.
func each(ctx context.Context, c *kafka.Client, addr, topic string, visit func(partition int32, key, value []byte)) error {
	ends, err := c.EndOffsets(ctx, kafka.ReadCommitted, topic)
	if err != nil {
		return err
	}
	starts := map[int32]kgo.Offset{}
	left := 0
	for p, end := range ends {
		if end > 0 {
			starts[p.Partition] = kgo.NewOffset().AtStart()
			left++
		}
	}
	if left == 0 {
		return nil
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords()) // they say that the end is reached
	if err != nil {
		return err
	}
	defer cl.Close()
	done := map[int32]bool{}
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return err
		}
		var failed error
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if p.Err != nil {
				failed = p.Err
			}
			end := ends[kafka.Partition{Topic: topic, Partition: p.Partition}]
			for _, r := range p.Records {
				if r.Offset < end && !r.Attrs.IsControl() {
					visit(p.Partition, r.Key, r.Value)
				}
				if r.Offset+1 >= end && !done[p.Partition] {
					done[p.Partition] = true
					left--
				}
			}
		})
		if failed != nil {
			return failed
		}
	}
	return nil
}
