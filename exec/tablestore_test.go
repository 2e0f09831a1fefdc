package exec_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

// rowsOf returns an instance's rows of a table.
func rowsOf(t *testing.T, s *seat, table globaltable.Table[string, string]) map[string]string {
	t.Helper()
	view, err := s.app.Table(table)
	require.NoError(t, err)
	rows := map[string]string{}
	for k, v := range view.All(&err) {
		rows[k] = v
	}
	require.NoError(t, err)
	return rows
}

// G7: a start reads of a table on disk what has come since, whether the last process ended in order or not.
func TestG7AStartReadsWhatHasCome(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.create("table", 2, nil)
		table := benchTable.OnDisk("")
		d := newDisk(t)
		want := map[string]string{}
		put := func(p int32, key, value string) {
			b.putTo("table", p, key, value)
			if want[key] = value; value == "null" {
				delete(want, key)
			}
		}
		for i := range 40_000 { // enough for a load in bulk
			put(int32(i%2), fmt.Sprint("r", i%30_000), fmt.Sprint("v", i))
		}
		come := 40_000
		for round := range 5 {
			engine := &diskEngine{disk: d}
			var log lines
			s := b.run(b.looking(table, true), memlog.Faults{}, func(c *exec.Config) { c.State = engine }, logTo(&log, slog.LevelInfo)).idle()
			require.Equal(t, want, rowsOf(t, s, table))
			read := s.app.Stats().Tables["table"].Read
			require.EqualValues(t, come, read)
			put(0, "r0", fmt.Sprint("live", round))
			put(1, "r1", "null")
			time.Sleep(time.Second)
			require.Equal(t, want, rowsOf(t, s, table))
			require.NotContains(t, log.text(), "anew")
			require.NotContains(t, log.text(), "left as they are")
			if round%2 == 0 {
				s.drain()
			} else {
				engine.dead.Store(true)
				put(0, "r2", fmt.Sprint("unseen", round))
				require.ErrorContains(t, <-s.end, "the process is dead")
				come = 1
				continue
			}
			come = 3
			put(0, "r2", fmt.Sprint("between", round))
			put(1, "r3", "x")
			put(1, "r3", "null")
		}
	})
}

// G7: a table on disk whose topics, functions or files are not those of its rows is read anew, and the log says why.
func TestG7ATableIsReadAnew(t *testing.T) {
	enrich := func(suffix string) func(string, string) (string, error) {
		return func(_, v string) (string, error) { return v + suffix, nil }
	}
	table := benchTable.Enrich(enrich("!")).OnDisk("1")
	for name, tt := range map[string]struct {
		next   globaltable.Table[string, string]
		change func(t *testing.T, b *bench, d *disk)
		reason string
		want   string // of the row a
	}{
		"nothing":   {table, nil, "", "1!"},
		"version":   {benchTable.Enrich(enrich("?")).OnDisk("2"), nil, `its rows are of version \"1\", the table's is \"2\"`, "1?"},
		"no enrich": {benchTable.OnDisk("1"), nil, "its rows were made with Enrich true, the table has false", "1"},
		"skip":      {table.SkipInvalid(), nil, "its rows were made with SkipInvalid false, the table has true", "1!"},
		"substitute": {table.SubstituteInvalid(func(globaltable.InvalidRecord) (string, bool) { return "", false }), nil,
			"its rows were made with SubstituteInvalid false, the table has true", "1!"},
		"topics": {table.Topics("table", "more"), nil, `it is of the topics [\"table\"], the table of [\"more\" \"table\"]`, "1!"},
		"codec": {globaltable.New("table", codec.String, other{codec.String}).Enrich(enrich("!")).OnDisk("1"), nil,
			"its rows were made with value codec string, the table has exec_test.other", "1!"},
		"created again": {table, func(t *testing.T, b *bench, _ *disk) {
			b.log.DeleteTopics("table")
			b.create("table", 1, nil)
			b.putTo("table", 0, "a", "2", "b", "2", "c", "2", "d", "2")
		}, "topic table was created again: it has id ", "2!"},
		"truncated": {table, func(t *testing.T, b *bench, d *disk) {
			var batch kvstore.Batch
			batch.SetCheckpoint("table-0", 9)
			require.NoError(t, d.stores["app/table/table"].Write(&batch))
		}, "checkpoint 9 of table/0 lies beyond its end 3", "1!"},
		"old": {table, func(t *testing.T, b *bench, _ *disk) {
			time.Sleep(23 * time.Hour)
			b.putTo("table", 0, "b", "null", "c", "3")
			time.Sleep(2 * time.Hour)
			require.NoError(t, b.log.Compact("table", memlog.CompactOptions{Tombstones: true}))
		}, "it was last in step with its topics 25h0m", "1!"},
		"foreign": {table, func(t *testing.T, b *bench, d *disk) {
			var batch kvstore.Batch
			batch.SetMeta("wicker", []byte("{"))
			require.NoError(t, d.stores["app/table/table"].Write(&batch))
		}, "corrupt", "1!"},
		"format": {table, func(t *testing.T, b *bench, d *disk) {
			var batch kvstore.Batch
			batch.SetMeta("wicker", []byte(`{"format":2,"new":true}`))
			require.NoError(t, d.stores["app/table/table"].Write(&batch))
		}, "it has format 2, want 1", "1!"},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				b.create("table", 1, nil)
				b.create("more", 1, nil)
				d := newDisk(t)
				b.putTo("table", 0, "a", "1", "b", "1", "c", "1")
				b.run(b.looking(table, true), memlog.Faults{}, onDisk(d)).idle().drain()
				if tt.change != nil {
					tt.change(t, b, d)
				}
				var log lines
				s := b.run(b.looking(tt.next, true), memlog.Faults{}, onDisk(d), logTo(&log, slog.LevelInfo)).idle()
				if tt.reason == "" {
					require.NotContains(t, log.text(), "anew")
					require.Zero(t, s.app.Stats().Tables["table"].Read)
				} else {
					require.Contains(t, log.text(), `msg="table is read anew" table=table reason=`)
					require.Contains(t, log.text(), tt.reason)
					require.GreaterOrEqual(t, s.app.Stats().Tables["table"].Read, int64(2))
				}
				rows := rowsOf(t, s, tt.next)
				require.Equal(t, tt.want, rows["a"])
				if name == "old" {
					require.Equal(t, map[string]string{"a": "1!", "c": "3!"}, rows, "b was deleted long ago")
				}
				s.drain()
				// And the next start goes on with it.
				s = b.run(b.looking(tt.next, true), memlog.Faults{}, onDisk(d)).idle()
				require.Zero(t, s.app.Stats().Tables["table"].Read)
				require.Equal(t, rows, rowsOf(t, s, tt.next))
				s.drain()
			})
		})
	}
}

