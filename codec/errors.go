package codec

import (
	"errors"
	"strconv"
	"strings"
)

// The causes that an [Error] wraps: a closed set, for errors.Is. More than one never applies.
var (
	// ErrNull: the bytes are null (a tombstone, or the JSON text null), and the type has no null.
	ErrNull = errors.New("null")
	// ErrLength: a fixed-width encoding of another length.
	ErrLength = errors.New("wrong length")
	// ErrSize: an encoding above the codec's limit, read or written.
	ErrSize = errors.New("too large")
	// ErrUTF8: text that is not valid UTF-8.
	ErrUTF8 = errors.New("invalid utf-8")
	// ErrBOM: a document that begins with a byte order mark.
	ErrBOM = errors.New("byte order mark")
	// ErrSyntax: a document that is not JSON, is cut short, or is nested too deeply.
	ErrSyntax = errors.New("invalid json")
	// ErrTrailing: something other than white space after the document.
	ErrTrailing = errors.New("data after the document")
	// ErrDuplicate: an object with the same member name twice.
	ErrDuplicate = errors.New("duplicate member name")
	// ErrUnknownMember: a member that the type does not have, under [RejectUnknown].
	ErrUnknownMember = errors.New("unknown member")
	// ErrType: a value that its Go type does not hold, or a Go value that the encoding does not: a JSON
	// string for an int64, a number out of range, NaN in JSON, a time out of range, or one that a
	// method of the type such as UnmarshalJSON refused.
	ErrType = errors.New("value does not fit")
	// ErrForm: a document that is not in canonical form, see [CanonicalJSON].
	ErrForm = errors.New("not in canonical form")
	// ErrMissing: a field that a [Record] has not, or that is null, and must be there.
	ErrMissing = errors.New("missing attribute")
	// ErrVersion: a stored version that the program does not know, or none, see [Versioned].
	ErrVersion = errors.New("unknown version")
	// ErrUpgrade: a function from one version to the next failed.
	ErrUpgrade = errors.New("upgrade failed")
	// ErrUnsupported: a Go type that the encoding cannot carry at all. See [Check].
	ErrUnsupported = errors.New("type not supported")
)

// Error is what every codec of this package returns: which codec, where in the bytes, and one of the
// causes above. Neither its text nor anything it wraps holds bytes of a record: no value, no map key, no
// name of an unknown member, and no error of a type's own UnmarshalJSON or UnmarshalText, as these like
// to quote what they were given.
type Error struct {
	// Codec names the codec: "string", "bytes", "int16" to "int64", "float32", "float64", "bool", "time", "json",
	// "canonical json", "record", "versioned"; of codecs in other packages, theirs.
	Codec string
	// Type is the Go type without packages, such as "Flight". Empty where Codec says it all.
	Type string
	// Pointer is a JSON pointer (RFC 6901) to where the error is, of which only the names of struct
	// fields and the indices of arrays are told: map keys and unknown names, which are content, are
	// written "*". Nothing follows a name that is unknown, and "..." stands for what is deeper than 16
	// steps. Empty for the whole document and for codecs other than JSON.
	Pointer string
	// Offset is in bytes from the start of what was decoded, at or before the fault; -1 where there is
	// none to tell, as in errors of Append.
	Offset int64
	// Err is or wraps one of this package's causes.
	Err error
}

// Error returns text such as "codec: json Flight: /legs/3/delay: byte 120: value does not fit: json
// string for go int64".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("codec: ")
	b.WriteString(e.Codec)
	if e.Type != "" {
		b.WriteByte(' ')
		b.WriteString(e.Type)
	}
	if e.Pointer != "" {
		b.WriteString(": ")
		b.WriteString(e.Pointer)
	}
	if e.Offset >= 0 {
		b.WriteString(": byte ")
		b.WriteString(strconv.FormatInt(e.Offset, 10))
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
