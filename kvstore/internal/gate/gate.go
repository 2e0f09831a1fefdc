// Package gate lets a resource be closed under its users: users that are inside
// keep it alive, users that come later are turned away.
package gate

import (
	"sync"
	"sync/atomic"
)

// closing is set in state once Close began; the bits below count who is inside.
const closing = int64(1) << 62

// Gate counts the users of a resource. It is safe for concurrent use, and Enter
// may be nested. Make one with New.
type Gate struct {
	state   atomic.Int64
	once    sync.Once
	drained chan struct{}
}

// New returns an open gate.
func New() *Gate { return &Gate{drained: make(chan struct{})} }

// Enter reports whether the gate is open; true obliges to call Leave.
func (g *Gate) Enter() bool {
	if g.state.Add(1) < closing {
		return true
	}
	g.Leave()
	return false
}

// Hold enters once more on behalf of another goroutine. The caller is inside, so it
// cannot fail, even while Close waits; that goroutine calls Leave.
func (g *Gate) Hold() { g.state.Add(1) }

// Leave undoes a Hold, or an Enter that returned true.
func (g *Gate) Leave() {
	// Equal to closing: the last one out after Close began. Users turned away
	// pass here too and may see it once more.
	if g.state.Add(-1) == closing {
		g.once.Do(func() { close(g.drained) })
	}
}

// Close shuts the gate and waits until everybody has left. Called again it waits
// in the same way. It reports whether it was the first.
func (g *Gate) Close() (first bool) {
	was := g.state.Or(closing)
	if was == 0 {
		g.once.Do(func() { close(g.drained) })
	}
	<-g.drained
	return was&closing == 0
}
