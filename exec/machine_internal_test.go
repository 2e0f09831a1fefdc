package exec

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

var states = []taskState{fencing, restoring, running, draining, closed, failed}

// Each pair of states: what the diagram at taskState has is allowed, and all else refused.
func TestE3TaskTransitions(t *testing.T) {
	diagram := [][]int{ // rows: from; columns: to
		fencing:   {0, 1, 0, 0, 1, 1},
		restoring: {0, 0, 1, 0, 1, 1},
		running:   {0, 0, 0, 1, 0, 1},
		draining:  {0, 0, 0, 0, 1, 1},
		closed:    {0, 0, 0, 0, 0, 0},
		failed:    {0, 0, 0, 0, 0, 0},
	}
	for _, from := range states {
		for _, to := range states {
			tk := &task{id: "t", log: slog.New(slog.DiscardHandler)}
			tk.at.Store(int32(from))
			if diagram[from][to] == 1 {
				require.NotPanics(t, func() { tk.become(to) }, "%s to %s", from, to)
				require.Equal(t, to, taskState(tk.at.Load()))
			} else {
				require.Panics(t, func() { tk.become(to) }, "%s to %s", from, to)
				require.Equal(t, from, taskState(tk.at.Load()))
			}
		}
	}
	require.Equal(t, len(states), int(failed)+1, "states has them all")
}

// lives collects the states that tasks go through, as their log tells them.
type lives struct {
	slog.Handler
	mu   *sync.Mutex
	seen map[string][]string
	task string
}

func newLives() *lives {
	return &lives{Handler: slog.DiscardHandler, mu: &sync.Mutex{}, seen: map[string][]string{}}
}

func (l *lives) Enabled(context.Context, slog.Level) bool { return true }

func (l *lives) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *l
	for _, a := range attrs {
		if a.Key == "task" {
			c.task = a.Value.String()
		}
	}
	return &c
}

func (l *lives) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "task" {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "state" {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.seen[l.task] = append(l.seen[l.task], a.Value.String())
		}
		return true
	})
	return nil
}

// Tasks' lives: each state is reached, and each way out of it is gone, by what really happens.
func TestE11TaskLives(t *testing.T) {
	plan, err := topology.New("app").From(ops.Source(ops.NewTopic("in", codec.String, codec.String))).
		Aggregate(ops.NewState("n", codec.String, codec.String), func(_, v, state string) string {
			if v == "bad" {
				panic("no good")
			}
			return state + v
		}).To(ops.Sink(ops.NewTopic("out", codec.String, codec.String))).Build()
	require.NoError(t, err)
	bad := &commitlog.Error{Op: "simulated", Partition: -1, Class: commitlog.Fatal}
	type faults = func(reach func(), release <-chan struct{}) memlog.Faults
	// wait holds a call until its context ends.
	wait := func(ctx context.Context, reach func()) error {
		reach()
		<-ctx.Done()
		return &commitlog.Error{Op: "simulated", Partition: -1, Class: commitlog.Retriable, Err: ctx.Err()}
	}
	for _, c := range []struct {
		name   string
		faults faults
		values []string // of the input; a changelog record is there before
		stop   bool     // when the fault is met, or when all is processed
		want   []string
		fails  bool
	}{
		{name: "in order", values: []string{"1"}, stop: true, want: []string{"restoring", "running", "draining", "closed"}},
		{name: "stopped while it fences", stop: true, want: []string{"closed"}, faults: func(reach func(), _ <-chan struct{}) memlog.Faults {
			return memlog.Faults{OpenProducer: func(ctx context.Context, _ commitlog.ProducerConfig) error { return wait(ctx, reach) }}
		}},
		{name: "stopped while it restores", stop: true, want: []string{"restoring", "closed"}, faults: func(reach func(), _ <-chan struct{}) memlog.Faults {
			return memlog.Faults{OpenReader: func(ctx context.Context, _ commitlog.ReaderConfig) error { return wait(ctx, reach) }}
		}},
		{name: "fails to fence", fails: true, want: []string{"failed"}, faults: func(func(), <-chan struct{}) memlog.Faults {
			return memlog.Faults{OpenProducer: func(context.Context, commitlog.ProducerConfig) error { return bad }}
		}},
		{name: "fails to restore", fails: true, want: []string{"restoring", "failed"}, faults: func(func(), <-chan struct{}) memlog.Faults {
			return memlog.Faults{OpenReader: func(context.Context, commitlog.ReaderConfig) error { return bad }}
		}},
		{name: "fails to process", values: []string{"bad"}, fails: true, want: []string{"restoring", "running", "failed"}},
		{name: "fails to drain", values: []string{"1"}, stop: true, fails: true, want: []string{"restoring", "running", "draining", "failed"},
			faults: func(reach func(), release <-chan struct{}) memlog.Faults {
				return memlog.Faults{Commit: func(context.Context, string, map[commitlog.TopicPartition]int64) error {
					reach()
					<-release
					return bad
				}}
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := memlog.New(memlog.Options{})
				defer log.Close()
				for _, topic := range []string{"in", "out"} {
					require.NoError(t, log.CreateTopics(t.Context(), []commitlog.TopicSpec{{Name: topic, Partitions: 1, Replication: 1}}))
				}
				put := func(value string) {
					_, err := log.Append(t.Context(), "in", 0, []commitlog.Record{{Key: []byte("k"), Value: []byte(value)}})
					require.NoError(t, err)
				}
				run := func(cfg Config, until func()) error {
					app, err := New(plan, cfg)
					require.NoError(t, err)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					end := make(chan error, 1)
					go func() { end <- app.Run(ctx) }()
					if until != nil {
						until()
						cancel()
					}
					return <-end
				}
				put("0")
				require.NoError(t, run(Config{Log: log}, func() { time.Sleep(time.Minute) }))
				for _, v := range c.values {
					put(v)
				}
				reached, release := make(chan struct{}), make(chan struct{})
				reach := sync.OnceFunc(func() { close(reached) })
				session := log.Session()
				defer session.Close()
				if c.faults != nil {
					session.SetFaults(c.faults(reach, release))
				}
				l := newLives()
				var until func()
				if c.stop {
					until = func() {
						if c.faults == nil {
							time.Sleep(time.Minute)
							return
						}
						<-reached
					}
				}
				go func() { // a commit that is held goes on when the task has been told to drain
					<-reached
					time.Sleep(time.Second)
					close(release)
				}()
				err := run(Config{Log: session, Logger: slog.New(l)}, until)
				reach()
				require.Equal(t, c.fails, err != nil, "%v", err)
				require.Equal(t, map[string][]string{"app-in-0": c.want}, l.seen)
				time.Sleep(time.Minute)
			})
		})
	}
}
