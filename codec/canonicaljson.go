package codec

import (
	"bytes"
	"sync"
)

// CanonicalJSON is [JSON] for keys: what it writes has the canonical form of [AppendCanonical], and what it reads must have
// it, and be all that T has, or it is [ErrForm]. So a key has one encoding only, whatever program wrote it, and lies on one
// partition; with JSON two spellings of a key would be two keys. A topic whose keys are spelled otherwise is
// read with JSON and goes through a Rekey.
//
// T's fields of kind float are written as json/v2 has them, 1 for 1.0, and read only so.
func CanonicalJSON[T any](opts ...JSONOption) *CanonicalJSONCodec[T] {
	return &CanonicalJSONCodec[T]{json: JSON[T](opts...)}
}

// CanonicalJSONCodec is the type of [CanonicalJSON], which makes it; the zero value is not usable. Safe for concurrent use.
type CanonicalJSONCodec[T any] struct {
	json *JSONCodec[T]
	pool sync.Pool // *[]byte
}

// Append implements [Codec]. Errors are those of [JSONCodec.Append].
func (c *CanonicalJSONCodec[T]) Append(dst []byte, v T) ([]byte, error) {
	room := c.room()
	defer c.pool.Put(room)
	doc, err := c.json.Append((*room)[:0], v)
	if err != nil {
		return dst, err
	}
	*room = doc
	if dst == nil {
		dst = []byte{}
	}
	return AppendCanonical(dst, doc)
}

// Decode implements [Codec]. Errors are those of [JSONCodec.Decode], and [ErrForm].
func (c *CanonicalJSONCodec[T]) Decode(src []byte) (T, error) {
	v, err := c.json.Decode(src)
	if err != nil || src == nil {
		return v, err
	}
	room := c.room()
	defer c.pool.Put(room)
	again, err := c.Append((*room)[:0], v)
	if err == nil {
		*room = again
	}
	if err != nil || !bytes.Equal(again, src) {
		var zero T
		same := 0
		for same < min(len(again), len(src)) && again[same] == src[same] {
			same++
		}
		return zero, c.json.fault("", int64(same), ErrForm)
	}
	return v, nil
}

func (c *CanonicalJSONCodec[T]) room() *[]byte {
	if b, ok := c.pool.Get().(*[]byte); ok {
		return b
	}
	return new(make([]byte, 0, 256))
}

// Describe implements [Described]: "canonical json Flight".
func (c *CanonicalJSONCodec[T]) Describe() string { return "canonical " + c.json.Describe() }

// Check implements [Checked].
func (c *CanonicalJSONCodec[T]) Check() error { return c.json.Check() }

// Objects implements [Objects].
func (c *CanonicalJSONCodec[T]) Objects() bool { return c.json.Objects() }
