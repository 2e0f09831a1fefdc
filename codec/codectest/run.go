package codectest

import (
	"reflect"
	"testing"

	"github.com/wickerwork/wicker/codec"
)

// Cases is what [Run] tries. Every field may be left out; Golden or Values should not both be.
type Cases[T any] struct {
	// Golden pins the wire format: Append gives Bytes, Decode gives Value. Bytes nil is null.
	Golden []Golden[T]
	// Values are to survive encoding and decoding. Golden's values are added.
	Values []T
	// Accepts are bytes that Decode reads though Append writes the value otherwise.
	Accepts []Golden[T]
	// Invalid are bytes that Decode refuses.
	Invalid []Invalid
	// Refused are values that Append refuses.
	Refused []Refused[T]
	// Equal compares two values; nil means reflect.DeepEqual.
	Equal func(a, b T) bool
	// Shares says that a decoded value may share the bytes it was decoded from.
	Shares bool
	// BytesPerByte is how many bytes Decode may allocate for each byte of its input, besides 16 KiB for
	// an error and for what is pooled. 0 means 64, which is enough for slices and maps of anything.
	BytesPerByte int
}

// Golden is a value and its encoding.
type Golden[T any] struct {
	Value T
	Bytes []byte // nil is null
}

// Invalid is an input that Decode refuses.
type Invalid struct {
	Src []byte // nil is null
	// Err is what the error is or wraps (errors.Is); nil means any error.
	Err error
	// Hidden, if not empty, is content that may not be part of the error's text, nor of anything it wraps.
	Hidden string
}

// Refused is a value that Append refuses.
type Refused[T any] struct {
	Value T
	// Err is what the error is or wraps (errors.Is); nil means any error.
	Err error
	// Hidden is as in [Invalid].
	Hidden string
}

// Run checks c with the cases, in subtests. See the package comment for what is checked.
func Run[T any](t *testing.T, c codec.Codec[T], cases Cases[T]) {
	t.Helper()
	s := newSuite(c, cases)
	for _, check := range s.checks() {
		t.Run(check.name, func(t *testing.T) { check.run(t) })
	}
}

// failer is the part of testing.TB that the checks need, so that the suite itself can be tested.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
}

type check struct {
	name string
	run  func(failer)
}

type suite[T any] struct {
	Cases[T]
	codec  codec.Codec[T]
	values []T
}

func newSuite[T any](c codec.Codec[T], cases Cases[T]) *suite[T] {
	s := &suite[T]{Cases: cases, codec: c}
	for _, g := range cases.Golden {
		s.values = append(s.values, g.Value)
	}
	s.values = append(s.values, cases.Values...)
	if s.Equal == nil {
		s.Equal = func(a, b T) bool { return reflect.DeepEqual(a, b) }
	}
	if s.BytesPerByte == 0 {
		s.BytesPerByte = 64
	}
	return s
}

func (s *suite[T]) checks() []check {
	return []check{
		{"golden", s.golden},
		{"accepts", s.accepts},
		{"invalid", s.invalid},
		{"refused", s.refused},
		{"roundtrip", s.roundtrip},
		{"prefix", s.prefix},
		{"retention", s.retention},
		{"source", s.source},
		{"null", s.null},
		{"damaged", s.damaged},
		{"allocation", s.allocation},
		{"concurrency", s.concurrency},
		{"description", s.description},
	}
}

// encode returns v's encoding in a slice of its own, reporting an error; nil is null.
func (s *suite[T]) encode(t failer, i int, v T) ([]byte, bool) {
	t.Helper()
	out, err := s.codec.Append([]byte{}, v)
	if err != nil {
		t.Errorf("value %d (%+v): append: %v", i, v, err)
		return nil, false
	}
	return out, true
}

// inputs returns everything that the suite decodes: encodings, other accepted bytes and invalid ones.
func (s *suite[T]) inputs() [][]byte {
	var in [][]byte
	for _, v := range s.values {
		if b, err := s.codec.Append([]byte{}, v); err == nil && b != nil {
			in = append(in, b)
		}
	}
	for _, a := range s.Accepts {
		in = append(in, a.Bytes)
	}
	for _, b := range s.Invalid {
		in = append(in, b.Src)
	}
	return in
}
