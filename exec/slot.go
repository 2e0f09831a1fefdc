package exec

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// slotState is what becomes of a slot's task:
//
//	         start            stop            released             over
//	vacant -------> working -------> leaving ----------> closing -------> vacant
//	                   |  \             |                  ^  ^
//	                   |   +------------|------------------+  |
//	                   |      lose      |      released       |
//	                   +--------------->+--> lost ------------+
//
// A task that ends by itself is closing without having been asked, and every one that is over leaves its slot vacant.
type slotState int8

const (
	vacant  slotState = iota // no task
	working                  // it may commit
	leaving                  // asked to end in order; it may commit
	lost                     // its membership is another's, and it can commit nothing any more
	closing                  // it has left the operators and can commit nothing any more: only its store is still to close
)

// String returns the state's name.
func (s slotState) String() string {
	return [...]string{"vacant", "working", "leaving", "lost", "closing"}[s]
}

// slotMoves lists the states that may follow each.
var slotMoves = map[slotState][]slotState{
	vacant:  {working},
	working: {leaving, lost, closing, vacant},
	leaving: {lost, closing, vacant},
	lost:    {closing, vacant},
	closing: {vacant},
}

// slot is what a task of the plan is to this process.
type slot struct {
	spec taskSpec
	// assigned: it is this process's by the last assignment.
	assigned bool
	// task is the one that has not ended, nil if the slot is vacant.
	task  *task
	state slotState
	// cut ends a task that is leaving without order after a while; late says that one that is leaving or lost has not ended.
	cut, late *time.Timer
	// due: a task is to start, not before startAt; setbacks counts those in a row that came to nothing.
	due      bool
	startAt  time.Time
	setbacks int
	// began is when task was started.
	began time.Time
}

// become moves the slot to another state.
func (s *slot) become(next slotState) {
	if !slices.Contains(slotMoves[s.state], next) {
		panic(fmt.Sprintf("wicker: slot of %v from %s to %s", s.spec.inputs, s.state, next)) // a bug of this package: no input leads here
	}
	s.state = next
}

// holds says whether the task may still commit something, so that no other process may have it.
func (s *slot) holds() bool { return s.state == working || s.state == leaving }

type event struct {
	slot *slot
	task *task
	kind eventKind
}

type eventKind int8

const (
	released eventKind = iota // it can commit nothing more: another process may have it
	over                      // nothing of it is left
	overdue                   // it was asked to end a DrainTimeout ago
)

// start starts a task.
func (g *group) start(s *slot) {
	t := newTask(g.app, s.spec.sub, s.spec.partition, g.identity)
	s.become(working)
	s.task, s.due, s.began = t, false, time.Now()
	a := g.app
	a.mu.Lock()
	a.mu.tasks[t] = struct{}{}
	a.mu.Unlock()
	t.released = func() { g.events <- event{s, t, released} }
	go func() {
		defer func() { g.events <- event{s, t, over} }() // also when a function ends the goroutine
		t.run()
	}()
}

// stop asks a working task to end in order, within DrainTimeout.
func (g *group) stop(s *slot) {
	t := s.task
	s.become(leaving)
	t.stop()
	cfg := &g.app.cfg
	// One after the other: in a process that was paused for long both would fire before the task has had a chance.
	late := time.AfterFunc(farOff, func() { g.events <- event{s, t, overdue} })
	late.Stop()
	s.late = late
	s.cut = time.AfterFunc(cutAfter(cfg), func() {
		t.cancel(ErrDrainTimeout)
		late.Reset(cfg.DrainTimeout - cutAfter(cfg))
	})
}

// lose ends a task whose membership is another's, without order: it can commit nothing any more, so the new membership
// does not claim it.
func (g *group) lose(s *slot) {
	if !s.holds() {
		return
	}
	t := s.task
	s.become(lost)
	t.cancel(errLost)
	if s.late == nil {
		s.late = time.AfterFunc(g.app.cfg.DrainTimeout, func() { g.events <- event{s, t, overdue} })
	}
}

// take notes what became of a task. An error ends the run.
func (g *group) take(e event) error {
	s, t := e.slot, e.task
	if s.task != t {
		return nil
	}
	switch e.kind {
	case overdue:
		if s.state != closing {
			return s.stuck()
		}
		g.log.Warn("a task's store takes long to close", "task", t.id) // and nobody waits for it
		return nil
	case released:
		s.become(closing)
		g.giveUp()
		return nil
	}
	a := g.app
	a.mu.Lock()
	delete(a.mu.tasks, t)
	a.mu.Unlock()
	for _, timer := range []*time.Timer{s.cut, s.late} {
		if timer != nil {
			timer.Stop()
		}
	}
	s.become(vacant)
	s.task, s.cut, s.late = nil, nil, nil
	defer g.giveUp()
	if t.commits > 0 || time.Since(s.began) > setbackPeace { // a task without input commits nothing for months
		s.setbacks = 0
	}
	if t.err == nil || errors.Is(t.err, ErrDrainTimeout) {
		return nil
	}
	if fatal(t.err) {
		return t.err
	}
	pause, ok := setback(&s.setbacks)
	if !ok {
		return t.err
	}
	g.log.Warn("task starts again", "task", t.id, "cause", t.err.Error(), "setbacks", s.setbacks)
	s.startAt = time.Now().Add(pause)
	switch {
	case !s.assigned || s.due: // it is another's by now, or ours anew
	case commitlog.ClassOf(t.err) == commitlog.Fenced:
		s.assigned = false
		g.want(pause)
	default:
		s.due = true
	}
	return nil
}

// end notes what became of a task while everything ends.
func (g *group) end(e event) error {
	err := g.take(e)
	if err == nil && e.kind == over && errors.Is(e.task.err, ErrDrainTimeout) {
		return e.task.err
	}
	return err
}

// stuck is why a task has not ended.
func (s *slot) stuck() error {
	if s.state != closing {
		return fmt.Errorf("task %s is in a function that does not return: %w", s.task.id, ErrDrainTimeout)
	}
	return fmt.Errorf("task %s: its store is still being closed: %w", s.task.id, ErrDrainTimeout)
}

// fatal says whether an error of a task ends the run.
func fatal(err error) bool { return commitlog.ClassOf(err) == commitlog.Fatal }
