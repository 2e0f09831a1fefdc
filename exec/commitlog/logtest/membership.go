package logtest

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Read-only.
var membershipCases = []testCase{
	{"FreshOnce", freshOnce},
	{"WorksAcrossRebalances", worksAcrossRebalances},
	{"TakesTheNextGeneration", takesTheNextGeneration},
	{"GenerationIsAwaited", generationIsAwaited},
	{"ThrownOutIsFenced", thrownOutIsFenced},
	{"ClosedIsFenced", closedIsFenced},
	{"CancelledJoinKeepsThePlace", cancelledJoinKeepsThePlace},
	{"ClaimsOfTwoGenerations", claimsOfTwoGenerations},
	{"HeldJoinKeepsThePlace", heldJoinKeepsThePlace},
	{"WithheldIsTold", withheldIsTold},
}

// current asks an identity that must know a generation above after.
func (e *env) current(id commitlog.Identity, after int32) commitlog.GroupMetadata {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, e.Patience)
	defer cancel()
	meta, err := id.Current(ctx, after)
	require.NoError(e, err)
	require.Greater(e, meta.Generation, after)
	return meta
}

// lost requires that an identity answers Fenced, whatever it is asked.
func (e *env) lost(id commitlog.Identity) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, e.Patience)
	defer cancel()
	_, err := id.Current(ctx, 1<<30)
	e.requireClass(commitlog.Fenced, err)
	_, err = id.Current(ctx, commitlog.AnyGeneration)
	e.requireClass(commitlog.Fenced, err)
}

// A membership is fresh in its first assignment, and has one identity in all of them, whose generation is that of
// the latest.
func freshOnce(e *env) {
	topic := e.topic(2)
	group := e.name("group")
	a, b := e.member(e.Log, group, "", topic), e.member(e.Log, group, "", topic)
	first := a.mustJoin(nil, nil)
	require.True(e, first.Fresh)
	require.NotNil(e, first.Identity)
	require.Equal(e, first.GroupMetadata, e.current(first.Identity, commitlog.AnyGeneration))
	second, other := joinBoth(a, b)
	require.False(e, second.Fresh)
	require.True(e, other.Fresh)
	require.True(e, first.Identity == second.Identity, "the same value as long as the membership lasts")
	require.False(e, first.Identity == other.Identity)
	require.Equal(e, second.GroupMetadata, e.current(first.Identity, first.Generation))
	require.Equal(e, other.GroupMetadata, e.current(other.Identity, commitlog.AnyGeneration))
}

// E3, E8: a member that goes on working while others come and go commits all the time, and is never fenced.
func worksAcrossRebalances(e *env) {
	topic := e.topic(2)
	in := partitions(topic, 2)[0]
	out := e.one()
	group := e.name("group")
	a := e.member(e.Log, group, "", topic)
	as := a.mustJoin(nil, nil)
	p := e.producer(e.name("p"))
	stop, done := make(chan struct{}), make(chan error, 1)
	var n int64
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			err := p.Produce(e.ctx, out, e.batch(recordsOf("x")...))
			if err == nil {
				_, err = p.Commit(e.ctx, map[commitlog.TopicPartition]int64{in: n + 1}, as.Identity)
			}
			if err != nil {
				done <- err
				return
			}
			n++
		}
	}()
	for range 3 {
		b := e.member(e.Log, group, "", topic)
		second := b.joining(nil, nil)
		a.awaitRebalance()
		again := a.mustJoin(as.Partitions, nil)
		require.True(e, again.Identity == as.Identity)
		got := <-second
		require.NoError(e, got.err)
		require.NoError(e, b.Close(e.ctx, true))
		a.awaitRebalance()
		require.False(e, a.mustJoin(as.Partitions, nil).Fresh)
	}
	close(stop)
	require.NoError(e, <-done)
	require.Positive(e, n)
	require.Equal(e, n, e.committed(group, in)[in])
	require.Len(e, e.all(out).values(out), int(n))
}

// stale is an identity that has not heard of the latest generation when it is asked first.
type stale struct {
	commitlog.Identity
	old   commitlog.GroupMetadata
	asked []int32
}

func (s *stale) Current(ctx context.Context, after int32) (commitlog.GroupMetadata, error) {
	s.asked = append(s.asked, after)
	if len(s.asked) == 1 {
		return s.old, nil
	}
	return s.Identity.Current(ctx, after)
}

