package topology

import (
	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
)

// Refined is a stream whose records have a sub-key within their key, by which state is kept (P3). Results have the record's key again. It is a small
// value that never changes.
type Refined[K, S, V any] struct {
	s   Stream[K, V]
	sub func(K, V) S
}

// Refine gives each record a sub-key within its key, so that state behind it is kept by both: sub takes it from the record, and must be a pure function. Nothing is repartitioned, since the
// state of all sub-keys lies with the key. There is no way to keep state by less than the key but Rekey.
func (s Stream[K, V]) Refine[S any](sub func(K, V) S) Refined[K, S, V] {
	return Refined[K, S, V]{s, sub}
}

// Aggregate folds the records of each sub-key into a state of type A, as Stream.Aggregate does of each key. Options: Name.
func (r Refined[K, S, V]) Aggregate[A any](state ops.State[ops.Fine[K, S], A], f func(K, S, V, A) A, opts ...ops.Option) Stream[K, A] {
	op := ops.RefineOp[K, S, V, A]{Op: "Aggregate", State: state, Sub: r.sub}
	if f != nil {
		op.F = func(k K, s S, v V, a A, _ bool) A { return f(k, s, v, a) }
	}
	return r.fold(op, opts)
}

// Reduce combines the values of each sub-key, as Stream.Reduce does of each key. Options: Name.
func (r Refined[K, S, V]) Reduce(state ops.State[ops.Fine[K, S], V], f func(a, b V) V, opts ...ops.Option) Stream[K, V] {
	op := ops.RefineOp[K, S, V, V]{Op: "Reduce", State: state, Sub: r.sub}
	if f != nil {
		op.F = func(_ K, _ S, v, a V, found bool) V {
			if !found {
				return v
			}
			return f(a, v)
		}
	}
	return r.fold(op, opts)
}

func (r Refined[K, S, V]) fold[A any](op ops.RefineOp[K, S, V, A], opts []ops.Option) Stream[K, A] {
	n := r.s.add(op.Op, op.State.Name)
	n.options(ops.Collect(opts), "Name")
	n.durable(changelogTopic(n.b.app, op.State.Name))
	n.usable("the state's key codec", op.State.Key)
	n.usable("the state's codec", op.State.Value)
	n.function(op.F == nil || op.Sub == nil)
	if op.State.Key != nil && r.s.of.key.codec != nil {
		switch within, ok := ops.FineWithin(op.State.Key); {
		case !ok:
			n.fail("the state's key codec is %s: it must be one of ops.FineCodec", codec.Describe(op.State.Key))
		case within != codec.Describe(r.s.of.key.codec):
			n.fail("the state's keys are encoded as %s, the stream's as %s: state lies where its records' keys do, so use one codec", within, codec.Describe(r.s.of.key.codec))
		}
	}
	return operator(n, op, &shape[K, A]{r.s.of.key, part[A]{codec: op.State.Value, from: n}})
}
