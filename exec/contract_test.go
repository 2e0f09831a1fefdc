package exec_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/topology"
)

// The behaviours that this project keeps from its model, or has put its own rule in the place of, by their ids: those of
// tasks and transactions. Those of state and of the start are in contract_state_test.go.

// taskID returns the transactional id of a task of a plan with one sub-topology.
func taskID(plan *topology.Plan, partition int) string {
	return fmt.Sprintf("%s-%s-%d", plan.Name(), plan.Subtopologies()[0].Name, partition)
}

// committed returns the group's offset in a partition of the input, 0 if there is none.
func (r *rig) committed(partition int32) int64 {
	r.t.Helper()
	offsets, err := r.c.CommittedOffsets(r.t.Context(), r.app)
	require.NoError(r.t, err)
	return offsets[kafka.Partition{Topic: r.in, Partition: partition}]
}

// final returns the committed records of a topic when no transaction is open any more: the answer to a commit comes
// before its markers.
func (r *rig) final(topic string) []kafka.Record {
	r.t.Helper()
	require.NoError(r.t, r.c.AwaitStable(r.t.Context(), topic))
	return r.read(topic)
}

// uncommitted returns all records of a topic, also those that nobody may see.
func (r *rig) uncommitted(topic string) []kafka.Record {
	r.t.Helper()
	recs, err := r.c.Read(r.t.Context(), kafka.ReadUncommitted, topic)
	require.NoError(r.t, err)
	return recs
}

// putTo produces values of a key to a partition.
func (r *rig) putTo(partition int32, key string, values ...string) {
	r.t.Helper()
	var recs []kafka.Record
	for _, v := range values {
		recs = append(recs, kafka.Record{Topic: r.in, Partition: partition, Key: []byte(key), Value: []byte(v)})
	}
	require.NoError(r.t, r.c.ProduceTo(r.t.Context(), recs...))
}

// numbers returns the texts of from to to.
func numbers(from, to int) []string {
	var all []string
	for n := from; n <= to; n++ {
		all = append(all, strconv.Itoa(n))
	}
	return all
}

// byKey returns the committed values of the output by key.
func (r *rig) byKey() map[string][]string {
	r.t.Helper()
	got := map[string][]string{}
	for _, rec := range r.final(r.out) {
		got[string(rec.Key)] = append(got[string(rec.Key)], string(rec.Value))
	}
	return got
}

// Of a transaction that a function's error has ended nothing is seen: what it had sent is on the broker and stays invisible.
func TestTX03AFunctionsErrorLeavesNothing(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		var bad atomic.Bool
		bad.Store(true)
		reached, reach := once()
		release := make(chan struct{})
		plan := r.plan(func(_, v string, n int) int {
			if v == "300" && bad.Load() {
				reach()
				<-release
				panic("no good")
			}
			return n + 1
		})
		r.putTo(0, "k", numbers(1, 300)...)
		small := func(c *exec.Config) { c.MaxRecordBytes, c.CommitInterval, c.MaxBatch = 1024, 30*time.Second, 50 }
		i := launch(t, b, plan, small)
		<-reached
		i.await("outputs on the broker", func() bool { return len(r.uncommitted(r.out)) > 50 })
		close(release)
		var re *exec.RecordError
		require.ErrorAs(t, <-i.end, &re)
		require.EqualValues(t, 299, re.Offset)
		require.NoError(t, r.c.AwaitStable(t.Context(), r.out))
		require.NotEmpty(t, r.uncommitted(r.out))
		require.Empty(t, r.read(r.out))
		require.Empty(t, r.read(r.changelog("n")))
		require.Zero(t, r.committed(0))
		bad.Store(false)
		i = launch(t, b, plan, small)
		r.settle(i)
		i.drain()
		require.Equal(t, map[string][]string{"k": numbers(1, 300)}, r.byKey())
	})
}