// E3, K7: a commit that was begun in one generation is finished in the next, if the membership is still there.
func takesTheNextGeneration(e *env) {
	topic := e.topic(2)
	in := partitions(topic, 2)[0]
	out := e.one()
	group := e.name("group")
	a, b := e.member(e.Log, group, "", topic), e.member(e.Log, group, "", topic)
	old := a.mustJoin(nil, nil)
	joinBoth(a, b)
	p := e.producer(e.name("p"))
	e.produce(p, out, "once")
	id := &stale{Identity: old.Identity, old: old.GroupMetadata}
	_, err := p.Commit(e.ctx, map[commitlog.TopicPartition]int64{in: 3}, id)
	require.NoError(e, err)
	require.Equal(e, []int32{commitlog.AnyGeneration, old.Generation}, id.asked)
	require.Equal(e, int64(3), e.committed(group, in)[in])
	require.Equal(e, []string{"once"}, e.all(out).values(out))
}

// An identity that is asked for a later generation waits for it, and no longer than its context.
func generationIsAwaited(e *env) {
	topic := e.topic(2)
	group := e.name("group")
	a, b := e.member(e.Log, group, "", topic), e.member(e.Log, group, "", topic)
	first := a.mustJoin(nil, nil)
	ctx, cancel := context.WithTimeout(e.ctx, 50*time.Millisecond)
	defer cancel()
	_, err := first.Identity.Current(ctx, first.Generation)
	require.ErrorIs(e, err, context.DeadlineExceeded)
	e.requireClass(commitlog.Retriable, err)
	next := make(chan commitlog.GroupMetadata, 1)
	go func() {
		meta, _ := first.Identity.Current(e.ctx, first.Generation)
		next <- meta
	}()
	second, _ := joinBoth(a, b)
	select {
	case meta := <-next:
		require.Equal(e, second.GroupMetadata, meta)
	case <-time.After(e.Patience):
		require.FailNow(e, "the identity did not hear of the generation")
	}
}

// E3: a member that the group went on without commits nothing any more, is told, and comes back as a new one that
// owns nothing, whatever it says.
func thrownOutIsFenced(e *env) {
	e.need(e.Elapse != nil, "Elapse")
	topic := e.topic(2)
	tps := partitions(topic, 2)
	group := e.name("group")
	patient := func() *groupMember {
		return e.memberWith(e.Log, commitlog.MemberConfig{Group: group, Topics: []string{topic}, SessionTimeout: 30 * time.Second, RebalanceTimeout: e.SessionTimeout / 2})
	}
	a, b := patient(), patient()
	was := a.mustJoin(nil, nil)
	second := b.joining(nil, nil)
	a.awaitRebalance() // and does not join
	p := e.producer(e.name("p"))
	_, err := p.Commit(e.ctx, map[commitlog.TopicPartition]int64{tps[0]: 1}, was.Identity)
	require.NoError(e, err, "until the rebalance is over it has its place")
	e.Elapse(e.SessionTimeout/2 + time.Second/4)
	alone := <-second
	require.NoError(e, alone.err)
	e.together(tps, alone.Assignment)

	out := e.one()
	e.produce(p, out, "never")
	_, err = p.Commit(e.ctx, map[commitlog.TopicPartition]int64{tps[0]: 9}, was.Identity)
	e.requireClass(commitlog.Fenced, err)
	require.NoError(e, p.Abort(e.ctx))
	require.Equal(e, int64(1), e.committed(group, tps[0])[tps[0]])
	a.awaitRebalance()
	e.lost(was.Identity)

	again := a.joining(was.Partitions, []byte("back"))
	b.awaitRebalance()
	with := b.mustJoin(alone.Partitions, nil)
	got := <-again
	require.NoError(e, got.err)
	require.True(e, got.Fresh)
	require.False(e, with.Fresh)
	require.False(e, got.Identity == was.Identity)
	e.together(tps, with, got.Assignment)
	seen := append(a.seen, b.seen...)
	last := seen[0]
	for _, s := range seen {
		if len(s) == 2 {
			last = s
		}
	}
	require.Len(e, last, 2)
	for _, m := range last {
		if m.ID == got.MemberID {
			require.Empty(e, m.Owned, "what was held under the lost membership is held no more")
			require.Equal(e, int32(-1), m.Generation)
			require.Equal(e, "back", string(m.UserData))
		}
	}
	_, err = p.Commit(e.ctx, map[commitlog.TopicPartition]int64{tps[1]: 2}, got.Identity)
	require.NoError(e, err)
	e.lost(was.Identity)
}

