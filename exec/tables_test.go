package exec_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

var benchTable = globaltable.New("table", codec.String, codec.String)

// homes runs a test with the table in memory, on disk (G7), and with a cache of rows.
func homes(t *testing.T, f func(t *testing.T, table globaltable.Table[string, string])) {
	t.Run("memory", func(t *testing.T) { f(t, benchTable) })
	t.Run("disk", func(t *testing.T) { f(t, benchTable.OnDisk("")) })
	t.Run("cached", func(t *testing.T) { f(t, benchTable.CacheRows(3)) })
}

// looking is a plan that joins each record with the row of its value.
func (b *bench) looking(table globaltable.Table[string, string], left bool) *topology.Plan {
	b.t.Helper()
	s := topology.New("app").From(ops.Source(benchIn))
	key := func(_, v string) string { return v }
	if left {
		s = s.LeftLookup(table, key, func(v, row string, ok bool) string { return fmt.Sprint(v, ":", row, ":", ok) })
	} else {
		s = s.Lookup(table, key, func(v, row string) string { return v + ":" + row })
	}
	plan, err := s.To(ops.Sink(benchOut)).Build()
	require.NoError(b.t, err)
	return plan
}

// CF-01, CF-04, CF-11, CF-18: every instance reads all partitions of a table, whatever their number, before it joins its group, and
// follows them.
func TestCF01TablesAreReadInFullAndFollowed(t *testing.T) {
	homes(t, testCF01TablesAreReadInFullAndFollowed)
}

func testCF01TablesAreReadInFullAndFollowed(t *testing.T, table globaltable.Table[string, string]) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		b.create("table", 5, nil)
		for p := range int32(5) {
			b.putTo("table", p, fmt.Sprint("r", p), "old", fmt.Sprint("r", p), fmt.Sprint("v", p))
		}
		b.putTo("table", 0, "gone", "x", "gone", "null")
		b.put(0, "k", "r1", "k", "gone", "k", "r4")
		b.put(1, "k1", "r0", "k1", "never")
		var seats []*seat
		for range 2 {
			seats = append(seats, b.run(b.looking(table, false), memlog.Faults{OpenMember: func(context.Context, commitlog.MemberConfig) error {
				for _, s := range b.seats {
					view, err := s.app.Table(table)
					require.NoError(t, err)
					require.NoError(t, view.Ready(t.Context()))
					require.GreaterOrEqual(t, view.Len(), int64(5))
				}
				return nil
			}}).idle())
		}
		require.Equal(t, []string{"k=r1:v1", "k=r4:v4"}, b.texts("out", 0))
		require.Equal(t, []string{"k1=r0:v0"}, b.texts("out", 1))
		b.putTo("table", 3, "never", "now", "r0", "new")
		time.Sleep(time.Second)
		b.put(0, "k", "never", "k", "r0")
		b.put(1, "k1", "never", "k1", "r0")
		for seats[1].app.Stats().Tasks != 1 {
			time.Sleep(time.Second)
		}
		seats[0].idle()
		require.Equal(t, []string{"k=r1:v1", "k=r4:v4", "k=never:now", "k=r0:new"}, b.texts("out", 0))
		require.Equal(t, []string{"k1=r0:v0", "k1=never:now", "k1=r0:new"}, b.texts("out", 1))
		missed := int64(0)
		for _, s := range seats {
			stats := s.app.Stats()
			missed += stats.Counters[`Lookup "table"`][ops.CountMissed]
			require.EqualValues(t, 6, stats.Tables["table"].Rows)
			require.EqualValues(t, 14, stats.Tables["table"].Read)
			s.drain()
		}
		require.EqualValues(t, 2, missed)
		offsets, err := b.log.CommittedOffsets(t.Context(), "app", []commitlog.TopicPartition{{Topic: "table"}})
		require.NoError(t, err)
		require.Empty(t, offsets, "a table has no group")
	})
}

// A left lookup keeps what has no row.
func TestCF09LeftLookup(t *testing.T) { homes(t, testCF09LeftLookup) }

func testCF09LeftLookup(t *testing.T, table globaltable.Table[string, string]) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.create("table", 1, nil)
		b.putTo("table", 0, "a", "1", "empty", "")
		b.put(0, "k", "a", "k", "b", "k", "empty")
		s := b.run(b.looking(table, true), memlog.Faults{}).idle()
		s.drain()
		require.Equal(t, []string{"k=a:1:true", "k=b::false", "k=empty::false"}, b.texts("out", 0))
		require.EqualValues(t, 2, s.app.Stats().Counters[`LeftLookup "table"`][ops.CountMissed])
	})
}

// CF-12: what was aborted is never seen, what is open is when it commits; CF-02: the start does not wait for it.
func TestCF12TablesAreReadCommitted(t *testing.T) { homes(t, testCF12TablesAreReadCommitted) }

