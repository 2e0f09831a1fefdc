package logtest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Read-only.
var groupCases = []testCase{
	{"OneMemberGetsAll", oneMemberGetsAll},
	{"TwoShare", twoShare},
	{"LeaveRebalances", leaveRebalances},
	{"GenerationsRise", generationsRise},
	{"AssignorSeesOwnedAndData", assignorSeesOwnedAndData},
	{"AssignorFails", assignorFails},
	{"MoreMembersThanPartitions", moreMembersThanPartitions},
	{"StaticMemberReturns", staticMemberReturns},
	{"StaticMemberOfAnotherVersion", staticMemberOfAnotherVersion},
	{"StaticMemberTwice", staticMemberTwice},
	{"JoinCancelled", joinCancelled},
	{"SilentOwnerStays", silentOwnerStays},
	{"AbandonedMemberExpires", abandonedMemberExpires},
}

// groupMember is a member under test.
type groupMember struct {
	commitlog.Member
	e    *env
	mu   sync.Mutex
	seen [][]commitlog.GroupMember // what its assignor was given
	on   func(*groupMember)        // called by its assignor, if not nil
}

// hook has the member's assignor call f before it assigns; nil means nothing.
func (m *groupMember) hook(f func(*groupMember)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on = f
}

// member opens a member whose assignor deals partitions out in turn, to members by their
// instance or member id.
func (e *env) member(l commitlog.Log, group, instance string, topics ...string) *groupMember {
	e.Helper()
	return e.memberWith(l, commitlog.MemberConfig{Group: group, InstanceID: instance, Topics: topics, SessionTimeout: 30 * time.Second})
}

func (e *env) memberWith(l commitlog.Log, cfg commitlog.MemberConfig) *groupMember {
	e.Helper()
	m := &groupMember{e: e}
	cfg.ClientID, cfg.Protocol = "logtest", "logtest"
	cfg.RebalanceTimeout, cfg.HeartbeatInterval = cmp.Or(cfg.RebalanceTimeout, 30*time.Second), 50*time.Millisecond
	described, err := e.Log.Topics(e.ctx, cfg.Topics...)
	require.NoError(e, err)
	require.Len(e, described, len(cfg.Topics))
	if cfg.Assign == nil {
		cfg.Assign = func(members []commitlog.GroupMember) (map[string][]commitlog.TopicPartition, error) {
			m.mu.Lock()
			m.seen = append(m.seen, members)
			on := m.on
			m.mu.Unlock()
			if on != nil {
				on(m)
			}
			sorted := slices.Clone(members)
			slices.SortFunc(sorted, func(a, b commitlog.GroupMember) int {
				return cmp.Or(cmp.Compare(a.InstanceID, b.InstanceID), cmp.Compare(a.ID, b.ID))
			})
			out := map[string][]commitlog.TopicPartition{}
			for _, name := range cfg.Topics {
				for i, tp := range partitions(name, described[name].Partitions) {
					id := sorted[i%len(sorted)].ID
					out[id] = append(out[id], tp)
				}
			}
			return out, nil
		}
	}
	m.Member, err = l.OpenMember(e.ctx, cfg)
	require.NoError(e, err)
	e.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), e.Patience)
		defer cancel()
		m.Close(ctx, true)
	})
	return m
}

// mustJoin joins.
func (m *groupMember) mustJoin(owned []commitlog.TopicPartition, data []byte) commitlog.Assignment {
	m.e.Helper()
	a := <-m.joining(owned, data)
	require.NoError(m.e, a.err)
	return a.Assignment
}

// joined is what a Join returned.
type joined struct {
	commitlog.Assignment
	err error
}

// joining joins on another goroutine.
func (m *groupMember) joining(owned []commitlog.TopicPartition, data []byte) <-chan joined {
	out := make(chan joined, 1)
	go func() {
		ctx, cancel := context.WithTimeout(m.e.ctx, m.e.Patience)
		defer cancel()
		a, err := m.Join(ctx, owned, data)
		out <- joined{a, err}
	}()
	return out
}