// Of a transaction that could not be committed nothing is seen, not its changelog records either; the task processes its
// input again, and the process goes on.
func TestTX03AnAbortedCommitLeavesNothing(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		plan := r.counter()
		s := newSpy(t, b)
		reached, reach := once()
		release := make(chan struct{})
		var commits atomic.Int32
		s.before = func(_ context.Context, call string) error {
			if call != "commit "+taskID(plan, 0) || commits.Add(1) > 1 {
				return nil
			}
			reach()
			<-release
			return &commitlog.Error{Op: "commit", Partition: -1, Name: "SIMULATED", Class: commitlog.Abort}
		}
		r.put("k", "a", "k", "b", "l", "c")
		i := launch(t, b, plan, s.on)
		<-reached
		i.await("all of it on the broker", func() bool {
			return len(r.uncommitted(r.out)) == 3 && len(r.uncommitted(r.changelog("n"))) == 2
		})
		require.Empty(t, r.read(r.out))
		require.Empty(t, r.read(r.changelog("n")))
		require.Zero(t, r.committed(0))
		close(release)
		r.settle(i)
		i.drain()
		require.Len(t, r.uncommitted(r.out), 6, "three of them aborted")
		require.Equal(t, map[string][]string{"k": {"1", "2"}, "l": {"1"}}, r.byKey())
		require.ElementsMatch(t, []string{"k=2", "l=1"}, pairs(r.final(r.changelog("n"))))
		require.EqualValues(t, 3, r.committed(0))
	})
}

// A task fences its earlier owner, whose open transaction that aborts, then restores to an end captured
// after that, and only then reads its input (E3, E5).
func TestTX19TasksFenceThenRestoreThenRead(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		plan := r.counter()
		id, changelog := taskID(plan, 0), r.changelog("n")
		r.put("k", "a", "k", "b")
		i := launch(t, b, plan)
		r.settle(i)
		i.drain()
		earlier, err := r.c.Begin(t.Context(), id) // an owner that hangs
		require.NoError(t, err)
		require.NoError(t, earlier.Produce(t.Context(), kafka.Record{Topic: changelog, Key: []byte("k"), Value: []byte("100")},
			kafka.Record{Topic: r.out, Key: []byte("k"), Value: []byte("100")}))
		r.put("k", "c")
		s := newSpy(t, b)
		i = launch(t, b, plan, s.on)
		r.settle(i)
		i.drain()
		if err := earlier.Commit(t.Context()); b.Kind() == kafka.Real { // the embedded one says yes, and does nothing
			require.Error(t, err)
		}
		require.Equal(t, map[string][]string{"k": {"1", "2", "3"}}, r.byKey())
		log := pairs(r.final(changelog))
		require.Equal(t, "k=3", log[len(log)-1])
		order := []int{s.index("fence " + id), s.index("ends " + changelog), s.index("read " + changelog + "/0"), s.index("read " + r.in + "/0")}
		require.True(t, order[0] >= 0 && slices.IsSorted(order), "%v in %v", order, s.calls)
		require.Equal(t, 1, s.count("fence "+id))
	})
}

