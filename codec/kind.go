package codec

import (
	"encoding/base64"
	"encoding/json/jsontext"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is how values of T are written as a field of a [Record]. Those of this package are [StringKind], [IntKind], [BigIntKind],
// [FloatKind], [BoolKind], [BytesKind], [DateTimeKind], [DateKind], [TimeOfDayKind], [RecordKind], [AnyKind] and [RawKind], and of
// other kinds [ListKind], [SetKind], [PairKind], [TripleKind] and [DictKind]; of a struct [JSONKind]. They are strict: nothing is
// coerced, neither way, and null is none of their values.
//
// A Kind is immutable and safe for concurrent use. The zero value fails with [ErrUnsupported].
type Kind[T any] struct {
	name   string
	append func(dst []byte, v T) ([]byte, error)
	parse  func(raw string) (T, error)
}

// NewKind returns a kind of the user's own. encode appends a JSON value, decode reads one, which is valid, not null, and its own to
// keep. Their errors must hold no content; both must be safe for concurrent use.
func NewKind[T any](name string, encode func(dst []byte, v T) ([]byte, error), decode func(raw jsontext.Value) (T, error)) Kind[T] {
	return Kind[T]{
		name: name,
		append: func(dst []byte, v T) ([]byte, error) {
			out, err := encode(dst, v)
			if err != nil {
				return dst, err
			}
			if len(out) < len(dst) || !jsontext.Value(out[len(dst):]).IsValid() {
				return dst, fmt.Errorf("%w: written by kind %s", ErrSyntax, name)
			}
			return out, nil
		},
		parse: func(raw string) (T, error) { return decode(jsontext.Value(raw)) },
	}
}

// Name returns the kind's name, such as "int" or "list of string".
func (k Kind[T]) Name() string { return k.name }

// Append appends the JSON of a value. Errors are causes of this package, and those of the user's own kinds.
func (k Kind[T]) Append(dst []byte, v T) ([]byte, error) { return k.appendValue(dst, v) }

// Parse reads a value from JSON text, with or without space around it.
func (k Kind[T]) Parse(raw jsontext.Value) (T, error) {
	if !raw.IsValid() {
		var zero T
		return zero, syntaxError("record", raw)
	}
	return k.parseValue(string(trimSpace(raw)))
}

var errNoKind = fmt.Errorf("%w: the attribute has no kind", ErrUnsupported)

func (k Kind[T]) appendValue(dst []byte, v T) ([]byte, error) {
	if k.append == nil {
		return dst, errNoKind
	}
	return k.append(dst, v)
}

// parseValue reads a valid value without space around it.
func (k Kind[T]) parseValue(raw string) (T, error) {
	if k.parse == nil || raw == "null" {
		var zero T
		if k.parse == nil {
			return zero, errNoKind
		}
		return zero, fmt.Errorf("%w: kind %s has no null", ErrNull, k.name)
	}
	return k.parse(raw)
}

// wrongKind is the error of a value of another JSON type.
func wrongKind(raw, kind string) error {
	return fmt.Errorf("%w: json %s for kind %s", ErrType, kindName(jsontext.Value(raw[:1]).Kind()), kind)
}

func badForm(kind, problem string) error {
	return fmt.Errorf("%w: kind %s: %s", ErrType, kind, problem)
}

// plain returns what a JSON string says, or an error of the kind.
func plain(raw, kind string) (string, error) {
	if raw[0] != '"' {
		return "", wrongKind(raw, kind)
	}
	if strings.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], nil
	}
	out, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return "", ErrSyntax
	}
	return string(out), nil
}

// StringKind: a JSON string, which is valid UTF-8. What was read shares the record's memory.
var StringKind = Kind[string]{name: "string", append: appendString, parse: func(raw string) (string, error) { return plain(raw, "string") }}

func appendString(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return dst, ErrUTF8
	}
	return appendText(dst, s), nil
}

// BoolKind: true or false.
var BoolKind = Kind[bool]{
	name:   "bool",
	append: func(dst []byte, v bool) ([]byte, error) { return strconv.AppendBool(dst, v), nil },
	parse: func(raw string) (bool, error) {
		if raw != "true" && raw != "false" {
			return false, wrongKind(raw, "bool")
		}
		return raw == "true", nil
	},
}

// isWhole says that a JSON number has neither fraction nor exponent.
func isWhole(raw string) bool { return !strings.ContainsAny(raw, ".eE") }

