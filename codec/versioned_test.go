package codec_test

import (
	"errors"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/codec/codectest"
)

type totals1 struct {
	Sum int `json:"sum"`
}

type totals2 struct {
	Sum   string `json:"sum"`
	Count int    `json:"count"`
}

var errNegative = errors.New("the sum is negative")

func toTotals2(was totals1) (totals2, error) {
	if was.Sum < 0 {
		return totals2{}, errNegative
	}
	return totals2{Sum: strconv.Itoa(was.Sum), Count: 1}, nil
}

func toCount(was totals2) (int64, error) { return int64(was.Count), nil }

func TestVersioned(t *testing.T) {
	first := codec.Versioned(codec.JSON[totals1]())
	second := first.Next(codec.JSON[totals2](), toTotals2)
	third := second.Next(codec.Int64, toCount)
	codectest.Run(t, second, codectest.Cases[totals2]{
		Golden:  []codectest.Golden[totals2]{{Value: totals2{"7", 2}, Bytes: []byte("\xfe\x02" + `{"sum":"7","count":2}`)}},
		Accepts: []codectest.Golden[totals2]{{Value: totals2{"7", 1}, Bytes: []byte("\xfe\x01" + `{"sum":7}`)}},
		Invalid: []codectest.Invalid{
			{Src: nil, Err: codec.ErrNull}, {Src: []byte{}, Err: codec.ErrVersion}, {Src: []byte("\xfe"), Err: codec.ErrVersion},
			{Src: []byte("\xfe\x00{}"), Err: codec.ErrVersion}, {Src: []byte("\xfe\x03{}"), Err: codec.ErrVersion},
			{Src: []byte("\xfe\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), Err: codec.ErrVersion},
			{Src: []byte(`{"sum":7}`), Err: codec.ErrVersion}, {Src: []byte("\xfe\x01" + `{"sum":"secret"}`), Err: codec.ErrType, Hidden: "secret"},
			{Src: []byte("\xfe\x01" + `{"sum":-77}`), Err: codec.ErrUpgrade, Hidden: "77"},
			{Src: []byte("\xfe\x01" + `{"sum":-77}`), Err: errNegative},
		},
	})
	v, err := third.Decode([]byte("\xfe\x01" + `{"sum":7}`)) // over both functions
	require.NoError(t, err)
	require.EqualValues(t, 1, v)
	_, err = second.Decode([]byte("\xfe\x03{}"))
	require.EqualError(t, err, "codec: versioned json totals1: byte 1: unknown version: it is of version 3, this program knows 1 to 2")
	_, err = third.Decode([]byte("\xfe\x01" + `{"sum":-7}`))
	require.EqualError(t, err, "codec: versioned json totals1: upgrade failed: from version 1 to 2: the sum is negative")
	require.Equal(t, "versioned json totals1", codec.Describe(third), "what a plan says does not change with a version")
}

func TestUnversioned(t *testing.T) {
	zero := codec.Unversioned(codec.JSON[totals1]())
	out, err := zero.Append(nil, totals1{7})
	require.NoError(t, err)
	require.Equal(t, `{"sum":7}`, string(out))
	codectest.Run(t, zero.Next(codec.JSON[totals2](), toTotals2), codectest.Cases[totals2]{
		Golden:  []codectest.Golden[totals2]{{Value: totals2{"7", 2}, Bytes: []byte("\xfe\x01" + `{"sum":"7","count":2}`)}},
		Accepts: []codectest.Golden[totals2]{{Value: totals2{"7", 1}, Bytes: []byte(`{"sum":7}`)}},
		Invalid: []codectest.Invalid{{Src: []byte{}, Err: codec.ErrSyntax}, {Src: []byte("\xfe\x02{}"), Err: codec.ErrVersion}},
	})
	require.Equal(t, "json totals1", codec.Describe(zero))
}

func TestVersionedNull(t *testing.T) {
	c := codec.Versioned(codec.Nullable(codec.Int64)).Next(codec.Nullable(codec.Int64), func(v *int64) (*int64, error) { return v, nil })
	out, err := c.Append([]byte{}, nil)
	require.NoError(t, err)
	require.Nil(t, out)
	v, err := c.Decode(nil)
	require.NoError(t, err)
	require.Nil(t, v)
}

func TestVersionedCheck(t *testing.T) {
	require.NoError(t, codec.Check(codec.Versioned(codec.Int64)))
	require.ErrorIs(t, codec.Check(codec.Versioned(codec.JSON[chan int]()).Next(codec.Int64, func(chan int) (int64, error) { return 0, nil })), codec.ErrUnsupported)
	require.ErrorIs(t, codec.Check(codec.Versioned(codec.Int64).Next[int64](codec.Int64, nil)), codec.ErrUnsupported)
	require.Error(t, codec.Check(codec.Versioned[int64](nil)))
}

func TestLittleEndian(t *testing.T) {
	codectest.Run(t, codec.LittleEndian(codec.Int32), codectest.Cases[int32]{
		Golden:  []codectest.Golden[int32]{{Value: -2, Bytes: []byte("\xfe\xff\xff\xff")}, {Value: 0x01020304, Bytes: []byte("\x04\x03\x02\x01")}},
		Invalid: fixedWidth(4),
	})
	codectest.Run(t, codec.LittleEndian(codec.Float64), codectest.Cases[float64]{
		Golden:  []codectest.Golden[float64]{{Value: 1.5, Bytes: []byte("\x00\x00\x00\x00\x00\x00\xf8\x3f")}},
		Invalid: fixedWidth(8),
	})
	require.Equal(t, "little endian int32", codec.Describe(codec.LittleEndian(codec.Int32)))
}

func TestSmallScalars(t *testing.T) {
	codectest.Run(t, codec.Int16, codectest.Cases[int16]{
		Golden:  []codectest.Golden[int16]{{Value: -2, Bytes: []byte("\xff\xfe")}, {Value: math.MaxInt16, Bytes: []byte("\x7f\xff")}},
		Invalid: fixedWidth(2),
	})
	codectest.Run(t, codec.Int32, codectest.Cases[int32]{
		Golden:  []codectest.Golden[int32]{{Value: 42, Bytes: []byte("\x00\x00\x00\x2a")}, {Value: math.MinInt32, Bytes: []byte("\x80\x00\x00\x00")}},
		Invalid: fixedWidth(4),
	})
	codectest.Run(t, codec.Float32, codectest.Cases[float32]{
		Golden:  []codectest.Golden[float32]{{Value: 1.5, Bytes: []byte("\x3f\xc0\x00\x00")}},
		Values:  []float32{float32(math.Inf(-1)), math.SmallestNonzeroFloat32},
		Equal:   func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) },
		Invalid: fixedWidth(4),
	})
}
