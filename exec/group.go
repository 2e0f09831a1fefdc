package exec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// protocol is the name under which members of a group agree on the assignor.
const protocol = "wicker-tasks"

// group is this process's membership of the consumer group and the tasks it has by it. It
// belongs to the goroutine of Run, which waits for nothing but what has happened: joining,
// restoring, draining and closing run beside it.
//
// A rebalance stops only what moves (E8, KIP-429). Everybody joins again while going on with their
// tasks, and says which they hold. The leader never gives a task to one member while another holds it:
// the holder is assigned what it has without that task, gives it up, and joins again without it; in
// that round the task goes to its new owner. A task that was fenced is given up too and comes back, if at
// all, with the next assignment; one that failed otherwise starts again where it is.
type group struct {
	app    *App
	log    *slog.Logger
	cfg    commitlog.MemberConfig
	member commitlog.Member
	// replaced is when member last took the place of one that was fenced, zero if none was.
	replaced time.Time
	slots    []*slot // as App.tasks
	// identity is the membership's.
	identity commitlog.Identity
	// events tells what became of tasks; it has room for all that can come after nobody listens any more.
	events chan event
	// joined delivers the outcome of the Join under way, which cancelJoin ends; cancelJoin is nil if there is none.
	joined     chan joined
	cancelJoin context.CancelFunc
	// withheld says that others wait for what this member held when it joined last, see giveUp.
	withheld bool
	// wanted says that a Join is due, not before joinAt; setbacks counts those that failed in a row.
	wanted   bool
	joinAt   time.Time
	setbacks int
}

type joined struct {
	as  commitlog.Assignment
	err error
}

// errLost is why tasks end whose membership is another's.
var errLost = &commitlog.Error{Op: "process", Partition: -1, Class: commitlog.Fenced, Err: errors.New("the membership of the group was lost")}

// runGroup is the membership's life, from the first Join to the end of the last task.
func (a *App) runGroup(ctx context.Context) error {
	cfg := commitlog.MemberConfig{
		Group: a.plan.Name(), InstanceID: a.cfg.InstanceID, ClientID: a.cfg.ClientID, Protocol: protocol, Version: planVersion(a.tasks),
		Topics: a.subscription(), SessionTimeout: a.cfg.SessionTimeout, RebalanceTimeout: a.cfg.RebalanceTimeout,
		HeartbeatInterval: a.cfg.HeartbeatInterval,
		Assign:            a.assign,
	}
	member, err := a.log.OpenMember(ctx, cfg)
	if err != nil {
		return ended(ctx, err)
	}
	g := &group{app: a, log: a.cfg.Logger, cfg: cfg, member: member, joined: make(chan joined, 1), events: make(chan event, 4*len(a.tasks)+1)}
	for _, spec := range a.tasks {
		g.slots = append(g.slots, &slot{spec: spec})
	}
	return g.shutdown(g.run(ctx))
}