// awaitRebalance waits until the member is asked to join again.
func (m *groupMember) awaitRebalance() {
	m.e.Helper()
	select {
	case <-m.Rebalance():
	case <-time.After(m.e.Patience):
		require.FailNow(m.e, "no rebalance")
	}
}

// joinBoth has b join a's group, and a join again as it is asked to.
func joinBoth(a, b *groupMember) (commitlog.Assignment, commitlog.Assignment) {
	a.e.Helper()
	second := b.joining(nil, nil)
	a.awaitRebalance()
	first := a.mustJoin(nil, nil)
	got := <-second
	require.NoError(a.e, got.err)
	require.Equal(a.e, first.Generation, got.Generation, "both are in one generation")
	require.NotEqual(a.e, first.MemberID, got.MemberID)
	return first, got.Assignment
}

// follower is a member whose owner joins whenever it is asked to.
type follower struct {
	mu  sync.Mutex
	all []commitlog.Assignment // of every Join
	err error                  // of the last one
}

// follow has the member join, and join again with what it got whenever the group asks for it, until the test ends.
func (m *groupMember) follow(owned []commitlog.TopicPartition) *follower {
	f := &follower{}
	ctx, cancel := context.WithCancel(m.e.ctx)
	done := make(chan struct{})
	m.e.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for {
			a, err := m.Join(ctx, owned, nil)
			f.mu.Lock()
			if f.err = err; err == nil {
				f.all = append(f.all, a)
			}
			f.mu.Unlock()
			if err != nil {
				return
			}
			owned = a.Partitions
			select {
			case <-m.Rebalance():
			case <-ctx.Done():
				return
			}
		}
	}()
	return f
}

// assignments returns what the follower was assigned so far, and why its last Join failed.
func (f *follower) assignments() ([]commitlog.Assignment, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all), f.err
}

// agree waits until all followers were assigned something in one generation, and returns it.
func (e *env) agree(fs ...*follower) []commitlog.Assignment {
	e.Helper()
	last := make([]commitlog.Assignment, len(fs))
	e.eventually("one generation of all", func() bool {
		for i, f := range fs {
			all, err := f.assignments()
			require.NoError(e, err)
			if len(all) == 0 {
				return false
			}
			last[i] = all[len(all)-1]
			if last[i].Generation != last[0].Generation {
				return false
			}
		}
		return true
	})
	return last
}

// together requires that the assignments cover tps exactly once.
func (e *env) together(tps []commitlog.TopicPartition, as ...commitlog.Assignment) {
	e.Helper()
	var all []commitlog.TopicPartition
	for _, a := range as {
		all = append(all, a.Partitions...)
	}
	require.ElementsMatch(e, tps, all)
}

// A single member is assigned everything, and knows who it is.
func oneMemberGetsAll(e *env) {
	topics := []string{e.topic(4), e.topic(2)}
	group := e.name("group")
	a := e.member(e.Log, group, "", topics...).mustJoin(nil, nil)
	e.together(append(partitions(topics[0], 4), partitions(topics[1], 2)...), a)
	require.Equal(e, group, a.Group)
	require.NotEmpty(e, a.MemberID)
	require.Empty(e, a.InstanceID)
	require.Positive(e, a.Generation)
}

// A second member makes the first one rebalance; they share.
func twoShare(e *env) {
	topic := e.topic(4)
	group := e.name("group")
	l := e.Connect(e.T)
	defer l.Close()
	a, b := e.member(e.Log, group, "", topic), e.member(l, group, "", topic)
	a.mustJoin(nil, nil)
	first, second := joinBoth(a, b)
	e.together(partitions(topic, 4), first, second)
	require.Len(e, first.Partitions, 2)
}

// A member that leaves makes the others rebalance at once; they take over.
func leaveRebalances(e *env) {
	topic := e.topic(3)
	group := e.name("group")
	a, b := e.member(e.Log, group, "", topic), e.member(e.Log, group, "", topic)
	a.mustJoin(nil, nil)
	joinBoth(a, b)
	require.NoError(e, a.Close(e.ctx, true))
	require.NoError(e, a.Close(e.ctx, true), "Close is idempotent")
	b.awaitRebalance()
	e.together(partitions(topic, 3), b.mustJoin(nil, nil))
	_, err := a.Join(e.ctx, nil, nil)
	require.ErrorIs(e, err, commitlog.ErrClosed)
}

