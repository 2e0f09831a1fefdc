package ops

import "github.com/wickerwork/wicker/codec"

// AggregateOp folds the records of each key into a state and emits the state after each.
type AggregateOp[K, V, A any] struct {
	State State[K, A]
	F     func(K, V, A) A
}

// Traits describes the operator.
func (o AggregateOp[K, V, A]) Traits() Traits {
	return Traits{Op: "Aggregate", Name: o.State.Name, NeedsKey: true, Store: o.State.Name, StateCodec: codec.Describe(o.State.Value)}
}

// Wire makes the operator for one task.
func (o AggregateOp[K, V, A]) Wire(site *Site, down Emit[K, A]) (Emit[K, V], error) {
	return fold(site, o.State.Key, o.State.Value, down, func(k K, v V, a A, _ bool) A { return o.F(k, v, a) })
}

// ReduceOp combines the values of each key and emits the result after each.
type ReduceOp[K, V any] struct {
	State State[K, V]
	F     func(V, V) V
}

// Traits describes the operator.
func (o ReduceOp[K, V]) Traits() Traits {
	return Traits{Op: "Reduce", Name: o.State.Name, NeedsKey: true, Store: o.State.Name, StateCodec: codec.Describe(o.State.Value)}
}

// Wire makes the operator for one task.
func (o ReduceOp[K, V]) Wire(site *Site, down Emit[K, V]) (Emit[K, V], error) {
	f := o.F
	return fold(site, o.State.Key, o.State.Value, down, func(_ K, v V, a V, found bool) V {
		if !found {
			return v
		}
		return f(a, v)
	})
}

// fold is what Aggregate and Reduce share: read the key's state, step, write, emit. A state
// that encodes to null is deleted.
func fold[K, V, A any](site *Site, key codec.Codec[K], state codec.Codec[A], down Emit[K, A], step func(K, V, A, bool) A) (Emit[K, V], error) {
	store, err := site.Store(site.At.Store)
	if err != nil {
		return nil, err
	}
	m, at := site.Meta(), site.At
	kbuf, sbuf := make([]byte, 0, 64), make([]byte, 0, 256)
	return func(k K, v V) error {
		m.At = at
		kb, err := key.Append(kbuf[:0], k)
		if err != nil {
			return &EncodeError{Part: "key", Err: err}
		}
		if kb == nil {
			return ErrNullKey
		}
		kbuf = kb
		old, err := store.Get(kb)
		if err != nil {
			return err
		}
		var a A
		if old != nil {
			if a, err = state.Decode(old); err != nil {
				return &DecodeError{Part: "state", Err: err}
			}
		}
		a = step(k, v, a, old != nil)
		sb, err := state.Append(sbuf[:0], a)
		if err != nil {
			return &EncodeError{Part: "state", Err: err}
		}
		if sb != nil {
			sbuf = sb
		}
		if err := store.Put(kb, sb); err != nil {
			return err
		}
		return down(k, a)
	}, nil
}
