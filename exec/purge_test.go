package exec_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

const benchRepartition = "app-by-value-repartition"

// rekeyed is a plan that counts values.
func (b *bench) rekeyed() *topology.Plan {
	b.t.Helper()
	plan, err := topology.New("app").From(ops.Source(benchIn, anywhere)).
		Rekey("by-value", func(_, v string) string { return v }).
		Aggregate(ops.NewState("counts", codec.String, codec.Int64), func(_, _ string, n int64) int64 { return n + 1 }).
		To(ops.Sink(ops.NewTopic("out", codec.String, codec.JSON[int64]()))).Build()
	require.NoError(b.t, err)
	return plan
}

// purges is a connection that looks at what is deleted.
type purges struct {
	*memlog.Log
	b *bench
	sync.Mutex
	calls []map[commitlog.TopicPartition]int64
	fail  func() error
}

func (p *purges) DeleteRecords(ctx context.Context, below map[commitlog.TopicPartition]int64) error {
	p.Lock()
	defer p.Unlock()
	p.calls = append(p.calls, maps.Clone(below))
	for tp, offset := range below {
		assert.Equal(p.b.t, benchRepartition, tp.Topic)
		now, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
		committed, err := p.b.log.CommittedOffsets(now, "app", []commitlog.TopicPartition{tp})
		cancel()
		if err == nil { // else a transaction is about to move it
			assert.LessOrEqual(p.b.t, offset, committed[tp], "never above what is committed")
		}
	}
	if p.fail != nil {
		if err := p.fail(); err != nil {
			return err
		}
	}
	return p.Log.DeleteRecords(ctx, below)
}

// made returns the calls so far.
func (p *purges) made() []map[commitlog.TopicPartition]int64 {
	p.Lock()
	defer p.Unlock()
	return slices.Clone(p.calls)
}

// on has an instance use it.
func (p *purges) on(c *exec.Config) {
	p.Log = c.Log.(*memlog.Log)
	c.Log = p
}

// left returns how many offsets a topic holds, by partition.
func (b *bench) left(topic string, partitions int) []int64 {
	b.t.Helper()
	var tps []commitlog.TopicPartition
	for p := range partitions {
		tps = append(tps, commitlog.TopicPartition{Topic: topic, Partition: int32(p)})
	}
	starts, err := b.log.StartOffsets(b.t.Context(), tps)
	require.NoError(b.t, err)
	ends, err := b.log.EndOffsets(b.t.Context(), tps, commitlog.ReadUncommitted)
	require.NoError(b.t, err)
	var n []int64
	for _, tp := range tps {
		n = append(n, ends[tp]-starts[tp])
	}
	return n
}

// Repartition topics are purged every 30 s, of all partitions in one call and only where something has moved, and
// when a run ends in order.
func TestE12RepartitionTopicsArePurged(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		var p purges
		p.b = b
		s := b.run(b.rekeyed(), memlog.Faults{}, p.on)
		b.put(0, "k", "a", "k", "b", "k", "c", "k", "d")
		s.idle()
		time.Sleep(25 * time.Second)
		require.Empty(t, p.made())
		time.Sleep(10 * time.Second)
		require.Len(t, p.made(), 1)
		require.Len(t, p.made()[0], 2, "both partitions at once")
		require.Equal(t, []int64{0, 0}, b.left(benchRepartition, 2), "markers included")
		time.Sleep(time.Hour)
		require.Len(t, p.made(), 1, "nothing has moved")
		b.put(0, "k", "a", "k", "a")
		s.idle()
		time.Sleep(35 * time.Second)
		require.Len(t, p.made(), 2)
		require.Len(t, p.made()[1], 1, "one partition has moved")
		b.put(0, "k", "b")
		s.idle().drain()
		require.Len(t, p.made(), 3, "and at the end")
		for _, n := range b.left(benchRepartition, 2) {
			require.LessOrEqual(t, n, int64(1), "at most a marker")
		}
		// What is left of an earlier run is purged by the next.
		b.log.SetCommitted("app", map[commitlog.TopicPartition]int64{})
		b.run(b.rekeyed(), memlog.Faults{}, p.on).idle().drain()
		require.Equal(t, []int64{0, 0}, b.left(benchRepartition, 2))
		require.Len(t, b.left("in", 1), 1)
		require.Equal(t, []int64{7}, b.left("in", 1), "the user's topics are the user's")
	})
}

