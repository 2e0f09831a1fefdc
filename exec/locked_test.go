//go:build unix && cgo

package exec_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/kvstore/rocksdb"
	"github.com/wickerwork/wicker/testkit/kafka"
)

// A second process on a state directory is refused at once, before it does anything, and told who has it. When that one has
// ended, in order or not, the directory is free.
func TestE4ASecondProcessOnAStateDirectoryIsRefused(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			r := newRig(t, b, 1)
			r.put("k", "hold")
			spec := r.spec()
			spec.Dir, spec.Hold = t.TempDir(), "function"
			c := spawn(t, spec)
			require.Equal(t, "holding", c.says())
			says := fmt.Sprintf("state directory %s is locked by the process with pid %d: is another instance running on it?", spec.Dir, c.cmd.Process.Pid)

			begin := time.Now()
			on := func(c *exec.Config) { c.State = rocksdb.New(rocksdb.Options{Dir: spec.Dir}) }
			err := <-launch(t, b, r.counter(), on).end
			require.ErrorIs(t, err, kvstore.ErrLocked)
			require.ErrorContains(t, err, says)
			require.Less(t, time.Since(begin), 10*time.Second)
			other := spawn(t, spec)
			require.Contains(t, other.says(), says)
			require.Equal(t, 1, other.code())
			g, err := r.c.Group(t.Context(), r.app)
			require.NoError(t, err)
			require.Len(t, g.Members, 1, "it has not joined")

			_, err = fmt.Fprintln(c.stdin)
			require.NoError(t, err)
			require.Eventually(t, func() bool { return r.committed(0) == 1 }, 30*time.Second, 20*time.Millisecond)
			require.NoError(t, c.cmd.Process.Signal(end))
			if end == syscall.SIGTERM {
				require.Zero(t, c.code())
			}
			<-c.ended
			r.put("k", "x")
			i := launch(t, b, r.counter(), on)
			r.settle(i)
			i.drain()
			require.Equal(t, map[string][]string{"k": {"1", "2"}}, r.byKey())
		}
	})
}
