//go:build unix

package exec_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// A process that is stopped beyond its session timeout, in the middle of a transaction, and then goes on: the commit that it still
// sends is refused, what it had sent is never seen, and it comes back to the group without exiting. In the model a fenced process
// dies; here its task closes and is acquired again through the group (E3).
func TestTX20APausedProcessCommitsNothingAndRejoins(t *testing.T) {
	const held = 200 // records before the one where it is stopped
	for _, where := range []string{"function", "commit"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel() // they wait for sessions to end, most of the time
			kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
				r := newRig(t, b, 2)
				r.putTo(0, "k", append(numbers(1, held), "hold")...)
				spec := r.spec()
				spec.Hold = where
				c := spawn(t, spec)
				require.Equal(t, "holding", c.says())
				for deadline := time.Now().Add(30 * time.Second); len(r.uncommitted(r.out)) < 50; {
					require.True(t, time.Now().Before(deadline), "its outputs are not on the broker")
					time.Sleep(20 * time.Millisecond)
				}
				require.Empty(t, r.read(r.out))
				require.NoError(t, c.cmd.Process.Signal(syscall.SIGSTOP))

				other := launch(t, b, r.counter())
				other.await("the paused process's tasks", func() bool { return other.app.Stats().Tasks == 2 })
				r.settle(other)
				require.Equal(t, map[string][]string{"k": numbers(1, held+1)}, r.byKey())

				require.NoError(t, c.cmd.Process.Signal(syscall.SIGCONT))
				_, err := fmt.Fprintln(c.stdin)
				require.NoError(t, err)
				if where == "commit" {
					require.Regexp(t, `^commit: .*(FENCED|INVALID_PRODUCER_EPOCH|INVALID_TXN_STATE|UNKNOWN_MEMBER_ID)`, c.says())
				}
				other.await("a task each", func() bool { return other.app.Stats().Tasks == 1 })
				r.putTo(0, "k", "x")
				r.putTo(1, "l", "x")
				r.settle(other)
				other.drain()
				for p, key := range []string{"k", "l"} { // all tasks are the paused process's
					r.putTo(int32(p), key, "y")
				}
				require.Eventually(t, func() bool { return r.committed(0) == held+3 && r.committed(1) == 2 }, 30*time.Second, 20*time.Millisecond)
				require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
				require.Zero(t, c.code())
				require.Equal(t, map[string][]string{"k": numbers(1, held+3), "l": {"1", "2"}}, r.byKey())
				require.Greater(t, len(r.uncommitted(r.out)), held+5, "what the paused process had sent is there and not seen")
				line := c.log.find(t, "task starts again")
				if line == nil { // it learned of the loss from the group first
					line = c.log.find(t, "membership lost")
				}
				require.NotNil(t, line)
			})
		})
	}
}
