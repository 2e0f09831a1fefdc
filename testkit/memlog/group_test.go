package memlog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/testkit/memlog"
)

func signalled(m commitlog.Member) bool {
	select {
	case <-m.Rebalance():
		return true
	default:
		return false
	}
}

// A member without heartbeats is out after its session, and learns of it when they resume.
func TestPausedMemberLosesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := memlog.New(memlog.Options{})
		defer l.Close()
		create(t, l, "in", 2)
		a, b := member(t, l, "g", "", 2, "in"), member(t, l, "g", "", 2, "in")
		first, err := a.Join(ctx, nil, nil)
		require.NoError(t, err)
		require.Len(t, first.Partitions, 2)
		joined := make(chan commitlog.Assignment, 1)
		go func() {
			as, err := b.Join(ctx, nil, nil)
			require.NoError(t, err)
			joined <- as
		}()
		<-a.Rebalance()
		first, err = a.Join(ctx, first.Partitions, nil)
		require.NoError(t, err)
		second := <-joined
		require.Equal(t, first.Generation, second.Generation)

		require.NoError(t, l.PauseMember("g", second.MemberID, true))
		time.Sleep(9 * time.Second)
		synctest.Wait()
		require.False(t, signalled(a))
		time.Sleep(time.Second)
		synctest.Wait()
		require.True(t, signalled(a), "the session is over after 10 s")
		require.False(t, signalled(b), "a paused member hears nothing")
		require.NoError(t, l.PauseMember("g", second.MemberID, false))
		require.True(t, signalled(b))
		alone, err := a.Join(ctx, nil, nil)
		require.NoError(t, err)
		require.Len(t, alone.Partitions, 2)
		p := producer(t, l, "p")
		_, err = p.Commit(ctx, map[commitlog.TopicPartition]int64{tp("in", 0): 1}, second.GroupMetadata)
		require.Equal(t, commitlog.Fenced, commitlog.ClassOf(err))
		require.ErrorContains(t, err, "UNKNOWN_MEMBER_ID")
	})
}

// A rebalance waits for a member that does not join, but no longer than its timeout.
func TestRebalanceTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := memlog.New(memlog.Options{})
		defer l.Close()
		create(t, l, "in", 2)
		a, b := member(t, l, "g", "", 2, "in"), member(t, l, "g", "", 2, "in")
		_, err := a.Join(ctx, nil, nil)
		require.NoError(t, err)
		begin := time.Now()
		as, err := b.Join(ctx, nil, nil)
		require.NoError(t, err)
		require.Equal(t, 30*time.Second, time.Since(begin))
		require.Len(t, as.Partitions, 2)
		require.True(t, signalled(a))
	})
}

// When members are late the leader still has all of its own time to assign. It used to be thrown out at once,
// since the deadline that the members had missed was taken for the leader's.
func TestLateMemberIsNotTheLeadersFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := memlog.New(memlog.Options{})
		defer l.Close()
		create(t, l, "in", 2)
		late := member(t, l, "g", "", 2, "in")
		_, err := late.Join(ctx, nil, nil)
		require.NoError(t, err)
		assign := func(members []commitlog.GroupMember) (map[string][]commitlog.TopicPartition, error) {
			time.Sleep(20 * time.Second)
			return everyPartition(2)(members)
		}
		leader, err := l.OpenMember(ctx, commitlog.MemberConfig{Group: "g", Protocol: "p", Topics: []string{"in"},
			SessionTimeout: 10 * time.Second, RebalanceTimeout: 30 * time.Second, Assign: assign})
		require.NoError(t, err)
		begin := time.Now()
		as, err := leader.Join(ctx, nil, nil)
		require.NoError(t, err)
		require.Equal(t, 50*time.Second, time.Since(begin))
		require.EqualValues(t, 2, as.Generation, "one rebalance")
		require.Len(t, as.Partitions, 2)
	})
}

