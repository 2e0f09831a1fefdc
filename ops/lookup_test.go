package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
)

// CF-09, CF-23: a record meets the row of the key that is taken from it, or none; the inner join leaves those out, and both count
// them. A null key has no row.
func TestCF09Lookups(t *testing.T) {
	type joined struct {
		v, row string
		ok     bool
	}
	for _, inner := range []bool{false, true} {
		e := newEnv(t)
		e.tables = map[string]rows{"t": {"a": []byte("1"), "": []byte("2")}}
		var got []joined
		op := ops.LookupOp[string, *string, *string, string, joined]{Table: "t", Key: codec.Nullable(codec.String), Value: codec.String, Inner: inner,
			At: func(_ string, v *string) *string { return v },
			Join: func(v *string, row string, ok bool) joined {
				if v == nil {
					return joined{"null", row, ok}
				}
				return joined{*v, row, ok}
			}}
		emit := wire(t, e, op, func(k string, j joined) error {
			require.Equal(t, "k", k, "the key stays")
			got = append(got, j)
			return nil
		})
		for _, v := range []*string{new("a"), new("b"), new(""), nil} {
			require.NoError(t, emit("k", v))
		}
		want := []joined{{"a", "1", true}, {"b", "", false}, {"", "2", true}, {"null", "", false}}
		if inner {
			want = []joined{want[0], want[2]}
		}
		require.Equal(t, want, got)
		require.EqualValues(t, 2, e.counters[op.Traits().Op+" missed"].Value())
	}
}

// What cannot be encoded or decoded is an error that names the table.
func TestLookupsFail(t *testing.T) {
	e := newEnv(t)
	e.tables = map[string]rows{"t": {"a": []byte("secret")}}
	op := ops.LookupOp[string, string, string, int64, int64]{Table: "t", Key: codec.String, Value: codec.Int64,
		At: func(_, v string) string { return v }, Join: func(_ string, row int64, _ bool) int64 { return row }}
	emit := wire(t, e, op, func(string, int64) error { return nil })
	err := emit("k", "a")
	var de *ops.DecodeError
	require.ErrorAs(t, err, &de)
	require.ErrorContains(t, err, "value of table t")
	require.NotContains(t, err.Error(), "secret")
	var ee *ops.EncodeError
	require.ErrorAs(t, emit("k", "\xff"), &ee)
	require.Equal(t, `LeftLookup "t"`, e.meta.At.String())
	op.Table = "other"
	_, err = op.Wire(e.site(op.Traits(), 0), nil)
	require.ErrorContains(t, err, `no table "other"`)
}
