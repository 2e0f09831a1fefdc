package exec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// protocol is the name under which members of a group agree on the assignor.
const protocol = "wicker-tasks"

// maxSetbacks is how often in a row tasks may come to nothing, fenced or aborted without
// a commit in between, before Run gives up.
const maxSetbacks = 12

// checkInterval is how often the partition counts of the plan's topics are looked at, and
// checkTimeout how long that may keep the group's goroutine.
const (
	checkInterval = 30 * time.Second
	checkTimeout  = 2 * time.Second
)

// runGroup is the membership's life: join, run what is assigned, stop all of it when the
// group rebalances or a task was fenced, join again.
func (a *App) runGroup(ctx context.Context) (err error) {
	member, err := a.log.OpenMember(ctx, commitlog.MemberConfig{
		Group: a.plan.Name(), InstanceID: a.cfg.InstanceID, ClientID: a.cfg.ClientID, Protocol: protocol,
		Topics: a.subscription(), SessionTimeout: a.cfg.SessionTimeout, RebalanceTimeout: a.cfg.RebalanceTimeout,
		Assign: a.assign,
	})
	if err != nil {
		return ended(ctx, err)
	}
	defer func() {
		leave := a.cfg.InstanceID == "" && !a.cfg.StayInGroup
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.DrainTimeout)
		defer cancel()
		if cerr := member.Close(cctx, leave); cerr != nil {
			a.cfg.Logger.Warn("leave group", "error", cerr.Error())
		}
	}()
	var owned []commitlog.TopicPartition
	check := a.cfg.Clock.NewTimer(checkInterval)
	defer check.Stop()
	for setbacks := 0; ; {
		as, err := member.Join(ctx, owned, nil)
		if err != nil {
			if commitlog.ClassOf(err) != commitlog.Retriable || setbacks >= maxSetbacks {
				return ended(ctx, err)
			}
			setbacks++
			a.cfg.Logger.Warn("join again", "cause", err.Error(), "setbacks", setbacks)
			if !backOff(ctx, setbacks) {
				return nil
			}
			continue
		}
		a.cfg.Logger.Info("assigned", "generation", as.Generation, "partitions", len(as.Partitions))
		owned = as.Partitions
		before := a.Stats().Commits
		failed := make(chan *task, len(a.tasks))
		tasks := a.startTasks(as, failed)
		var first *task
		var changed error
		for waiting := true; waiting; {
			waiting = false
			select {
			case <-ctx.Done():
			case <-member.Rebalance():
				a.cfg.Logger.Info("rebalance", "generation", as.Generation)
			case first = <-failed:
			case <-check.C():
				changed = a.checkTopics(ctx)
				check.Reset(checkInterval)
				waiting = changed == nil
			}
		}
		err = a.stopTasks(tasks)
		if fatal := pickFatal(first, tasks); fatal != nil {
			return fatal
		}
		if changed != nil {
			return changed
		}
		if ctx.Err() != nil {
			if errors.Is(err, ErrDrainTimeout) {
				return err
			}
			return nil
		}
		if err == nil || a.Stats().Commits > before {
			setbacks = 0
			if err == nil {
				continue
			}
		}
		setbacks++
		a.cfg.Logger.Warn("tasks start again", "cause", err.Error(), "setbacks", setbacks)
		if setbacks > maxSetbacks {
			return err
		}
		if !backOff(ctx, setbacks) {
			return nil
		}
	}
}

// backOff waits before tasks start again, and returns false if ctx ends.
func backOff(ctx context.Context, setbacks int) bool {
	select {
	case <-time.After(min(5*time.Second, 50*time.Millisecond<<setbacks)):
		return true
	case <-ctx.Done():
		return false
	}
}

// pickFatal returns the error that ends the run, nil if all that happened to the tasks is
// mended by joining again. The task that failed first comes first. A task that has not ended has its
// store still, so that it cannot start again.
func pickFatal(first *task, tasks []*task) error {
	if first != nil && fatal(first.err) {
		return first.err
	}
	var stuck error
	for _, t := range tasks {
		select {
		case <-t.done:
			if t.err != nil && fatal(t.err) {
				return t.err
			}
		default: // stuck in a user's function: err is not ours to read
			stuck = fmt.Errorf("task %s is in a function that does not return: %w", t.id, ErrDrainTimeout)
		}
	}
	return stuck
}

// fatal says whether an error of a task ends the run.
func fatal(err error) bool {
	if errors.Is(err, ErrDrainTimeout) {
		return false
	}
	if _, ok := errors.AsType[*RecordError](err); ok {
		e, ok := errors.AsType[*commitlog.Error](err)
		return !ok || e.Class == commitlog.Fatal
	}
	return commitlog.ClassOf(err) == commitlog.Fatal
}

// subscription is the topics that the plan's tasks read.
func (a *App) subscription() []string {
	seen := map[string]bool{}
	var topics []string
	for _, sub := range a.plan.Subtopologies() {
		for _, t := range sub.Sources {
			if !seen[t] {
				seen[t] = true
				topics = append(topics, t)
			}
		}
	}
	return topics
}
