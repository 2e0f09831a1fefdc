package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// The codecs of single values. Each is an empty struct: comparable, free to copy, safe for concurrent
// use.
var (
	// Int16 is 2 bytes, Int32 is 4 bytes, big endian, two's complement, as Java's ShortSerializer and
	// IntegerSerializer write them. Null is an error.
	Int16 Int16Codec
	Int32 Int32Codec
	// Int64 is 8 bytes, big endian, two's complement, as Java's LongSerializer writes it. Bytes order as
	// numbers do only among numbers of one sign. Null is an error.
	Int64 Int64Codec
	// Float32 is 4 bytes, big endian, IEEE 754, as Java's FloatSerializer writes it. Every value survives, a
	// signalling NaN as a quiet one. Null is an error.
	Float32 Float32Codec
	// Float64 is 8 bytes, big endian, IEEE 754, as Java's DoubleSerializer writes it. Every value
	// survives, with its bits: -0, infinities, each NaN. Null is an error.
	Float64 Float64Codec
	// Bool is one byte, 0 or 1, as Java's BooleanSerializer writes it. Any other byte, and null, is an
	// error.
	Bool BoolCodec
	// Time is 8 bytes, big endian: milliseconds since 1970-01-01T00:00:00Z, negative before, so
	// 2024-01-01T00:00:00Z is 1704067200000. What is finer than a millisecond is dropped (towards the
	// past), and so is the zone: a decoded time is in UTC. Every int64 decodes; encoding refuses times
	// outside of them, which are 292 million years from 1970. The zero time.Time survives. Null is an
	// error.
	Time TimeCodec
)

// Int16Codec is the type of [Int16].
type Int16Codec struct{}

// Append implements [Codec]. The error is always nil.
func (Int16Codec) Append(dst []byte, v int16) ([]byte, error) {
	return binary.BigEndian.AppendUint16(dst, uint16(v)), nil
}

// Decode implements [Codec]. Errors are [ErrNull] and [ErrLength].
func (Int16Codec) Decode(src []byte) (int16, error) {
	if len(src) != 2 {
		return 0, fixedError("int16", src, 2)
	}
	return int16(binary.BigEndian.Uint16(src)), nil
}

// Describe implements [Described].
func (Int16Codec) Describe() string { return "int16" }

// Int32Codec is the type of [Int32].
type Int32Codec struct{}

// Append implements [Codec]. The error is always nil.
func (Int32Codec) Append(dst []byte, v int32) ([]byte, error) {
	return binary.BigEndian.AppendUint32(dst, uint32(v)), nil
}

// Decode implements [Codec]. Errors are [ErrNull] and [ErrLength].
func (Int32Codec) Decode(src []byte) (int32, error) {
	if len(src) != 4 {
		return 0, fixedError("int32", src, 4)
	}
	return int32(binary.BigEndian.Uint32(src)), nil
}

// Describe implements [Described].
func (Int32Codec) Describe() string { return "int32" }

// Int64Codec is the type of [Int64].
type Int64Codec struct{}

// Append implements [Codec]. The error is always nil.
func (Int64Codec) Append(dst []byte, v int64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, uint64(v)), nil
}

// Decode implements [Codec]. Errors are [ErrNull] and [ErrLength].
func (Int64Codec) Decode(src []byte) (int64, error) {
	if len(src) != 8 {
		return 0, fixedError("int64", src, 8)
	}
	return int64(binary.BigEndian.Uint64(src)), nil
}

// Describe implements [Described].
func (Int64Codec) Describe() string { return "int64" }

// Float32Codec is the type of [Float32].
type Float32Codec struct{}

// Append implements [Codec]. The error is always nil.
func (Float32Codec) Append(dst []byte, v float32) ([]byte, error) {
	return binary.BigEndian.AppendUint32(dst, math.Float32bits(v)), nil
}

// Decode implements [Codec]. Errors are [ErrNull] and [ErrLength].
func (Float32Codec) Decode(src []byte) (float32, error) {
	if len(src) != 4 {
		return 0, fixedError("float32", src, 4)
	}
	return math.Float32frombits(binary.BigEndian.Uint32(src)), nil
}

// Describe implements [Described].
func (Float32Codec) Describe() string { return "float32" }

// Float64Codec is the type of [Float64].
type Float64Codec struct{}

// Append implements [Codec]. The error is always nil.
func (Float64Codec) Append(dst []byte, v float64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(v)), nil
}

// Decode implements [Codec]. Errors are [ErrNull] and [ErrLength].
func (Float64Codec) Decode(src []byte) (float64, error) {
	if len(src) != 8 {
		return 0, fixedError("float64", src, 8)
	}
	return math.Float64frombits(binary.BigEndian.Uint64(src)), nil
}

// Describe implements [Described].
func (Float64Codec) Describe() string { return "float64" }

// BoolCodec is the type of [Bool].
type BoolCodec struct{}

// Append implements [Codec]. The error is always nil.
func (BoolCodec) Append(dst []byte, v bool) ([]byte, error) {
	if v {
		return append(dst, 1), nil
	}
	return append(dst, 0), nil
}

// Decode implements [Codec]. Errors are [ErrNull], [ErrLength], and [ErrType] for a byte other than 0
// and 1.
func (BoolCodec) Decode(src []byte) (bool, error) {
	if len(src) != 1 {
		return false, fixedError("bool", src, 1)
	}
	if src[0] > 1 {
		return false, &Error{Codec: "bool", Offset: 0, Err: fmt.Errorf("%w: byte other than 0 and 1", ErrType)}
	}
	return src[0] == 1, nil
}

// Describe implements [Described].
func (BoolCodec) Describe() string { return "bool" }

// TimeCodec is the type of [Time].
type TimeCodec struct{}

// Append implements [Codec]. The error is [ErrType] for a time that int64 milliseconds cannot hold.
func (TimeCodec) Append(dst []byte, v time.Time) ([]byte, error) {
	ms := v.UnixMilli()
	if time.UnixMilli(ms).Unix() != v.Unix() { // it wrapped
		return dst, &Error{Codec: "time", Offset: -1, Err: errTimeRange}
	}
	return binary.BigEndian.AppendUint64(dst, uint64(ms)), nil
}

var errTimeRange = fmt.Errorf("%w: time more than 292 million years from 1970", ErrType)

// Decode implements [Codec]. Errors are [ErrNull] and [ErrLength].
func (TimeCodec) Decode(src []byte) (time.Time, error) {
	if len(src) != 8 {
		return time.Time{}, fixedError("time", src, 8)
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(src))).UTC(), nil
}

// Describe implements [Described].
func (TimeCodec) Describe() string { return "time" }

// fixedError is the error of a src that is not want bytes long.
func fixedError(codec string, src []byte, want int) error {
	if src == nil {
		return nullError(codec, "")
	}
	err := fmt.Errorf("%w: %d bytes, must be %d", ErrLength, len(src), want)
	return &Error{Codec: codec, Offset: int64(min(len(src), want)), Err: err}
}

// nullError is the error of a null where the type has none, with the remedy.
func nullError(codec, typ string) error {
	return &Error{Codec: codec, Type: typ, Offset: -1, Err: errNullHint}
}

var errNullHint = fmt.Errorf("%w: the type has no null (is codec.Nullable or codec.OmitZero wanted?)", ErrNull)

// errNoCodec is the fault of a combinator around nothing.
var errNoCodec = &Error{Codec: "none", Offset: -1, Err: fmt.Errorf("%w: no codec to wrap", ErrUnsupported)}
