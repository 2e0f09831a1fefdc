package topology_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update")
	require.Equal(t, string(want), got, "%s: run the test with -update and look at the difference", path)
}

type (
	stream  = topology.Stream[string, string]
	topic   = ops.Topic[string, string]
	order   struct{ City, Customer string }
	placed  struct{ City, Country string }
	country struct{ Name string }
)

// text is a topic of strings.
func text(name string) topic { return ops.NewTopic(name, codec.String, codec.String) }

// count is a state that counts by string.
func count(name string) ops.State[string, int64] {
	return ops.NewState(name, codec.String, codec.Int64)
}

func plusOne(_, _ string, n int64) int64 { return n + 1 }
func same(_, v string) string            { return v }
func join(a, b string) string            { return a + b }
func upper(v string) string              { return strings.ToUpper(v) }
func short(_, v string) bool             { return len(v) < 4 }

// asks is a Memo of strings.
func asks(name string, opts ...ops.Option) ops.MemoOp[string, string] {
	return ops.Memo(name, codec.String, func(_ context.Context, k string) (string, error) { return "<" + k + ">", nil }, opts...)
}

// totals ends a stream of counts.
func totals(s topology.Stream[string, int64], name string) {
	s.To(ops.Sink(ops.NewTopic(name, codec.String, codec.Int64)))
}

