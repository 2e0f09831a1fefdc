package codec_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/codec/codectest"
)

func ref[T any](v T) *T { return &v }

func TestNullable(t *testing.T) {
	codectest.Run(t, codec.Nullable(codec.Int64), codectest.Cases[*int64]{
		Golden: []codectest.Golden[*int64]{
			{Value: nil, Bytes: nil},
			{Value: ref(int64(0)), Bytes: make([]byte, 8)},
		},
		Invalid: []codectest.Invalid{{Src: []byte{}, Err: codec.ErrLength}},
	})
	codectest.Run(t, codec.Nullable(codec.String), codectest.Cases[*string]{ // null and empty are two things
		Golden:  []codectest.Golden[*string]{{Value: nil, Bytes: nil}, {Value: ref(""), Bytes: []byte{}}},
		Refused: []codectest.Refused[*string]{{Value: ref("secret\xff"), Err: codec.ErrUTF8, Hidden: "secret"}},
	})
}

func TestOmitZero(t *testing.T) {
	codectest.Run(t, codec.OmitZero(codec.JSON[leg]()), codectest.Cases[leg]{
		Golden:  []codectest.Golden[leg]{{Value: leg{}, Bytes: nil}, {Value: leg{Dest: "x"}, Bytes: []byte(`{"dest":"x"}`)}},
		Accepts: []codectest.Golden[leg]{{Value: leg{}, Bytes: []byte(`{}`)}},
		Invalid: []codectest.Invalid{{Src: []byte("null"), Err: codec.ErrNull}},
	})
	// Zero is as == has it: -0 is zero, NaN is not.
	f := codec.OmitZero(codec.Float64)
	out, err := f.Append([]byte("dst"), math.Copysign(0, -1))
	require.NoError(t, err)
	require.Nil(t, out)
	out, err = f.Append(nil, math.NaN())
	require.NoError(t, err)
	require.Len(t, out, 8)
}

func TestLimit(t *testing.T) {
	codectest.Run(t, codec.Limit(codec.String, 6), codectest.Cases[string]{
		Golden:  []codectest.Golden[string]{{Value: "N14228", Bytes: []byte("N14228")}, {Value: "", Bytes: []byte{}}},
		Accepts: []codectest.Golden[string]{{Value: "", Bytes: nil}},
		Invalid: []codectest.Invalid{
			{Src: []byte("secret!"), Err: codec.ErrSize, Hidden: "secret"},
			{Src: []byte("\xff!"), Err: codec.ErrUTF8},
		},
		Refused: []codectest.Refused[string]{{Value: "secret!", Err: codec.ErrSize, Hidden: "secret"}},
	})
	codectest.Run(t, codec.Limit(codec.OmitZero(codec.Int64), 0), codectest.Cases[int64]{ // null has no bytes
		Golden:  []codectest.Golden[int64]{{Value: 0, Bytes: nil}},
		Refused: []codectest.Refused[int64]{{Value: 1, Err: codec.ErrSize}},
	})
	_, err := codec.Limit(codec.String, 3).Decode([]byte("secret"))
	require.EqualError(t, err, "codec: string: too large: 6 bytes, must be <= 3")
	_, err = codec.Limit(codec.String, -5).Append(nil, "x")
	require.EqualError(t, err, "codec: string: too large: 1 bytes, must be <= 0")
	// A large one is refused before it is looked at.
	_, err = codec.Limit(codec.String, 3).Decode([]byte(strings.Repeat("\xff", 100)))
	require.ErrorIs(t, err, codec.ErrSize)
}