// Each change of the members is a new generation, greater than the last.
func generationsRise(e *env) {
	topic := e.topic(2)
	group := e.name("group")
	a := e.member(e.Log, group, "", topic)
	last := a.mustJoin(nil, nil).Generation
	for range 3 {
		b := e.member(e.Log, group, "", topic)
		with, _ := joinBoth(a, b)
		require.Greater(e, with.Generation, last)
		require.NoError(e, b.Close(e.ctx, true))
		a.awaitRebalance()
		without := a.mustJoin(nil, nil)
		require.Greater(e, without.Generation, with.Generation)
		last = without.Generation
	}
}

// The leader's assignor is given what every member said it owned and sent along.
func assignorSeesOwnedAndData(e *env) {
	topic := e.topic(4)
	tps := partitions(topic, 4)
	group := e.name("group")
	a, b := e.member(e.Log, group, "", topic), e.member(e.Log, group, "", topic)
	first := a.mustJoin(nil, []byte("alone"))
	require.Len(e, a.seen, 1)
	require.Equal(e, "alone", string(a.seen[0][0].UserData))
	require.Empty(e, a.seen[0][0].Owned)

	second := b.joining(tps[2:], []byte{0, 1, 255})
	a.awaitRebalance()
	first = a.mustJoin(tps[:2], nil)
	got := <-second
	require.NoError(e, got.err)
	seen := append(a.seen[1:], b.seen...)
	require.Len(e, seen, 1, "one member assigns, once")
	require.Len(e, seen[0], 2)
	for _, m := range seen[0] {
		require.Equal(e, []string{topic}, m.Topics)
		switch m.ID {
		case first.MemberID:
			require.ElementsMatch(e, tps[:2], m.Owned)
			require.Empty(e, m.UserData)
		case got.MemberID:
			require.ElementsMatch(e, tps[2:], m.Owned)
			require.Equal(e, []byte{0, 1, 255}, m.UserData)
		default:
			require.Fail(e, "unknown member", m.ID)
		}
	}
}

// An assignor's error is what the leader's Join returns.
func assignorFails(e *env) {
	topic := e.topic(1)
	boom := errors.New("no way to assign")
	m := e.memberWith(e.Log, commitlog.MemberConfig{Group: e.name("group"), Topics: []string{topic}, SessionTimeout: 30 * time.Second,
		Assign: func([]commitlog.GroupMember) (map[string][]commitlog.TopicPartition, error) { return nil, boom }})
	got := <-m.joining(nil, nil)
	require.ErrorIs(e, got.err, boom)
	e.requireClass(commitlog.Fatal, got.err)
}

// A member may go empty-handed.
func moreMembersThanPartitions(e *env) {
	topic := e.topic(1)
	group := e.name("group")
	a, b := e.member(e.Log, group, "", topic), e.member(e.Log, group, "", topic)
	a.mustJoin(nil, nil)
	first, second := joinBoth(a, b)
	e.together(partitions(topic, 1), first, second)
}

// A static member that went without leaving comes back to what it had (KIP-345), though its
// session has not ended.
func staticMemberReturns(e *env) {
	topic := e.topic(4)
	group := e.name("group")
	a, b := e.member(e.Log, group, "instance-a", topic), e.member(e.Log, group, "instance-b", topic)
	a.mustJoin(nil, nil)
	first, second := joinBoth(a, b)
	require.Equal(e, "instance-a", first.InstanceID)
	require.NoError(e, b.Close(e.ctx, false))
	again := e.member(e.Log, group, "instance-b", topic)
	back := joined{err: context.DeadlineExceeded}
	for coming := again.joining(second.Partitions, nil); back.err != nil; {
		select {
		case back = <-coming:
			require.NoError(e, back.err)
		case <-a.Rebalance(): // not needed, and no harm
			a.mustJoin(first.Partitions, nil)
		}
	}
	require.ElementsMatch(e, second.Partitions, back.Partitions)
	require.Equal(e, "instance-b", back.InstanceID)
	tp := back.Partitions[0]
	_, err := e.producer(e.name("p")).Commit(e.ctx, map[commitlog.TopicPartition]int64{tp: 1}, back.GroupMetadata)
	require.NoError(e, err)
}

