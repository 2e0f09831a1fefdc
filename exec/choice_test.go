package exec_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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

// merged is a plan that merges the topics in, b and c, and counts by key, so that they are one group.
func (b *bench) merged() *topology.Plan {
	b.t.Helper()
	tb := topology.New("app")
	text := codec.String
	from := func(topic string) topology.Stream[string, string] {
		return tb.From(ops.Source(ops.NewTopic(topic, text, text), anywhere))
	}
	from("in").Merge(from("b"), from("c")).Aggregate(benchSum, func(_, v, _ string) string { return v }).To(ops.Sink(benchOut))
	plan, err := tb.Build()
	require.NoError(b.t, err)
	return plan
}

// What is there when a task starts is processed by timestamp over all its topics, however it arrives; of equal ones by topic.
func TestInputIsChosenByTimestamp(t *testing.T) {
	for seed := range uint64(20) {
		onBench(t, 1, func(t *testing.T, b *bench) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			type record struct {
				ms    int64
				topic string
				text  string
			}
			var all []record
			for _, topic := range []string{"b", "c", "in"} {
				if topic != "in" {
					b.create(topic, 1, nil)
				}
				ms := int64(0)
				for n := range 1 + rnd.IntN(60) {
					ms += int64(rnd.IntN(4))
					if rnd.IntN(20) == 0 {
						ms += 20
					}
					b.putAt(topic, ms, "k", fmt.Sprint(topic, n))
					all = append(all, record{ms, topic, fmt.Sprintf("k=%s%d", topic, n)})
				}
			}
			slices.SortStableFunc(all, func(x, y record) int { return int(x.ms - y.ms) }) // of equal ones by topic
			b.run(b.merged(), memlog.Faults{}).idle().drain()
			var want []string
			for _, r := range all {
				want = append(want, r.text)
			}
			require.Equal(t, want, b.texts("out", 0), "seed %d", seed)
		})
	}
}

// A task waits for a partition that has nothing for as long as IdleWait says, once for each lull of it; what comes meanwhile goes by its timestamp.
func TestIdleWait(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.create("b", 1, nil)
		b.create("c", 1, nil)
		patient := func(c *exec.Config) { c.IdleWait = time.Minute }
		s := b.run(b.merged(), memlog.Faults{}, patient)
		began := time.Now()
		took := func(want time.Duration, texts ...string) {
			t.Helper()
			s.idle()
			require.InDelta(t, want.Seconds(), time.Since(began).Seconds(), 1)
			out := b.texts("out", 0)
			require.Equal(t, texts, out[max(0, len(out)-len(texts)):])
			began = time.Now()
		}
		s.idle()
		began = time.Now()
		b.putAt("in", 10, "k", "1")
		took(time.Minute, "k=1")
		b.putAt("in", 11, "k", "2") // b and c were waited for already
		took(0, "k=2")
		b.putAt("b", 12, "k", "3") // and so was c, but in is at its end for the first time
		took(time.Minute, "k=3")
		b.putAt("in", 20, "k", "5")
		time.Sleep(30 * time.Second)
		b.putAt("b", 15, "k", "4")
		took(90*time.Second, "k=4", "k=5") // in has come, b has, and then b has nothing more
		s.drain()
		for _, wait := range []time.Duration{0, -1} {
			b.putAt("in", 30, "k", "6")
			began = time.Now()
			s = b.run(b.merged(), memlog.Faults{}, func(c *exec.Config) { c.IdleWait = wait })
			took(0, "k=6")
			s.drain()
		}
	})
}

// withholding is a log of which readers do not deliver a topic before release is closed.
type withholding struct {
	commitlog.Log
	topic   string
	release chan struct{}
}

type withheld struct {
	commitlog.Reader
	chunks chan commitlog.Chunk
	ended  chan struct{}
}

func (w withholding) OpenReader(ctx context.Context, cfg commitlog.ReaderConfig) (commitlog.Reader, error) {
	r, err := w.Log.OpenReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	h := &withheld{r, make(chan commitlog.Chunk), make(chan struct{})}
	go func() {
		defer close(h.chunks)
		var kept []commitlog.Chunk
		send := func(c commitlog.Chunk) bool {
			select {
			case h.chunks <- c:
				return true
			case <-h.ended:
				return false
			}
		}
		release := w.release
		for {
			select {
			case <-release:
				release = nil
				for _, c := range kept {
					if !send(c) {
						return
					}
				}
			case c, ok := <-r.Chunks():
				switch {
				case !ok:
					return
				case c.Topic == w.topic && release != nil:
					kept = append(kept, c)
				case !send(c):
					return
				}
			case <-h.ended:
				return
			}
		}
	}()
	return h, nil
}

func (h *withheld) Chunks() <-chan commitlog.Chunk { return h.chunks }

func (h *withheld) Close() error {
	close(h.ended)
	return h.Reader.Close()
}

// A record that is known to be there and does not come, since its partition's leader does not answer, is waited for a second and no longer.
func TestInputThatDoesNotComeIsNotWaitedForLong(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.create("b", 1, nil)
		b.create("c", 1, nil)
		b.putAt("b", 5, "k", "late")
		b.putAt("in", 10, "k", "1")
		b.putAt("in", 11, "k", "2")
		release := make(chan struct{})
		began := time.Now()
		s := b.run(b.merged(), memlog.Faults{}, func(c *exec.Config) { c.Log = withholding{c.Log, "b", release} })
		require.NoError(t, b.log.Await(t.Context(), func() bool { return b.offset(0) == 2 }))
		require.InDelta(t, 1, time.Since(began).Seconds(), 0.5)
		close(release)
		s.idle().drain()
		require.Equal(t, []string{"k=1", "k=2", "k=late"}, b.texts("out", 0))
	})
}