// The identity of a closed member commits nothing.
func closedIsFenced(e *env) {
	topic := e.topic(1)
	m := e.member(e.Log, e.name("group"), "", topic)
	a := m.mustJoin(nil, nil)
	require.NoError(e, m.Close(e.ctx, true))
	e.lost(a.Identity)
	tp := partitions(topic, 1)[0]
	_, err := e.producer(e.name("p")).Commit(e.ctx, map[commitlog.TopicPartition]int64{tp: 1}, a.Identity)
	e.requireClass(commitlog.Fenced, err)
}

// A Join that is given up leaves the membership as it was.
func cancelledJoinKeepsThePlace(e *env) {
	topic := e.topic(3)
	tp := partitions(topic, 3)[0]
	group := e.name("group")
	a, b, c := e.member(e.Log, group, "", topic), e.member(e.Log, group, "", topic), e.member(e.Log, group, "", topic)
	a.mustJoin(nil, nil)
	first, second := joinBoth(a, b)
	third := c.follow(nil)
	a.awaitRebalance()
	ctx, cancel := context.WithCancel(e.ctx)
	given := make(chan error, 1)
	go func() {
		_, err := a.Join(ctx, first.Partitions, nil)
		given <- err
	}()
	b.awaitRebalance()
	cancel() // a's Join, if it has got that far, waits for b
	require.ErrorIs(e, <-given, context.Canceled)
	_, err := e.producer(e.name("p")).Commit(e.ctx, map[commitlog.TopicPartition]int64{tp: 1}, first.Identity)
	require.NoError(e, err)
	// a's first Join may still be answered, before its second one is sent: then the group is asked to join once more.
	again, fourth := a.follow(first.Partitions), b.follow(second.Partitions)
	last := e.agree(again, fourth, third)
	for f, id := range map[*follower]commitlog.Identity{again: first.Identity, fourth: second.Identity} {
		all, err := f.assignments()
		require.NoError(e, err)
		for _, got := range all {
			require.False(e, got.Fresh)
			require.True(e, got.Identity == id)
		}
	}
	e.together(partitions(topic, 3), last...)
}

// KIP-792: the assignor is told the generation of each member's last assignment, so that of two claims to a
// partition it knows the later one.
func claimsOfTwoGenerations(e *env) {
	topic := e.topic(2)
	group := e.name("group")
	a, b := e.member(e.Log, group, "", topic), e.member(e.Log, group, "", topic)
	a.mustJoin(nil, nil)
	first, second := joinBoth(a, b)
	owned := map[*groupMember][]commitlog.TopicPartition{a: first.Partitions, b: second.Partitions}

	// Both join again, and the assignor takes its time: the one that does not lead gives up.
	called, release := make(chan *groupMember, 4), make(chan struct{})
	wait := func(m *groupMember) { called <- m; <-release }
	a.hook(wait)
	b.hook(wait)
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	results := map[*groupMember]chan joined{}
	cancels := map[*groupMember]context.CancelFunc{}
	for _, m := range []*groupMember{a, b} {
		results[m] = make(chan joined, 1)
		mctx, mcancel := context.WithCancel(ctx)
		cancels[m] = mcancel
		go func() {
			as, err := m.Join(mctx, owned[m], []byte("again"))
			results[m] <- joined{as, err}
		}()
	}
	var leader *groupMember
	select {
	case leader = <-called:
	case <-time.After(e.Patience):
		require.FailNow(e, "nobody assigns")
	}
	other := a
	if leader == a {
		other = b
	}
	cancels[other]()
	require.ErrorIs(e, (<-results[other]).err, context.Canceled)
	a.hook(nil)
	b.hook(nil)
	close(release)
	lead := <-results[leader]
	require.NoError(e, lead.err)
	require.Greater(e, lead.Generation, first.Generation)

	back := other.joining(owned[other], []byte("and again"))
	leader.awaitRebalance()
	leader.mustJoin(lead.Partitions, []byte("and again"))
	got := <-back
	require.NoError(e, got.err)
	require.False(e, got.Fresh)
	seen := append(leader.seen, other.seen...)
	found := false
	for _, s := range seen {
		claims := map[string]int32{}
		for _, m := range s {
			if string(m.UserData) == "and again" {
				claims[m.ID] = m.Generation
			}
		}
		if len(claims) == 2 {
			found = true
			require.Equal(e, lead.Generation, claims[lead.MemberID])
			require.Equal(e, first.Generation, claims[got.MemberID], "its last assignment was of an earlier generation")
		}
	}
	require.True(e, found)
}

