package codec

import (
	"unicode/utf8"
)

// The codecs that are their bytes. Each is an empty struct: comparable, free to copy, safe for
// concurrent use. Neither has a size limit of its own; see [Limit].
var (
	// String is the UTF-8 text as it is, never quoted. The empty string is zero bytes, and both zero
	// bytes and null decode to it: a null key or value is not told from an empty one. What is to be kept
	// apart needs Nullable(String). Text that is not valid UTF-8 is refused in both directions.
	String StringCodec
	// Bytes is the bytes as they are. A nil slice is null and null is a nil slice; an empty slice is
	// zero bytes. A decoded slice shares the bytes that it was decoded from, without a copy, its
	// capacity cut to its length so that appending to it moves it: it must not be written to, and who
	// keeps it for long keeps the whole batch that it came in; clone it then.
	Bytes BytesCodec
)

// StringCodec is the type of [String].
type StringCodec struct{}

// Append implements [Codec]. The result is never nil without an error. The error is [ErrUTF8].
func (StringCodec) Append(dst []byte, v string) ([]byte, error) {
	if !utf8.ValidString(v) {
		return dst, &Error{Codec: "string", Offset: -1, Err: ErrUTF8}
	}
	if dst == nil && v == "" {
		return []byte{}, nil // nil would say null
	}
	return append(dst, v...), nil
}

// Decode implements [Codec]. The error is [ErrUTF8].
func (StringCodec) Decode(src []byte) (string, error) {
	if !utf8.Valid(src) {
		return "", &Error{Codec: "string", Offset: int64(invalidUTF8(src)), Err: ErrUTF8}
	}
	return string(src), nil
}

// Describe implements [Described].
func (StringCodec) Describe() string { return "string" }

// BytesCodec is the type of [Bytes].
type BytesCodec struct{}

// Append implements [Codec]. The result is nil only for a nil v. The error is always nil.
func (BytesCodec) Append(dst []byte, v []byte) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	if dst == nil && len(v) == 0 {
		return []byte{}, nil // nil would say null
	}
	return append(dst, v...), nil
}

// Decode implements [Codec]. The result shares src. The error is always nil.
func (BytesCodec) Decode(src []byte) ([]byte, error) {
	return src[:len(src):len(src)], nil
}

// Describe implements [Described].
func (BytesCodec) Describe() string { return "bytes" }

// invalidUTF8 returns the offset of the first byte of src that does not belong to a valid rune, or -1.
func invalidUTF8(src []byte) int {
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}
