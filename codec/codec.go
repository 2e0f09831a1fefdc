package codec

import "fmt"

// Codec turns values of T into bytes and back. A codec is a value made once and shared: every codec
// of this package is safe for concurrent use, and one that a user writes must be too.
type Codec[T any] interface {
	// Append appends v's encoding to dst and returns the extended slice. A nil result with a nil error
	// means null (a Kafka null key or value: a tombstone), so dst must be non-nil when a caller wants to
	// tell null from empty; nothing was appended to dst then. On an error the result is dst with its
	// length unchanged. Append never retains dst or parts of v.
	Append(dst []byte, v T) ([]byte, error)

	// Decode reads the whole of src. A nil src means null; an empty one does not. src is immutable from
	// now on: a decoder may return a value that shares it (only Bytes does; String copies) and never
	// writes to it. On an error the value is T's zero value.
	Decode(src []byte) (T, error)
}

// Described is implemented by codecs that can name themselves for plans and messages.
type Described interface {
	// Describe returns a short stable text such as "string", "json Flight" or "nullable json Stats". It
	// is part of a plan's golden text: the same codec always says the same.
	Describe() string
}

// Describe returns what c says about itself, or its Go type ("*orders.Proto") when it does not
// implement [Described]; "none" for nil.
func Describe(c any) string {
	switch c := c.(type) {
	case nil:
		return "none"
	case Described:
		return c.Describe()
	default:
		return fmt.Sprintf("%T", c)
	}
}

// Checked is implemented by codecs that can tell, before the first record, that their type cannot be
// encoded or decoded.
type Checked interface {
	// Check returns what is wrong with the codec's type, or nil.
	Check() error
}

// Check returns the problem that c would have with every record, such as JSON of a struct with a
// channel in it, or nil. A codec that does not implement [Checked] has none. Plans are to call it once
// per codec: it uses reflection.
func Check(c any) error {
	if c, ok := c.(Checked); ok {
		return c.Check()
	}
	return nil
}

// Objects is implemented by codecs that can tell whether what they write are JSON objects.
type Objects interface {
	// Objects says that each value is a JSON object.
	Objects() bool
}

// IsObject says whether c writes JSON objects, as far as it tells.
func IsObject(c any) bool {
	o, ok := c.(Objects)
	return ok && o.Objects()
}
