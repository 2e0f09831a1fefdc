package exec_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/testkit/memlog"
)

// What costs a membership, or churns a group, elsewhere: slow closes, more members than tasks, rebalances in the middle of a
// recovery.

// slowClose is an engine whose stores take a while to close, as those on a busy disk do.
type slowClose struct {
	kvstore.Engine
	takes time.Duration
}

func (s slowClose) OpenStore(name string) (kvstore.Store, error) {
	store, err := s.Engine.OpenStore(name)
	return slowStore{store, s.takes}, err
}

type slowStore struct {
	kvstore.Store
	takes time.Duration
}

func (s slowStore) Close() error {
	time.Sleep(s.takes)
	return s.Store.Close()
}

// until lets time pass on a bench until done, at most for bound.
func (b *bench) until(what string, bound time.Duration, done func() bool) {
	b.t.Helper()
	for begin := time.Now(); !done(); time.Sleep(10 * time.Millisecond) {
		require.LessOrEqual(b.t, time.Since(begin), bound, what)
	}
}

// Half of 64 tasks move, and each of their stores takes as long as a session to close: the new owner has them at once, and the
// membership is kept. Then Run ends: the tasks are given up at once too, and it returns within DrainTimeout, with a reason if
// stores are still being closed then (E8, E11).
func TestE8SlowClosesCostNoMembership(t *testing.T) {
	const tasks = 64
	for _, takes := range []time.Duration{5 * time.Second, 10 * time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			onBench(t, tasks, func(t *testing.T, b *bench) {
				phase := func() {
					for p := range int32(tasks) {
						b.put(p, fmt.Sprint("k", p), "x")
					}
				}
				phase()
				first := b.run(b.joining(), memlog.Faults{}, func(c *exec.Config) { c.State = slowClose{kvstore.NewMemory(), takes} }).idle()
				id := b.log.Group("app").Members[0].ID
				second := b.run(b.joining(), memlog.Faults{})
				b.until("half of the tasks", 3*time.Second, func() bool { return second.app.Stats().Tasks == tasks/2 })
				phase()
				second.idle()
				generation := b.log.Group("app").Generation
				time.Sleep(time.Minute) // the stores are closed by now
				require.Equal(t, tasks/2, first.app.Stats().Tasks)
				require.Equal(t, id, b.log.Group("app").Members[0].ID)
				require.Equal(t, generation, b.log.Group("app").Generation)
				require.LessOrEqual(t, generation, int32(4), "one to see the second, one to give up, one to take")

				begin := time.Now()
				first.cancel()
				b.until("all tasks", 3*time.Second, func() bool { return second.app.Stats().Tasks == tasks })
				phase()
				second.idle()
				err := <-first.end
				require.LessOrEqual(t, time.Since(begin), 10*time.Second)
				if takes < 8*time.Second {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, exec.ErrDrainTimeout)
					require.ErrorContains(t, err, "its store is still being closed")
				}
				second.drain()
				for p := range int32(tasks) {
					require.Len(t, b.texts(benchLog, p), 3)
				}
				time.Sleep(takes)
			})
		})
	}
}

// The same on brokers, with closes that take longer than a session.
func TestE8SlowClosesCostNoMembershipOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		const tasks = 16
		r := newRig(t, b, tasks)
		takes := session(b) + time.Second
		phase := func() {
			for p := range int32(tasks) {
				r.putTo(p, fmt.Sprint("k", p), "x")
			}
		}
		phase()
		first := launch(t, b, r.counter(), func(c *exec.Config) {
			c.State, c.SessionTimeout, c.DrainTimeout = slowClose{kvstore.NewMemory(), takes}, session(b), 30*time.Second
		})
		r.settle(first)
		before, err := r.c.Group(t.Context(), r.app)
		require.NoError(t, err)
		require.Len(t, before.Members, 1)
		begin := time.Now()
		second := launch(t, b, r.counter())
		second.await("half of the tasks", func() bool { return second.app.Stats().Tasks == tasks/2 })
		require.Less(t, second.app.Stats().Rebalances, int64(5))
		phase()
		r.settle(second)
		first.await("longer than a close", func() bool { return time.Since(begin) > takes+time.Second })
		after, err := r.c.Group(t.Context(), r.app)
		require.NoError(t, err)
		require.Contains(t, after.Members, before.Members[0], "the membership was kept")
		require.Equal(t, tasks/2, first.app.Stats().Tasks)
		first.drain()
		second.await("all tasks", func() bool { return second.app.Stats().Tasks == tasks })
		phase()
		r.settle(second)
		second.drain()
		got := r.byKey()
		require.Len(t, got, tasks)
		for k, counts := range got {
			require.Equal(t, []string{"1", "2", "3"}, counts, k)
		}
	})
}