// A static member that comes back with another version of the assignor is not given what its old one assigned.
func staticMemberOfAnotherVersion(e *env) {
	topic := e.topic(2)
	group := e.name("group")
	versioned := func(version string) *groupMember {
		return e.memberWith(e.Log, commitlog.MemberConfig{Group: group, InstanceID: "instance", Version: version, Topics: []string{topic}, SessionTimeout: 30 * time.Second})
	}
	assigned := func(m *groupMember) int {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.seen)
	}
	generation := int32(-1)
	for i, c := range []struct {
		version string
		assigns int
	}{{"1", 1}, {"1", 0}, {"2", 1}, {"2", 0}, {"", 1}, {"1", 1}} {
		m := versioned(c.version)
		a := m.mustJoin(nil, nil)
		require.Equal(e, c.assigns, assigned(m), "join %d", i)
		require.Equal(e, c.assigns == 1, a.Generation > generation, "join %d", i)
		e.together(partitions(topic, 2), a)
		generation = a.Generation
		require.NoError(e, m.Close(e.ctx, false))
	}
}

// Of two members with one instance id the later one has the place, the earlier commits nothing.
func staticMemberTwice(e *env) {
	topic := e.topic(2)
	group := e.name("group")
	old := e.member(e.Log, group, "instance", topic)
	was := old.mustJoin(nil, nil)
	now := e.member(e.Log, group, "instance", topic).mustJoin(nil, nil)
	e.together(partitions(topic, 2), now)
	e.refused(was.GroupMetadata, partitions(topic, 2)[0])
	old.awaitRebalance() // its membership is lost
	_, err := old.Join(e.ctx, nil, nil)
	e.requireClass(commitlog.Fenced, err)
}

// A Join that waits for others returns when its context ends.
func joinCancelled(e *env) {
	topic := e.topic(2)
	group := e.name("group")
	a, b := e.member(e.Log, group, "", topic), e.member(e.Log, group, "", topic)
	a.mustJoin(nil, nil)
	ctx, cancel := context.WithCancel(e.ctx)
	done := make(chan error, 1)
	go func() {
		_, err := b.Join(ctx, nil, nil)
		done <- err
	}()
	a.awaitRebalance() // b waits for a
	cancel()
	select {
	case err := <-done:
		require.ErrorIs(e, err, context.Canceled)
	case <-time.After(e.Patience):
		require.FailNow(e, "Join did not return")
	}
}

// L6: a member whose owner does nothing for longer than its session stays in the group.
func silentOwnerStays(e *env) {
	e.need(e.Elapse != nil, "Elapse")
	tp := e.one()
	m := e.memberWith(e.Log, commitlog.MemberConfig{Group: e.name("group"), Topics: []string{tp.Topic}, SessionTimeout: e.SessionTimeout})
	a := m.mustJoin(nil, nil)
	e.Elapse(e.SessionTimeout + e.SessionTimeout/2)
	_, err := e.producer(e.name("p")).Commit(e.ctx, map[commitlog.TopicPartition]int64{tp: 4}, a.GroupMetadata)
	require.NoError(e, err)
	select {
	case <-m.Rebalance():
		require.Fail(e, "a rebalance without a cause")
	default:
	}
}

// A member that went without a word is out when its session has ended.
func abandonedMemberExpires(e *env) {
	e.need(e.Elapse != nil, "Elapse")
	topic := e.topic(3)
	group := e.name("group")
	l := e.Connect(e.T)
	a := e.member(e.Log, group, "", topic)
	b := e.memberWith(l, commitlog.MemberConfig{Group: group, Topics: []string{topic}, SessionTimeout: e.SessionTimeout})
	a.mustJoin(nil, nil)
	_, gone := joinBoth(a, b)
	require.NoError(e, l.Close())
	e.Elapse(e.SessionTimeout + time.Second)
	a.awaitRebalance()
	e.together(partitions(topic, 3), a.mustJoin(nil, nil))
	e.refused(gone.GroupMetadata, partitions(topic, 3)[0])
}
