package exec_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/testkit/memlog"
)

// countingEngine counts the batches written to its stores.
type countingEngine struct {
	kvstore.Engine
	writes atomic.Int64
}

func (e *countingEngine) OpenStore(name string) (kvstore.Store, error) {
	s, err := e.Engine.OpenStore(name)
	return &countingStore{s, e}, err
}

type countingStore struct {
	kvstore.Store
	engine *countingEngine
}

func (s *countingStore) Write(b *kvstore.Batch) error {
	s.engine.writes.Add(1)
	return s.Store.Write(b)
}

// State goes to the engine every FlushInterval also under a load under which one commit follows the other: with
// commits that take longer than CommitInterval there is always one in flight, except where one ends.
func TestStateIsFlushedBetweenCommits(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		engine := &countingEngine{Engine: kvstore.NewMemory()}
		s := b.run(b.joining(), memlog.Faults{Commit: func(context.Context, string, map[commitlog.TopicPartition]int64) error {
			time.Sleep(150 * time.Millisecond)
			return nil
		}}, func(c *exec.Config) { c.State = engine })
		b.put(0, "k", "v")
		s.idle()
		time.Sleep(5 * time.Second)
		before, commits := engine.writes.Load(), s.app.Stats().Commits
		for i := range 2000 { // 20 s
			b.put(0, fmt.Sprint(i), "v")
			time.Sleep(10 * time.Millisecond)
		}
		require.Greater(t, s.app.Stats().Commits-commits, int64(100))
		require.InDelta(t, 20, engine.writes.Load()-before, 5)
		s.idle().drain()
	})
}

// What is not committed within DrainTimeout is aborted, and has the time for it (E11).
func TestE11WhatIsNotDrainedIsAborted(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		committing, reach := once()
		aborted := false
		s := b.run(b.joining(), memlog.Faults{
			Commit: func(ctx context.Context, _ string, _ map[commitlog.TopicPartition]int64) error {
				reach()
				<-ctx.Done()
				return ctx.Err()
			},
			Abort: func(ctx context.Context, _ string) error {
				time.Sleep(time.Second)
				aborted = ctx.Err() == nil
				return ctx.Err()
			},
		})
		b.put(0, "k", "v")
		<-committing
		s.cancel()
		require.ErrorIs(t, <-s.end, exec.ErrDrainTimeout)
		require.True(t, aborted)
	})
}
