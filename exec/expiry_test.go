package exec_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

const txnTimeout = 10 * time.Second

// commits notes when commits begin and what they hold.
type commits struct {
	sync.Mutex
	at      []time.Time
	offsets []int64
}

func (c *commits) faults() memlog.Faults {
	return memlog.Faults{Commit: func(_ context.Context, _ string, offsets map[commitlog.TopicPartition]int64) error {
		c.Lock()
		defer c.Unlock()
		c.at, c.offsets = append(c.at, time.Now()), append(c.offsets, offsets[inPart(0)])
		return nil
	}}
}

func shortTxn(c *exec.Config) { c.TransactionTimeout = txnTimeout }

// eager has a batch sent with every other record, so that transactions begin early.
func eager(c *exec.Config) {
	c.TransactionTimeout = txnTimeout
	c.MaxRecordBytes = 1024
}

// large is a value that fills a batch of eager.
func large(i int) string { return fmt.Sprintf("%d-%s", i, strings.Repeat("x", 600)) }

// numbersOf returns what texts has of large values.
func numbersOf(texts []string) []string {
	got := []string{}
	for _, s := range texts {
		_, v, _ := strings.Cut(s, "=")
		n, _, _ := strings.Cut(v, "-")
		got = append(got, n)
	}
	return got
}

func upTo(n int) []string {
	all := []string{}
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// A transaction closes at half its timeout also in the middle of a batch (TX-28, pain 8): with a function that takes 0.9 s a
// batch of 100 would take nine timeouts.
func TestTX28ASlowFunctionClosesTheTransactionEarly(t *testing.T) {
	for _, sent := range []bool{false, true} {
		t.Run(fmt.Sprint("sent", sent), func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				for i := range 100 {
					b.put(0, "k", large(i))
				}
				var log lines
				var c commits
				config := shortTxn
				if sent {
					config = eager
				}
				s := b.run(b.mapping(func(v string) string { time.Sleep(900 * time.Millisecond); return v }), c.faults(), config, logTo(&log, slog.LevelWarn))
				s.idle().drain()
				require.Equal(t, upTo(100), numbersOf(b.texts("out", 0)))
				require.Len(t, c.at, 17)
				for i, offset := range c.offsets {
					require.EqualValues(t, min(6*(i+1), 100), offset, "the sixth is in process at half the timeout")
				}
				require.Empty(t, log.text())
			})
		})
	}
}

// A single call that is longer than the timeout costs nothing as long as nothing of its transaction was sent.
func TestTX28ACallLongerThanTheTimeoutWithoutOutputsBefore(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		for i := range 10 {
			b.put(0, "k", large(i))
		}
		var log lines
		calls := 0
		s := b.run(b.mapping(func(v string) string {
			if calls++; calls%4 == 3 {
				time.Sleep(2 * txnTimeout)
			}
			return v
		}), memlog.Faults{}, shortTxn, logTo(&log, slog.LevelWarn))
		s.idle().drain()
		require.Equal(t, upTo(10), numbersOf(b.texts("out", 0)))
		require.Equal(t, 10, calls)
		require.Empty(t, log.text())
	})
}

// If something was sent the transaction expires. The task comes back with transactions of one record each, which cannot,
// so that it does not go round for ever: in a map, with state, with calls of Memo, and with a function that
// emits more than a batch before it takes its time.
func TestTX28ACallLongerThanTheTimeoutIsProcessedAlone(t *testing.T) {
	text := codec.String
	out := ops.NewTopic("out", text, text)
	slow := func(v string) { // every fifth value
		n, _, _ := strings.Cut(v, "-")
		if strings.HasSuffix(n, "4") || strings.HasSuffix(n, "9") {
			time.Sleep(2 * txnTimeout)
		}
	}
	for name, plan := range map[string]func() (*topology.Plan, error){
		"map": func() (*topology.Plan, error) {
			return topology.New("app").From(ops.Source(benchIn)).MapValues(func(v string) string { slow(v); return v }).To(ops.Sink(out)).Build()
		},
		"aggregate": func() (*topology.Plan, error) {
			return topology.New("app").From(ops.Source(benchIn)).
				Aggregate(benchSum, func(_, v, s string) string { slow(v); return v }).To(ops.Sink(out)).Build()
		},
		"memo": func() (*topology.Plan, error) {
			return topology.New("app").From(ops.Source(benchIn)).
				Memo(ops.Memo("m", text, func(_ context.Context, k string) (string, error) { slow(k); return k, nil }),
					func(v, _ string) string { return v }).To(ops.Sink(out)).Build()
		},
		"flatmap": func() (*topology.Plan, error) {
			return topology.New("app").From(ops.Source(benchIn)).
				FlatMap(func(k, v string, emit func(string, string)) {
					emit(k, v)
					emit(k, v)
					emit(k, v)
					slow(v)
				}).To(ops.Sink(out)).Build()
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				for i := range 40 {
					b.put(0, fmt.Sprint("k", i), large(i))
				}
				p, err := plan()
				require.NoError(t, err)
				var log lines
				begin := time.Now()
				s := b.run(p, memlog.Faults{}, eager, logTo(&log, slog.LevelWarn))
				s.idle().drain()
				want := upTo(40)
				if name == "flatmap" {
					want = nil
					for _, n := range upTo(40) {
						want = append(want, n, n, n)
					}
				}
				require.Equal(t, want, numbersOf(b.texts("out", 0)))
				require.EqualValues(t, 40, b.offset(0))
				expired := strings.Count(log.text(), "a transaction has expired")
				require.Positive(t, expired)
				require.LessOrEqual(t, expired, 3, log.text())
				require.Less(t, time.Since(begin), 15*2*txnTimeout, "eight slow records")
			})
		})
	}
}

// A record that comes to an idle task is committed at once.
func TestAnIdleTaskCommitsAtOnce(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		var c commits
		s := b.run(b.joining(), c.faults(), func(c *exec.Config) { c.CommitInterval = time.Second }).idle()
		for i := range 10 {
			time.Sleep(3 * time.Second)
			put := time.Now()
			b.put(0, "k", "v")
			s.idle()
			require.Len(t, c.at, i+1)
			require.Equal(t, put, c.at[i])
		}
		s.drain()
	})
}
