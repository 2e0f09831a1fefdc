package ops

import (
	"errors"

	"github.com/wickerwork/wicker/codec"
)

// ErrAbsentKey says that a Rekey found no key for a record (null or zero bytes) and that its
// option does not allow for that.
var ErrAbsentKey = errors.New("the new key is absent: should AbsentKey(ops.Drop) or a Branch in front take such records?")

// RekeyOp gives each record the key that F takes from it.
type RekeyOp[K, V, K2 any] struct {
	// Durable is the name of the repartition topic that may follow.
	Durable string
	Key     codec.Codec[K2]
	Absent  AbsentKeyPolicy
	F       func(K, V) K2
}

// Traits describes the operator.
func (o RekeyOp[K, V, K2]) Traits() Traits {
	return Traits{Op: "Rekey", Name: o.Durable, ChangesKey: true}
}

// Wire makes the operator for one task. What it leaves out is counted as "dropped".
func (o RekeyOp[K, V, K2]) Wire(site *Site, down Emit[K2, V]) (Emit[K, V], error) {
	m, at, f, key, absent := site.Meta(), site.At, o.F, o.Key, o.Absent
	dropped := site.Counter(site.At, CountDropped)
	buf := make([]byte, 0, 64)
	return func(k K, v V) error {
		m.At = at
		k2 := f(k, v)
		kb, err := key.Append(buf[:0], k2)
		if err != nil {
			return &EncodeError{Part: "key", Err: err}
		}
		if kb != nil {
			buf = kb
		}
		if len(kb) == 0 && (absent != Keep || kb == nil) {
			if absent == Drop {
				dropped.Add(1)
				return nil
			}
			return ErrAbsentKey
		}
		return down(k2, v)
	}, nil
}

// RepartitionOp leaves records as they are and has them go through a repartition topic, which puts them where their keys
// belong by Kafka's default partitioner.
type RepartitionOp[K, V any] struct {
	// Durable is the name of the repartition topic that may follow.
	Durable string
	Key     codec.Codec[K]
	Absent  AbsentKeyPolicy
}

// Traits describes the operator.
func (o RepartitionOp[K, V]) Traits() Traits {
	return Traits{Op: "Repartition", Name: o.Durable, ChangesKey: true}
}

// Wire makes the operator for one task. What it leaves out is counted as "dropped".
func (o RepartitionOp[K, V]) Wire(site *Site, down Emit[K, V]) (Emit[K, V], error) {
	return RekeyOp[K, V, K]{Key: o.Key, Absent: o.Absent, F: func(k K, _ V) K { return k }}.Wire(site, down)
}
