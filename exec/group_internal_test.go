package exec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

// idleGroup is a group with n slots whose tasks and Joins are never run: what apply and take decide is looked at, nothing happens.
func idleGroup(t *testing.T, n int) *group {
	t.Helper()
	plan, err := topology.New("app").From(ops.Source(ops.NewTopic("in", codec.String, codec.String))).
		To(ops.Sink(ops.NewTopic("out", codec.String, codec.String))).Build()
	require.NoError(t, err)
	log := memlog.New(memlog.Options{})
	t.Cleanup(func() { log.Close() })
	app, err := New(plan, Config{Log: log, DrainTimeout: time.Hour, RebalanceTimeout: time.Hour})
	require.NoError(t, err)
	app.ctx = t.Context()
	g := &group{app: app, log: slog.New(slog.DiscardHandler), joined: make(chan joined, 1), events: make(chan event, 100)}
	for p := range int32(n) {
		spec := taskSpec{plan.Subtopologies()[0], p, []commitlog.TopicPartition{{Topic: "in", Partition: p}}}
		g.slots = append(g.slots, &slot{spec: spec})
	}
	return g
}

// fill puts a task into a slot, as start does, that is not run.
func (g *group) fill(s *slot) *task {
	s.task, s.state, s.began = newTask(g.app, s.spec.sub, s.spec.partition, nil), working, time.Now()
	return s.task
}

// given is an assignment of the partitions.
func given(fresh bool, partitions ...int32) joined {
	as := commitlog.Assignment{Fresh: fresh, Identity: commitlog.GroupMetadata{Group: "app", MemberID: "m", Generation: 7}}
	for _, p := range partitions {
		as.Partitions = append(as.Partitions, commitlog.TopicPartition{Topic: "in", Partition: p})
	}
	return joined{as: as}
}

func classed(c commitlog.Class) error {
	return &commitlog.Error{Op: "simulated", Partition: -1, Class: c}
}

// Each pair of states of a slot: what the diagram has is allowed, and all else refused.
func TestE8SlotMoves(t *testing.T) {
	diagram := [][]int{ // rows: from; columns: to
		vacant:  {0, 1, 0, 0, 0},
		working: {1, 0, 1, 1, 1},
		leaving: {1, 0, 0, 1, 1},
		lost:    {1, 0, 0, 0, 1},
		closing: {1, 0, 0, 0, 0},
	}
	for from := vacant; from <= closing; from++ {
		for to := vacant; to <= closing; to++ {
			s := &slot{state: from}
			if diagram[from][to] == 1 {
				require.NotPanics(t, func() { s.become(to) }, "%s to %s", from, to)
				require.Equal(t, to, s.state)
			} else {
				require.Panics(t, func() { s.become(to) }, "%s to %s", from, to)
				require.Equal(t, from, s.state)
			}
			require.Equal(t, s.state == working || s.state == leaving, s.holds())
		}
	}
}

// What an assignment means for a slot, by what the slot has.
func TestE8WhatAnAssignmentMeans(t *testing.T) {
	type standing struct {
		state slotState
		due   bool
	}
	for _, c := range []struct {
		name            string
		was             standing
		assigned, fresh bool
		want            standing
		cancelled       bool
		rejoins         bool // when nothing of it is held any more
	}{
		{name: "new", assigned: true, want: standing{due: true}},
		{name: "not ours", want: standing{}},
		{name: "kept", was: standing{state: working}, assigned: true, want: standing{state: working}},
		{name: "kept and due", was: standing{due: true}, assigned: true, want: standing{due: true}},
		{name: "revoked", was: standing{state: working}, want: standing{state: leaving}, rejoins: true},
		{name: "revoked before it has begun", was: standing{due: true}, want: standing{}, rejoins: true},
		{name: "still stopping", was: standing{state: leaving}, want: standing{state: leaving}, rejoins: true},
		{name: "ours again while it stops", was: standing{state: leaving}, assigned: true, want: standing{leaving, true}},
		{name: "ours anew after a loss", was: standing{state: working}, assigned: true, fresh: true, want: standing{lost, true}, cancelled: true},
		{name: "another's after a loss", was: standing{state: working}, fresh: true, want: standing{state: lost}, cancelled: true},
		{name: "new after a loss", assigned: true, fresh: true, want: standing{due: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := idleGroup(t, 1)
			s := g.slots[0]
			if c.was.state != vacant {
				g.fill(s)
			}
			s.state, s.due = c.was.state, c.was.due
			var j joined
			if c.assigned {
				j = given(c.fresh, 0)
			} else {
				j = given(c.fresh)
			}
			if (s.holds() || s.due) && !c.fresh { // what the Join has claimed
				j.as.Withheld = commitlog.Withheld(s.spec.inputs, j.as.Partitions)
			}
			require.NoError(t, g.apply(j))
			require.Equal(t, c.want, standing{s.state, s.due})
			require.Equal(t, c.assigned, s.assigned)
			require.Equal(t, j.as.Identity, g.identity)
			if s.task != nil {
				require.Equal(t, c.want.state == leaving && c.was.state == working, s.task.drained(), "asked to end in order")
				require.Equal(t, c.cancelled, errors.Is(context.Cause(s.task.ctx), errLost))
				require.False(t, g.wanted, "it is held")
				require.NoError(t, g.take(event{s, s.task, released}))
			}
			require.Equal(t, c.rejoins, g.wanted)
		})
	}
}

