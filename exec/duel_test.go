package exec_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/testkit/memlog"
)

// E3, E8: an instance whose id was taken once, as by an old request of its own that comes late, takes it back and lives on.
func TestE8ATakenInstanceIDIsTakenBack(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		static := func(c *exec.Config) { c.InstanceID = "i" }
		s := b.run(b.joining(), memlog.Faults{}, static)
		b.put(0, "k", "a")
		s.idle()
		stranger, err := b.log.OpenMember(t.Context(), commitlog.MemberConfig{Group: "app", InstanceID: "i", Protocol: "wicker-tasks",
			Topics: []string{"in"}, SessionTimeout: 10 * time.Second, RebalanceTimeout: 10 * time.Second,
			Assign: func([]commitlog.GroupMember) (map[string][]commitlog.TopicPartition, error) { return nil, nil }})
		require.NoError(t, err)
		_, err = stranger.Join(t.Context(), nil, nil)
		require.NoError(t, err)
		require.NoError(t, stranger.Close(t.Context(), false))
		b.put(0, "k", "b")
		s.await(func() bool { return len(b.texts("out", 0)) == 2 })
		require.Equal(t, []string{"k=a", "k=ab"}, b.texts("out", 0))
		s.drain()
	})
}

// E8: of two instances with one id, one ends and says why; the other goes on, and nothing is processed twice.
func TestE8OfTwoInstancesWithOneIDOneEnds(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		static := func(c *exec.Config) { c.InstanceID = "i" }
		seats := []*seat{b.run(b.joining(), memlog.Faults{}, static)}
		b.put(0, "k", "a")
		seats[0].idle()
		seats = append(seats, b.run(b.joining(), memlog.Faults{}, static))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var err error
		lives := 0
		select {
		case err = <-seats[0].end:
			lives = 1
		case err = <-seats[1].end:
		case <-ctx.Done():
			require.FailNow(t, "both live")
		}
		require.ErrorContains(t, err, `InstanceID ("i") was taken over twice within 1m0s, so another process of group app seems to have it too: give each process one of its own: `)
		require.ErrorContains(t, err, "FENCED_INSTANCE_ID")
		b.put(0, "k", "b")
		seats[lives].await(func() bool { return len(b.texts("out", 0)) == 2 })
		require.Equal(t, []string{"k=a", "k=ab"}, b.texts("out", 0))
		seats[lives].drain()
	})
}

// await waits until done, in the bubble's time.
func (s *seat) await(done func() bool) {
	s.b.t.Helper()
	for range 3600 {
		if done() {
			return
		}
		select {
		case err := <-s.end:
			require.FailNow(s.b.t, "ended early", "%v", err)
		case <-time.After(time.Second):
		}
	}
	require.FailNow(s.b.t, "not within an hour")
}
