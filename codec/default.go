package codec

import (
	"fmt"
	"reflect"
	"time"
)

// Default returns the codec that is used for T where none is named: [String], [Bytes], [Int64], [Float64],
// [Bool] and [Time] for exactly string, []byte, int64, float64, bool and time.Time, and [JSON] with its
// defaults for every other type, named ones of those kinds included. The error, an [Error] with
// [ErrUnsupported], says that JSON cannot carry T, and where in T.
func Default[T any]() (Codec[T], error) {
	for _, c := range []any{String, Bytes, Int64, Float64, Bool, Time} {
		if c, ok := c.(Codec[T]); ok {
			return c, nil
		}
	}
	c := JSON[T]()
	if err := c.Check(); err != nil {
		return nil, err
	}
	return c, nil
}

// unsupported is the cause of an error about the Go type t.
func unsupported(t reflect.Type, problem string) error {
	return fmt.Errorf("%w: go %s %s", ErrUnsupported, goType(t), problem)
}

// The types that Default has a codec for.
var (
	_ Codec[string]    = String
	_ Codec[[]byte]    = Bytes
	_ Codec[int64]     = Int64
	_ Codec[float64]   = Float64
	_ Codec[bool]      = Bool
	_ Codec[time.Time] = Time
)
