package codec

import (
	"encoding/json/jsontext"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"
)

// Records is the codec of [Record]. A value must be one JSON object, read as strictly as [JSON] does: valid UTF-8, no byte
// order mark, no name twice, nothing but white space around it (AT-07). Null and empty bytes are the empty record. What is
// read and not changed is written as it was, byte for byte; of what was changed, each field. It reads and writes
// up to [DefaultMaxBytes]; see [Limit] for less.
//
// Equal records may be written differently; [RecordCodec.Canonical] writes one form.
var Records RecordCodec

// RecordCodec is the type of [Records]. Safe for concurrent use; the zero value is [Records].
type RecordCodec struct{ canonical, emptyIsNull bool }

// Canonical returns the codec with every record written in the form of [AppendCanonical]: equal records are equal bytes,
// and a state that is set to what it was is not written again. Any form is read, except for a float that float64
// does not hold, such as 1e400, as it could not be written again.
func (c RecordCodec) Canonical() RecordCodec { c.canonical = true; return c }

// EmptyIsNull returns the codec with the empty record written as null: as a state's, that a state which became empty is
// deleted.
func (c RecordCodec) EmptyIsNull() RecordCodec { c.emptyIsNull = true; return c }

// Append implements [Codec].
func (c RecordCodec) Append(dst []byte, r Record) ([]byte, error) {
	if c.emptyIsNull && r.n == 0 {
		return nil, nil
	}
	out := r.appendTo(dst)
	if n := len(out) - len(dst); n > DefaultMaxBytes {
		return dst, &Error{Codec: "record", Offset: -1, Err: sizeError(n, DefaultMaxBytes)}
	}
	if !c.canonical {
		return out, nil
	}
	form, err := AppendCanonical(nil, out[len(dst):])
	if err != nil {
		return dst, recordError(err)
	}
	return append(dst, form...), nil
}

// Decode implements [Codec]. src is copied once, and the record's fields are parts of that.
func (c RecordCodec) Decode(src []byte) (Record, error) {
	if len(src) == 0 {
		return Record{}, nil
	}
	if len(src) > DefaultMaxBytes {
		return Record{}, &Error{Codec: "record", Offset: -1, Err: sizeError(len(src), DefaultMaxBytes)}
	}
	if c.canonical {
		form, err := AppendCanonical(nil, src)
		if err != nil {
			return Record{}, recordError(err)
		}
		if isObject(form) {
			src = form
		}
	}
	return ParseRecord(src)
}

// Describe implements [Described]: "record" or "canonical record", with "omitzero" before it where empty is null.
func (c RecordCodec) Describe() string {
	s := "record"
	if c.canonical {
		s = "canonical record"
	}
	if c.emptyIsNull {
		s = "omitzero " + s
	}
	return s
}

// Objects implements [Objects].
func (RecordCodec) Objects() bool { return true }

func recordError(err error) error {
	if e, ok := err.(*Error); ok {
		e.Codec = "record"
	}
	return err
}

// ParseRecord returns the record of a JSON object's text, such as the payload of a source that fields are to be added to. The
// text is copied. The error is an [*Error] as of [Records], which reads of nothing the empty record where
// ParseRecord refuses it.
func ParseRecord(text []byte) (Record, error) {
	if !jsontext.Value(text).IsValid() {
		return Record{}, syntaxError("record", text)
	}
	if !isObject(text) {
		kind := kindName(jsontext.Value(text).Kind())
		cause := fmt.Errorf("%w: json %s for an object", ErrType, kind)
		if kind == "null" {
			cause = fmt.Errorf("%w: a record is an object", ErrNull)
		}
		return Record{}, &Error{Codec: "record", Offset: 0, Err: cause}
	}
	return indexed(string(text)), nil
}

// indexed is the record of a valid object.
func indexed(text string) Record {
	inner := trimSpace(text)
	var fields []field
	for quoted, raw := range members(inner) {
		f := field{quoted: quoted, raw: raw, name: quoted[1 : len(quoted)-1]}
		if strings.IndexByte(quoted, '\\') >= 0 {
			plain, _ := jsontext.AppendUnquote(nil, quoted)
			f.name = string(plain)
		}
		fields = append(fields, f)
	}
	r := Record{text: text, n: len(fields)}
	if len(fields) > 0 {
		r.top = newLayer(fields, nil)
	}
	return r
}

// RecordOf returns a record of Go values, sorted by name, as [AnyKind] encodes them; nil is null.
func RecordOf(fields map[string]any) (Record, error) {
	text, err := appendAny(nil, fields)
	if err != nil {
		return Record{}, &Error{Codec: "record", Offset: -1, Err: err}
	}
	return indexed(string(text)), nil
}

// MarshalJSONTo writes the object, for records within a struct. The encoder may spell text otherwise; numbers stay as they are.
func (r Record) MarshalJSONTo(e *jsontext.Encoder) error { return e.WriteValue(r.appendTo(nil)) }

// UnmarshalJSONFrom reads an object; null is the empty record.
func (r *Record) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	if v.Kind() == 'n' {
		*r = Record{}
		return nil
	}
	*r, err = ParseRecord(v)
	return err
}

// The text of JSON that is known to be valid, as its parts.

type text interface{ ~string | ~[]byte }

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }

func trimSpace[T text](s T) T {
	for len(s) > 0 && isSpace(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func isObject(valid []byte) bool {
	s := trimSpace(valid)
	return len(s) > 0 && s[0] == '{'
}

// valueEnd returns where the value at i ends.
func valueEnd(s string, i int) int {
	depth := 0
	for ; i < len(s); i++ {
		switch b := s[i]; b {
		case '"':
			i = textEnd(s, i) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				return i // of what is around a number
			}
			depth--
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return i
}

// textEnd returns where the string at i ends.
func textEnd(s string, i int) int {
	for i++; s[i] != '"'; i++ {
		if s[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func skipSpace(s string, i int) int {
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	return i
}

// members goes over those of an object without space around it: names as they are quoted, and values.
func members(s string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i := skipSpace(s, 1); s[i] != '}'; {
			name := s[i:textEnd(s, i)]
			i = skipSpace(s, i+len(name))
			i = skipSpace(s, i+1) // the colon
			value := s[i:valueEnd(s, i)]
			i = skipSpace(s, i+len(value))
			if !yield(name, value) {
				return
			}
			if s[i] == ',' {
				i = skipSpace(s, i+1)
			}
		}
	}
}

// elements goes over those of an array without space around it.
func elements(s string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		n := 0
		for i := skipSpace(s, 1); s[i] != ']'; n++ {
			value := s[i:valueEnd(s, i)]
			i = skipSpace(s, i+len(value))
			if !yield(n, value) {
				return
			}
			if s[i] == ',' {
				i = skipSpace(s, i+1)
			}
		}
	}
}

// checkName refuses a field's name that cannot be written.
func checkName(name string) error {
	if !utf8.ValidString(name) {
		return &Error{Codec: "record", Pointer: "/*", Offset: -1, Err: ErrUTF8}
	}
	return nil
}
