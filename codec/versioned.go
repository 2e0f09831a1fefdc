package codec

import (
	"encoding/binary"
	"fmt"
)

// versionMark is the first byte of what a [VersionedCodec] writes. It occurs in no UTF-8 text, so no document and no string
// begins with it.
const versionMark = 0xfe

// Versioned begins the versions of a stored type with the first one, which c encodes. What is written says its version, so
// that a later program knows how to read it. It is for values, of state above all; a key whose encoding changed would
// be another key.
//
//	var totals = codec.Versioned(codec.JSON[TotalsV1]()).Next(codec.JSON[Totals](), upgrade)
//
// An encoding is the byte 0xfe, the version as a uvarint, the first being 1, and the encoding of that version's codec. Null
// stays null.
func Versioned[T any](c Codec[T]) *VersionedCodec[T] {
	return &VersionedCodec[T]{current: c, first: Describe(c), version: 1, whole: checkWrapped(c)}
}

// Unversioned is Versioned for what has been stored by c itself: what does not begin with the byte 0xfe is of that
// codec, version 0, and so is what is written until there is a Next. c must be one whose encodings never begin
// with that byte, as documents and UTF-8 text do not.
func Unversioned[T any](c Codec[T]) *VersionedCodec[T] {
	return &VersionedCodec[T]{current: c, first: Describe(c), bare: true, whole: checkWrapped(c)}
}

// VersionedCodec is a codec with the versions before it, see [Versioned]. It never changes and is safe for concurrent use.
type VersionedCodec[T any] struct {
	current Codec[T]
	version uint64
	// bare says that there is a version 0, which has no mark.
	bare bool
	// first describes the first version's codec, whole is what is wrong with any of the codecs.
	first string
	whole error
	// older decodes what is of an earlier version; nil for the first.
	older func(version uint64, src []byte) (T, error)
}

// Next adds a version: what is written is c's from now on, and what is of an earlier one is turned into it by upgrade, over all
// versions in between. An error of upgrade, which must not hold content, fails the decoding. Upgrade must
// be deterministic and safe for concurrent use.
func (v *VersionedCodec[T]) Next[T2 any](c Codec[T2], upgrade func(T) (T2, error)) *VersionedCodec[T2] {
	next := &VersionedCodec[T2]{current: c, version: v.version + 1, bare: v.bare, first: v.first, whole: v.whole}
	if next.whole == nil {
		next.whole = checkWrapped(c)
	}
	if next.whole == nil && upgrade == nil {
		next.whole = next.fault(-1, fmt.Errorf("%w: the function to version %d is nil", ErrUnsupported, next.version))
	}
	next.older = func(version uint64, src []byte) (T2, error) {
		was, err := v.decode(version, src)
		if err != nil {
			var zero T2
			return zero, err
		}
		now, err := upgrade(was)
		if err != nil {
			var zero T2
			return zero, next.fault(-1, fmt.Errorf("%w: from version %d to %d: %w", ErrUpgrade, v.version, next.version, err))
		}
		return now, nil
	}
	return next
}

// Append implements [Codec].
func (v *VersionedCodec[T]) Append(dst []byte, value T) ([]byte, error) {
	if v.version == 0 {
		return v.current.Append(dst, value)
	}
	room := binary.AppendUvarint(append(dst, versionMark), v.version)
	out, err := v.current.Append(room, value)
	if err != nil {
		return dst, err
	}
	return out, nil // nil is null
}

// Decode implements [Codec]. Errors are those of the codecs, [ErrVersion] for a version that the program does not know,
// and [ErrUpgrade].
func (v *VersionedCodec[T]) Decode(src []byte) (T, error) {
	var zero T
	if src == nil {
		return v.current.Decode(nil)
	}
	if len(src) == 0 || src[0] != versionMark {
		if !v.bare {
			return zero, v.fault(0, fmt.Errorf("%w: no version is told", ErrVersion))
		}
		return v.decode(0, src)
	}
	version, n := binary.Uvarint(src[1:])
	if n <= 0 {
		return zero, v.fault(1, fmt.Errorf("%w: no version is told", ErrVersion))
	}
	if version == 0 || version > v.version {
		return zero, v.fault(1, fmt.Errorf("%w: it is of version %d, this program knows 1 to %d", ErrVersion, version, v.version))
	}
	return v.decode(version, src[1+n:])
}

// decode decodes what is behind the version.
func (v *VersionedCodec[T]) decode(version uint64, src []byte) (T, error) {
	if version == v.version {
		return v.current.Decode(src)
	}
	return v.older(version, src)
}

func (v *VersionedCodec[T]) fault(offset int64, err error) error {
	return &Error{Codec: "versioned", Type: v.first, Offset: offset, Err: err}
}

// Describe implements [Described]: "versioned json TotalsV1". Of Unversioned it is what the first codec says. Later versions
// do not change it, as they can read what is there.
func (v *VersionedCodec[T]) Describe() string {
	if v.bare {
		return v.first
	}
	return "versioned " + v.first
}

// Check implements [Checked].
func (v *VersionedCodec[T]) Check() error { return v.whole }