// A Join that fails is tried again as long as that may help.
func TestE8AJoinThatFails(t *testing.T) {
	g := idleGroup(t, 1)
	for n := range maxSetbacks {
		g.wanted = false
		require.NoError(t, g.apply(joined{err: classed(commitlog.Retriable)}))
		require.True(t, g.wanted)
		require.Equal(t, n+1, g.setbacks)
		require.LessOrEqual(t, time.Until(g.joinAt), backOff(n+1))
	}
	require.Error(t, g.apply(joined{err: classed(commitlog.Retriable)}))
	require.NoError(t, g.apply(given(false, 0)))
	require.Zero(t, g.setbacks)
	for _, class := range []commitlog.Class{commitlog.Fatal, commitlog.Fenced, commitlog.Abort} {
		require.Error(t, g.apply(joined{err: classed(class)}), class)
	}
}

// Tasks that moved away are given up together: one rebalance for all of their new owners.
func TestE8AllThatMovesIsGivenUpAtOnce(t *testing.T) {
	g := idleGroup(t, 3)
	for _, s := range g.slots {
		s.assigned = true
		g.fill(s)
	}
	j := given(false, 2)
	j.as.Withheld = commitlog.Withheld([]commitlog.TopicPartition{{Topic: "in"}, {Topic: "in", Partition: 1}, {Topic: "in", Partition: 2}}, j.as.Partitions)
	require.NoError(t, g.apply(j))
	require.False(t, g.wanted)
	require.NoError(t, g.take(event{g.slots[1], g.slots[1].task, released}))
	require.False(t, g.wanted, "the other is held")
	require.NoError(t, g.take(event{g.slots[0], g.slots[0].task, over}))
	require.True(t, g.wanted)
	require.Equal(t, working, g.slots[2].state, "what is kept goes on")
}

// A static member that comes back is told that others wait for what the process before it held: there is nothing to
// give up, and the group joins again for them.
func TestE8AStaticMemberJoinsAgainForTheOneBeforeIt(t *testing.T) {
	g := idleGroup(t, 2)
	j := given(true, 0)
	j.as.Withheld = []commitlog.TopicPartition{{Topic: "in", Partition: 1}}
	require.NoError(t, g.apply(j))
	require.True(t, g.wanted)
	g.wanted = false
	require.NoError(t, g.apply(given(false, 0)))
	require.False(t, g.wanted, "once")
}

