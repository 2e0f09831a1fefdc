package ops

import "errors"

// MapOp turns each record into another.
type MapOp[K, V, K2, V2 any] struct {
	Label string
	F     func(K, V) (K2, V2)
}

// Traits describes the operator: it may change the key.
func (o MapOp[K, V, K2, V2]) Traits() Traits {
	return Traits{Op: "Map", Name: o.Label, ChangesKey: true}
}

// Wire makes the operator for one task.
func (o MapOp[K, V, K2, V2]) Wire(site *Site, down Emit[K2, V2]) (Emit[K, V], error) {
	m, at, f := site.Meta(), site.At, o.F
	return func(k K, v V) error {
		m.At = at
		return down(f(k, v))
	}, nil
}

// MapValuesOp turns each value into another and leaves the key as it is.
type MapValuesOp[K, V, V2 any] struct {
	Label string
	F     func(V) V2
}

// Traits describes the operator.
func (o MapValuesOp[K, V, V2]) Traits() Traits { return Traits{Op: "MapValues", Name: o.Label} }

// Wire makes the operator for one task.
func (o MapValuesOp[K, V, V2]) Wire(site *Site, down Emit[K, V2]) (Emit[K, V], error) {
	m, at, f := site.Meta(), site.At, o.F
	return func(k K, v V) error {
		m.At = at
		return down(k, f(v))
	}, nil
}

// ErrRecovered says that an operator behind a FlatMap panicked, and that the FlatMap's function recovered that.
var ErrRecovered = errors.New("panicked behind the emit of a FlatMap, whose function recovered it: let panics pass, they end the transaction")

// FlatMapOp turns each record into any number of others.
type FlatMapOp[K, V, K2, V2 any] struct {
	Label string
	F     func(K, V, func(K2, V2))
}

// Traits describes the operator: it may change the key.
func (o FlatMapOp[K, V, K2, V2]) Traits() Traits {
	return Traits{Op: "FlatMap", Name: o.Label, ChangesKey: true}
}

// Wire makes the operator for one task. The function's emit is one closure for the task's
// life; after a failure further calls of it do nothing. A panic behind emit that the function recovers is a failure too
// (ErrRecovered): what was emitted has not been processed.
func (o FlatMapOp[K, V, K2, V2]) Wire(site *Site, down Emit[K2, V2]) (Emit[K, V], error) {
	m, at, f := site.Meta(), site.At, o.F
	var err error
	emit := func(k K2, v V2) {
		if err == nil {
			err = ErrRecovered // unless down returns
			if err = down(k, v); err == nil {
				m.At = at
			}
		}
	}
	return func(k K, v V) error {
		m.At, err = at, nil
		f(k, v, emit)
		return err
	}, nil
}
