package testkit

import (
	"sync"
	"time"

	"github.com/wickerwork/wicker/exec"
)

// clock is a virtual clock: it stands still until it is moved. It implements exec.Clock.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[*timer]struct{}
}

func newClock(now time.Time) *clock { return &clock{now: now, timers: map[*timer]struct{}{}} }

// Now implements exec.Clock.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// advance moves the clock and fires what is due.
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for t := range c.timers {
		t.fire()
	}
}

// NewTimer implements exec.Clock.
func (c *clock) NewTimer(d time.Duration) exec.Timer {
	t := &timer{clock: c, c: make(chan time.Time, 1)}
	t.Reset(d)
	return t
}

type timer struct {
	clock *clock
	c     chan time.Time
	at    time.Time // guarded by clock.mu
}

// fire sends if the timer is due. The caller holds clock.mu.
func (t *timer) fire() {
	if t.at.After(t.clock.now) {
		return
	}
	delete(t.clock.timers, t)
	select {
	case t.c <- t.clock.now:
	default:
	}
}

func (t *timer) C() <-chan time.Time { return t.c }

func (t *timer) Reset(d time.Duration) {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	select {
	case <-t.c:
	default:
	}
	t.at = t.clock.now.Add(d)
	t.clock.timers[t] = struct{}{}
	t.fire()
}

func (t *timer) Stop() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	delete(t.clock.timers, t)
}
