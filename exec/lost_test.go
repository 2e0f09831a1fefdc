package exec_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

// expel has the group go on without its only member, which does not find out until back is called.
func (b *bench) expel() (back func()) {
	b.t.Helper()
	members := b.log.Group("app").Members
	require.Len(b.t, members, 1)
	require.NoError(b.t, b.log.PauseMember("app", members[0].ID, true))
	for len(b.log.Group("app").Members) > 0 {
		time.Sleep(time.Second)
		b.log.Tick()
	}
	return func() { require.NoError(b.t, b.log.PauseMember("app", members[0].ID, false)) }
}

// What fails because the membership is lost is not what ends the run, whatever it says: calls to the outside have errors of their
// own for a context that has ended.
func TestE3AFunctionThatTheLossOfTheMembershipCutsShort(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		asked, cut := 0, errors.New("rpc: code = Canceled")
		waits := make(chan struct{})
		memo := ops.Memo("m", codec.String, func(ctx context.Context, _ string) (string, error) {
			if asked++; asked > 1 {
				return "a", nil
			}
			close(waits)
			<-ctx.Done()
			return "", cut
		})
		plan, err := topology.New("app").From(ops.Source(benchIn)).Memo(memo, func(v, a string) string { return v + a }).To(ops.Sink(benchOut)).Build()
		require.NoError(t, err)
		b.put(0, "k", "1")
		s := b.run(plan, memlog.Faults{})
		<-waits
		b.expel()()
		s.idle().drain()
		require.Equal(t, 2, asked)
		require.Equal(t, []string{"k=1a"}, b.texts("out", 0))
	})
}

// A process that hangs as it starts a task for the first time finds, when it goes on, what the task's next owner has committed:
// it is fenced, and accuses nobody (E3, E7).
func TestE7WhatTheNextOwnerHasWrittenIsNotForgotten(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.put(0, "k", "1")
		var located atomic.Bool
		first := b.run(b.joining(), memlog.Faults{Admin: func(_ context.Context, method string) error {
			if method == "EndOffsets" && len(b.log.Group("app").Members) == 1 && !located.Swap(true) { // the task has asked for its offsets
				back := b.expel()
				b.run(b.joining(), memlog.Faults{}).idle().drain()
				back()
			}
			return nil
		}})
		for b.offset(0) == 0 || len(b.log.Group("app").Members) == 0 {
			select {
			case err := <-first.end:
				require.NoError(t, err)
			case <-time.After(time.Second):
			}
		}
		require.True(t, located.Load())
		b.put(0, "k", "2")
		first.idle().drain()
		require.Equal(t, []string{"k=1", "k=12"}, b.texts("out", 0))
	})
}

// Two instances start at once for the first time, and one has created the topics and committed before the other has the answers to its
// questions: that is no deletion.
func TestE7TopicsThatCameMeanwhileWereNotDeleted(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.put(0, "k", "a")
		var questions atomic.Int32
		second := b.run(b.rekeyed(), memlog.Faults{Admin: func(_ context.Context, method string) error {
			// The first is about the source, the others are about offsets and internal topics.
			if (method == "Topics" || method == "CommittedNotes") && questions.Add(1) == 3 {
				b.run(b.rekeyed(), memlog.Faults{}).idle().drain()
			}
			return nil
		}})
		for second.app.Stats().Tasks < 2 {
			select {
			case err := <-second.end:
				require.NoError(t, err)
			case <-time.After(time.Second):
			}
		}
		b.put(0, "k", "a")
		second.idle().drain()
		require.Equal(t, []string{"a=1", "a=2"}, b.texts("out", 0))
	})
}

// A broker that has not heard of a topic yet is asked once more before the run ends for it.
func TestVA04ATopicThatOneAnswerLacksIsLookedAtAgain(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		s := b.run(b.joining(), memlog.Faults{}, func(c *exec.Config) {
			c.Log = &forgetful{Log: c.Log, start: time.Now(), at: map[int]bool{1: true, 3: true, 4: true}}
		})
		start := time.Now()
		err := <-s.end
		var te *exec.TopicsError
		require.ErrorAs(t, err, &te)
		require.Contains(t, err.Error(), "topic in was deleted while the plan runs")
		require.Greater(t, time.Since(start), time.Minute, "the first answer alone is not believed")
	})
}

// forgetful is a log of which some answers lack the topic in, by their number once it runs for a while.
type forgetful struct {
	commitlog.Log
	start time.Time
	at    map[int]bool
	was   int
}

func (f *forgetful) Topics(ctx context.Context, names ...string) (map[string]commitlog.Topic, error) {
	found, err := f.Log.Topics(ctx, names...)
	if time.Since(f.start) > 20*time.Second {
		f.was++
	}
	if f.at[f.was] {
		delete(found, "in")
	}
	return found, err
}