// A member that joins takes over what moves and nothing else. The rule of the model, that a rebalance tears
// down everything, is not this project's: tasks that stay go on in the middle of the rebalance, with their producer and state; one
// that moves finishes its batch, commits, and is given up before it is taken (E8).
func TestTX21OnlyWhatMovesStops(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 2)
		var mu sync.Mutex
		by := map[string]string{} // who processed a value
		gates := map[string]chan struct{}{"held0": make(chan struct{}), "held1": make(chan struct{})}
		plan := func(who string) *topology.Plan {
			return r.plan(func(_, v string, n int) int {
				if gate := gates[v]; gate != nil && who == "first" {
					<-gate
				}
				mu.Lock()
				by[v] = who
				mu.Unlock()
				return n + 1
			})
		}
		processed := func(v string) string {
			mu.Lock()
			defer mu.Unlock()
			return by[v]
		}
		s := newSpy(t, b)
		first := launch(t, b, plan("first"), s.on)
		r.putTo(0, "k0", "a0")
		r.putTo(1, "k1", "a1")
		r.settle(first)
		r.putTo(0, "k0", "held0")
		r.putTo(1, "k1", "held1")
		s2 := newSpy(t, b)
		second := launch(t, b, plan("second"), s2.on)
		first.await("assigned anew", func() bool { return first.app.Stats().Rebalances >= 2 })
		second.await("assigned", func() bool { return second.app.Stats().Rebalances >= 1 })
		require.Zero(t, second.app.Stats().Tasks, "nothing is taken before it is given up")
		// One of the tasks is to move, and both are in the middle of a record. The one that goes on says which.
		close(gates["held0"])
		r.putTo(0, "k0", "b0")
		second.await("partition 0", func() bool { return processed("b0") != "" })
		moved := 1
		if processed("b0") == "first" { // while the other task is held: the rebalance is not over
			require.Zero(t, second.app.Stats().Tasks)
		} else {
			moved = 0
			require.Equal(t, 1, first.app.Stats().Tasks)
		}
		close(gates["held1"])
		r.putTo(1, "k1", "b1")
		second.await("partition 1", func() bool { return processed("b1") != "" })
		r.settle(second)
		want := []string{"first", "first"}
		want[moved] = "second"
		require.Equal(t, want, []string{processed("b0"), processed("b1")})
		require.Equal(t, []string{"first", "first"}, []string{processed("held0"), processed("held1")}, "the batch in hand was finished")
		kept := 1 - moved
		require.Equal(t, 1, s.count("fence "+taskID(plan("first"), kept)), "the task that stayed has not begun anew")
		require.Zero(t, s2.count("fence "+taskID(plan("first"), kept)))
		require.Equal(t, 1, s2.count("fence "+taskID(plan("first"), moved)))
		first.drain()
		second.drain()
		require.Equal(t, map[string][]string{"k0": {"1", "2", "3"}, "k1": {"1", "2", "3"}}, r.byKey())
	})
}

// What begins tasks runs beside the membership. While a task cannot restore, for longer than a session lasts, the member
// stays, its other tasks work, and another member joins and gets its share.
func TestTX22BeginningATaskHoldsUpNobody(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 3)
		plan := r.counter()
		for p := range int32(3) {
			r.putTo(p, fmt.Sprint("k", p), "a")
		}
		i := launch(t, b, plan)
		r.settle(i)
		i.drain()
		s := newSpy(t, b)
		reached, reach := once()
		release := make(chan struct{})
		stuck := "read " + r.changelog("n") + "/0"
		s.before = func(_ context.Context, call string) error {
			if call == stuck {
				reach()
				<-release
			}
			return nil
		}
		first := launch(t, b, plan, s.on, func(c *exec.Config) { c.SessionTimeout = session(b) })
		<-reached
		first.await("the others work", func() bool { return first.app.Stats().Tasks == 2 })
		members := func() (ids []string) {
			g, err := r.c.Group(t.Context(), r.app)
			require.NoError(t, err)
			for _, m := range g.Members {
				ids = append(ids, m.ID)
			}
			return ids
		}
		before := members()
		require.Len(t, before, 1)
		begin := time.Now()
		second := launch(t, b, plan)
		second.await("a task", func() bool { return second.app.Stats().Tasks == 1 })
		r.putTo(1, "k1", "b")
		r.putTo(2, "k2", "b")
		second.await("the other partitions", func() bool { return r.committed(1) == 2 && r.committed(2) == 2 })
		first.await("longer than a session", func() bool { return time.Since(begin) > session(b)+time.Second })
		require.Contains(t, members(), before[0], "the membership was kept")
		require.Equal(t, 1, first.app.Stats().Restoring)
		require.LessOrEqual(t, first.app.Stats().Rebalances, int64(4))
		close(release)
		r.putTo(0, "k0", "b")
		r.settle(first)
		first.drain()
		second.drain()
		require.Equal(t, map[string][]string{"k0": {"1", "2"}, "k1": {"1", "2"}, "k2": {"1", "2"}}, r.byKey())
	})
}

