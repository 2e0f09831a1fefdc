package exec_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

// joined is a plan that joins in with the table of the topic rows.
func (b *bench) joined(opts ...ops.Option) *topology.Plan {
	b.t.Helper()
	tb := topology.New("app")
	rows := tb.Table("rows", ops.Source(ops.NewTopic("rows", codec.String, codec.String), append(opts, anywhere)...))
	s := tb.From(ops.Source(benchIn, anywhere))
	s.LeftJoin(rows, func(v, row string, ok bool) string { return fmt.Sprint(v, ":", row, ":", ok) }).To(ops.Sink(benchOut))
	plan, err := tb.Build()
	require.NoError(b.t, err)
	return plan
}

// putAt appends a record with a timestamp; the value "null" is none.
func (b *bench) putAt(topic string, ms int64, key, value string) {
	b.t.Helper()
	r := commitlog.Record{Timestamp: ms, Key: []byte(key), Value: []byte(value)}
	if value == "null" {
		r.Value = nil
	}
	_, err := b.log.Append(b.t.Context(), topic, 0, []commitlog.Record{r})
	require.NoError(b.t, err)
}

// A stream meets the rows that the table's records with lower or equal timestamps have made: rows come and go, and those without one are counted.
func TestJoinMeetsTheRowsOfItsTime(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.create("rows", 1, map[string]string{"cleanup.policy": "compact"})
		b.putAt("in", 5, "k", "before")
		b.putAt("rows", 10, "k", "1")
		b.putAt("in", 10, "k", "same")
		b.putAt("in", 15, "other", "none")
		b.putAt("rows", 20, "k", "2")
		b.putAt("in", 25, "k", "second")
		b.putAt("rows", 30, "k", "null")
		b.putAt("rows", 30, "k2", "")
		b.putAt("in", 35, "k", "deleted")
		b.putAt("in", 35, "k2", "empty")
		s := b.run(b.joined(), memlog.Faults{}).idle()
		s.drain()
		require.Equal(t, []string{"k=before::false", "k=same:1:true", "other=none::false", "k=second:2:true", "k=deleted::false", "k2=empty::true"}, b.texts("out", 0))
		require.EqualValues(t, 3, s.app.Stats().Counters[`LeftJoin "rows"`][ops.CountMissed])
		found, err := b.log.Topics(t.Context(), "app-rows-changelog")
		require.NoError(t, err)
		require.Empty(t, found, "the topic is its own changelog")
	})
}

// The table's topic is its changelog: a start reads it again up to where the group has processed it, and not further, with nothing on disk or with a store
// that is behind, also if it lay there before the store; records that were passed over as invalid make no rows then either.
func TestE4TablesAreRestoredFromTheirTopics(t *testing.T) {
	for _, engine := range []string{"memory", "disk"} {
		t.Run(engine, func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				b.create("rows", 1, map[string]string{"cleanup.policy": "compact"})
				d := newDisk(t)
				change := func(c *exec.Config) {
					if engine == "disk" {
						onDisk(d)(c)
					}
				}
				skip := ops.OnInvalid(ops.SkipInvalid)
				b.putAt("rows", 1, "a", "1")
				b.putAt("rows", 1, "b", "1")
				b.putAt("rows", 1, "b", "\xff")
				b.putAt("rows", 1, "gone", "1")
				b.putAt("rows", 1, "gone", "null")
				b.putAt("in", 2, "a", "x")
				b.run(b.joined(skip), memlog.Faults{}, change).idle().drain()
				// The record that is next is older than the row that comes behind it.
				b.putAt("in", 3, "a", "y")
				b.putAt("in", 3, "b", "y")
				b.putAt("in", 3, "gone", "y")
				b.putAt("rows", 4, "a", "2")
				b.putAt("in", 5, "a", "z")
				s := b.run(b.joined(skip), memlog.Faults{}, change).idle()
				s.drain()
				require.Equal(t, []string{"a=x:1:true", "a=y:1:true", "b=y:1:true", "gone=y::false", "a=z:2:true"}, b.texts("out", 0))
				b.putAt("in", 6, "a", "again")
				s = b.run(b.joined(skip), memlog.Faults{}, change).idle()
				s.drain()
				require.Equal(t, "a=again:2:true", b.texts("out", 0)[5])
				if engine == "disk" {
					require.Zero(t, s.app.Stats().Restored, "all of it was on disk")
				}
				// An administrator sets the group back: the table is that of then.
				b.log.SetCommitted("app", map[commitlog.TopicPartition]int64{inPart(0): 1, {Topic: "rows"}: 5})
				b.run(b.joined(skip), memlog.Faults{}, change).idle().drain()
				require.Equal(t, []string{"a=y:1:true", "b=y:1:true", "gone=y::false", "a=z:2:true", "a=again:2:true"}, b.texts("out", 0)[6:])
			})
		})
	}
}

