package ops_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
)

// totalOf adds numbers by key; a total of zero is deleted.
func totalOf(name string) ops.AggregateOp[string, int64, int64] {
	return ops.AggregateOp[string, int64, int64]{State: ops.NewState(name, codec.String, codec.OmitZero(codec.Int64)),
		F: func(_ string, v, sum int64) int64 { return sum + v }}
}

// Aggregate and Reduce against a map: what they emit, what they keep, what they delete.
func TestFoldsEqualAMap(t *testing.T) {
	e := newEnv(t)
	var sums, firsts list[string, int64]
	aggregate := wire(t, e, totalOf("sums"), sums.emit)
	reduce := wire(t, e, ops.ReduceOp[string, int64]{State: ops.NewState("products", codec.String, codec.Int64),
		F: func(a, b int64) int64 { return a * b % 97 }}, firsts.emit)
	want, products := map[string]int64{}, map[string]int64{}
	var wantSums, wantProducts []string
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		k, v := fmt.Sprint("k", r.IntN(20)), int64(r.IntN(5)-2)
		require.NoError(t, aggregate(k, v))
		if want[k] += v; want[k] == 0 {
			delete(want, k)
		}
		wantSums = append(wantSums, fmt.Sprintf("%s=%d", k, want[k]))
		require.NoError(t, reduce(k, v))
		if old, ok := products[k]; ok {
			v = old * v % 97
		}
		products[k] = v
		wantProducts = append(wantProducts, fmt.Sprintf("%s=%d", k, v))
	}
	require.Equal(t, wantSums, sums.all)
	require.Equal(t, wantProducts, firsts.all)
	for name, want := range map[string]map[string]int64{"sums": want, "products": products} {
		got := map[string]int64{}
		for k, b := range e.stores[name] {
			v, err := codec.Int64.Decode(b)
			require.NoError(t, err)
			got[k] = v
		}
		require.True(t, maps.Equal(want, got), name)
	}
}

// TX-13: a state that encodes to null is deleted, and deleting what is not there is no error.
func TestAStateThatEncodesToNullIsDeleted(t *testing.T) {
	e := newEnv(t)
	var out list[string, int64]
	total := wire(t, e, totalOf("s"), out.emit)
	require.NoError(t, total("k", 5))
	require.Contains(t, e.stores["s"], "k")
	require.NoError(t, total("k", -5))
	require.NotContains(t, e.stores["s"], "k")
	require.NoError(t, total("k", 0))
	require.Equal(t, []string{"k=5", "k=0", "k=0"}, out.all, "each record emits the state after it")
}

// A null value is a value like any other, and the first of a key is not passed to the function.
func TestReducePassesNullsToItsFunction(t *testing.T) {
	e := newEnv(t)
	calls := 0
	latest := wire(t, e, ops.ReduceOp[string, *string]{State: ops.NewState[string, *string]("s", codec.String, codec.Nullable(codec.String)),
		F: func(_, b *string) *string { calls++; return b }}, nothing)
	x := "x"
	require.NoError(t, latest("k", &x))
	require.Zero(t, calls)
	require.NoError(t, latest("k", nil))
	require.Equal(t, 1, calls)
	require.Empty(t, e.stores["s"])
}

func TestErrorsOfState(t *testing.T) {
	e := newEnv(t)
	var out list[string, int64]
	total := wire(t, e, totalOf("s"), out.emit)
	e.stores["s"]["k"] = []byte("secret")
	err := total("k", 1)
	require.ErrorIs(t, err, codec.ErrLength)
	require.ErrorContains(t, err, "decode state: codec: int64")
	require.NotContains(t, err.Error(), "secret")
	require.Equal(t, `Aggregate "s"`, e.meta.At.String(), "the operator that it comes from")
	d, ok := errors.AsType[*ops.DecodeError](err)
	require.True(t, ok)
	require.Equal(t, "state", d.Part)

	require.ErrorContains(t, total("\xff", 1), "encode key: codec: string")
	en, ok := errors.AsType[*ops.EncodeError](total("\xff", 1))
	require.True(t, ok)
	require.Equal(t, "key", en.Part)

	text := wire(t, e, ops.AggregateOp[string, int64, string]{State: ops.NewState("t", codec.String, codec.String),
		F: func(string, int64, string) string { return "\xff" }}, nothing)
	require.ErrorContains(t, text("k", 1), "encode state: codec: string")
	require.Empty(t, e.stores["t"])

	nullable := wire(t, e, ops.ReduceOp[*string, string]{State: ops.NewState[*string, string]("n", codec.Nullable(codec.String), codec.String),
		F: func(a, _ string) string { return a }}, nothing)
	require.ErrorIs(t, nullable(nil, "v"), ops.ErrNullKey)

	e.fail = errors.New("disk")
	require.ErrorIs(t, total("x", 1), e.fail)
	e.fail = nil
	out.err = errors.New("further down")
	require.ErrorIs(t, total("x", 1), out.err)
	_, err = totalOf("missing").Wire(e.site(totalOf("missing").Traits(), 0), nothing)
	require.EqualError(t, err, "no such store")
	_, err = ops.ReduceOp[string, int64]{State: ops.NewState("missing", codec.String, codec.Int64)}.
		Wire(e.site(ops.Traits{Op: "Reduce", Store: "missing"}, 0), nothing)
	require.EqualError(t, err, "no such store")
}

func TestFoldsAllocateNothing(t *testing.T) {
	e := newEnv(t)
	total := wire(t, e, totalOf("s"), nothing)
	longest := wire(t, e, ops.ReduceOp[string, int64]{State: ops.NewState("m", codec.String, codec.Int64), F: func(a, b int64) int64 { return max(a, b) }}, nothing)
	keys := []string{"north", "east", "south", "west"}
	for _, k := range keys {
		require.NoError(t, total(k, 1))
		require.NoError(t, longest(k, 1))
	}
	n, failed := 0, error(nil)
	allocs := testing.AllocsPerRun(1000, func() {
		n++
		if err := errors.Join(total(keys[n&3], 1), longest(keys[n&3], int64(n))); err != nil {
			failed = err
		}
	})
	require.NoError(t, failed)
	if !raceEnabled {
		require.Zero(t, allocs, "allocations per record")
	}
}

// What is known is answered without an allocation too, but for what the answer's codec makes.
func TestMemoAllocatesNothingForWhatItKnows(t *testing.T) {
	e := newEnv(t)
	e.stores["m"] = memory{"k": []byte("\x00\x00\x00\x00\x00\x00\x00\x07")}
	memo := wire(t, e, ops.MemoJoinOp[string, int64, int64, int64]{Memo: ops.Memo[string]("m", codec.Int64, nil), Key: codec.String,
		Join: func(v, a int64) int64 { return v + a }}, nothing)
	var failed error
	allocs := testing.AllocsPerRun(1000, func() {
		if err := memo("k", 1); err != nil {
			failed = err
		}
	})
	require.NoError(t, failed)
	if !raceEnabled {
		require.Zero(t, allocs, "allocations per record")
	}
}
