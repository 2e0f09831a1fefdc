package codec

import (
	"bytes"
	"encoding/json/jsontext"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
)

// AppendCanonical appends the canonical form of a JSON document to dst: without white space, members sorted by the code
// points of their names at every level, text as raw UTF-8 with only quotation marks, backslashes and C0 controls
// escaped, and each number in one spelling of its kind. A number with a fraction or an exponent is a float64 and stays one
// (1.0, 1e2 is 100.0, 1e16 is 1e+16); one without is an integer of any length. Equal documents have equal forms. It
// differs from RFC 8785 in both: there members are sorted by UTF-16 units, and all numbers are floats.
//
// The document is read as strictly as [JSON] does. The error is an [*Error]; then dst is returned as it was. A float that
// float64 does not hold, such as 1e400, is [ErrType].
func AppendCanonical(dst, src []byte) ([]byte, error) {
	v := jsontext.Value(src)
	if !v.IsValid() {
		return dst, syntaxError("canonical json", src)
	}
	c := canonicalizer{src: src, out: dst}
	if c.value(); c.err != nil {
		return dst, &Error{Codec: "canonical json", Offset: int64(c.at), Err: c.err}
	}
	return c.out, nil
}

// syntaxError is the error of a document that jsontext refuses.
func syntaxError(codec string, src []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(src))
	if _, err := d.ReadValue(); err != nil {
		e, _ := jsonDecodeError(reflect.TypeFor[any](), src, err).(*Error)
		e.Codec, e.Type = codec, ""
		return e
	}
	return &Error{Codec: codec, Offset: d.InputOffset(), Err: ErrTrailing}
}

// canonicalizer goes through a document that is known to be valid.
type canonicalizer struct {
	src, out []byte
	at       int
	err      error
	// members are those of the objects that are open, the innermost last; room is for sorting.
	members []canonicalMember
	room    []byte
}

// canonicalMember is a member in out: its name with the quotation marks, and its end.
type canonicalMember struct{ start, name, end int }

func (c *canonicalizer) space() {
	for c.at < len(c.src) && c.src[c.at] <= ' ' {
		c.at++
	}
}

func (c *canonicalizer) value() {
	c.space()
	switch b := c.src[c.at]; b {
	case '{':
		c.object()
	case '[':
		c.array()
	case '"':
		c.text()
	case 't', 'n':
		c.literal(4)
	case 'f':
		c.literal(5)
	default:
		c.number()
	}
}

func (c *canonicalizer) literal(n int) {
	c.out = append(c.out, c.src[c.at:c.at+n]...)
	c.at += n
}

// more passes a comma, or the bracket that ends an object or an array.
func (c *canonicalizer) more(end byte) bool {
	c.space()
	b := c.src[c.at]
	if b == ',' || b == end {
		c.at++
	}
	return b != end
}

func (c *canonicalizer) array() {
	c.at++
	c.out = append(c.out, '[')
	first := len(c.out)
	for c.more(']') {
		if len(c.out) > first {
			c.out = append(c.out, ',')
		}
		if c.value(); c.err != nil {
			return
		}
	}
	c.out = append(c.out, ']')
}

func (c *canonicalizer) object() {
	c.at++
	c.out = append(c.out, '{')
	first, open, sorted := len(c.out), len(c.members), true
	for c.more('}') {
		if len(c.out) > first {
			c.out = append(c.out, ',')
		}
		m := canonicalMember{start: len(c.out)}
		c.space()
		c.text()
		m.name = len(c.out)
		c.space()
		c.at++ // the colon
		c.out = append(c.out, ':')
		if c.value(); c.err != nil {
			return
		}
		m.end = len(c.out)
		if n := len(c.members); n > open && c.less(m, c.members[n-1]) {
			sorted = false
		}
		c.members = append(c.members, m)
	}
	if !sorted {
		c.sort(first, c.members[open:])
	}
	c.members = c.members[:open]
	c.out = append(c.out, '}')
}

// less compares two names. Bytes of UTF-8 order as code points do, but what is escaped stands for another one than it begins with.
func (c *canonicalizer) less(a, b canonicalMember) bool {
	x, y := c.out[a.start+1:a.name-1], c.out[b.start+1:b.name-1]
	if bytes.IndexByte(x, '\\') < 0 && bytes.IndexByte(y, '\\') < 0 {
		return bytes.Compare(x, y) < 0
	}
	x, _ = jsontext.AppendUnquote(nil, c.out[a.start:a.name])
	y, _ = jsontext.AppendUnquote(nil, c.out[b.start:b.name])
	return bytes.Compare(x, y) < 0
}

// sort puts the members, which begin at first, in order.
func (c *canonicalizer) sort(first int, members []canonicalMember) {
	slices.SortFunc(members, func(a, b canonicalMember) int {
		if c.less(a, b) {
			return -1
		}
		return 1 // names differ
	})
	c.room = c.room[:0]
	for i, m := range members {
		if i > 0 {
			c.room = append(c.room, ',')
		}
		c.room = append(c.room, c.out[m.start:m.end]...)
	}
	copy(c.out[first:], c.room)
}

func (c *canonicalizer) text() {
	start := c.at
	c.at++
	end := bytes.IndexByte(c.src[c.at:], '"') + c.at
	if bytes.IndexByte(c.src[c.at:end], '\\') < 0 {
		c.at = end + 1
		c.out = append(c.out, c.src[start:c.at]...)
		return
	}
	for c.src[c.at] != '"' {
		if c.src[c.at] == '\\' {
			c.at++
		}
		c.at++
	}
	c.at++
	plain, _ := jsontext.AppendUnquote(c.room[:0], c.src[start:c.at])
	c.room = plain
	c.out = appendText(c.out, plain)
}

// appendText appends UTF-8 as a canonical JSON string.
func appendText[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := range len(s) {
		b := s[i]
		if b >= ' ' && b != '"' && b != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch b {
		case '"', '\\':
			dst = append(dst, '\\', b)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hex[b>>4], hex[b&15])
		}
	}
	return append(append(dst, s[from:]...), '"')
}

func (c *canonicalizer) number() {
	start, whole := c.at, true
	for ; c.at < len(c.src); c.at++ {
		switch b := c.src[c.at]; {
		case b == '.' || b == 'e' || b == 'E' || b == '+':
			whole = false
		case b != '-' && (b < '0' || b > '9'):
			c.out = c.appendNumber(start, whole)
			return
		}
	}
	c.out = c.appendNumber(start, whole)
}

func (c *canonicalizer) appendNumber(start int, whole bool) []byte {
	text := c.src[start:c.at]
	if whole {
		if string(text) == "-0" {
			return append(c.out, '0')
		}
		return append(c.out, text...)
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		c.at, c.err = start, errFloatRange
		return c.out
	}
	return appendFloat(c.out, f)
}

var errFloatRange = fmt.Errorf("%w: number out of range of a float64", ErrType)

// appendFloat appends the shortest text that is read as f again, and as a float: with a fraction from 1e-4 to below 1e16, with an
// exponent of two digits at least beyond, as Python's repr has it. f must be finite.
func appendFloat(dst []byte, f float64) []byte {
	if abs := math.Abs(f); f != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if bytes.IndexByte(dst[start:], '.') < 0 {
		dst = append(dst, '.', '0')
	}
	return dst
}