// A member that is thrown out while it is paused, joins anew and is resumed has heartbeats again; one whose
// connection was closed meanwhile has none. Resuming used to look at the membership that was gone.
func TestResumedMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := memlog.New(memlog.Options{})
		defer l.Close()
		create(t, l, "in", 1)
		s := l.Session()
		m := member(t, s, "g", "", 1, "in")
		first, err := m.Join(ctx, nil, nil)
		require.NoError(t, err)
		require.NoError(t, l.PauseMember("g", first.MemberID, true))
		time.Sleep(11 * time.Second)
		require.Empty(t, l.Group("g").Members)
		second, err := m.Join(ctx, nil, nil)
		require.NoError(t, err)
		require.NotEqual(t, first.MemberID, second.MemberID)
		require.NoError(t, l.PauseMember("g", first.MemberID, false))
		time.Sleep(time.Hour)
		require.Len(t, l.Group("g").Members, 1)

		require.NoError(t, l.PauseMember("g", second.MemberID, true))
		require.NoError(t, s.Close())
		require.NoError(t, l.PauseMember("g", second.MemberID, false))
		time.Sleep(11 * time.Second)
		require.Empty(t, l.Group("g").Members)
	})
}

// A static member comes back to its assignment: no rebalance, the same generation.
func TestStaticMemberReturnsQuietly(t *testing.T) {
	ctx := context.Background()
	l := memlog.New(memlog.Options{})
	defer l.Close()
	create(t, l, "in", 2)
	s := l.Session()
	first, err := member(t, s, "g", "i1", 2, "in").Join(ctx, nil, nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	again, err := member(t, l, "g", "i1", 2, "in").Join(ctx, nil, nil)
	require.NoError(t, err)
	require.Equal(t, first.Partitions, again.Partitions)
	require.Equal(t, first.Generation, again.Generation)
	require.NotEqual(t, first.MemberID, again.MemberID)
	p := producer(t, l, "p")
	_, err = p.Commit(ctx, map[commitlog.TopicPartition]int64{tp("in", 0): 1}, first.GroupMetadata)
	require.ErrorContains(t, err, "FENCED_INSTANCE_ID")
}

// Whoever joins again makes all rebalance, a follower too: it says that it has an assignment of the last generation.
func TestRejoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := memlog.New(memlog.Options{})
		defer l.Close()
		create(t, l, "in", 2)
		a, b := member(t, l, "g", "", 2, "in"), member(t, l, "g", "", 2, "in")
		_, err := a.Join(ctx, nil, nil)
		require.NoError(t, err)
		go b.Join(ctx, nil, nil)
		<-a.Rebalance()
		_, err = a.Join(ctx, nil, nil)
		require.NoError(t, err)
		synctest.Wait()
		g := l.Group("g")
		require.Equal(t, "Stable", g.State)
		require.True(t, g.Members[0].Leader)
		for _, m := range []struct{ again, other commitlog.Member }{{b, a}, {a, b}} {
			go m.again.Join(ctx, nil, nil)
			<-m.other.Rebalance()
			as, err := m.other.Join(ctx, nil, nil)
			require.NoError(t, err)
			require.Equal(t, g.Generation+1, as.Generation)
			synctest.Wait()
			g = l.Group("g")
			require.Equal(t, "Stable", g.State)
		}
	})
}

func TestProtocolsMustAgree(t *testing.T) {
	ctx := context.Background()
	l := memlog.New(memlog.Options{})
	defer l.Close()
	create(t, l, "in", 1)
	_, err := member(t, l, "g", "", 1, "in").Join(ctx, nil, nil)
	require.NoError(t, err)
	other, err := l.OpenMember(ctx, commitlog.MemberConfig{Group: "g", Protocol: "other", Topics: []string{"in"}, Assign: everyPartition(1)})
	require.NoError(t, err)
	_, err = other.Join(ctx, nil, nil)
	require.ErrorContains(t, err, "INCONSISTENT_GROUP_PROTOCOL")
	require.Equal(t, commitlog.Fatal, commitlog.ClassOf(err))
}

