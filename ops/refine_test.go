package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/codec/codectest"
	"github.com/wickerwork/wicker/ops"
)

// P3: state is kept by sub-keys within the key, and results have the record's key: against a map.
func TestP3RefinedState(t *testing.T) {
	e := newEnv(t)
	op := ops.RefineOp[string, string, string, int64]{Op: "Aggregate", State: ops.NewFineState("s", codec.String, codec.String, codec.Int64),
		Sub: func(_, v string) string { return v }, F: func(_, _, _ string, n int64, found bool) int64 {
			if !found {
				return 100
			}
			return n + 1
		}}
	type result struct {
		k string
		n int64
	}
	var got []result
	emit := wire(t, e, op, func(k string, n int64) error {
		got = append(got, result{k, n})
		return nil
	})
	for _, r := range [][2]string{{"a", "x"}, {"a", "y"}, {"ax", ""}, {"", "ax"}, {"a", "x"}, {"", "ax"}} {
		require.NoError(t, emit(r[0], r[1]))
	}
	require.Equal(t, []result{{"a", 100}, {"a", 100}, {"ax", 100}, {"", 100}, {"a", 101}, {"", 101}}, got, "no pair is taken for another one")
	require.Len(t, e.stores["s"], 4)
}

// The codec of keys within keys is a codec like any other.
func TestFineCodec(t *testing.T) {
	fine := ops.FineCodec(codec.String, codec.Int64)
	type key = ops.Fine[string, int64]
	codectest.Run(t, fine, codectest.Cases[key]{
		Golden: []codectest.Golden[key]{{Value: key{"ab", 1}, Bytes: []byte("\x02ab\x00\x00\x00\x00\x00\x00\x00\x01")}},
		Values: []key{{}, {"a", -1}, {"a longer key that does not fit into the room that there is for it on the stack", 7}},
	})
	require.Equal(t, "string / int64", codec.Describe(fine))
	for _, bad := range [][]byte{nil, {}, {200}, {5, 'a'}, {1, 'a'}} {
		_, err := fine.Decode(bad)
		require.Error(t, err)
	}
	nulls := ops.FineCodec(codec.Nullable(codec.String), codec.Nullable(codec.String))
	b, err := nulls.Append([]byte{}, ops.Fine[*string, *string]{nil, new("s")})
	require.NoError(t, err)
	require.Nil(t, b, "a null key is null")
	_, err = nulls.Append([]byte{}, ops.Fine[*string, *string]{new("k"), nil})
	require.ErrorIs(t, err, codec.ErrNull)
}
