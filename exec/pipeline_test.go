package exec_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit"
	"github.com/wickerwork/wicker/topology"
)

var (
	words  = ops.NewTopic("words", codec.String, codec.String)
	counts = ops.NewTopic("counts", codec.String, codec.Int64)
	byWord = ops.NewState("by-word", codec.String, codec.Int64)
)

func wordCount(t testing.TB) *topology.Plan {
	b := topology.New("wordcount")
	plan, err := b.From(ops.Source(words)).
		FlatMap(func(k, v string, emit func(string, string)) {
			for _, w := range strings.Fields(v) {
				emit(k, w)
			}
		}).
		Rekey("by-word", func(_, w string) string { return w }).
		Aggregate(byWord, func(_, _ string, n int64) int64 { return n + 1 }).
		To(ops.Sink(counts)).Build()
	require.NoError(t, err)
	return plan
}

// Counting across a repartition topic, restarts and crashes equals counting in a map.
func TestCountsEqualAMapsWhateverHappens(t *testing.T) {
	kit := testkit.New(t, wordCount(t))
	in, out := kit.In(words), kit.Out(counts)
	r := rand.New(rand.NewPCG(1, 2))
	want := map[string]int64{}
	var records int
	seen := map[string]int64{}
	for round := range 20 {
		for i := range 50 {
			var line []string
			for range r.IntN(4) {
				w := fmt.Sprint("w", r.IntN(30))
				line = append(line, w)
				want[w]++
				records++
			}
			in.Push(fmt.Sprint(round, i), strings.Join(line, " "))
		}
		switch r.IntN(4) {
		case 0:
			kit.Crash()
		case 1:
			kit.Restart()
		case 2:
			kit.Settle()
		}
		for _, rec := range out.Read() {
			require.Equal(t, seen[rec.Key]+1, rec.Value, "every step of %s once, in order", rec.Key)
			seen[rec.Key] = rec.Value
		}
		require.Equal(t, want, seen)
	}
	for w, n := range want {
		got, ok := kit.State(byWord).Get(w)
		require.True(t, ok)
		require.Equal(t, n, got)
	}
}

func TestMemoAsksOncePerKeyWhateverHappens(t *testing.T) {
	asked := map[string]int{}
	in := ops.NewTopic("in", codec.String, codec.Int64)
	out := ops.NewTopic("out", codec.String, codec.String)
	b := topology.New("memo")
	plan, err := b.From(ops.Source(in)).
		Memo(ops.Memo("names", codec.String, func(_ context.Context, k string) (string, error) {
			asked[k]++
			return "name of " + k, nil
		}, ops.Concurrency(1)), func(v int64, name string) string { return fmt.Sprint(name, " ", v) }).
		To(ops.Sink(out)).Build()
	require.NoError(t, err)
	kit := testkit.New(t, plan)
	pin, pout := kit.In(in), kit.Out(out)
	for i := range 200 {
		pin.Push(fmt.Sprint("k", i%17), int64(i))
		if i%40 == 39 {
			require.Len(t, pout.Read(), 40)
			kit.Restart()
		}
	}
	for k, n := range asked {
		require.Equal(t, 1, n, k)
	}
	require.Len(t, asked, 17)
}
