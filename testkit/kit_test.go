package testkit_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit"
	"github.com/wickerwork/wicker/topology"
)

var (
	in     = ops.NewTopic("in", codec.String, codec.String)
	out    = ops.NewTopic("out", codec.String, codec.Int64)
	counts = ops.NewState("counts", codec.String, codec.Int64)
)

func counting(t *testing.T) *topology.Plan {
	plan, err := topology.New("app").From(ops.Source(in)).
		Aggregate(counts, func(_, _ string, n int64) int64 { return n + 1 }).
		To(ops.Sink(out)).Build()
	require.NoError(t, err)
	return plan
}

// fails is a test that notes how it failed.
type fails struct {
	text     string
	cleanups []func()
}

func (f *fails) Helper()          {}
func (f *fails) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }
func (f *fails) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure runs a test and returns what it failed with.
func failure(test func(tb testkit.TB)) string {
	f := &fails{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(f)
	}()
	<-done
	for _, c := range f.cleanups {
		c()
	}
	return f.text
}

// Each misuse fails the test at once and says what it is.
func TestMisuse(t *testing.T) {
	plan := counting(t)
	for name, c := range map[string]struct {
		want string
		test func(tb testkit.TB)
	}{
		"nil plan":       {"plan is nil", func(tb testkit.TB) { testkit.New(tb, nil) }},
		"unknown topic":  {"topic nope is not a source or sink", func(tb testkit.TB) { testkit.New(tb, plan, testkit.Partitions("nope", 2)) }},
		"sink as input":  {"topic out is not a source", func(tb testkit.TB) { testkit.New(tb, plan).In(out) }},
		"foreign output": {"topic x is not a source or sink", func(tb testkit.TB) { testkit.New(tb, plan).Out(ops.NewTopic("x", codec.String, codec.String)) }},
		"foreign state": {"state x is not in the plan", func(tb testkit.TB) {
			testkit.New(tb, plan).State(ops.NewState("x", codec.String, codec.String))
		}},
		"other codec": {"state counts is encoded as int64 in the plan, not as string", func(tb testkit.TB) {
			testkit.New(tb, plan).State(ops.NewState("counts", codec.String, codec.String))
		}},
		"undecodable": {"partition 0 offset 0", func(tb testkit.TB) {
			k := testkit.New(tb, plan)
			k.In(in).PushBytes(0, []byte("k"), []byte{0xff})
			k.Settle()
		}},
	} {
		t.Run(name, func(t *testing.T) { require.Contains(t, failure(c.test), c.want) })
	}
}

// Read returns each record once, in the order of each partition even where timestamps go back.
func TestReadKeepsEachPartitionsOrder(t *testing.T) {
	kit := testkit.New(t, counting(t))
	pipe, read := kit.In(in), kit.Out(out)
	now := kit.Now()
	for i := range 100 {
		pipe.PushRecord(testkit.Record[string, string]{Key: fmt.Sprint(i % 5), Timestamp: now.AddDate(0, 0, -i*37%50)})
		if i%30 == 29 {
			kit.Crash()
		}
	}
	seen := map[string]int64{}
	for _, r := range read.Read() {
		require.Equal(t, seen[r.Key]+1, r.Value)
		seen[r.Key]++
	}
	require.Equal(t, map[string]int64{"0": 20, "1": 20, "2": 20, "3": 20, "4": 20}, seen)
	require.Empty(t, read.Read())
	require.Equal(t, 5, kit.State(counts).Len())
}

// Push puts a key where the source's declared partitioner does; a source that declares none of a kind takes any partition.
func TestPushGoesByTheSourcesPartitioner(t *testing.T) {
	for _, rule := range []ops.Partitioner{ops.Murmur2, ops.CRC32, ops.FNV1a} {
		plan, err := topology.New("app").From(ops.Source(in, ops.PartitionedBy(rule))).
			Aggregate(counts, func(_, _ string, n int64) int64 { return n + 1 }).
			To(ops.Sink(out)).Build()
		require.NoError(t, err)
		kit := testkit.New(t, plan, testkit.Partitions("in", 5))
		pipe, read := kit.In(in), kit.Out(out)
		for i := range 50 {
			pipe.Push(fmt.Sprint("key", i), "")
		}
		require.Len(t, read.Read(), 50, rule) // a key that lies elsewhere stops the task
	}
	plan, err := topology.New("app").From(ops.Source(in, ops.PartitionedBy(ops.RoundRobin))).
		MapValues(func(string) int64 { return 1 }).To(ops.Sink(out)).Build()
	require.NoError(t, err)
	kit := testkit.New(t, plan, testkit.Partitions("in", 5))
	kit.In(in).Push("k", "")
	require.Len(t, kit.Out(out).Read(), 1)
}

// Rows that were put are seen by what is pushed afterwards, over restarts and crashes too, and rows that the plan writes
// itself are when the kit has settled.
func TestTables(t *testing.T) {
	rows := globaltable.New("rows", codec.String, codec.Int64)
	b := topology.New("app")
	s := b.From(ops.Source(in))
	s.LeftLookup(rows, func(_, v string) string { return v }, func(_ string, row int64, _ bool) int64 { return row }).To(ops.Sink(out))
	s.MapValues(func(string) int64 { return 7 }).To(ops.Sink(ops.NewTopic("rows", codec.String, codec.Int64)))
	plan, err := b.Build()
	require.NoError(t, err)
	kit := testkit.New(t, plan, testkit.Partitions("rows", 3))
	table, push, read := kit.Table(rows), kit.In(in), kit.Out(out)
	last := func() int64 {
		all := read.Read()
		require.Len(t, all, 1)
		return all[0].Value
	}
	for n := range int64(20) {
		table.Put("a", n)
		push.Push("k", "a")
		require.Equal(t, n, last())
		switch n % 7 {
		case 3:
			kit.Restart()
		case 5:
			kit.Crash()
		}
		if n == 10 {
			kit.Stop()
			table.Put("a", 100)
			kit.Restart()
			push.Push("k", "a")
			require.EqualValues(t, 100, last())
		}
	}
	push.Push("k", "k")
	require.EqualValues(t, 7, last(), "the plan's own")
	table.Delete("a")
	push.Push("k", "a")
	require.Zero(t, last())
	require.Contains(t, failure(func(tb testkit.TB) { testkit.New(tb, plan).Table(rows.SkipInvalid()) }), "table rows is not one of the plan, or another value of that name")
	require.Contains(t, failure(func(tb testkit.TB) { testkit.New(tb, plan).Table(globaltable.Table[string, int64]{}) }), "has no name")
	require.Contains(t, failure(func(tb testkit.TB) { testkit.New(tb, plan).Table(rows).Put("\xff", 1) }), "table rows: encode key")
}
