package exec

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

// gone is the identity of a membership that was lost.
type gone struct{}

func (gone) Current(context.Context, int32) (commitlog.GroupMetadata, error) {
	return commitlog.GroupMetadata{}, &commitlog.Error{Op: "simulated", Partition: -1, Class: commitlog.Fenced}
}

// A process that was paused for long finds that its input is gone, because the task's next owner has processed and purged
// it. That used to end the run as a loss; it is a task that was fenced, which comes back through the group (E7, E12).
func TestE7WhatTheNextOwnerHasPurgedIsNotLost(t *testing.T) {
	tp := commitlog.TopicPartition{Topic: "app-r-repartition", Partition: 3}
	for _, policy := range []ops.LostPolicy{ops.EndRun, ops.FromEarliest, ops.FromLatest} {
		tk := &task{identity: gone{}, ctx: t.Context()}
		s := newSource(tp, topology.SourceSpec{Topic: tp.Topic, Repartition: true, OnLost: policy}, 100)
		err := tk.skipLost(s, extent{start: 500, end: 700})
		require.Equal(t, commitlog.Fenced, commitlog.ClassOf(err))
		require.NotErrorIs(t, err, commitlog.ErrOffsetOutOfRange)
		require.Equal(t, int64(100), s.arrived)
		require.False(t, fatal(err))
		require.NoError(t, tk.skipLost(s, extent{start: 50, end: 700}), "nothing is lost: nobody is asked")
	}
}

// Where reading goes on, by what the log holds and the source's policy: the whole table.
func TestE7WhereReadingGoesOn(t *testing.T) {
	for _, c := range []struct {
		position   int64
		another    bool
		policy     ops.LostPolicy
		next, lost int64
		ok         bool
	}{
		{20, false, ops.EndRun, 20, 0, true},
		{10, false, ops.EndRun, 10, 0, true},
		{30, false, ops.EndRun, 30, 0, true},
		{9, false, ops.EndRun, 0, 0, false},
		{31, false, ops.EndRun, 0, 0, false},
		{20, true, ops.EndRun, 0, 0, false},
		{4, false, ops.FromEarliest, 10, 6, true},
		{31, false, ops.FromEarliest, 10, 0, true},
		{20, true, ops.FromEarliest, 10, 0, true},
		{4, true, ops.FromEarliest, 10, 0, true},
		{4, false, ops.FromLatest, 30, 26, true},
		{31, false, ops.FromLatest, 30, 20, true},
		{20, true, ops.FromLatest, 30, 20, true},
		{4, true, ops.FromLatest, 30, 20, true},
	} {
		next, lost, ok := goOn(c.position, extent{start: 10, end: 30, another: c.another}, c.policy)
		require.Equal(t, []any{c.next, c.lost, c.ok}, []any{next, lost, ok}, "%+v", c)
	}
}
