package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/kvstore/rocksdb"
	"github.com/wickerwork/wicker/testkit/kafka"
)

// TestMain makes this program the worker that a driver in it starts.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "-worker" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := worker(ctx, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// Instances in processes of their own restore a stock, also after they were killed, and what they put out
// is what its state calls for.
func TestStateIsRestored(t *testing.T) {
	if err := rocksdb.New(rocksdb.Options{Dir: t.TempDir()}).Open(); errors.Is(err, kvstore.ErrUnavailable) {
		t.Skip(err)
	}
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		const keys = 50_000 // enough that they do not stay in memory
		g, err := newGroupAdmin(b.Addr())
		require.NoError(t, err)
		defer g.close()
		d := &driver{settings: settings{keys: keys, dir: t.TempDir()}, broker: b, client: b.Client(t), groups: g, trickleTime: time.Second}
		picked, err := pick([]string{"restore", "crash"})
		require.NoError(t, err)
		for i, s := range []*scenario{picked[0], picked[1], picked[0]} {
			m, err := d.run(t.Context(), s, s.rows[0], nil, false)
			require.NoError(t, err, "%s, run %d", s.name, i)
			require.Empty(t, m.Problem, "%s, run %d", s.name, i)
			require.Positive(t, m.Outputs)
			if s.name == "crash" {
				require.Less(t, m.Figures["replayed_records"], float64(keys), "not all of the changelog once more")
				require.GreaterOrEqual(t, m.Figures["first_output_s"], m.Figures["running_s"])
			} else {
				require.GreaterOrEqual(t, m.Records, int64(keys))
			}
		}
	})
}

// Each of Wicker's programs turns a small input into exactly what its scenario expects, as the
// worker runs it.
func TestScenariosComputeWhatIsExpected(t *testing.T) {
	if err := rocksdb.New(rocksdb.Options{Dir: t.TempDir()}).Open(); errors.Is(err, kvstore.ErrUnavailable) {
		t.Skip(err)
	}
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		c := b.Client(t)
		d := dataset{kafka.Name(t), 3000}
		_, err := load(t.Context(), c, b.Addr(), d)
		require.NoError(t, err)
		again, err := load(t.Context(), c, b.Addr(), d)
		require.NoError(t, err)
		require.EqualValues(t, d.records, sum(again), "what is there is not loaded again")
		for _, s := range scenarios() {
			if s.play != nil {
				continue
			}
			t.Run(s.name, func(t *testing.T) {
				s.input = d
				want, err := expected(t.Context(), c, b.Addr(), s)
				require.NoError(t, err)
				j := job{App: kafka.Name(t), In: d.topic, State: t.TempDir(), Broker: b.Addr()}
				j.Out = j.App + "-out"
				require.NoError(t, c.CreateTopic(t.Context(), j.Out, partitions, nil))
				m, err := work(t.Context(), s, j)
				require.NoError(t, err)
				require.EqualValues(t, d.records, m.Records)
				require.Positive(t, m.PeakMemory)
				require.Positive(t, m.RecordsPerSecond)
				got, err := outcome(t.Context(), c, b.Addr(), j.Out)
				require.NoError(t, err)
				require.Empty(t, want.differs(got, s.ordered))
			})
		}
	})
}

func TestDigestTellsWhatIsWrong(t *testing.T) {
	records := func(keys ...string) *digest {
		d := &digest{}
		for _, k := range keys {
			d.add(1, []byte(k), []byte("v"))
		}
		return d
	}
	want := records("a", "b", "b")
	require.Empty(t, want.differs(records("a", "b", "b"), true))
	require.Contains(t, want.differs(records("a", "b"), false), "2 records, want 3")
	require.Contains(t, want.differs(records("a", "b", "c"), false), "other keys or values")
	require.Contains(t, want.differs(records("a", "a", "b"), false), "other keys or values")
	require.Empty(t, want.differs(records("b", "a", "b"), false))
	require.Contains(t, want.differs(records("b", "a", "b"), true), "order")
}

func TestGeneratorIsTheSameEachTime(t *testing.T) {
	a, b := newGenerator(), newGenerator()
	for range 1000 {
		k, v := a.next()
		k2, v2 := b.next()
		require.Equal(t, k, k2)
		require.Equal(t, v, v2)
		require.Regexp(t, `^k0{10}\d{5}$`, string(k))
		require.Regexp(t, `^\d{4}[!-~]{96}$`, string(v))
	}
}

