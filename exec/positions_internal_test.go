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
		err := tk.skipLost(s, extent{500, 700})
		require.Equal(t, commitlog.Fenced, commitlog.ClassOf(err))
		require.NotErrorIs(t, err, commitlog.ErrOffsetOutOfRange)
		require.Equal(t, int64(100), s.arrived)
		require.False(t, fatal(err))
		require.NoError(t, tk.skipLost(s, extent{50, 700}), "nothing is lost: nobody is asked")
	}
}