func TestDescribe(t *testing.T) {
	type pair[A, B any] struct {
		First  A
		Second B
	}
	for _, c := range []struct {
		codec any
		want  string
	}{
		{nil, "none"},
		{codec.String, "string"},
		{codec.Bytes, "bytes"},
		{codec.Int64, "int64"},
		{codec.Float64, "float64"},
		{codec.Bool, "bool"},
		{codec.Time, "time"},
		{codec.JSON[flight](), "json flight"},
		{codec.JSON[*flight](), "json *flight"},
		{codec.JSON[[]flight](), "json []flight"},
		{codec.JSON[map[string][]flight](), "json map[string][]flight"},
		{codec.JSON[pair[int, flight]](), "json pair[int,flight]"},
		{codec.JSON[struct{ A int }](), "json struct"},
		{codec.JSON[any](), "json any"},
		{codec.Nullable(codec.JSON[stats]()), "nullable json stats"},
		{codec.OmitZero(codec.Int64), "omitzero int64"},
		{codec.Limit(codec.OmitZero(codec.Int64), 8), "limit 8 omitzero int64"},
		{codec.Nullable[int](nil), "nullable none"},
		{foreign{}, "codec_test.foreign"},
	} {
		require.Equal(t, c.want, codec.Describe(c.codec))
	}
}

// foreign is a codec that implements no more than it must.
type foreign struct{ codec.Codec[int] }

func TestCheck(t *testing.T) {
	type recursive struct {
		Children []recursive          `json:"children"`
		Parent   map[string]recursive `json:"parent"`
		Next     *recursive           `json:"next"`
	}
	for _, c := range []any{
		nil, foreign{}, codec.String, codec.JSON[document](), codec.JSON[flight](), codec.JSON[recursive](),
		codec.JSON[map[float64]int](), codec.JSON[any](), codec.JSON[loud](),
		codec.Limit(codec.Nullable(codec.OmitZero(codec.JSON[stats]())), 10),
	} {
		require.NoError(t, codec.Check(c))
	}
	for _, c := range []struct {
		codec any
		want  string
	}{
		{codec.JSON[chan int](), "json chan int: type not supported: go chan int has no json form"},
		{codec.JSON[struct {
			A []map[string]func() `json:"a"`
		}](), "json struct: /a/*/*: type not supported: go func() has no json form"},
		{codec.JSON[map[stats]int](), "json map[stats]int: /*: type not supported: go codec_test.stats is no key of a json object"},
		{codec.JSON[map[bool]int](), "json map[bool]int: /*: type not supported: go bool is no key of a json object"},
		{codec.JSON[error](), "json error: type not supported: go error cannot be decoded, as its concrete type is not known"},
		{codec.JSON[struct{ unexported int }](), "json struct: type not supported: go struct cannot be used: has no exported fields"},
		{codec.JSON[struct {
			A int `json:"B"`
			B int
		}](), `json struct: type not supported: go struct cannot be used: fields A and B conflict over JSON object name "B"`},
		{codec.Limit(codec.Nullable(codec.OmitZero(codec.JSON[complex128]())), 10),
			"json complex128: type not supported: go complex128 has no json form"},
		{codec.Nullable[int](nil), "none: type not supported: no codec to wrap"},
	} {
		err := codec.Check(c.codec)
		require.EqualError(t, err, "codec: "+c.want)
		require.ErrorIs(t, err, codec.ErrUnsupported)
	}
}

func TestDefault(t *testing.T) {
	type name string
	defaults(t, "string", "x")
	defaults(t, "bytes", []byte("x"))
	defaults(t, "int64", int64(1))
	defaults(t, "float64", 1.5)
	defaults(t, "bool", true)
	defaults(t, "json name", name("x"))
	defaults(t, "json int", 1)
	defaults(t, "json stats", stats{Count: 1})
	defaults(t, "json *stats", &stats{Count: 1})

	_, err := codec.Default[chan int]()
	require.EqualError(t, err, "codec: json chan int: type not supported: go chan int has no json form")
}

func defaults[T any](t *testing.T, description string, v T) {
	t.Helper()
	c, err := codec.Default[T]()
	require.NoError(t, err)
	require.Equal(t, description, codec.Describe(c))
	codectest.Run(t, c, codectest.Cases[T]{Values: []T{v}, Shares: description == "bytes"})
}