func TestResult(t *testing.T) {
	s := scenarios()[1]
	r := newResult(s, map[string]string{"wicker": "abc"})
	for i, speed := range []float64{300, 100, 200} {
		r.add(s.rows[0], measurement{RecordsPerSecond: speed, CPUPerRecord: 1, PeakMemory: 1 << 20, Versions: map[string]string{"go": "go1"}})
		r.add(s.rows[1], measurement{RecordsPerSecond: 1, Seconds: 10, OtherCPU: 1.1 * float64(r.CPUs)})
		r.add(s.rows[2], measurement{RecordsPerSecond: speed / 2, CPUPerRecord: 4, Problem: []string{"", "1 records, want 2", ""}[i]})
	}
	require.Equal(t, "streams count-nocache", r.Targets.Baseline)
	require.Equal(t, 200.0, r.row("wicker", "count").Median.RecordsPerSecond)
	require.Equal(t, 2.0, r.Targets.SpeedReached)
	require.Equal(t, 0.25, r.Targets.CPUReached)
	require.Equal(t, map[string]string{"wicker": "abc", "go": "go1"}, r.Versions)
	require.EqualError(t, errors.Join(r.problems()...), "streams count-nocache, run 2: the output has 1 records, want 2")
	var out strings.Builder
	table(&out, []*result{r}, "no Java")
	require.Regexp(t, `count +wicker +0 +1\.00 +1 +2\.00 +>= 1\.50 +0\.25`, out.String())
	require.Contains(t, out.String(), "3 of 9 runs were disturbed")
	require.Contains(t, out.String(), "Kafka Streams was left out: no Java.")
}

func TestFiguresHaveTargetsAndATable(t *testing.T) {
	s := scenarios()[4]
	require.Equal(t, "crash", s.name)
	r := newResult(s, nil)
	of := func(running, replayed float64) measurement {
		return measurement{Figures: map[string]float64{"running_s": running, "replayed_records": replayed}}
	}
	r.add(s.rows[0], of(0.25, 1000))
	r.add(s.rows[0], of(0.75, 3000))
	r.add(s.rows[2], of(60, 5_001_000))
	require.Equal(t, map[string]float64{"running_s": 0.5, "replayed_records": 2000}, r.row("wicker", "crash").Median.Figures)
	require.Equal(t, map[string]float64{"running_s": 5}, r.Targets.Figures)
	var out strings.Builder
	table(&out, []*result{r}, "")
	require.NotContains(t, out.String(), "ratio")
	require.Regexp(t, `crash +wicker +0\.5 +2000 `, out.String())
	require.Regexp(t, `crash +streams +60 +5001000 `, out.String())
	require.Regexp(t, `target +wicker +<= 5`, out.String())
}

// The longest gap is that of arrivals in the window or around its ends.
func TestLongestGap(t *testing.T) {
	begin := time.Unix(0, 0)
	at := func(ms ...int) (times []time.Time) {
		for _, m := range ms {
			times = append(times, begin.Add(time.Duration(m)*time.Millisecond))
		}
		return times
	}
	window := at(1000, 2000, 3000)
	for _, c := range []struct {
		name     string
		arrivals []time.Time
		want     int
	}{
		{"none", nil, 2000},
		{"within", at(900, 1100, 1500, 1600, 2100), 500},
		{"silent until the end", at(900, 1100, 1900), 1100},
		{"over the window's beginning", at(400, 1100, 1900, 2900), 1000},
		{"over its end", at(990, 1900, 2999), 1099},
		{"before and after do not count", at(0, 900, 1000, 1400, 1800, 2000, 2900), 400},
		{"over all of it", at(500, 2900), 2400},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			require.Equal(t, time.Duration(c.want)*time.Millisecond, longestGap(c.arrivals, window[0], window[1], window[2]))
		})
	}
}

