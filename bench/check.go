package main

import (
	"context"
	"fmt"
	"hash/maphash"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// seed makes the hashes of one process comparable.
var seed = maphash.MakeSeed()

// digest is what is compared of an output: how many records, the sum of their hashes, and by
// partition a hash that depends on their order.
type digest struct {
	count   int64
	sum     uint64
	ordered [partitions]uint64
}

func (d *digest) add(partition int32, key, value []byte) {
	h := maphash.Bytes(seed, key)*31 + maphash.Bytes(seed, value)
	d.count++
	d.sum += h
	if int(partition) < len(d.ordered) {
		d.ordered[partition] = d.ordered[partition]*0x9e3779b97f4a7c15 + h
	}
}

// differs says how got differs from want, empty if it does not.
func (want *digest) differs(got *digest, ordered bool) string {
	switch {
	case got.count != want.count:
		return fmt.Sprintf("%d records, want %d", got.count, want.count)
	case got.sum != want.sum:
		return "other keys or values than the input calls for"
	case ordered && got.ordered != want.ordered:
		return "not in the order of the input, by partition"
	}
	return ""
}

// expected computes what the scenario's output must be, from its input.
func expected(ctx context.Context, c *kafka.Client, addr string, s *scenario) (*digest, error) {
	d := &digest{}
	expect := s.expect()
	err := each(ctx, c, addr, s.input.topic, func(p int32, k, v []byte) {
		expect(k, v, func(k, v []byte) { d.add(p, k, v) })
	})
	if err == nil && d.count != int64(s.input.records) {
		err = fmt.Errorf("topic %s has %d records, want %d", s.input.topic, d.count, s.input.records)
	}
	return d, err
}

// outcome computes what a run's output is, once the markers of all its transactions are there: a
// group's offsets may show before those of its last outputs do.
func outcome(ctx context.Context, c *kafka.Client, addr, topic string) (*digest, error) {
	if err := c.AwaitStable(ctx, topic); err != nil {
		return nil, err
	}
	d := &digest{}
	err := each(ctx, c, addr, topic, d.add)
	return d, err
}