// other is a codec of another name.
type other struct{ codec.Codec[string] }

// A table with little to read notes within the hour how far it is, so that after a crash it is young enough to go on (pain 20), also when it has run for days, and brokers
// have not answered for hours.
func TestG7AQuietTableStaysYoung(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.create("table", 1, nil)
		table := benchTable.OnDisk("")
		d := newDisk(t)
		engine := &lossyEngine{&diskEngine{disk: d}}
		var silent atomic.Bool
		faults := memlog.Faults{Admin: func(_ context.Context, method string) error {
			if method == "EndOffsets" && silent.Load() {
				return errors.New("no answer")
			}
			return nil
		}}
		var first lines
		s := b.run(b.looking(table, true), faults, func(c *exec.Config) { c.State = engine }, logTo(&first, slog.LevelInfo)).idle()
		want := map[string]string{}
		for i := range 300 { // 50 hours
			key, value := fmt.Sprint("r", i%20), fmt.Sprint("v", i)
			b.putTo("table", 0, key, value)
			want[key] = value
			silent.Store(i > 100 && i < 150)
			time.Sleep(10 * time.Minute)
		}
		require.Contains(t, first.text(), `msg="where the table's topics end is not known" table=table error="no answer"`)
		engine.dead.Store(true)
		s.log.Close()
		s.cancel()
		<-s.end
		b.putTo("table", 0, "r0", "null")
		delete(want, "r0")
		time.Sleep(22 * time.Hour)
		var log lines
		s = b.run(b.looking(table, true), memlog.Faults{}, onDisk(d), logTo(&log, slog.LevelInfo)).idle()
		require.NotContains(t, log.text(), "anew")
		require.LessOrEqual(t, s.app.Stats().Tables["table"].Read, int64(9))
		require.Equal(t, want, rowsOf(t, s, table))
		s.drain()
	})
}

// The table is there for tasks that end in order, as long as they need it.
func TestG7TheTableOutlivesItsTasks(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.create("table", 1, nil)
		b.putTo("table", 0, "a", "1")
		table := benchTable.OnDisk("")
		inside, release := make(chan struct{}), make(chan struct{})
		plan, err := topology.New("app").From(ops.Source(benchIn)).Lookup(table, func(k, v string) string {
			if k == "slow" {
				close(inside)
				<-release
			}
			return v
		}, func(v, row string) string { return row }).To(ops.Sink(benchOut)).Build()
		require.NoError(t, err)
		b.put(0, "slow", "a", "k", "a")
		s := b.run(plan, memlog.Faults{}, onDisk(newDisk(t)))
		<-inside
		s.cancel()
		synctest.Wait()
		close(release)
		require.NoError(t, <-s.end)
		require.Equal(t, []string{"slow=1"}, b.texts("out", 0)[:1])
	})
}

// A table's store has a name that fits, or the start says which does not.
func TestG7ATablesName(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.create("table", 1, nil)
		long := globaltable.New(strings.Repeat("t", 300), codec.String, codec.String).Topics("table").OnDisk("")
		err := <-b.run(b.looking(long, true), memlog.Faults{}).end
		require.ErrorIs(t, err, kvstore.ErrName)
		require.ErrorContains(t, err, "table ttt")
	})
}
