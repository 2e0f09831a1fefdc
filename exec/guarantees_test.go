package exec_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
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

// Outputs of a task are in the order of its input, whatever ran at the same time: calls of Memo that answer in any order,
// records that yield none or several, transactions that overlap, records without a call between them (E2).
func TestE2OutputsKeepTheInputsOrder(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		text := codec.String
		r := rand.New(rand.NewPCG(1, 2))
		delay := make([]time.Duration, 100)
		for i := range delay {
			delay[i] = time.Duration(r.IntN(50)) * time.Millisecond
		}
		builder := topology.New("app")
		plan, err := builder.From(ops.Source(ops.NewTopic("in", text, text), anywhere)).
			Memo(ops.Memo("m", text, func(_ context.Context, k string) (string, error) {
				n, err := strconv.Atoi(k)
				time.Sleep(delay[n])
				return "m" + k, err
			}, ops.Concurrency(7)), func(v, m string) string { return v + m }).
			FlatMap(func(k, v string, emit func(string, string)) {
				n, _ := strconv.Atoi(k)
				for i := range n % 3 {
					emit("same", fmt.Sprint(v, " ", i))
				}
			}).
			To(ops.Sink(ops.NewTopic("out", text, text))).Build()
		require.NoError(t, err)
		want := map[string][]string{} // by input partition
		s := b.run(plan, memlog.Faults{}, func(c *exec.Config) { c.MaxBatch, c.MaxRecordBytes, c.CommitInterval = 13, 1024, 5*time.Millisecond })
		for n := range 2000 {
			k, p := r.IntN(len(delay)), n%2
			v := fmt.Sprint("p", p, " ", n, " ")
			for i := range k % 3 {
				want[v[:2]] = append(want[v[:2]], fmt.Sprintf("%sm%d %d", v, k, i))
			}
			b.put(int32(p), strconv.Itoa(k), v)
		}
		s.idle().drain()
		require.Greater(t, s.app.Stats().Commits, int64(10))
		got := map[string][]string{}
		for p := range int32(2) {
			for _, text := range b.texts("out", p) { // all outputs have one key: tasks share a partition
				v := text[len("same="):]
				got[v[:2]] = append(got[v[:2]], v)
			}
		}
		require.Equal(t, want, got)
	})
}

// skipping is a log whose readers leave out the chunk of a topic that has the record at an offset.
type skipping struct {
	*memlog.Log
	topic  string
	offset int64
}

func (s skipping) OpenReader(ctx context.Context, cfg commitlog.ReaderConfig) (commitlog.Reader, error) {
	r, err := s.Log.OpenReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	sr := &skippingReader{Reader: r, chunks: make(chan commitlog.Chunk), done: make(chan struct{})}
	go func() {
		defer close(sr.chunks)
		for c := range r.Chunks() {
			if c.Topic == s.topic && c.Base <= s.offset && s.offset < c.Next {
				continue
			}
			select {
			case sr.chunks <- c:
			case <-sr.done:
			}
		}
	}()
	return sr, nil
}

type skippingReader struct {
	commitlog.Reader
	chunks chan commitlog.Chunk
	done   chan struct{}
	once   sync.Once
}

func (r *skippingReader) Chunks() <-chan commitlog.Chunk { return r.chunks }

func (r *skippingReader) Close() error {
	r.once.Do(func() { close(r.done) })
	return r.Reader.Close()
}

// A reader that skips over records stops the task that it reads for, and nothing behind the gap is processed or
// committed; of a changelog no store is made that would lack them (E6).
func TestE6AReaderThatSkipsStopsTheTask(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		skip := func(topic string, offset int64) func(*exec.Config) {
			return func(c *exec.Config) { c.Log = skipping{c.Log.(*memlog.Log), topic, offset} }
		}
		s := b.run(b.joining(), memlog.Faults{}, skip("in", 2))
		for n := range 2 {
			b.put(0, "k", strconv.Itoa(n))
			s.idle()
		}
		b.put(0, "k", "2")
		time.Sleep(time.Second)
		b.put(0, "k", "3")
		require.ErrorContains(t, <-s.end, "topic in partition 0: read on at offset 3, want 2: positions must be contiguous")
		require.Equal(t, []string{"k=0", "k=01"}, b.texts("out", 0))
		require.EqualValues(t, 2, b.offset(0))
		s = b.run(b.joining(), memlog.Faults{}).idle()
		require.Equal(t, []string{"k=0", "k=01", "k=012", "k=0123"}, b.texts("out", 0))

		for n := range 5 { // a changelog of several fetches
			b.put(0, strconv.Itoa(n), strings.Repeat("x", 900_000))
			s.idle()
		}
		s.drain()
		before := b.offset(0)
		b.put(0, "k", "4")
		ends, err := b.log.EndOffsets(t.Context(), []commitlog.TopicPartition{{Topic: benchLog}}, commitlog.ReadCommitted)
		require.NoError(t, err)
		err = <-b.run(b.joining(), memlog.Faults{}, skip(benchLog, ends[commitlog.TopicPartition{Topic: benchLog}]-6)).end
		require.ErrorContains(t, err, "restore "+benchLog+"/0: read on at offset ")
		require.ErrorContains(t, err, "positions must be contiguous")
		require.Equal(t, before, b.offset(0))
	})
}