// What the end of a task means, by what it ended with and whose it is.
func TestE8WhatTheEndOfATaskMeans(t *testing.T) {
	record := func(err error) error { return &RecordError{Operator: "f", Topic: "in", Err: err} }
	for _, c := range []struct {
		name          string
		err           error
		assigned, due bool
		ends          bool // Run
		again         bool // in place
		rejoins       bool
	}{
		{name: "in order"},
		{name: "in order while ours anew", assigned: true, due: true, again: true},
		{name: "not drained", err: ErrDrainTimeout},
		{name: "aborted", err: classed(commitlog.Abort), assigned: true, again: true},
		{name: "aborted with a record", err: record(classed(commitlog.Abort)), assigned: true, again: true},
		{name: "retriable", err: classed(commitlog.Retriable), assigned: true, again: true},
		{name: "retriable and anothers", err: classed(commitlog.Retriable)},
		{name: "fenced", err: classed(commitlog.Fenced), assigned: true, rejoins: true},
		{name: "fenced with a record", err: record(classed(commitlog.Fenced)), assigned: true, rejoins: true},
		{name: "fenced and anothers", err: classed(commitlog.Fenced)},
		{name: "fenced while ours anew", err: classed(commitlog.Fenced), assigned: true, due: true, again: true},
		{name: "lost", err: errLost, assigned: true, due: true, again: true},
		{name: "fatal", err: classed(commitlog.Fatal), assigned: true, ends: true},
		{name: "fatal and anothers", err: classed(commitlog.Fatal), ends: true},
		{name: "a functions error", err: record(errors.New("no good")), assigned: true, ends: true},
		{name: "unknown", err: errors.New("bad disk"), assigned: true, ends: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := idleGroup(t, 1)
			s := g.slots[0]
			tk := g.fill(s)
			s.assigned, s.due = c.assigned, c.due
			tk.err = c.err
			err := g.take(event{s, tk, over})
			require.Equal(t, c.ends, err != nil)
			if c.ends {
				require.Equal(t, c.err, err)
				return
			}
			require.Nil(t, s.task)
			require.Equal(t, vacant, s.state)
			require.Equal(t, c.again, s.due)
			require.Equal(t, c.rejoins, g.wanted)
			if c.rejoins {
				require.False(t, s.assigned)
				require.Positive(t, time.Until(g.joinAt), "after a while")
			}
			if c.again && c.err != nil {
				require.Positive(t, time.Until(s.startAt), "after a while")
			}
			require.NoError(t, g.take(event{s, tk, over}), "what is not the slot's any more")
		})
	}
}

// A task that comes to nothing again and again ends the run; one that commits in between begins to count anew.
func TestE8SetbacksOfATask(t *testing.T) {
	g := idleGroup(t, 1)
	s := g.slots[0]
	s.assigned = true
	end := func(commits int64) error {
		tk := g.fill(s)
		s.due = false
		tk.err, tk.commits = classed(commitlog.Abort), commits
		return g.take(event{s, tk, over})
	}
	for range maxSetbacks {
		require.NoError(t, end(0))
	}
	require.NoError(t, end(1), "it has committed")
	for n := range maxSetbacks - 1 {
		require.NoError(t, end(0), n)
	}
	require.Error(t, end(0))
}

func TestE11ATaskThatIsOverdueEndsTheRun(t *testing.T) {
	g := idleGroup(t, 1)
	s := g.slots[0]
	tk := g.fill(s)
	err := g.take(event{s, tk, overdue})
	require.ErrorIs(t, err, ErrDrainTimeout)
	require.ErrorContains(t, err, "task app-in-0")
	require.NoError(t, g.take(event{s, tk, released}))
	require.NoError(t, g.take(event{s, tk, overdue}), "it can commit nothing any more: only its store is not closed")
	require.NoError(t, g.take(event{s, tk, over}))
	require.NoError(t, g.take(event{s, tk, overdue}), "it came to an end just then")
}

// Pauses between setbacks grow, and are bounded.
func TestBackOff(t *testing.T) {
	last := time.Duration(0)
	for n := range 100 {
		d := backOff(n)
		require.GreaterOrEqual(t, d, last, fmt.Sprint(n))
		require.LessOrEqual(t, d, 5*time.Second)
		last = d
	}
	require.Equal(t, 5*time.Second, last)
}

// What ends a task that has run for long is not in a row with what ended those before, also if it had nothing to commit.
func TestSetbacksOfATaskThatLastedAreNotInARow(t *testing.T) {
	g := idleGroup(t, 1)
	s := g.slots[0]
	for range 3 * maxSetbacks {
		s.assigned = true
		tk := g.fill(s)
		s.began = time.Now().Add(-setbackPeace - time.Second)
		tk.err = classed(commitlog.Fenced)
		require.NoError(t, g.take(event{s, tk, over}))
		require.Equal(t, 1, s.setbacks)
	}
}

// E11: a task whose membership was lost ends the run too if a function of it does not return, but not while its store closes.
func TestE11LostTaskThatDoesNotEnd(t *testing.T) {
	g := idleGroup(t, 2)
	g.app.cfg.DrainTimeout = time.Millisecond
	for _, s := range g.slots {
		g.fill(s)
		g.lose(s)
		require.Error(t, s.task.ctx.Err())
	}
	require.NoError(t, g.take(event{g.slots[1], g.slots[1].task, released}))
	for range g.slots {
		e := <-g.events
		require.Equal(t, overdue, e.kind)
		err := g.take(e)
		if e.slot == g.slots[1] {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ErrDrainTimeout)
		require.ErrorContains(t, err, "task app-in-0 is in a function that does not return")
	}
}