// features are programs that each show one thing of a plan.
var features = map[string]func(b *topology.Builder){
	// a chain without state is one sub-topology
	"chain": func(b *topology.Builder) {
		b.From(ops.Source(text("in"), ops.Name("raw"))).
			Filter(short, ops.Name(`say "short"`)).
			Map(func(k, v string) (string, string) { return v, k }).
			MapValues(upper).
			Peek(func(_, _ string) {}).
			FlatMap(func(k, v string, emit func(string, string)) { emit(k, v) }).
			To(ops.Sink(text("out"), ops.Name("clean")))
	},
	// a stream joined with a keyed table, whose topic is its changelog
	"keyed-table": func(b *topology.Builder) {
		customers := b.Table("customers", ops.Source(text("customers"), ops.OnInvalid(ops.SkipInvalid)))
		b.From(ops.Source(text("orders"))).Join(customers, join).To(ops.Sink(text("out")))
	},
	// a stream whose key was changed goes through a topic to the table; what is behind a Memo waits for it, and so does the table
	"join-behind-rekey": func(b *topology.Builder) {
		customers := b.Table("customers", ops.Source(text("customers")))
		b.From(ops.Source(text("orders"))).Rekey("by-customer", same).Memo(asks("answers"), join).
			LeftJoin(customers, func(v, row string, _ bool) string { return v + row }, ops.Name("with customer")).
			To(ops.Sink(text("out")))
	},
	// two tables joined with each other, one of them made of a stream
	"two-tables": func(b *topology.Builder) {
		customers := b.Table("customers", ops.Source(text("customers")))
		latest := b.From(ops.Source(text("orders"))).Table(ops.NewState("latest", codec.String, codec.String))
		topology.JoinTables(customers, latest, join, ops.Name("both"), ops.ValueCodec(codec.Nullable(codec.String))).
			To(ops.Sink(ops.NewTopic("joined", codec.String, codec.Nullable(codec.String))))
		topology.Updates(latest, ops.ValueCodec(codec.Nullable(codec.String))).To(ops.Sink(ops.NewTopic("updates", codec.String, codec.Nullable(codec.String))))
	},
	// a global table that the topology maintains
	"maintained-table": func(b *topology.Builder) {
		rows := globaltable.New("rows", codec.String, codec.String)
		s := b.From(ops.Source(text("in"))).LeftLookup(rows, same, func(v, row string, _ bool) string { return v + row })
		s.ToTable(rows, ops.Name("remembered"), ops.Remember(100))
		s.To(ops.Sink(text("out")))
	},
	// state by a key within the record's key
	"refined": func(b *topology.Builder) {
		b.From(ops.Source(text("in"))).
			Refine(func(_, v string) string { return v }).
			Aggregate(ops.NewFineState("by-value", codec.String, codec.String, codec.Int64), func(_, _, _ string, n int64) int64 { return n + 1 }).
			MapValues(func(n int64) string { return "" }).
			Refine(func(_, v string) int64 { return int64(len(v)) }).
			Reduce(ops.NewFineState("by-length", codec.String, codec.Int64, codec.String), join).
			To(ops.Sink(text("out")))
	},
	// functions that may fail, and what becomes of records that they find invalid
	"functions-that-fail": func(b *topology.Builder) {
		try := func(v string) (string, error) { return v, nil }
		s := b.From(ops.Source(text("in"))).
			TryMapValues(try, ops.Name("parse"), ops.OnInvalid(ops.SkipInvalid)).
			Memo(asks("answers"), join, ops.OnInvalid(ops.DeadLetter("")))
		s.TryMapValues(try, ops.OnInvalid(ops.Substitute(func(ops.InvalidRecord) (string, bool) { return "", false }))).
			TryMap(func(k, v string) (string, string, error) { return k, v, nil }, ops.OnInvalid(ops.DeadLetter("mine"))).
			To(ops.Sink(text("out")))
	},
	// a Rekey without state behind it has no topic
	"rekey-without-state": func(b *topology.Builder) {
		b.From(ops.Source(text("in"))).Rekey("by-value", same).To(ops.Sink(text("out")))
	},
	"rekey-with-state": func(b *topology.Builder) {
		totals(b.From(ops.Source(text("in"))).Rekey("by-value", same).Aggregate(count("seen"), plusOne), "out")
	},
	// P1: the topic lies behind what drops records
	"as-late-as-possible": func(b *topology.Builder) {
		s := b.From(ops.Source(text("in"))).Rekey("by-value", same).Peek(func(_, _ string) {}).Filter(short).MapValues(upper)
		totals(s.Aggregate(count("seen"), plusOne), "out")
		s.To(ops.Sink(text("copy")))
	},
	// P1: one topic for two states, and what needs none stays in front of it
	"once-per-changed-stream": func(b *topology.Builder) {
		s := b.From(ops.Source(text("in"))).Rekey("by-value", same)
		s.To(ops.Sink(text("before")))
		f := s.Filter(short)
		totals(f.Aggregate(count("seen"), plusOne), "out")
		f.Reduce(ops.NewState("latest", codec.String, codec.String), join).To(ops.Sink(text("latest")))
		f.MapValues(upper).To(ops.Sink(text("upper")))
	},
	// P1: the topic lies in front of a Merge
	"not-past-merge": func(b *topology.Builder) {
		keyed := b.From(ops.Source(text("keyed")))
		changed := b.From(ops.Source(text("other"))).Rekey("by-value", same).MapValues(upper)
		totals(keyed.Merge(changed).Filter(short).Aggregate(count("seen"), plusOne), "out")
	},
	// P1: behind a Branch of which one side needs the partition
	"branch-one-side": func(b *topology.Builder) {
		yes, no := b.From(ops.Source(text("in"))).Rekey("by-value", same).Branch(short)
		totals(yes.Aggregate(count("seen"), plusOne), "out")
		no.To(ops.Sink(text("long")))
	},
	// P1: in front of a Branch of which both sides need it
	"branch-both-sides": func(b *topology.Builder) {
		yes, no := b.From(ops.Source(text("in"))).Rekey("by-value", same).Branch(short)
		totals(yes.Aggregate(count("short"), plusOne), "out")
		totals(no.Aggregate(count("long"), plusOne), "out")
	},
	// a Rekey whose need ends at the next one has no topic
	"rekey-behind-rekey": func(b *topology.Builder) {
		totals(b.From(ops.Source(text("in"))).Rekey("first", same).MapValues(upper).Rekey("second", same).Aggregate(count("seen"), plusOne), "out")
	},
	"two-hops": func(b *topology.Builder) {
		b.From(ops.Source(text("in"))).
			Rekey("first", same).
			Memo(asks("names"), join, ops.Concurrency(8)).
			Rekey("second", same, ops.Partitions(12), ops.AbsentKey(ops.Drop)).
			Reduce(ops.NewState("latest", codec.String, codec.String), join).
			To(ops.Sink(text("out")))
	},
	// E7: what sources do about input that is lost, where it is not the default
	"lost-input": func(b *topology.Builder) {
		b.From(ops.Source(text("strict"), ops.OnLost(ops.EndRun))).
			Merge(b.From(ops.Source(text("early"), ops.OnLost(ops.FromEarliest))), b.From(ops.Source(text("late"), ops.OnLost(ops.FromLatest)))).
			To(ops.Sink(text("out")))
	},
	// what sources do about records that cannot be decoded, where it is not the default
	"invalid-records": func(b *topology.Builder) {
		source := func(name string, p ops.InvalidPolicy) topology.Stream[string, string] {
			return b.From(ops.Source(text(name), ops.OnInvalid(p)))
		}
		source("fails", ops.FailInvalid).Merge(source("skips", ops.SkipInvalid), source("letters", ops.DeadLetter("")), source("elsewhere", ops.DeadLetter("bad")),
			source("instead", ops.Substitute(func(ops.InvalidRecord) (string, bool) { return "", true }))).To(ops.Sink(text("out")))
	},
	// P2: three topics whose keys meet, one of them a repartition topic with a count of its own
	"co-partitioned": func(b *topology.Builder) {
		left, right := b.From(ops.Source(text("left"))), b.From(ops.Source(text("right")))
		third := b.From(ops.Source(text("third"))).Rekey("by-value", same, ops.Partitions(6))
		totals(left.Merge(right, third).Aggregate(ops.NewState("seen", codec.String, codec.OmitZero(codec.Int64)), plusOne), "out")
	},
	// P4: how topics are partitioned; one that is so otherwise goes through a repartition topic
	"partitioners": func(b *topology.Builder) {
		left := b.From(ops.Source(text("left"), ops.PartitionedBy(ops.CRC32)))
		right := b.From(ops.Source(text("right"), ops.PartitionedBy(ops.CRC32), ops.OnMisplaced(ops.CountMisplaced)))
		third := b.From(ops.Source(text("third"), ops.PartitionedBy(ops.RoundRobin))).Repartition("third-by-key", ops.Partitions(6))
		totals(left.Merge(right).Aggregate(count("seen"), plusOne), "out")
		totals(third.Filter(short).Aggregate(count("others"), plusOne), "out")
	},
	// tables that are looked up in, of which the plan writes one; the stream keeps its key
	"tables": func(b *topology.Builder) {
		at, two := func(k, _ string) string { return k }, func(v, row string) string { return v + row }
		kept := globaltable.New("kept", codec.String, codec.String)
		skips := globaltable.New("skips", codec.String, codec.String).Topics("one", "two").SkipInvalid().
			Enrich(func(_, v string) (string, error) { return v, nil }).OnDisk("2")
		s := b.From(ops.Source(text("in"))).Lookup(kept, at, two).
			LeftLookup(skips, at, func(v, row string, _ bool) string { return v + row }, ops.Name("l")).Lookup(kept, at, two)
		s.To(ops.Sink(text("kept")))
		s.Memo(asks("memo"), join).To(ops.Sink(text("out")))
	},
	// a Repartition without state behind it has no topic
	"repartition-without-state": func(b *topology.Builder) {
		b.From(ops.Source(text("in"))).Repartition("by-key").To(ops.Sink(text("out")))
	},
	// P2: a chain of repartition topics takes the count of what is at its beginning
	"counts-passed-on": func(b *topology.Builder) {
		left := b.From(ops.Source(text("left"))).Rekey("one", same).Reduce(ops.NewState("a", codec.String, codec.String), join)
		right := b.From(ops.Source(text("right")))
		left.Merge(right).Rekey("two", same).Reduce(ops.NewState("b", codec.String, codec.String), join).To(ops.Sink(text("out")))
	},
	// a Memo's way around gets a gate too, in front of the Merge
	"gates-at-merge": func(b *topology.Builder) {
		yes, no := b.From(ops.Source(text("in"))).Branch(short)
		yes.Memo(asks("names"), join).Memo(asks("more"), join).Merge(no).To(ops.Sink(text("out")))
	},
	// and where both ways end in one topic
	"gates-at-sinks": func(b *topology.Builder) {
		in := b.From(ops.Source(text("in")))
		in.Memo(asks("names"), join).To(ops.Sink(text("out")))
		in.To(ops.Sink(text("out")))
		in.To(ops.Sink(text("elsewhere")))
	},
	// a topic that is written and read again divides the plan like a repartition topic
	"own-topic": func(b *topology.Builder) {
		b.From(ops.Source(text("in"))).To(ops.Sink(text("middle")))
		b.From(ops.Source(text("middle"))).To(ops.Sink(text("out")))
	},
	// codecs of structs, and state that is its own source's neighbour
	"placement": func(b *topology.Builder) {
		b.From(ops.Source(ops.NewTopic("orders", codec.String, codec.JSON[order]()))).
			Rekey("by-city", func(_ string, o order) string { return o.City }).
			Memo(ops.Memo("geo", codec.JSON[country](), func(context.Context, string) (country, error) { return country{}, nil }),
				func(o order, c country) placed { return placed{o.City, c.Name} }).
			To(ops.Sink(ops.NewTopic("placed", codec.String, codec.JSON[placed]())))
	},
	// codecs given by options go into the repartition topic and state
	"codecs": func(b *topology.Builder) {
		limited := codec.Limit[string](codec.String, 64)
		totals(b.From(ops.Source(ops.NewTopic("orders", codec.Int64, codec.JSON[order]()))).
			Rekey("by-city", func(_ int64, o order) string { return o.City }, ops.KeyCodec(limited)).
			MapValues(func(o order) string { return o.Customer }, ops.ValueCodec(limited)).
			Aggregate(ops.NewState[string, int64]("seen", limited, codec.Int64), plusOne), "out")
	},
	"self-merge": func(b *topology.Builder) {
		s := b.From(ops.Source(text("in"))).Rekey("by-value", same)
		totals(s.Merge(s).Aggregate(count("seen"), plusOne), "out")
	},
}
