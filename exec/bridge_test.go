package exec_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

// remembering is a plan that writes the last value of each key to a global table, and puts out what the table had for it.
func remembering(t *testing.T, app, in, out, rows string, cache int, opts ...ops.Option) *topology.Plan {
	t.Helper()
	text := codec.String
	table := globaltable.New(rows, text, codec.Nullable(text)).CacheRows(cache)
	s := topology.New(app).From(ops.Source(ops.NewTopic(in, text, codec.Nullable(text)), anywhere)).
		LeftLookup(table, func(k string, _ *string) string { return k }, func(v, row *string, ok bool) [2]*string { return [2]*string{v, row} })
	s.MapValues(func(v [2]*string) *string { return v[0] }).ToTable(table, opts...)
	end := s.MapValues(func(v [2]*string) string {
		if v[1] == nil {
			return "none"
		}
		return *v[1]
	}).To(ops.Sink(ops.NewTopic(out, text, text)))
	plan, err := end.Build()
	require.NoError(t, err)
	return plan
}

// CF-20: a topology maintains a table through its topic, as any writer does: its rows are seen when they come back. With Remember a task sees its own
// at once, the latest n, deletions too, until they have come back; then the table counts alone.
func TestCF20MaintainedTables(t *testing.T) {
	for _, n := range [][2]int{{0, 0}, {2, 0}, {100, 0}, {0, 3}, {2, 3}, {100, 3}} {
		most, cache := n[0], n[1]
		t.Run(fmt.Sprintf("remember=%d,cache=%d", most, cache), func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				b.create("rows", 1, nil)
				var opts []ops.Option
				if most > 0 {
					opts = append(opts, ops.Remember(most))
				}
				b.put(0, "a", "1", "a", "2", "b", "1", "c", "1", "a", "3", "a", "null", "a", "4", "b", "2")
				s := b.run(remembering(t, "app", "in", "out", "rows", cache, opts...), memlog.Faults{}).idle()
				want := map[int][]string{
					0:   {"a=none", "a=none", "b=none", "c=none", "a=none", "a=none", "a=none", "b=none"},
					2:   {"a=none", "a=1", "b=none", "c=none", "a=none", "a=3", "a=none", "b=none"},
					100: {"a=none", "a=1", "b=none", "c=none", "a=2", "a=3", "a=none", "b=1"},
				}
				require.Equal(t, want[most], b.texts("out", 0))
				time.Sleep(time.Minute) // all of it has come back
				b.putTo("rows", 0, "a", "of another writer")
				time.Sleep(time.Minute)
				b.put(0, "a", "5", "b", "3", "c", "2")
				s.idle()
				require.Equal(t, []string{"a=of another writer", "b=2", "c=1"}, b.texts("out", 0)[8:])
				s.drain()
			})
		})
	}
}

// What a transaction wrote that is aborted is never seen, also if it is processed again at once.
func TestRememberedRowsGoWithTheirTransaction(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.create("rows", 1, nil)
		var commits atomic.Int64
		refuse := memlog.Faults{Commit: func(_ context.Context, _ string, _ map[commitlog.TopicPartition]int64) error {
			if commits.Add(1) < 3 {
				return &commitlog.Error{Op: "commit", Partition: -1, Class: commitlog.Abort, Err: errors.New("no")}
			}
			return nil
		}}
		b.put(0, "a", "1", "a", "2")
		b.run(remembering(t, "app", "in", "out", "rows", 10, ops.Remember(10)), refuse).idle().drain()
		require.Equal(t, []string{"a=none", "a=1"}, b.texts("out", 0))
		require.EqualValues(t, 3, commits.Load())
	})
}

// The same on brokers: what was written comes back, whatever is remembered meanwhile.
func TestCF20MaintainedTablesOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		rows := r.app + "-rows"
		require.NoError(t, r.c.CreateTopic(t.Context(), rows, 2, map[string]string{"cleanup.policy": "compact"}))
		plan := remembering(t, r.app, r.in, r.out, rows, 0, ops.Remember(10))
		r.put("a", "1", "a", "2", "b", "1")
		i := launch(t, b, plan)
		r.settle(i)
		require.Equal(t, []string{"a=none", "a=1", "b=none"}, pairs(r.read(r.out)))
		i.await("the rows", func() bool { return i.app.Stats().Tables[rows].Rows == 2 })
		i.drain()
		i = launch(t, b, remembering(t, r.app, r.in, r.out, rows, 0))
		r.put("a", "3", "b", "2")
		r.settle(i)
		require.Equal(t, []string{"a=2", "b=1"}, pairs(r.read(r.out))[3:])
	})
}
