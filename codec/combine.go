package codec

import "fmt"

// Nullable gives a codec's type a null: a nil pointer encodes to null and null decodes to a nil pointer.
// Everything else is c's, behind a pointer of its own for each decoded value (one allocation).
func Nullable[T any](c Codec[T]) NullableCodec[T] { return NullableCodec[T]{c} }

// NullableCodec is what [Nullable] returns. Safe for concurrent use.
type NullableCodec[T any] struct{ of Codec[T] }

// Append implements [Codec]. The result is nil for a nil v. A nil result of the wrapped codec, which
// would be read back as a nil pointer, is passed on.
func (c NullableCodec[T]) Append(dst []byte, v *T) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	return c.of.Append(dst, *v)
}

// Decode implements [Codec].
func (c NullableCodec[T]) Decode(src []byte) (*T, error) {
	if src == nil {
		return nil, nil
	}
	v, err := c.of.Decode(src)
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// Describe implements [Described]: "nullable int64".
func (c NullableCodec[T]) Describe() string { return "nullable " + Describe(c.of) }

// Check implements [Checked].
func (c NullableCodec[T]) Check() error { return checkWrapped(c.of) }

// OmitZero makes the zero value of a codec's type its null: the zero value encodes to null, and null
// decodes to the zero value. As a state's codec it means that a state which has become zero is deleted,
// with a tombstone in the changelog. Other values are c's. Zero is meant as Go's == does: for a float64 -0
// is zero, and comes back as 0.
func OmitZero[T comparable](c Codec[T]) OmitZeroCodec[T] { return OmitZeroCodec[T]{c} }

// OmitZeroCodec is what [OmitZero] returns. Safe for concurrent use.
type OmitZeroCodec[T comparable] struct{ of Codec[T] }

// Append implements [Codec]. The result is nil for the zero value.
func (c OmitZeroCodec[T]) Append(dst []byte, v T) ([]byte, error) {
	var zero T
	if v == zero {
		return nil, nil
	}
	return c.of.Append(dst, v)
}

// Decode implements [Codec]. An encoding of the zero value that is not null, as others may write it, is
// read all the same.
func (c OmitZeroCodec[T]) Decode(src []byte) (T, error) {
	if src == nil {
		var zero T
		return zero, nil
	}
	return c.of.Decode(src)
}

// Describe implements [Described]: "omitzero int64".
func (c OmitZeroCodec[T]) Describe() string { return "omitzero " + Describe(c.of) }

// Check implements [Checked].
func (c OmitZeroCodec[T]) Check() error { return checkWrapped(c.of) }

// Limit bounds a codec's encodings to n bytes, both ways: Decode refuses what is longer before it looks at
// it, and Append what came out longer, as it could not be read again. Null has no bytes and passes; so
// does everything of n bytes or fewer. Below 0 counts as 0.
func Limit[T any](c Codec[T], n int) LimitCodec[T] { return LimitCodec[T]{c, max(n, 0)} }

// LimitCodec is what [Limit] returns. Safe for concurrent use.
type LimitCodec[T any] struct {
	of    Codec[T]
	limit int
}

// Append implements [Codec]. Errors are the wrapped codec's and [ErrSize].
func (c LimitCodec[T]) Append(dst []byte, v T) ([]byte, error) {
	out, err := c.of.Append(dst, v)
	if err != nil {
		return out, err
	}
	if n := len(out) - len(dst); n > c.limit { // negative for null
		return dst, c.tooLarge(n)
	}
	return out, nil
}

// Decode implements [Codec]. Errors are the wrapped codec's and [ErrSize].
func (c LimitCodec[T]) Decode(src []byte) (T, error) {
	if len(src) > c.limit {
		var zero T
		return zero, c.tooLarge(len(src))
	}
	return c.of.Decode(src)
}

func (c LimitCodec[T]) tooLarge(n int) error {
	return &Error{Codec: Describe(c.of), Offset: -1, Err: sizeError(n, c.limit)}
}

// Describe implements [Described]: "limit 100 string".
func (c LimitCodec[T]) Describe() string { return fmt.Sprintf("limit %d %s", c.limit, Describe(c.of)) }

// Check implements [Checked].
func (c LimitCodec[T]) Check() error { return checkWrapped(c.of) }

// sizeError is the cause of an error about n bytes where limit are allowed.
func sizeError(n, limit int) error {
	return fmt.Errorf("%w: %d bytes, must be <= %d", ErrSize, n, limit)
}

// checkWrapped is Check for the codec inside of another.
func checkWrapped[T any](c Codec[T]) error {
	if c == nil {
		return errNoCodec
	}
	return Check(c)
}

// Objects implements [Objects].
func (c NullableCodec[T]) Objects() bool { return IsObject(c.of) }

// Objects implements [Objects].
func (c OmitZeroCodec[T]) Objects() bool { return IsObject(c.of) }

// Objects implements [Objects].
func (c LimitCodec[T]) Objects() bool { return IsObject(c.of) }
