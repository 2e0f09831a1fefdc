package testkit

import (
	"bytes"
	"context"
	"maps"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
)

// StateView is the committed state of an operator, over all partitions.
type StateView[K, A any] struct {
	k       *Kit
	state   ops.State[K, A]
	changes string // the changelog topic
}

// State returns a view of an operator's state, by the handle that Aggregate or Reduce was given; for the answers
// of a Memo it is one made with ops.NewState of the Memo's name and codecs. It shows what the changelog holds, which is
// what a restore would find.
func (k *Kit) State[K, A any](s ops.State[K, A]) *StateView[K, A] {
	k.tb.Helper()
	for _, spec := range k.plan.Stores() {
		if spec.As == s.Name {
			if got := codec.Describe(s.Value); got != spec.Codec {
				k.tb.Fatalf("testkit: state %s is encoded as %s in the plan, not as %s", s.Name, spec.Codec, got)
			}
			return &StateView[K, A]{k: k, state: s, changes: spec.Changelog}
		}
	}
	k.tb.Fatalf("testkit: state %s is not in the plan\n%s", s.Name, k.plan.Describe())
	return nil
}

// Get waits until everything pushed has been processed and returns the key's value.
func (v *StateView[K, A]) Get(key K) (value A, ok bool) {
	v.k.tb.Helper()
	kb, err := v.state.Key.Append([]byte{}, key)
	if err != nil {
		v.k.tb.Fatalf("testkit: state %s: encode key: %v", v.state.Name, err)
	}
	v.each(func(k, b []byte) {
		if bytes.Equal(k, kb) {
			ok = true
			if value, err = v.state.Value.Decode(b); err != nil {
				v.k.tb.Fatalf("testkit: state %s: decode value: %v", v.state.Name, err)
			}
		}
	})
	return value, ok
}

// Len waits until everything pushed has been processed and returns the number of keys.
func (v *StateView[K, A]) Len() int {
	v.k.tb.Helper()
	n := 0
	v.each(func(_, _ []byte) { n++ })
	return n
}

// each visits the keys of each partition that have a value.
func (v *StateView[K, A]) each(visit func(key, value []byte)) {
	v.k.tb.Helper()
	v.k.Settle()
	topics, err := v.k.log.Topics(context.Background(), v.changes)
	if err != nil {
		v.k.tb.Fatalf("testkit: %v", err)
	}
	for p := range topics[v.changes].Partitions {
		records, err := v.k.log.Records(v.changes, int32(p), commitlog.ReadCommitted)
		if err != nil {
			v.k.tb.Fatalf("testkit: %v", err)
		}
		last := map[string][]byte{}
		for _, r := range records {
			if r.Value == nil {
				delete(last, string(r.Key))
			} else {
				last[string(r.Key)] = r.Value
			}
		}
		for key := range maps.Keys(last) {
			visit([]byte(key), last[key])
		}
	}
}