// Members that come, go, hang and crash at random: in every generation each partition has one owner,
// generations never fall, and when the changes end the group is stable. A lost wake-up would
// be a deadlock, which the bubble reports.
func TestRandomMembers(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			const width = 5
			r := rand.New(rand.NewPCG(seed, 7))
			l := memlog.New(memlog.Options{})
			create(t, l, "in", width)
			var mu sync.Mutex
			owners := map[int32]map[int32]string{} // by generation and partition
			var quiet atomic.Bool                  // members are prompt from now on
			var wg sync.WaitGroup
			var sessions []*memlog.Log
			live := map[*memlog.Log]bool{}
			start := func(instance string) {
				s := l.Session()
				sessions = append(sessions, s)
				live[s] = true
				m := member(t, s, "g", instance, width, "in")
				delays := rand.New(rand.NewPCG(seed, r.Uint64()))
				wg.Go(func() {
					last := int32(0)
					for {
						as, err := m.Join(context.Background(), nil, []byte{byte(delays.IntN(2))})
						if err != nil {
							if !errors.Is(err, commitlog.ErrClosed) && commitlog.ClassOf(err) != commitlog.Fenced {
								t.Errorf("join: %v", err)
							}
							return
						}
						mu.Lock()
						if as.Generation < last {
							t.Errorf("generation %d after %d", as.Generation, last)
						}
						last = as.Generation
						if owners[as.Generation] == nil {
							owners[as.Generation] = map[int32]string{}
						}
						who := as.MemberID
						if instance != "" {
							who = instance
						}
						for _, tp := range as.Partitions {
							if o := owners[as.Generation][tp.Partition]; o != "" && o != who {
								t.Errorf("generation %d: %s has two owners: %s and %s", as.Generation, tp, o, who)
							}
							owners[as.Generation][tp.Partition] = who
						}
						mu.Unlock()
						if instance != "" && delays.IntN(3) == 0 {
							time.Sleep(time.Duration(delays.IntN(20)) * time.Second)
						}
						wait := time.NewTimer(5 * time.Minute)
						select {
						case <-m.Rebalance():
						case <-wait.C: // nothing more happens, or the connection is closed
							return
						}
						if delay := time.Duration(delays.IntN(40)) * time.Second; !quiet.Load() {
							time.Sleep(delay) // at times longer than the timeout
						}
					}
				})
			}
			for range 25 {
				switch n := r.IntN(10); {
				case n < 4:
					start([]string{"", "", "s1", "s2"}[r.IntN(4)])
				case n < 6 && len(sessions) > 0:
					s := sessions[r.IntN(len(sessions))]
					delete(live, s)
					require.NoError(t, s.Close())
				case n < 8:
					if g := l.Group("g"); len(g.Members) > 0 {
						id := g.Members[r.IntN(len(g.Members))].ID
						_ = l.PauseMember("g", id, true)
						time.AfterFunc(time.Duration(r.IntN(20))*time.Second, func() { _ = l.PauseMember("g", id, false) })
					}
				default:
					time.Sleep(time.Duration(r.IntN(40)) * time.Second)
				}
			}
			start("")
			quiet.Store(true)
			time.Sleep(4 * time.Minute)
			g := l.Group("g")
			require.Equal(t, "Stable", g.State, "seed %d", seed)
			require.NotEmpty(t, g.Members)
			covered := map[commitlog.TopicPartition]bool{}
			for _, m := range g.Members {
				for _, tp := range m.Assigned {
					require.False(t, covered[tp])
					covered[tp] = true
				}
			}
			require.Len(t, covered, width)
			wg.Wait()
			require.NoError(t, l.Close())
			for _, s := range sessions {
				require.NoError(t, s.Close())
			}
		})
	}
}