// L6, E8: heartbeats go on while a Join is held, for longer than the session, by a member that does not join; the
// silent one has its place until the rebalance timeout as well.
func heldJoinKeepsThePlace(e *env) {
	e.need(e.Elapse != nil, "Elapse")
	topic := e.topic(3)
	tp := partitions(topic, 3)[0]
	group := e.name("group")
	short := func() *groupMember {
		return e.memberWith(e.Log, commitlog.MemberConfig{Group: group, Topics: []string{topic}, SessionTimeout: e.SessionTimeout})
	}
	a, b, c := short(), short(), short()
	a.mustJoin(nil, nil)
	first, second := joinBoth(a, b)
	third := c.joining(nil, nil)
	a.awaitRebalance()
	held := a.joining(first.Partitions, nil)
	b.awaitRebalance() // and does not join
	e.Elapse(e.SessionTimeout + e.SessionTimeout/2)
	p := e.producer(e.name("p"))
	for _, as := range []commitlog.Assignment{first, second} {
		_, err := p.Commit(e.ctx, map[commitlog.TopicPartition]int64{tp: 5}, as.Identity)
		require.NoError(e, err)
	}
	late := b.mustJoin(second.Partitions, nil)
	x, y := <-held, <-third
	require.NoError(e, x.err)
	require.NoError(e, y.err)
	require.False(e, late.Fresh)
	require.False(e, x.Fresh)
	require.True(e, x.Identity == first.Identity)
	require.Equal(e, late.Generation, x.Generation)
	e.together(partitions(topic, 3), late, x.Assignment, y.Assignment)
}

// E8: a member is told what it holds and is not assigned, and so is, without a rebalance, the static member that takes its place when
// it has ended before it gave that up (KIP-345): nobody else would know that a Join is due.
func withheldIsTold(e *env) {
	topic := e.topic(2)
	tps := partitions(topic, 2)
	group := e.name("group")
	of := func(instance string) *groupMember {
		return e.memberWith(e.Log, commitlog.MemberConfig{Group: group, InstanceID: instance, Topics: []string{topic}, SessionTimeout: 30 * time.Second,
			Assign: func(members []commitlog.GroupMember) (map[string][]commitlog.TopicPartition, error) {
				out := map[string][]commitlog.TopicPartition{} // one partition each, unless another member holds it
				for _, m := range members {
					i := map[string]int{"a": 0, "b": 1}[m.InstanceID]
					free := true
					for _, other := range members {
						free = free && (other.ID == m.ID || !slices.Contains(other.Owned, tps[i]))
					}
					if free {
						out[m.ID] = tps[i : i+1]
					}
				}
				return out, nil
			}})
	}
	a, b := of("a"), of("b")
	require.Empty(e, a.mustJoin(nil, nil).Withheld)
	second := b.joining(tps, nil)
	a.awaitRebalance()
	first := a.mustJoin(nil, nil)
	require.Empty(e, first.Partitions)
	require.Empty(e, first.Withheld)
	other := <-second
	require.NoError(e, other.err)
	require.Equal(e, tps[1:], other.Partitions)
	require.Equal(e, tps[:1], other.Withheld)

	require.NoError(e, b.Close(e.ctx, false))
	b = of("b")
	again := b.mustJoin(nil, nil)
	require.True(e, again.Fresh)
	require.Equal(e, first.Generation, again.Generation)
	require.Equal(e, tps[1:], again.Partitions)
	require.Equal(e, tps[:1], again.Withheld)

	last := e.agree(b.follow(again.Partitions), a.follow(nil))
	require.Equal(e, tps[1:], last[0].Partitions)
	require.Equal(e, tps[:1], last[1].Partitions)
	for _, as := range last {
		require.Empty(e, as.Withheld)
	}
}