// What a task has fetched and not begun when it is revoked is dropped: it is committed by nobody but the new owner, who
// processes it.
func TestTX23FetchedRecordsOfARevokedTaskAreDropped(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		const records, hold = 300, "7"
		r := newRig(t, b, 2)
		var mu sync.Mutex
		by := map[string][]string{} // who processed what, by key
		release := make(chan struct{})
		plan := func(who string) *topology.Plan {
			return r.plan(func(k, v string, n int) int {
				if v == hold && who == "first" {
					<-release
				}
				mu.Lock()
				by[k+who] = append(by[k+who], v)
				mu.Unlock()
				return n + 1
			})
		}
		for p := range int32(2) {
			r.putTo(p, fmt.Sprint("k", p), numbers(1, records)...) // all of it is fetched with the first of it
		}
		first := launch(t, b, plan("first"), func(c *exec.Config) { c.MaxBatch = 1 })
		first.await("records taken", func() bool { return first.app.Stats().In[r.in] >= 12 })
		second := launch(t, b, plan("second"))
		first.await("assigned anew", func() bool { return first.app.Stats().Rebalances >= 2 })
		second.await("assigned", func() bool { return second.app.Stats().Rebalances >= 1 })
		close(release)
		r.settle(second)
		first.drain()
		second.drain()
		require.Equal(t, map[string][]string{"k0": numbers(1, records), "k1": numbers(1, records)}, r.byKey())
		moved := "k0"
		if len(by["k0second"]) == 0 {
			moved = "k1"
		}
		require.NotEmpty(t, by[moved+"second"])
		require.Equal(t, numbers(1, records), append(slices.Clone(by[moved+"first"]), by[moved+"second"]...), "each is processed once, by one of them")
		require.Less(t, len(by[moved+"first"]), records, "what was fetched was dropped")
	})
}

// failing is an engine whose calls fail from some time on.
type failing struct {
	kvstore.Engine
	stores, open atomic.Pointer[error]
}

func (f *failing) Stores() ([]string, error) {
	if err := f.stores.Load(); err != nil {
		return nil, *err
	}
	return f.Engine.Stores()
}

func (f *failing) OpenStore(name string) (kvstore.Store, error) {
	if err := f.open.Load(); err != nil {
		return nil, *err
	}
	return f.Engine.OpenStore(name)
}

