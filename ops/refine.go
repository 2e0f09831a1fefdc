package ops

import (
	"encoding/binary"
	"fmt"

	"github.com/wickerwork/wicker/codec"
)

// Fine is a key within a record's key: an account and a currency, a machine and one of its sensors. State by it lies where the records of Key are, whatever
// Sub is.
type Fine[K, S any] struct {
	Key K
	Sub S
}

// FineCodec returns the codec of keys within keys: the length of the key's encoding as a uvarint, that, and the sub-key's. A null key is null, a null sub-key an
// error.
func FineCodec[K, S any](key codec.Codec[K], sub codec.Codec[S]) codec.Codec[Fine[K, S]] {
	return fineCodec[K, S]{key, sub}
}

// NewFineState returns the state by a key within the record's key.
func NewFineState[K, S, A any](name string, key codec.Codec[K], sub codec.Codec[S], value codec.Codec[A]) State[Fine[K, S], A] {
	return State[Fine[K, S], A]{Name: name, Key: FineCodec(key, sub), Value: value}
}

type fineCodec[K, S any] struct {
	key codec.Codec[K]
	sub codec.Codec[S]
}

// of returns what describes the codec of the keys within which the codec's keys are.
func (c fineCodec[K, S]) of() string { return codec.Describe(c.key) }

// Describe implements codec.Described.
func (c fineCodec[K, S]) Describe() string {
	return codec.Describe(c.key) + " / " + codec.Describe(c.sub)
}

// Check implements codec.Checked.
func (c fineCodec[K, S]) Check() error {
	if c.key == nil || c.sub == nil {
		return fmt.Errorf("a codec of a key within a key is nil")
	}
	if err := codec.Check(c.key); err != nil {
		return err
	}
	return codec.Check(c.sub)
}

// Append implements codec.Codec.
func (c fineCodec[K, S]) Append(dst []byte, v Fine[K, S]) ([]byte, error) {
	var room [64]byte
	key, err := c.key.Append(room[:0], v.Key)
	if err != nil {
		return dst, err
	}
	if key == nil {
		return nil, nil
	}
	out := append(binary.AppendUvarint(dst, uint64(len(key))), key...)
	if out, err = c.sub.Append(out, v.Sub); err != nil {
		return dst, err
	}
	if out == nil {
		return dst, fmt.Errorf("sub-key: %w", codec.ErrNull)
	}
	return out, nil
}

// Decode implements codec.Codec.
func (c fineCodec[K, S]) Decode(src []byte) (v Fine[K, S], err error) {
	if src == nil {
		return v, codec.ErrNull
	}
	size, n := binary.Uvarint(src)
	if n <= 0 || size > uint64(len(src)-n) {
		return v, fmt.Errorf("key of a key within a key: %w", codec.ErrLength)
	}
	end := n + int(size)
	k, err := c.key.Decode(src[n:end:end])
	if err != nil {
		return v, err
	}
	s, err := c.sub.Decode(src[end:])
	if err != nil {
		return v, err
	}
	return Fine[K, S]{k, s}, nil
}

// FineWithin returns what describes the codec of the keys within which the keys of a FineCodec are; false for any other codec.
func FineWithin(c any) (string, bool) {
	f, ok := c.(interface{ of() string })
	if !ok {
		return "", false
	}
	return f.of(), true
}

// RefineOp folds the records of each key within a key into a state, and emits that under the record's key.
type RefineOp[K, S, V, A any] struct {
	// Op is "Aggregate" or "Reduce".
	Op    string
	State State[Fine[K, S], A]
	// Sub takes the sub-key from a record.
	Sub func(K, V) S
	// F is the fold. Its last argument says whether there was a state.
	F func(K, S, V, A, bool) A
}

// Traits describes the operator.
func (o RefineOp[K, S, V, A]) Traits() Traits {
	return Traits{Op: o.Op, Name: o.State.Name, NeedsKey: true, Store: o.State.Name, StateCodec: codec.Describe(o.State.Value), StateKey: codec.Describe(o.State.Key)}
}

// Wire makes the operator for one task.
func (o RefineOp[K, S, V, A]) Wire(site *Site, down Emit[K, A]) (Emit[K, V], error) {
	m, at := site.Meta(), site.At
	folded, err := fold(site, o.State.Key, o.State.Value, func(k Fine[K, S], a A) error { return down(k.Key, a) },
		func(k Fine[K, S], v V, a A, found bool) A { return o.F(k.Key, k.Sub, v, a, found) })
	if err != nil {
		return nil, err
	}
	return func(k K, v V) error {
		m.At = at
		return folded(Fine[K, S]{k, o.Sub(k, v)}, v)
	}, nil
}