func testCF12TablesAreReadCommitted(t *testing.T, table globaltable.Table[string, string]) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.create("table", 1, nil)
		write := func(key, value string) commitlog.Producer {
			p, err := b.log.OpenProducer(t.Context(), commitlog.ProducerConfig{TransactionalID: "writer"})
			require.NoError(t, err)
			builder := commitlog.NewBuilder(commitlog.NewPool(1000))
			builder.Append(1, []byte(key), []byte(value), nil, 0)
			require.NoError(t, p.Produce(t.Context(), commitlog.TopicPartition{Topic: "table"}, builder.Take()))
			return p
		}
		require.NoError(t, write("a", "aborted").Abort(t.Context()))
		open := write("b", "committed")
		b.put(0, "k", "a", "k", "b")
		s := b.run(b.looking(table, true), memlog.Faults{}).idle()
		require.Equal(t, []string{"k=a::false", "k=b::false"}, b.texts("out", 0))
		_, err := open.Commit(t.Context(), nil, commitlog.GroupMetadata{})
		require.NoError(t, err)
		require.NoError(t, write("a", "aborted again").Abort(t.Context()))
		time.Sleep(time.Second)
		b.put(0, "k", "a", "k", "b")
		s.idle().drain()
		require.Equal(t, []string{"k=a::false", "k=b:committed:true"}, b.texts("out", 0)[2:])
	})
}

// G5: all records of a batch see one table, whatever comes meanwhile.
func TestG5ABatchSeesOneTable(t *testing.T) { homes(t, testG5ABatchSeesOneTable) }

func testG5ABatchSeesOneTable(t *testing.T, table globaltable.Table[string, string]) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.create("table", 1, nil)
		b.putTo("table", 0, "a", "1")
		first := sync.OnceFunc(func() {
			b.putTo("table", 0, "a", "2")
			time.Sleep(time.Second) // it is followed meanwhile
		})
		key := func(_, v string) string {
			first()
			return v
		}
		plan, err := topology.New("app").From(ops.Source(benchIn)).Lookup(table, key, func(v, row string) string { return row }).To(ops.Sink(benchOut)).Build()
		require.NoError(t, err)
		b.put(0, "k", "a", "k", "a", "k", "a")
		s := b.run(plan, memlog.Faults{}).idle()
		require.Equal(t, []string{"k=1", "k=1", "k=1"}, b.texts("out", 0))
		b.put(0, "k", "a")
		s.idle().drain()
		require.Equal(t, "k=2", b.texts("out", 0)[3])
	})
}

// G6: a topology may write the topic of a table; the rows come back to it when they are committed.
func TestCF20ATopologyWritesATable(t *testing.T) { homes(t, testCF20ATopologyWritesATable) }

func testCF20ATopologyWritesATable(t *testing.T, table globaltable.Table[string, string]) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.create("table", 3, nil)
		bld := topology.New("app")
		in := bld.From(ops.Source(benchIn))
		in.To(ops.Sink(ops.NewTopic("table", codec.String, codec.String)))
		in.LeftLookup(table, func(k, _ string) string { return k }, func(v, row string, _ bool) string { return v + " after " + row }).To(ops.Sink(benchOut))
		plan, err := bld.Build()
		require.NoError(t, err)
		require.Equal(t, "table", plan.Topics()[2].Name)
		require.Equal(t, topology.TableTopic, plan.Topics()[2].Kind)
		s := b.run(plan, memlog.Faults{})
		for _, v := range []string{"1", "2", "3"} {
			b.put(0, "k", v)
			s.idle()
			time.Sleep(time.Second)
		}
		s.drain()
		require.Equal(t, []string{"k=1 after ", "k=2 after 1", "k=3 after 2"}, b.texts("out", 0))
	})
}

// A table that cannot be read is an error before the group is joined, one that cannot be followed ends the run in order.
func TestIN01ATableThatCannotBeRead(t *testing.T) {
	table := globaltable.New("table", codec.String, codec.Int64)
	plan, err := topology.New("app").From(ops.Source(benchIn)).
		Lookup(table, func(k, _ string) string { return k }, func(v string, _ int64) string { return v }).To(ops.Sink(benchOut)).Build()
	require.NoError(t, err)
	const text = "table table: topic table partition 0 offset 1: value: "
	t.Run("start", func(t *testing.T) {
		onBench(t, 1, func(t *testing.T, b *bench) {
			b.create("table", 1, nil)
			b.putTo("table", 0, "k", "12345678", "k", "secret")
			err := <-b.run(plan, memlog.Faults{OpenMember: func(context.Context, commitlog.MemberConfig) error { panic("it joins") }}).end
			var re *globaltable.RecordError
			require.ErrorAs(t, err, &re)
			require.ErrorContains(t, err, text)
			require.NotContains(t, err.Error(), "secret")
		})
	})
	t.Run("later", func(t *testing.T) {
		onBench(t, 1, func(t *testing.T, b *bench) {
			b.create("table", 1, nil)
			b.putTo("table", 0, "k", "12345678")
			b.put(0, "k", "v")
			s := b.run(plan, memlog.Faults{}).idle()
			b.putTo("table", 0, "k", "secret")
			err := <-s.end
			require.ErrorContains(t, err, text)
			require.Equal(t, []string{"k=v"}, b.texts("out", 0))
			require.EqualValues(t, 1, b.offset(0))
			require.Empty(t, b.log.Group("app").Members, "it has left")
		})
	})
	t.Run("broken log", func(t *testing.T) {
		onBench(t, 1, func(t *testing.T, b *bench) {
			b.create("table", 1, nil)
			b.putTo("table", 0, "k", "12345678")
			no := errors.New("no")
			require.ErrorIs(t, <-b.run(plan, memlog.Faults{Fetch: func(commitlog.TopicPartition) error { return no }}).end, no)
		})
	})
	t.Run("ended while it is read", func(t *testing.T) {
		onBench(t, 1, func(t *testing.T, b *bench) {
			b.create("table", 1, nil)
			b.putTo("table", 0, "k", "12345678")
			release := make(chan struct{})
			s := b.run(plan, memlog.Faults{Fetch: func(commitlog.TopicPartition) error { <-release; return nil }})
			synctest.Wait()
			s.cancel()
			synctest.Wait()
			close(release)
			require.NoError(t, <-s.end)
		})
	})
}