// idleWith starts a member of group g that reads "in" and returns its producer and assignment.
func idleWith(t *testing.T, l *memlog.Log) (commitlog.Member, commitlog.Producer, commitlog.Assignment) {
	t.Helper()
	m := member(t, l, "g", "", 1, "in")
	as, err := m.Join(context.Background(), nil, nil)
	require.NoError(t, err)
	return m, producer(t, l, "worker"), as
}

// What counts as idle: nothing to see at or after the committed offset, whatever else is there.
func TestAwaitIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := memlog.New(memlog.Options{})
		defer l.Close()
		create(t, l, "in", 1)
		waits := func(what string) func() {
			t.Helper()
			done := make(chan error, 1)
			go func() { done <- l.AwaitIdle(ctx, "g") }()
			synctest.Wait()
			select {
			case err := <-done:
				require.FailNow(t, "idle", "%s: %v", what, err)
			default:
			}
			return func() {
				t.Helper()
				synctest.Wait()
				select {
				case err := <-done:
					require.NoError(t, err)
				default:
					require.FailNow(t, "not idle", "%s", what)
				}
			}
		}
		idle := waits("no member yet")
		m, p, as := idleWith(t, l)
		idle()

		commit := func(offset int64) {
			t.Helper()
			_, err := p.Commit(ctx, map[commitlog.TopicPartition]int64{tp("in", 0): offset}, as.GroupMetadata)
			require.NoError(t, err)
		}
		_, err := l.Append(ctx, "in", 0, kv("a=1", "b=1"))
		require.NoError(t, err)
		idle = waits("two records")
		commit(1)
		synctest.Wait()
		commit(2)
		idle()

		other := producer(t, l, "other")
		require.NoError(t, other.Produce(ctx, tp("in", 0), batchOf(kv("c=1"))))
		idle = waits("an open transaction")
		require.NoError(t, other.Abort(ctx))
		idle() // at 2, while the log ends at 4 with an aborted record and a marker

		require.NoError(t, other.Produce(ctx, tp("in", 0), batchOf(kv("d=1"))))
		_, err = other.Commit(ctx, nil, noGroup)
		require.NoError(t, err)
		idle = waits("a committed record")
		commit(5) // a marker is behind it
		idle()

		_, err = l.Append(ctx, "in", 0, kv("e=1"))
		require.NoError(t, err)
		idle = waits("a record")
		_, err = l.Truncate(tp("in", 0), -1)
		require.NoError(t, err)
		idle() // it is gone

		_, err = l.Append(ctx, "in", 0, kv("f=1"))
		require.NoError(t, err)
		fails := make(chan error, 1)
		go func() { fails <- l.AwaitIdle(ctx, "g") }()
		synctest.Wait()
		require.NoError(t, m.Close(ctx, true))
		require.ErrorIs(t, <-fails, memlog.ErrNoMembers)
		require.ErrorIs(t, l.AwaitIdle(ctx, "g"), memlog.ErrNoMembers)

		boom := errors.New("boom")
		cctx, cancel := context.WithCancelCause(ctx)
		go func() { fails <- l.AwaitIdle(cctx, "never") }()
		synctest.Wait()
		cancel(boom)
		require.ErrorIs(t, <-fails, boom)
	})
}

// Await sees each change.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := memlog.New(memlog.Options{})
		defer l.Close()
		create(t, l, "out", 1)
		go func() {
			p := producer(t, l, "p")
			for i := range 20 {
				if p.Produce(ctx, tp("out", 0), batchOf(kv(fmt.Sprintf("%d=x", i)))) != nil {
					return
				}
				if _, err := p.Commit(ctx, nil, noGroup); err != nil {
					return
				}
			}
		}()
		require.NoError(t, l.Await(ctx, func() bool {
			records, err := l.Records("out", 0, commitlog.ReadCommitted)
			return err == nil && len(records) == 20
		}))
	})
}
