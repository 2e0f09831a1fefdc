package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/topology"
)

// stock is an application whose changelog is there before it first runs: what restore and
// crash start with. It lasts, and its input goes on over the runs.
type stock struct {
	app, in, changelog string
	keys               int
}

const (
	restoreAbout = "changelog of one partition with distinct keys of 16 bytes and values of 200 bytes, uncompressed, as a plain producer batches them"
	// minKeys is the least number of keys: an input's key must not come twice.
	minKeys    = 10_000
	counterLen = 8
	stateSize  = 200
	stateName  = "latest"
)

// bumpPlan counts the first eight bytes of a key's state, decimal digits, up by one with each
// input, and forwards the state: so an output tells what was restored, and how often its input was processed.
func bumpPlan(app, in, out string) (*topology.Plan, error) {
	return topology.New(app).
		From(ops.Source(ops.NewTopic(in, codec.String, codec.Bytes))).
		Aggregate(ops.NewState(stateName, codec.String, codec.Bytes), func(_ string, _, state []byte) []byte { return bump(state) }).
		To(ops.Sink(ops.NewTopic(out, codec.String, codec.Bytes))).
		Build()
}

// bump returns the state after one more input; an absent one, nil, is all zeros.
func bump(state []byte) []byte {
	next := slices.Clone(state)
	if state == nil {
		next = slices.Repeat([]byte{'0'}, stateSize)
	}
	for i := counterLen - 1; i >= 0; i-- {
		if next[i]++; next[i] <= '9' {
			break
		}
		next[i] = '0'
	}
	return next
}

// key is that of record i of the changelog, and of record i of the input: every number below
// the count comes once, not in order.
func (s *stock) key(i int64) []byte {
	return fmt.Appendf(make([]byte, 0, keySize), "k%015d", s.number(i))
}

func (s *stock) number(i int64) int64 { return i * 3_141_593 % int64(s.keys) }

// state is what the changelog has for the key of record i: zeros, and printable bytes that go by the key.
func (s *stock) state(i int64) []byte {
	state := slices.Repeat([]byte{'0'}, stateSize)
	r := rand.NewPCG(uint64(s.number(i)), 42)
	var bits uint64
	for j := counterLen; j < len(state); j++ {
		if j%8 == 0 {
			bits = r.Uint64()
		}
		state[j] = byte(33 + bits&63)
		bits >>= 8
	}
	return state
}

// stock returns the side's, which it makes unless it is there and of use.
func (d *driver) stock(ctx context.Context, side string) (*stock, error) {
	app := fmt.Sprintf("stock-%s-%d", side, d.keys)
	s := &stock{app: app, in: app + "-in", changelog: app + "-" + stateName + "-changelog", keys: d.keys}
	if err := d.groups.vacate(ctx, s.app); err != nil {
		return nil, err
	}
	ok, err := d.usable(ctx, s)
	if err != nil || ok {
		return s, err
	}
	topics, err := d.client.Topics(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range []string{s.in, s.changelog} {
		if _, ok := topics[t]; ok {
			if err := d.client.DeleteTopics(ctx, t); err != nil {
				return nil, err
			}
		}
	}
	progress("load %s: %d records", s.changelog, s.keys)
	if err := d.client.CreateTopic(ctx, s.in, 1, nil); err != nil {
		return nil, err
	}
	// As both sides create it, but that it stays as it is for a day.
	if err := d.client.CreateTopic(ctx, s.changelog, 1, map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}); err != nil {
		return nil, err
	}
	err = fill(ctx, d.broker.Addr(), s.changelog, s.keys, func(i int) (k, v []byte) { return s.key(int64(i)), s.state(int64(i)) })
	if err != nil {
		return nil, err
	}
	// State without a position is not what a run leaves.
	return s, d.groups.commit(ctx, s.app, s.in, 0)
}

// usable says whether the stock is there, with its position, and few enough of its keys were used.
func (d *driver) usable(ctx context.Context, s *stock) (bool, error) {
	topics, err := d.client.Topics(ctx)
	if err != nil || topics[s.in] != 1 || topics[s.changelog] != 1 {
		return false, err
	}
	log, err := d.end(ctx, s.changelog)
	if err != nil {
		return false, err
	}
	in, err := d.end(ctx, s.in)
	if err != nil {
		return false, err
	}
	have, err := d.client.CommittedOffsets(ctx, s.app)
	if err != nil {
		return false, err
	}
	at, ok := have[kafka.Partition{Topic: s.in}]
	keys := int64(s.keys)
	return ok && at == in && in <= keys/2 && log >= keys && log <= keys+max(keys/10, 10_000), nil
}

// end is where partition 0 of a topic ends.
func (d *driver) end(ctx context.Context, topic string) (int64, error) {
	ends, err := d.client.EndOffsets(ctx, kafka.ReadCommitted, topic)
	return ends[kafka.Partition{Topic: topic}], err
}

// expected is the output that records from to to of the input call for: each key comes once.
func (s *stock) expected(from, to int64) *digest {
	d := &digest{}
	for i := from; i < to; i++ {
		d.add(0, s.key(i), bump(s.state(i)))
	}
	return d
}