// An error on the way from a rebalance to a running task, wherever it happens, is what Run returns.
func TestTX24NoErrorOfARebalanceIsLost(t *testing.T) {
	bad := errors.New("bad disk")
	ends := func(t *testing.T, i *instance) error {
		t.Helper()
		select {
		case err := <-i.end:
			return err
		case <-time.After(60 * time.Second):
			require.FailNow(t, "Run has not returned")
			return nil
		}
	}
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		t.Run("assignor", func(t *testing.T) {
			s := newSpy(t, b)
			s.assign = func([]commitlog.GroupMember) (map[string][]commitlog.TopicPartition, error) { return nil, bad }
			err := ends(t, launch(t, b, newRig(t, b, 1).counter(), s.on))
			require.ErrorIs(t, err, bad)
			require.ErrorContains(t, err, "assign partitions")
		})
		t.Run("join", func(t *testing.T) {
			r := newRig(t, b, 1)
			other, err := newSpy(t, b).OpenMember(t.Context(), commitlog.MemberConfig{Group: r.app, Protocol: "other", Topics: []string{r.in},
				SessionTimeout: 6 * time.Second, RebalanceTimeout: 6 * time.Second,
				Assign: func([]commitlog.GroupMember) (map[string][]commitlog.TopicPartition, error) { return nil, nil }})
			require.NoError(t, err)
			_, err = other.Join(t.Context(), nil, nil)
			require.NoError(t, err)
			require.ErrorContains(t, ends(t, launch(t, b, r.counter())), "INCONSISTENT_GROUP_PROTOCOL")
			require.NoError(t, other.Close(t.Context(), true))
		})
		t.Run("inventory", func(t *testing.T) {
			e := &failing{Engine: kvstore.NewMemory()}
			e.stores.Store(&bad)
			require.ErrorIs(t, ends(t, launch(t, b, newRig(t, b, 1).counter(), func(c *exec.Config) { c.State = e })), bad)
		})
		t.Run("store", func(t *testing.T) {
			e := &failing{Engine: kvstore.NewMemory()}
			e.open.Store(&bad)
			require.ErrorIs(t, ends(t, launch(t, b, newRig(t, b, 1).counter(), func(c *exec.Config) { c.State = e })), bad)
		})
		t.Run("restore", func(t *testing.T) {
			r := newRig(t, b, 1)
			r.put("k", "a")
			i := launch(t, b, r.counter())
			r.settle(i)
			i.drain()
			s := newSpy(t, b)
			s.before = func(_ context.Context, call string) error {
				if call == "read "+r.changelog("n")+"/0" {
					return &commitlog.Error{Op: "fetch", Partition: -1, Class: commitlog.Fatal, Err: bad}
				}
				return nil
			}
			require.ErrorIs(t, ends(t, launch(t, b, r.counter(), s.on)), bad)
		})
		t.Run("later", func(t *testing.T) { // a task that comes with a rebalance, to a member that works
			r := newRig(t, b, 2)
			first := launch(t, b, r.counter())
			e := &failing{Engine: kvstore.NewMemory()}
			second := launch(t, b, r.counter(), func(c *exec.Config) { c.State = e })
			second.await("a task each", func() bool { return first.app.Stats().Tasks == 1 && second.app.Stats().Tasks == 1 })
			e.open.Store(&bad)
			first.drain()
			require.ErrorIs(t, ends(t, second), bad)
		})
	})
}

// Input is read from its beginning and read_committed: aborted records of upstream transactions are never seen, those of open ones not
// before they are committed. Positions are committed by the tasks' transactions only (E1, E9).
func TestTX27InputIsReadCommittedFromTheEarliest(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		record := func(v string) kafka.Record { return kafka.Record{Topic: r.in, Key: []byte("k"), Value: []byte(v)} }
		upstream := func(values ...string) *kafka.Txn {
			txn, err := r.c.Begin(t.Context(), r.app+"-upstream")
			require.NoError(t, err)
			for _, v := range values {
				require.NoError(t, txn.Produce(t.Context(), record(v)))
			}
			return txn
		}
		var mu sync.Mutex
		var saw []string
		seen := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(saw)
		}
		plan := r.plan(func(_, v string, n int) int {
			mu.Lock()
			defer mu.Unlock()
			saw = append(saw, v)
			return n + 1
		})
		r.put("k", "before")
		require.NoError(t, upstream("aborted 1", "aborted 2").Abort(t.Context()))
		require.NoError(t, upstream("committed").Commit(t.Context()))
		open := upstream("open 1")
		r.put("k", "behind the open one")
		i := launch(t, b, plan)
		r.settle(i) // up to the open transaction
		require.Equal(t, []string{"before", "committed"}, seen())
		require.NoError(t, open.Produce(t.Context(), record("open 2")))
		time.Sleep(300 * time.Millisecond)
		require.Equal(t, []string{"before", "committed"}, seen())
		require.NoError(t, open.Commit(t.Context()))
		require.NoError(t, upstream("aborted 3").Abort(t.Context()))
		r.put("k", "last")
		require.NoError(t, r.c.AwaitStable(t.Context(), r.in))
		r.settle(i)
		i.drain()
		require.Equal(t, []string{"before", "committed", "open 1", "behind the open one", "open 2", "last"}, seen())
		require.Equal(t, map[string][]string{"k": numbers(1, 6)}, r.byKey())
		n := i.app.Stats().Commits
		ends, err := r.c.EndOffsets(t.Context(), kafka.ReadCommitted, r.out)
		require.NoError(t, err)
		require.LessOrEqual(t, ends[kafka.Partition{Topic: r.out}], 6+n)
	})
}