// Each record of a stock has a key of its own, and a state that goes by the key.
func TestStock(t *testing.T) {
	for _, keys := range []int{minKeys, 50_000} {
		s := &stock{keys: keys}
		seen := map[string]bool{}
		for i := range int64(keys) {
			seen[string(s.key(i))] = true
		}
		require.Len(t, seen, keys)
		require.Equal(t, s.key(7), s.key(7+int64(keys)))
		require.Equal(t, s.state(7), s.state(7+int64(keys)))
		require.NotEqual(t, s.state(7), s.state(8))
		require.Regexp(t, `^k\d{15}$`, string(s.key(7)))
		require.Regexp(t, `^0{8}[!-~]{192}$`, string(s.state(7)))
		d := &digest{}
		d.add(0, s.key(5), bump(s.state(5)))
		require.Empty(t, s.expected(5, 6).differs(d, true))
	}
}

func TestBump(t *testing.T) {
	state := []byte("00000009rest")
	require.Equal(t, "00000010rest", string(bump(state)))
	require.Equal(t, "00000009rest", string(state), "the state given is left as it is")
	require.Equal(t, "00000000rest", string(bump([]byte("99999999rest"))))
	require.Equal(t, "00000001"+strings.Repeat("0", 192), string(bump(nil)))
}

func TestMedian(t *testing.T) {
	of := func(values ...float64) float64 {
		var runs []measurement
		for _, v := range values {
			runs = append(runs, measurement{Seconds: v})
		}
		return median(runs, func(m measurement) float64 { return m.Seconds })
	}
	require.Equal(t, 0.0, of())
	require.Equal(t, 2.0, of(3, 1, 2))
	require.Equal(t, 2.5, of(4, 1, 2, 3))
}

func TestTraces(t *testing.T) {
	const text = `File: bench
Type: cpu
Duration: 2s, Total samples = 60ms
-----------+-------------------------------------------------------
      20ms   runtime.memmove
             github.com/wickerwork/wicker/exec/commitlog.(*Builder).Append
             github.com/wickerwork/wicker/exec.(*output).write
-----------+-------------------------------------------------------
      30ms   runtime.mallocgc (inline)
             github.com/wickerwork/wicker/exec.(*store).Put
-----------+-------------------------------------------------------
      10ms   [libc.so.6]
-----------+-------------------------------------------------------
      10ms   rocksdb_of_no_go_frame
             [libc.so.6]
`
	spent, inner, total := readTraces([]byte(text))
	require.Equal(t, 60*time.Millisecond, total)
	require.Equal(t, map[string]time.Duration{"encode records": 20 * time.Millisecond, "allocation": 30 * time.Millisecond, "other": 10 * time.Millisecond}, spent)
	require.Equal(t, 30*time.Millisecond, inner["runtime.mallocgc"])
}

func TestFlags(t *testing.T) {
	o := settings{runs: -1, keys: 1, sides: "one", dir: "d"}
	require.EqualError(t, o.validate(), "-runs (-1) must be >= 0\n-keys (1) must be >= 10000\n-sides (\"one\") must be both, wicker or streams")
	_, err := pick([]string{"map", "join"})
	require.EqualError(t, err, `scenario ("join") must be one of map, count, memo, restore, crash, rebalance, global`)
	picked, err := pick([]string{"memo", "map"})
	require.NoError(t, err)
	require.Equal(t, "memo", picked[0].name)
	require.True(t, bytes.HasPrefix(answerTo("0042"), []byte("answer to 0042")))
	require.Len(t, answerTo("0042"), answerSize)
}

// A table is read, by an instance in a process of its own, and each of its rows is found.
func TestTableIsLookedUpIn(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		self, err := os.Executable()
		require.NoError(t, err)
		d := &driver{settings: settings{dir: t.TempDir()}, broker: b, client: b.Client(t), pure: self}
		picked, err := pick([]string{"global"})
		require.NoError(t, err)
		s := picked[0]
		s.input.records = 20_000
		for _, row := range []row{s.rows[0], s.rows[0], s.rows[1]} {
			m, err := d.run(t.Context(), s, row, nil, false)
			require.NoError(t, err)
			require.Empty(t, m.Problem)
			require.EqualValues(t, s.input.records, m.Records)
			require.Positive(t, m.Figures["lookups_per_s"])
			require.Greater(t, m.Figures["rss_mib"], 4.0, "the table alone")
			_, again := m.Figures["again_s"]
			require.Equal(t, row.name == "global-disk", again)
		}
	})
}
