package ops_test

import (
	"fmt"
	"math/rand/v2"
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
		e.tables = map[string]ops.Lookups{"t": rows{"a": []byte("1"), "": []byte("2")}}
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

// counted is a table that counts lookups, and a codec that counts decoding.
type counted struct {
	rows
	codec.Codec[string]
	version       int64
	gets, decodes int
}

func (c *counted) Get(key []byte) ([]byte, bool, error) {
	c.gets++
	return c.rows.Get(key)
}

func (c *counted) Version() int64 { return c.version }

func (c *counted) Decode(b []byte) (string, error) {
	c.decodes++
	return c.Codec.Decode(b)
}

// A cache answers as the table does whatever is looked up and whenever that changes, keeps no more than it may, and asks for nothing that it has.
func TestLookupsCacheRows(t *testing.T) {
	for _, most := range []int{0, 1, 2, 7, 100} {
		table := &counted{rows: rows{}, Codec: codec.String}
		e := newEnv(t)
		e.tables = map[string]ops.Lookups{"t": table}
		var got []string
		op := ops.LookupOp[string, string, string, string, string]{Table: "t", Key: codec.String, Value: table, Cache: most,
			At: func(_, v string) string { return v }, Join: func(v, row string, ok bool) string { return fmt.Sprint(v, row, ok) }}
		emit := wire(t, e, op, func(_, v string) error {
			got = append(got, v)
			return nil
		})
		r := rand.New(rand.NewPCG(1, uint64(most)))
		asked, held := 0, map[string]bool{}
		for range 5000 {
			if r.IntN(100) == 0 {
				key := fmt.Sprint(r.IntN(30))
				if table.rows[key] = fmt.Append(nil, r.IntN(1000)); r.IntN(3) == 0 {
					delete(table.rows, key)
				}
				table.version++
				clear(held)
			}
			key := fmt.Sprint(r.IntN(30))
			row, ok := table.rows[key]
			gets := table.gets
			require.NoError(t, emit("k", key))
			require.Equal(t, fmt.Sprint(key, string(row), ok), got[len(got)-1])
			if table.gets > gets {
				held[key] = true
				continue
			}
			asked++
			require.True(t, held[key], "a row of another version")
		}
		if most == 0 {
			require.Zero(t, asked)
		} else {
			require.Positive(t, asked)
		}
		// In turns: if all fit, each key is asked for once, else there is always one more than is kept.
		for keys, want := range map[int]int{30: 30, most + 1: 20 * (most + 1)} {
			if keys > most && keys != most+1 {
				continue
			}
			table.version++
			gets := table.gets
			for i := range 20 * keys {
				require.NoError(t, emit("k", fmt.Sprint(i%keys)))
			}
			require.Equal(t, want, table.gets-gets, "%d keys, room for %d", keys, most)
		}
	}
}

// What cannot be encoded or decoded is an error that names the table.
func TestLookupsFail(t *testing.T) {
	e := newEnv(t)
	e.tables = map[string]ops.Lookups{"t": rows{"a": []byte("secret")}}
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