// VA-03: a table's topic that does not exist, with the command that creates it. VA-04: one whose partitions come later.
func TestVA03TablesTopics(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		err := <-b.run(b.looking(benchTable, false), memlog.Faults{}).end
		var te *exec.TopicsError
		require.ErrorAs(t, err, &te)
		require.ErrorContains(t, err, "table topic table does not exist: create it with kafka-topics.sh --bootstrap-server BROKERS --create --topic table --partitions N --config cleanup.policy=compact")
		b.create("table", 1, nil)
		s := b.run(b.looking(benchTable, false), memlog.Faults{}).idle()
		b.log.DeleteTopics("table")
		b.create("table", 1, nil)
		err = <-s.end
		require.ErrorContains(t, err, "topic table was deleted and created again while the plan runs")
	})
}

// A view of a table that the plan does not have.
func TestATableOfAnotherPlan(t *testing.T) {
	b := &bench{t: t}
	app, err := exec.New(b.looking(benchTable, false), exec.Config{Log: memlog.New(memlog.Options{})})
	require.NoError(t, err)
	_, err = app.Table(benchTable.SkipInvalid())
	require.ErrorContains(t, err, "wicker: app: the plan does not look up in table table, or in another value of that name")
	_, err = app.Table(globaltable.Table[string, string]{})
	require.ErrorContains(t, err, "has no name")
	view, err := app.Table(benchTable)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, view.Ready(ctx), context.Canceled)
	require.True(t, strings.HasPrefix(fmt.Sprint(view.Len()), "0"))
}

// deadlyCodec calls die with each string that it decodes.
type deadlyCodec struct {
	codec.Codec[string]
	die func(string)
}

func (c deadlyCodec) Decode(b []byte) (string, error) {
	v, err := c.Codec.Decode(b)
	c.die(v)
	return v, err
}

// A table's functions, and its codecs, that panic or end their goroutine end the run with the record's coordinates, before the group is joined or later, and
// never leave a table that is read in part for one that is read. They used to end the process, or to be missed.
func TestTablesFunctionsThatDoNotReturn(t *testing.T) {
	for name, die := range map[string]func(){"panic": func() { panic("top secret") }, "exit": runtime.Goexit} {
		deadly := func(v string) {
			if v == "bad" {
				die()
			}
		}
		enriched := benchTable.Enrich(func(_, v string) (string, error) {
			deadly(v)
			return v, nil
		})
		decoded := deadlyCodec{codec.String, deadly}
		for at, table := range map[string]globaltable.Table[string, string]{
			"enrich": enriched, "enrich on disk": enriched.OnDisk("1"), "codec": globaltable.New("table", codec.String, decoded).SkipInvalid(),
		} {
			check := func(t *testing.T, err error) {
				t.Helper()
				if name == "exit" {
					require.ErrorIs(t, err, ops.ErrExited)
					require.ErrorContains(t, err, "table table: ")
					return
				}
				var pe *ops.PanicError
				require.ErrorAs(t, err, &pe)
				require.Regexp(t, `table table: topic table partition 0 offset 1: function: panic: a value of type string \(\S*TestTablesFunctionsThatDoNotReturn\S* tables_test.go:`, err.Error())
				require.NotContains(t, err.Error(), "SkipInvalid")
			}
			t.Run(name+" "+at, func(t *testing.T) {
				onBench(t, 1, func(t *testing.T, b *bench) {
					b.create("table", 1, nil)
					b.putTo("table", 0, "k", "good", "k", "bad")
					check(t, <-b.run(b.looking(table, true), memlog.Faults{OpenMember: func(context.Context, commitlog.MemberConfig) error { panic("it joins") }}).end)
				})
				onBench(t, 1, func(t *testing.T, b *bench) {
					b.create("table", 1, nil)
					b.putTo("table", 0, "k", "good")
					s := b.run(b.looking(table, true), memlog.Faults{}).idle()
					b.putTo("table", 0, "k", "bad")
					check(t, <-s.end)
				})
			})
		}
	}
}
