package exec

import (
	"errors"
	"fmt"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// slot is what a task of the plan is to this process.
type slot struct {
	spec taskSpec
	// assigned: it is this process's by the last assignment.
	assigned bool
	// task is the one that has not ended, nil if there is none.
	task *task
	// held: task may still commit something. left: it has left the operators, and only its store is still to close.
	held, left bool
	// stopping: task was asked to end. If in order, cut ends it without order after a while; late says that it has
	// not ended.
	stopping  bool
	cut, late *time.Timer
	// due: a task is to start, not before startAt; setbacks counts those in a row that came to nothing.
	due      bool
	startAt  time.Time
	setbacks int
	// began is when task was started.
	began time.Time
}

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
	s.task, s.held, s.left, s.stopping, s.due, s.began = t, true, false, false, false, time.Now()
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

// stop asks a task to end in order, within DrainTimeout.
func (g *group) stop(s *slot) {
	t := s.task
	s.stopping = true
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
	t := s.task
	s.held = false
	t.cancel(errLost)
	s.stopping = true
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
		if !s.left {
			return s.stuck()
		}
		g.log.Warn("a task's store takes long to close", "task", t.id) // and nobody waits for it
		return nil
	case released:
		s.held, s.left = false, true
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
	s.task, s.held, s.cut, s.late = nil, false, nil, nil
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
	if s.setbacks++; s.setbacks > maxSetbacks {
		return t.err
	}
	pause := backOff(s.setbacks)
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
	if !s.left {
		return fmt.Errorf("task %s is in a function that does not return: %w", s.task.id, ErrDrainTimeout)
	}
	return fmt.Errorf("task %s: its store is still being closed: %w", s.task.id, ErrDrainTimeout)
}

// fatal says whether an error of a task ends the run.
func fatal(err error) bool {
	if _, ok := errors.AsType[*RecordError](err); ok {
		e, ok := errors.AsType[*commitlog.Error](err)
		return !ok || e.Class == commitlog.Fatal
	}
	return commitlog.ClassOf(err) == commitlog.Fatal
}