// Members beyond the tasks there are have nothing to do, and do nothing: no rebalance follows from it. When the one that works goes, one
// of them takes over (TX-33).
func TestTX33MembersBeyondTheTasksIdle(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		all := []*instance{launch(t, b, r.counter())}
		r.put("k", "a")
		r.settle(all[0])
		for range 2 {
			all = append(all, launch(t, b, r.counter()))
			all[0].await("a member more", func() bool {
				g, err := r.c.Group(t.Context(), r.app)
				require.NoError(t, err)
				return len(g.Members) == len(all) && g.State == "Stable"
			})
		}
		count := func() (rebalances []int64) {
			for _, i := range all {
				rebalances = append(rebalances, i.app.Stats().Rebalances)
			}
			return rebalances
		}
		all[1].await("each to hear of those that came", func() bool {
			n := count()
			return n[0] >= 3 && n[1] >= 2 && n[2] >= 1
		})
		settled := count()
		for range 30 { // as many heartbeats
			time.Sleep(100 * time.Millisecond)
			require.Equal(t, 1, all[0].app.Stats().Tasks)
		}
		require.Equal(t, settled, count())
		r.put("k", "b")
		r.settle(all[0])
		all[0].drain()
		all[1].await("one takes over", func() bool { return all[1].app.Stats().Tasks+all[2].app.Stats().Tasks == 1 })
		r.put("k", "c")
		r.settle(all[1])
		all[1].drain()
		all[2].drain()
		require.Equal(t, map[string][]string{"k": {"1", "2", "3"}}, r.byKey())
	})
}

// Four instances with nothing on their disks come one after the other while a long changelog is replayed, and input arrives.
// Nothing is lost or doubled, no instance fails, what is left of a task's replay only gets less, and once a task has
// its place it stays there.
func TestE8InstancesThatJoinDuringAReplay(t *testing.T) {
	const partitions, keys, size = 4, 40, 200_000
	onBench(t, partitions, func(t *testing.T, b *bench) {
		for p := range int32(partitions) {
			for k := range keys {
				b.put(p, fmt.Sprint("k", k), strings.Repeat("x", size))
			}
		}
		b.run(b.joining(), memlog.Faults{}).idle().drain()
		slow := memlog.Faults{Fetch: func(tp commitlog.TopicPartition) error {
			if tp.Topic == benchLog {
				time.Sleep(2 * time.Second) // a chunk of about a MiB
			}
			return nil
		}}
		type watched struct {
			rebalances int64
			left       map[string]int64
		}
		var seats []*seat
		last := map[*seat]watched{}
		restoring := 0 // looks that saw some task restoring
		look := func() {
			for n, s := range seats {
				stats := s.app.Stats()
				now := watched{stats.Rebalances, map[string]int64{}}
				for _, p := range stats.Restores {
					restoring++
					now.left[p.Task] = p.Left
					if before, ok := last[s].left[p.Task]; ok && now.rebalances == last[s].rebalances {
						require.LessOrEqual(t, p.Left, before, "instance %d, task %s", n, p.Task)
					}
				}
				last[s] = now
				select {
				case err := <-s.end:
					require.FailNow(t, "ended", "instance %d: %v", n, err)
				default:
				}
			}
		}
		for range 4 {
			seats = append(seats, b.run(b.joining(), slow))
			for range 30 {
				look()
				time.Sleep(100 * time.Millisecond)
			}
			for p := range int32(partitions) {
				b.put(p, "k0", "y")
			}
		}
		begin := time.Now()
		for done := false; !done; time.Sleep(100 * time.Millisecond) {
			look()
			tasks := 0
			for _, s := range seats {
				tasks += s.app.Stats().Tasks
			}
			done = tasks == partitions
			require.Less(t, time.Since(begin), 5*time.Minute)
		}
		require.Greater(t, restoring, 100)
		require.Less(t, b.log.Group("app").Generation, int32(20))
		seats[0].idle()
		for _, s := range seats {
			require.Equal(t, 1, s.app.Stats().Tasks)
		}
		total := 0
		for p := range int32(partitions) {
			out := b.texts("out", p)
			total += len(out)
		}
		require.Equal(t, partitions*(keys+4), total)
		for p := range int32(partitions) {
			log := b.texts(benchLog, p)
			require.True(t, strings.HasSuffix(log[len(log)-1], "xyyyy"))
			require.Len(t, log[len(log)-1], len("k0=")+size+4)
		}
		for _, s := range seats {
			s.drain()
		}
	})
}
