package codec_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/codec/codectest"
)

func TestInt64(t *testing.T) {
	codectest.Run(t, codec.Int64, codectest.Cases[int64]{
		Golden: []codectest.Golden[int64]{
			{Value: 0, Bytes: []byte("\x00\x00\x00\x00\x00\x00\x00\x00")},
			{Value: 42, Bytes: []byte("\x00\x00\x00\x00\x00\x00\x00\x2a")},
			{Value: -2, Bytes: []byte("\xff\xff\xff\xff\xff\xff\xff\xfe")},
			{Value: math.MaxInt64, Bytes: []byte("\x7f\xff\xff\xff\xff\xff\xff\xff")},
			{Value: math.MinInt64, Bytes: []byte("\x80\x00\x00\x00\x00\x00\x00\x00")},
		},
		Invalid: fixedWidth(8),
	})
}

func TestFloat64(t *testing.T) {
	payload := math.Float64frombits(0x7ff0_dead_beef_0001) // a signalling NaN with a payload
	codectest.Run(t, codec.Float64, codectest.Cases[float64]{
		Golden: []codectest.Golden[float64]{
			{Value: 0, Bytes: []byte("\x00\x00\x00\x00\x00\x00\x00\x00")},
			{Value: math.Copysign(0, -1), Bytes: []byte("\x80\x00\x00\x00\x00\x00\x00\x00")},
			{Value: 1.5, Bytes: []byte("\x3f\xf8\x00\x00\x00\x00\x00\x00")},
			{Value: math.Inf(-1), Bytes: []byte("\xff\xf0\x00\x00\x00\x00\x00\x00")},
			{Value: payload, Bytes: []byte("\x7f\xf0\xde\xad\xbe\xef\x00\x01")},
		},
		Values: []float64{math.NaN(), math.Inf(1), math.MaxFloat64, math.SmallestNonzeroFloat64, -math.MaxFloat64},
		Equal:  func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) },

		Invalid: fixedWidth(8),
	})
}

func TestBool(t *testing.T) {
	codectest.Run(t, codec.Bool, codectest.Cases[bool]{
		Golden: []codectest.Golden[bool]{{Value: false, Bytes: []byte{0}}, {Value: true, Bytes: []byte{1}}},
		Invalid: append(fixedWidth(1),
			codectest.Invalid{Src: []byte{2}, Err: codec.ErrType},
			codectest.Invalid{Src: []byte("1"), Err: codec.ErrType},
			codectest.Invalid{Src: []byte("true"), Err: codec.ErrLength}),
	})
}

func TestTime(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
	codectest.Run(t, codec.Time, codectest.Cases[time.Time]{
		Golden: []codectest.Golden[time.Time]{ // AT-06
			{Value: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), Bytes: []byte("\x00\x00\x01\x8c\xc2\x51\xf4\x00")},
			{Value: at(0), Bytes: []byte("\x00\x00\x00\x00\x00\x00\x00\x00")},
			{Value: at(-1), Bytes: []byte("\xff\xff\xff\xff\xff\xff\xff\xff")},
		},
		Values: []time.Time{
			{}, // the zero time survives, IsZero included
			time.Date(1, 1, 1, 0, 0, 0, 999e6, time.UTC), time.Date(-9999, 2, 28, 23, 59, 59, 0, time.UTC),
			time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
			at(math.MaxInt64), at(math.MinInt64),
		},
		Refused: []codectest.Refused[time.Time]{
			{Value: at(math.MaxInt64).Add(time.Millisecond), Err: codec.ErrType},
			{Value: at(math.MinInt64).Add(-1), Err: codec.ErrType},
			{Value: time.Unix(math.MaxInt64/2, 0), Err: codec.ErrType},
		},
		Equal: func(a, b time.Time) bool {
			return a.Equal(b) && a.Location() == b.Location() && a.IsZero() == b.IsZero()
		},
		Invalid: fixedWidth(8),
	})
}

// Zone and what is finer than a millisecond are dropped, the latter towards the past, also before 1970.
func TestTimeRounds(t *testing.T) {
	cet := time.FixedZone("CET", 3600)
	for _, c := range []struct{ in, want string }{
		{"2024-07-01T12:00:00.123999999+01:00", "2024-07-01T11:00:00.123Z"},
		{"2024-07-01T00:30:00.000000001+14:00", "2024-06-30T10:30:00Z"},
		{"1969-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59.999Z"},
		{"1969-12-31T23:59:59.000000001Z", "1969-12-31T23:59:59Z"},
	} {
		in, err := time.Parse(time.RFC3339Nano, c.in)
		require.NoError(t, err)
		for _, v := range []time.Time{in, in.UTC(), in.In(cet)} {
			b, err := codec.Time.Append(nil, v)
			require.NoError(t, err)
			back, err := codec.Time.Decode(b)
			require.NoError(t, err)
			require.Equal(t, c.want, back.Format(time.RFC3339Nano), c.in)
			require.Equal(t, time.UTC, back.Location())
		}
	}
	// The monotonic clock's reading is no part of a time either.
	now := time.Now()
	b, err := codec.Time.Append(nil, now)
	require.NoError(t, err)
	back, err := codec.Time.Decode(b)
	require.NoError(t, err)
	require.True(t, back.Equal(now.Truncate(time.Millisecond)))
}

// C1 on random bits: eight bytes are one value and no two share one.
func TestScalarProperties(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		bits := rnd.Uint64() >> rnd.UintN(64)
		if rnd.UintN(2) == 0 {
			bits = ^bits
		}
		i := int64(bits)
		b, err := codec.Int64.Append(nil, i)
		require.NoError(t, err)
		back, err := codec.Int64.Decode(b)
		require.NoError(t, err)
		require.Equal(t, i, back)

		f, err := codec.Float64.Decode(b)
		require.NoError(t, err)
		again, err := codec.Float64.Append(nil, f)
		require.NoError(t, err)
		require.Equal(t, b, again)

		at, err := codec.Time.Decode(b)
		require.NoError(t, err)
		require.Equal(t, i, at.UnixMilli())
		again, err = codec.Time.Append(nil, at)
		require.NoError(t, err)
		require.Equal(t, b, again)
	}
}

// fixedWidth is what every fixed-width codec refuses.
func fixedWidth(n int) []codectest.Invalid {
	return []codectest.Invalid{
		{Src: nil, Err: codec.ErrNull},
		{Src: []byte{}, Err: codec.ErrLength},
		{Src: make([]byte, n-1), Err: codec.ErrLength},
		{Src: make([]byte, n+1), Err: codec.ErrLength},
		{Src: []byte("secretsecretsecret"), Err: codec.ErrLength, Hidden: "secret"},
	}
}