// A table whose disk is older than the deletions that its topic keeps is read anew: a deletion that was compacted away before the group came to it would never come.
func TestE4ATableThatMissedDeletionsIsReadAnew(t *testing.T) {
	for _, away := range []time.Duration{time.Hour, 25 * time.Hour} {
		onBench(t, 1, func(t *testing.T, b *bench) {
			b.create("rows", 1, map[string]string{"cleanup.policy": "compact"})
			d := newDisk(t)
			b.putAt("rows", 1, "a", "1")
			b.putAt("rows", 1, "b", "1")
			b.putAt("in", 2, "a", "x")
			b.run(b.joined(), memlog.Faults{}, onDisk(d)).idle().drain()
			b.putAt("rows", 3, "a", "null")
			b.putAt("rows", 3, "c", "1")
			if away > 24*time.Hour {
				require.NoError(t, b.log.Compact("rows", memlog.CompactOptions{Tombstones: true}))
			}
			time.Sleep(away)
			b.putAt("in", 4, "a", "y")
			b.putAt("in", 4, "b", "y")
			b.run(b.joined(), memlog.Faults{}, onDisk(d)).idle().drain()
			require.Equal(t, []string{"a=x:1:true", "a=y::false", "b=y:1:true"}, b.texts("out", 0), "%v", away)
		})
	}
}

// A codec that panics while a table is restored from its topic ends the run with the partition and the offset.
func TestACodecThatPanicsWhileATableIsRestored(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.create("rows", 1, map[string]string{"cleanup.policy": "compact"})
		panics := false
		text := deadlyCodec{codec.String, func(v string) {
			if panics && v == "secret" {
				panic("top secret")
			}
		}}
		tb := topology.New("app")
		rows := tb.Table("rows", ops.Source(ops.NewTopic("rows", codec.String, text), anywhere))
		tb.From(ops.Source(benchIn, anywhere)).LeftJoin(rows, func(v, row string, ok bool) string { return v + row }).To(ops.Sink(benchOut))
		plan, err := tb.Build()
		require.NoError(t, err)
		b.putTo("rows", 0, "k", "1", "k", "secret")
		s := b.run(plan, memlog.Faults{}).idle()
		s.drain()
		panics = true
		var pe *ops.PanicError
		err = <-b.run(plan, memlog.Faults{}).end
		require.ErrorAs(t, err, &pe)
		require.ErrorContains(t, err, "restore rows/0: offset 1: panic: a value of type string")
	})
}

// Deleted offsets of a table's topic are no loss: its records are processed again, into the same rows. Those of the stream beside it are told of as ever, since the
// group's other offsets are there.
func TestATableWithoutOffsetsBeginsAnew(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.create("rows", 1, map[string]string{"cleanup.policy": "compact"})
		b.putAt("rows", 1, "a", "1")
		b.putAt("in", 2, "a", "x")
		b.run(b.joined(), memlog.Faults{}).idle().drain()
		b.log.SetCommitted("app", map[commitlog.TopicPartition]int64{inPart(0): 1, {Topic: "rows"}: -1})
		b.putAt("in", 3, "a", "y")
		b.run(b.joined(), memlog.Faults{}).idle().drain()
		require.Equal(t, []string{"a=x:1:true", "a=y:1:true"}, b.texts("out", 0))
	})
}

