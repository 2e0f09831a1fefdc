package codec

import "slices"

// FixedWidth is a codec whose encodings, but null, all have one length: [Int16] to [Int64], [Float32], [Float64] and
// [Time] of this package.
type FixedWidth[T any] interface {
	Codec[T]
	// Width is that length in bytes.
	Width() int
}

// LittleEndian turns the byte order of a fixed-width codec round: the least significant byte comes first, as programs in
// C, and kcat's -s with "<", write a number's memory.
func LittleEndian[T any](c FixedWidth[T]) LittleEndianCodec[T] { return LittleEndianCodec[T]{c} }

// LittleEndianCodec is what [LittleEndian] returns. Safe for concurrent use.
type LittleEndianCodec[T any] struct{ of FixedWidth[T] }

// Append implements [Codec].
func (c LittleEndianCodec[T]) Append(dst []byte, v T) ([]byte, error) {
	out, err := c.of.Append(dst, v)
	if err == nil && out != nil {
		slices.Reverse(out[len(dst):])
	}
	return out, err
}

// Decode implements [Codec].
func (c LittleEndianCodec[T]) Decode(src []byte) (T, error) {
	if len(src) != c.of.Width() || len(src) > 8 {
		return c.of.Decode(src) // which refuses it
	}
	var room [8]byte
	turned := room[:copy(room[:], src)]
	slices.Reverse(turned)
	return c.of.Decode(turned)
}

// Describe implements [Described]: "little endian int64".
func (c LittleEndianCodec[T]) Describe() string { return "little endian " + Describe(c.of) }

// Check implements [Checked].
func (c LittleEndianCodec[T]) Check() error { return checkWrapped(c.of) }

// Width implements [FixedWidth].
func (Int16Codec) Width() int { return 2 }

// Width implements [FixedWidth].
func (Int32Codec) Width() int { return 4 }

// Width implements [FixedWidth].
func (Int64Codec) Width() int { return 8 }

// Width implements [FixedWidth].
func (Float32Codec) Width() int { return 4 }

// Width implements [FixedWidth].
func (Float64Codec) Width() int { return 8 }

// Width implements [FixedWidth].
func (TimeCodec) Width() int { return 8 }
