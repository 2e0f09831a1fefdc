package gate_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore/internal/gate"
)

// TestCloseWaits: Close returns when those inside, nested too, have left, and
// turns away those who come meanwhile.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New()
		require.True(t, g.Enter())
		require.True(t, g.Enter())
		var closed atomic.Int32
		for range 2 {
			go func() {
				g.Close()
				closed.Add(1)
			}()
		}
		synctest.Wait()
		require.False(t, g.Enter())
		g.Leave()
		require.False(t, g.Enter())
		synctest.Wait()
		require.Zero(t, closed.Load())
		g.Leave()
		synctest.Wait()
		require.EqualValues(t, 2, closed.Load())
		require.False(t, g.Enter())
		g.Close()
	})
}

// TestNobodyInside: after Close nobody is in, whatever the interleaving; the
// race detector watches the resource.
func TestNobodyInside(t *testing.T) {
	for range 200 {
		g := gate.New()
		resource := new(int)
		var uses atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for g.Enter() {
					uses.Add(int64(*resource))
					g.Leave()
				}
			})
		}
		for range 2 {
			wg.Go(func() { g.Close() })
		}
		g.Close()
		*resource = 1
		wg.Wait()
		require.Zero(t, uses.Load())
	}
}
