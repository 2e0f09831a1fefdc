package codec_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
)

// What a record costs in allocations: none, but for what doc.go names.
func TestAllocations(t *testing.T) {
	allocates(t, codec.String, "N14228", 0, 1) // the text's copy
	allocates(t, codec.String, "", 0, 0)
	allocates(t, codec.String, "x", 0, 0)
	allocates(t, codec.Bytes, []byte("N14228"), 0, 0)
	allocates(t, codec.Int64, -1, 0, 0)
	allocates(t, codec.Float64, -1.5, 0, 0)
	allocates(t, codec.Bool, true, 0, 0)
	allocates(t, codec.Time, time.Unix(1, 0), 0, 0)
	allocates(t, codec.OmitZero(codec.Int64), 1, 0, 0)
	allocates(t, codec.OmitZero(codec.Int64), 0, 0, 0)
	allocates(t, codec.Limit(codec.Int64, 8), 1, 0, 0)
	allocates(t, codec.Nullable(codec.Int64), ref(int64(1)), 0, 1) // the pointer
	if raceEnabled {
		return // the race detector empties pools at random
	}
	allocates(t, codec.JSON[stats](), stats{Count: 4711, Sum: 12345.5, Worst: 321}, 0, 0)
}

func allocates[T any](t *testing.T, c codec.Codec[T], v T, toAppend, toDecode float64) {
	t.Helper()
	dst := make([]byte, 0, 1024)
	require.Equal(t, toAppend, testing.AllocsPerRun(1000, func() { _, _ = c.Append(dst, v) }), "append, %s", codec.Describe(c))
	src, err := c.Append(nil, v)
	require.NoError(t, err)
	require.Equal(t, toDecode, testing.AllocsPerRun(1000, func() { _, _ = c.Decode(src) }), "decode, %s", codec.Describe(c))
}