// Two tables joined against maps: whatever comes and goes in either, in whatever transactions and over restarts, the results written are a table that is their
// join, and each result is a change.
func TestJoinedTablesAreTheJoinOfMaps(t *testing.T) {
	text := codec.String
	for seed := range uint64(15) {
		onBench(t, 1, func(t *testing.T, b *bench) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			for _, topic := range []string{"left", "right", "joined"} {
				b.create(topic, 1, map[string]string{"cleanup.policy": "compact"})
			}
			plan := func() *topology.Plan {
				tb := topology.New("app")
				left := tb.Table("left", ops.Source(ops.NewTopic("left", text, text)))
				right := tb.From(ops.Source(ops.NewTopic("right", text, codec.Nullable(text)))).Table(ops.NewState("right", text, codec.Nullable(text)))
				topology.JoinTables(left, right, func(l string, r *string) string { return l + "+" + *r }, ops.ValueCodec(codec.Nullable(text))).
					To(ops.Sink(ops.NewTopic("joined", text, codec.Nullable(text))))
				p, err := tb.Build()
				require.NoError(t, err)
				return p
			}
			maps := []map[string]string{{}, {}}
			ms := int64(0)
			for range 3 {
				s := b.run(plan(), memlog.Faults{})
				for range 40 {
					side, key := rnd.IntN(2), fmt.Sprint(rnd.IntN(4))
					value := fmt.Sprint(rnd.IntN(100))
					if rnd.IntN(3) == 0 {
						value = "null"
						delete(maps[side], key)
					} else {
						maps[side][key] = value
					}
					ms++
					b.putAt([]string{"left", "right"}[side], ms, key, value)
					if rnd.IntN(5) == 0 {
						s.idle()
					}
				}
				s.idle().drain()
			}
			want, got := map[string]string{}, map[string]string{}
			for k, l := range maps[0] {
				if r, ok := maps[1][k]; ok {
					want[k] = l + "+" + r
				}
			}
			recs, err := b.log.Records("joined", 0, commitlog.ReadCommitted)
			require.NoError(t, err)
			for _, r := range recs {
				if r.Value == nil {
					_, had := got[string(r.Key)]
					require.True(t, had, "what was not there is not deleted")
					delete(got, string(r.Key))
				} else {
					got[string(r.Key)] = string(r.Value)
				}
			}
			require.Equal(t, want, got, "seed %d", seed)
		})
	}
}

// The same on brokers: a stream under another key is brought to the table's partitions, by two instances, and a restart goes on.
func TestJoinOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 2)
		rows := r.app + "-rows"
		require.NoError(t, r.c.CreateTopic(t.Context(), rows, 3, map[string]string{"cleanup.policy": "compact"}))
		text := codec.String
		tb := topology.New(r.app)
		table := tb.Table("rows", ops.Source(ops.NewTopic(rows, text, text)))
		tb.From(ops.Source(ops.NewTopic(r.in, text, text))).
			Rekey("by-value", func(_, v string) string { return v }).
			Join(table, func(v, row string) string { return v + ":" + row }).
			To(ops.Sink(ops.NewTopic(r.out, text, text)))
		plan, err := tb.Build()
		require.NoError(t, err)
		var recs []kafka.Record
		for n := range 20 {
			recs = append(recs, kafka.Record{Topic: rows, Key: fmt.Append(nil, n), Value: fmt.Append(nil, "row ", n)})
		}
		require.NoError(t, r.c.Produce(t.Context(), recs...))
		first, second := launch(t, b, plan), launch(t, b, plan)
		first.await("the rows", func() bool { return first.app.Stats().In[rows]+second.app.Stats().In[rows] == 20 })
		for n := range 25 {
			r.put(fmt.Sprint("k", n), fmt.Sprint(n))
		}
		r.settle(first)
		got := map[string]bool{}
		check := func(more int) {
			t.Helper()
			for _, p := range pairs(r.read(r.out)) {
				got[p] = true
			}
			require.Len(t, r.read(r.out), 20+more, "those without a row are left out")
			for n := range 20 {
				require.True(t, got[fmt.Sprintf("%d=%d:row %d", n, n, n)], "%v", got)
			}
		}
		check(0)
		first.drain()
		second.drain()
		require.NoError(t, r.c.Produce(t.Context(), kafka.Record{Topic: rows, Key: []byte("7"), Value: []byte("new")}))
		third := launch(t, b, plan)
		third.await("the row", func() bool { return third.app.Stats().In[rows] == 1 })
		r.put("k", "7", "k", "8")
		r.settle(third)
		check(2)
		require.True(t, got["7=7:new"])
	})
}