// What cannot be purged is tried again, and said once.
func TestE12APurgeThatFailsIsTriedAgain(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		var log lines
		failing := true
		p := purges{b: b, fail: func() error {
			if failing {
				return errors.New("not allowed")
			}
			return nil
		}}
		s := b.run(b.rekeyed(), memlog.Faults{}, p.on, logTo(&log, slog.LevelWarn))
		b.put(0, "k", "a", "k", "b")
		s.idle()
		time.Sleep(5 * time.Minute)
		require.Greater(t, len(p.made()), 5)
		require.Equal(t, 1, strings.Count(log.text(), "not allowed"), log.text())
		p.Lock()
		failing = false
		p.Unlock()
		time.Sleep(time.Minute)
		require.Equal(t, []int64{0}, b.left(benchRepartition, 1))
		s.drain()
		require.Equal(t, []string{"a=1", "b=1"}, b.texts("out", 0))
	})
}

// Whatever fails and whoever dies, nothing is deleted that was not processed: counts stay exact, and no task ever misses
// input.
func TestE12NothingIsPurgedThatIsNotCommitted(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			onBench(t, 2, func(t *testing.T, b *bench) {
				r := rand.New(rand.NewPCG(seed, 12))
				var mu sync.Mutex // guards luck and rate
				luck := rand.New(rand.NewPCG(seed, 13))
				rate := 0
				meet := func(class commitlog.Class) error {
					mu.Lock()
					defer mu.Unlock()
					if luck.IntN(100) < rate {
						return &commitlog.Error{Op: "test", Partition: -1, Class: class}
					}
					return nil
				}
				faults := memlog.Faults{
					Commit: func(context.Context, string, map[commitlog.TopicPartition]int64) error { return meet(commitlog.Abort) },
					EndTxn: func(context.Context, string) error {
						time.Sleep(20 * time.Millisecond)
						return meet(commitlog.Abort)
					},
					Committed: func(context.Context, string) error { return meet(commitlog.Fenced) },
				}
				want := map[string]int{}
				purged := 0
				for range 6 {
					mu.Lock()
					rate = r.IntN(12) // a dozen setbacks in a row end a run
					mu.Unlock()
					var all []*purges
					var seats []*seat
					for range 1 + r.IntN(2) {
						p := &purges{b: b, fail: func() error { return meet(commitlog.Retriable) }}
						all = append(all, p)
						seats = append(seats, b.run(b.rekeyed(), faults, p.on, func(c *exec.Config) { c.MaxBatch = 1 + r.IntN(5) }))
					}
					for range 2 + r.IntN(3) {
						for range r.IntN(40) {
							v := fmt.Sprint("v", r.IntN(9))
							want[v]++
							b.put(int32(r.IntN(2)), "k", v)
							time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
						}
						time.Sleep(time.Duration(r.IntN(35)) * time.Second)
					}
					mu.Lock()
					rate = 0
					mu.Unlock()
					for _, s := range seats {
						switch r.IntN(3) {
						case 0: // killed
							s.log.Close()
							require.Error(t, <-s.end)
						case 1:
							s.idle()
							fallthrough
						default:
							s.cancel()
							require.NoError(t, <-s.end)
						}
					}
					for _, p := range all {
						purged += len(p.made())
					}
				}
				b.run(b.rekeyed(), memlog.Faults{}).idle().drain()
				got := map[string]int{}
				for p := range int32(2) {
					for _, text := range b.texts("out", p) {
						k, n, _ := strings.Cut(text, "=")
						got[k]++
						require.Equal(t, fmt.Sprint(got[k]), n, k)
					}
				}
				require.Equal(t, want, got)
				require.Positive(t, purged)
			})
		})
	}
}
