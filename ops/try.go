package ops

// TryMapOp turns each record into another, or fails.
type TryMapOp[K, V, K2, V2 any] struct {
	Label     string
	F         func(K, V) (K2, V2, error)
	OnInvalid InvalidPolicy
}

// Traits describes the operator: it may change the key.
func (o TryMapOp[K, V, K2, V2]) Traits() Traits {
	return Traits{Op: "TryMap", Name: o.Label, ChangesKey: true}
}

// Wire makes the operator for one task.
func (o TryMapOp[K, V, K2, V2]) Wire(site *Site, down Emit[K2, V2]) (Emit[K, V], error) {
	invalid, err := newInvalid[V2](o.OnInvalid, site)
	if err != nil {
		return nil, err
	}
	m, at, f := site.Meta(), site.At, o.F
	return func(k K, v V) error {
		m.At = at
		k2, v2, err := f(k, v)
		if err != nil {
			_, _, err = invalid.failed(err)
			return err
		}
		return down(k2, v2)
	}, nil
}

// TryMapValuesOp turns each value into another and leaves the key as it is, or fails.
type TryMapValuesOp[K, V, V2 any] struct {
	Label     string
	F         func(V) (V2, error)
	OnInvalid InvalidPolicy
}

// Traits describes the operator.
func (o TryMapValuesOp[K, V, V2]) Traits() Traits { return Traits{Op: "TryMapValues", Name: o.Label} }

// Wire makes the operator for one task.
func (o TryMapValuesOp[K, V, V2]) Wire(site *Site, down Emit[K, V2]) (Emit[K, V], error) {
	invalid, err := newInvalid[V2](o.OnInvalid, site)
	if err != nil {
		return nil, err
	}
	m, at, f := site.Meta(), site.At, o.F
	return func(k K, v V) error {
		m.At = at
		v2, err := f(v)
		if err != nil {
			var ok bool
			if v2, ok, err = invalid.failed(err); err != nil || !ok {
				return err
			}
		}
		return down(k, v2)
	}, nil
}