func isNumber(raw string) bool { return raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' }

// wholeNumber checks that raw is a JSON integer.
func wholeNumber(raw, kind string) error {
	if !isNumber(raw) {
		return wrongKind(raw, kind)
	}
	if !isWhole(raw) {
		return badForm(kind, "a number with a fraction or an exponent is a float")
	}
	return nil
}

// IntKind: a JSON number without fraction and exponent; 1.0 is none (AT-02). One that an int64 does not hold is [ErrType], see
// [BigIntKind].
var IntKind = Kind[int64]{
	name:   "int",
	append: func(dst []byte, v int64) ([]byte, error) { return strconv.AppendInt(dst, v, 10), nil },
	parse: func(raw string) (int64, error) {
		if err := wholeNumber(raw, "int"); err != nil {
			return 0, err
		}
		n, err := strconv.ParseInt(raw, 10, 64)
		if err != nil {
			return 0, badForm("int", "out of range of an int64")
		}
		return n, nil
	},
}

// maxDigits bounds the integers of BigIntKind: the time to read one grows faster than its length.
const maxDigits = 10_000

// BigIntKind: an integer of up to 10,000 digits. nil is refused.
var BigIntKind = Kind[*big.Int]{
	name: "big int",
	append: func(dst []byte, v *big.Int) ([]byte, error) {
		if v == nil {
			return dst, fmt.Errorf("%w: a nil *big.Int", ErrNull)
		}
		out := v.Append(dst, 10)
		if len(out)-len(dst) > maxDigits {
			return dst, fmt.Errorf("%w: %d digits, must be <= %d", ErrSize, len(out)-len(dst), maxDigits)
		}
		return out, nil
	},
	parse: func(raw string) (*big.Int, error) {
		if err := wholeNumber(raw, "big int"); err != nil {
			return nil, err
		}
		if len(raw) > maxDigits {
			return nil, fmt.Errorf("%w: %d digits, must be <= %d", ErrSize, len(raw), maxDigits)
		}
		n, ok := new(big.Int).SetString(raw, 10)
		if !ok {
			return nil, badForm("big int", "not an integer")
		}
		return n, nil
	},
}

// FloatKind: a JSON number with a fraction or an exponent. An integer is none: 1 is refused and 1.0 is written (AT-02). So are
// NaN and infinities, which JSON has not, and what a float64 does not hold, such as 1e400.
var FloatKind = Kind[float64]{
	name: "float",
	append: func(dst []byte, v float64) ([]byte, error) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return dst, badForm("float", "json has no NaN and no infinity")
		}
		return appendFloat(dst, v), nil
	},
	parse: func(raw string) (float64, error) {
		if !isNumber(raw) {
			return 0, wrongKind(raw, "float")
		}
		if isWhole(raw) {
			return 0, badForm("float", "a number without fraction and exponent is an int")
		}
		f, err := strconv.ParseFloat(raw, 64)
		if err != nil {
			return 0, errFloatRange
		}
		return f, nil
	},
}

var strictBase64 = base64.StdEncoding.Strict()

// BytesKind: a JSON string of base64 (RFC 4648 section 4: the standard alphabet, with padding), read strictly: no line breaks, no
// bits left over.
var BytesKind = Kind[[]byte]{
	name: "bytes",
	append: func(dst []byte, v []byte) ([]byte, error) {
		return append(strictBase64.AppendEncode(append(dst, '"'), v), '"'), nil
	},
	parse: func(raw string) ([]byte, error) {
		s, err := plain(raw, "bytes")
		if err != nil {
			return nil, err
		}
		if strings.ContainsAny(s, "\r\n") { // which package base64 passes over
			return nil, badForm("bytes", "not base64")
		}
		out, err := strictBase64.DecodeString(s)
		if err != nil {
			return nil, badForm("bytes", "not base64")
		}
		return out, nil
	},
}

// RecordKind: a JSON object, verbatim.
var RecordKind = Kind[Record]{
	name:   "record",
	append: func(dst []byte, v Record) ([]byte, error) { return v.appendTo(dst), nil },
	parse: func(raw string) (Record, error) {
		if raw[0] != '{' {
			return Record{}, wrongKind(raw, "record")
		}
		return indexed(raw), nil
	},
}

// RawKind: any JSON value, as it is written. What was read is a copy.
var RawKind = Kind[jsontext.Value]{
	name: "raw",
	append: func(dst []byte, v jsontext.Value) ([]byte, error) {
		if !v.IsValid() {
			return dst, syntaxError("record", v)
		}
		return append(dst, trimSpace(v)...), nil
	},
	parse: func(raw string) (jsontext.Value, error) { return jsontext.Value(raw), nil },
}

// JSONKind: a Go value as the codec [JSON] has it, for structs above all.
func JSONKind[T any](opts ...JSONOption) Kind[T] {
	c := JSON[T](opts...)
	return Kind[T]{
		name:   c.Describe(),
		append: c.Append,
		parse:  func(raw string) (T, error) { return c.Decode([]byte(raw)) },
	}
}