// run runs until ctx ends, which is no error, or something has happened that ends the run.
func (g *group) run(ctx context.Context) error {
	check := g.app.cfg.Clock.NewTimer(checkInterval)
	defer check.Stop()
	checked := make(chan error, 1)
	look, cancelLook := context.WithCancel(ctx)
	looking := false
	defer func() { // none may use the log when it has been closed (E11)
		if cancelLook(); looking {
			<-checked
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	g.want(0)
	for {
		if wait := g.begin(ctx); wait >= 0 {
			timer.Reset(wait)
		}
		rebalance := g.member.Rebalance()
		if g.cancelJoin != nil {
			rebalance = nil // what it tells meanwhile is what the Join is for
		}
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-rebalance:
			g.log.Info("rebalance")
			g.want(0)
		case j := <-g.joined:
			g.cancelJoin()
			g.cancelJoin = nil
			err = g.apply(j)
		case e := <-g.events:
			err = g.take(e)
		case <-check.C():
			looking = true
			go func() { checked <- g.app.checkTopics(look) }()
		case err = <-checked:
			looking = false
			check.Reset(checkInterval)
		case <-timer.C:
		}
		if err != nil {
			return ended(ctx, err)
		}
	}
}

// want has the group joined again, in d.
func (g *group) want(d time.Duration) {
	at := time.Now().Add(d)
	if !g.wanted || at.Before(g.joinAt) {
		g.wanted, g.joinAt = true, at
	}
}

// begin begins what is due and returns how long it is until the next thing is, -1 if there is none.
func (g *group) begin(ctx context.Context) time.Duration {
	now := time.Now()
	next := time.Duration(-1)
	due := func(at time.Time) bool {
		d := at.Sub(now)
		if d > 0 && (next < 0 || d < next) {
			next = d
		}
		return d <= 0
	}
	for _, s := range g.slots {
		if s.due && s.task == nil && due(s.startAt) {
			g.start(s)
		}
	}
	if g.wanted && g.cancelJoin == nil && due(g.joinAt) {
		g.join(ctx)
	}
	return next
}

// join joins again, beside everything else.
func (g *group) join(ctx context.Context) {
	g.wanted, g.withheld = false, false
	var owned []commitlog.TopicPartition
	for _, s := range g.slots {
		if s.holds() || s.assigned {
			owned = append(owned, s.spec.inputs...)
		}
	}
	ctx, g.cancelJoin = context.WithCancel(ctx)
	go func() {
		as, err := g.member.Join(ctx, owned, g.app.userData())
		g.joined <- joined{as, err}
	}()
}

// apply takes the outcome of a Join.
func (g *group) apply(j joined) error {
	if j.err != nil {
		if errors.Is(j.err, commitlog.ErrInstanceFenced) {
			return g.replace(j.err)
		}
		if commitlog.ClassOf(j.err) != commitlog.Retriable {
			return j.err
		}
		pause, ok := setback(&g.setbacks)
		if !ok {
			return j.err
		}
		g.log.Warn("join again", "cause", j.err.Error(), "setbacks", g.setbacks)
		g.want(pause)
		return nil
	}
	g.setbacks = 0
	if j.as.Fresh {
		for _, s := range g.slots {
			g.lose(s)
		}
	}
	g.identity, g.withheld = j.as.Identity, len(j.as.Withheld) > 0
	mine := map[commitlog.TopicPartition]bool{}
	for _, tp := range j.as.Partitions {
		mine[tp] = true
	}
	assigned, started, revoked := 0, 0, 0
	for _, s := range g.slots {
		s.assigned = len(s.spec.inputs) > 0
		for _, tp := range s.spec.inputs {
			s.assigned = s.assigned && mine[tp]
		}
		switch {
		case s.assigned:
			assigned++
			if s.state != working {
				started++
				s.due = true // not before startAt, and not before the one before has ended
			}
		default:
			s.due = false
			if s.state == working {
				revoked++
				g.stop(s)
			}
		}
	}
	g.app.taskCount.Store(int32(max(1, assigned)))
	g.app.mu.Lock()
	g.app.mu.stats.Rebalances++
	g.app.mu.Unlock()
	g.log.Info("assigned", "generation", j.as.Generation, "tasks", assigned, "started", started, "revoked", revoked)
	g.giveUp()
	return nil
}

// replace begins a new membership after one whose instance id is another's now (FENCED_INSTANCE_ID).
// The other need not be a process: a coordinator that ends in the middle of a rebalance leaves its
// successor with the id that the member had before, and of requests that were under way in a network that failed
// the older may come last. Two processes that have the same id take it from each other, until one
// meets that again within fencePeace: an error.
func (g *group) replace(err error) error {
	if !g.replaced.IsZero() && time.Since(g.replaced) < fencePeace {
		return fmt.Errorf("InstanceID (%q) was taken over twice within %v, so another process of group %s seems to have it too: give each process one of its own: %w",
			g.cfg.InstanceID, fencePeace, g.cfg.Group, err)
	}
	member, oerr := g.app.log.OpenMember(g.app.ctx, g.cfg)
	if oerr != nil {
		return errors.Join(oerr, err)
	}
	g.log.Warn("join anew: does another process have this instance id?", "instance", g.cfg.InstanceID, "cause", err.Error())
	if cerr := g.member.Close(g.app.ctx, false); cerr != nil {
		g.log.Warn("close the fenced membership", "error", cerr.Error())
	}
	g.member, g.replaced = member, time.Now()
	for _, s := range g.slots {
		s.assigned, s.due = false, false
		g.lose(s)
	}
	g.want(0)
	return nil
}

// giveUp joins again when the tasks that are not this process's any more have been given up, all of
// them, so that their new owners need one rebalance and not one for each. A static member that came back is told what the
// process before it was to give up, and did not live to join again for.
func (g *group) giveUp() {
	for _, s := range g.slots {
		if s.holds() && !s.assigned {
			return
		}
	}
	if g.withheld {
		g.want(0)
	}
}

// shutdown ends all tasks in order, leaves the group as soon as none of them can commit any more, and returns
// within DrainTimeout: cause, or what kept a task from ending in order.
func (g *group) shutdown(cause error) error {
	timer := time.NewTimer(shutdownTimeout(&g.app.cfg))
	defer timer.Stop()
	if g.cancelJoin != nil {
		g.cancelJoin()
	}
	left := func() (tasks, held int) {
		for _, s := range g.slots {
			if s.task != nil {
				tasks++
			}
			if s.holds() {
				held++
			}
		}
		return tasks, held
	}
	for _, s := range g.slots {
		if s.state == working {
			g.stop(s)
		}
	}
	gone := false
	for {
		tasks, held := left()
		if held == 0 && !gone {
			gone = true
			g.leave()
		}
		if tasks == 0 {
			break
		}
		select {
		case e := <-g.events:
			if err := g.end(e); cause == nil {
				cause = err
			}
			continue
		case <-timer.C:
		}
		for _, s := range g.slots {
			if s.task != nil && cause == nil {
				cause = s.stuck()
			}
		}
		break
	}
	if !gone {
		g.leave()
	}
	return cause
}

// leave ends the membership.
func (g *group) leave() {
	cfg := &g.app.cfg
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.app.ctx), leaveTimeout(cfg))
	defer cancel()
	if err := g.member.Close(ctx, cfg.InstanceID == "" && !cfg.StayInGroup); err != nil {
		cfg.Logger.Warn("leave group", "error", err.Error())
	}
	if g.cancelJoin != nil {
		<-g.joined
		g.cancelJoin = nil
	}
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
