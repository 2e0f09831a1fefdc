package main

import (
	"context"
	"fmt"
	"time"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// rollingSession is the session timeout of the rolling restart: longer than a process takes to come back.
const rollingSession = 10 * time.Second

// rollingCommit is the commit interval. Tasks that are idle commit no earlier: 64 of them that commit each
// record by itself are more than two cores bear.
const rollingCommit = 200 * time.Millisecond

// rolled is what a rolling restart came to.
type rolled struct {
	static     bool
	rebalances int
	// steady are the gaps before the first restart, during those from then on.
	steady, during gaps
	unplanned      []exit
	problem        string // with the outputs
}

func (r *rolled) String() string {
	ids := "without static ids"
	if r.static {
		ids = "with static ids"
	}
	text := fmt.Sprintf("rolling restart %s: rebalances %d, unplanned exits %d", ids, r.rebalances, len(r.unplanned))
	if r.problem != "" {
		text += "; WRONG: " + r.problem
	}
	text += "\n  silence of partitions before: " + describe(r.steady.kept)
	text += "\n  silence of those that stay:   " + describe(r.during.kept)
	text += "\n  silence of those that move:   " + describe(r.during.moved)
	for _, e := range r.unplanned {
		text += "\n  unplanned: " + e.String()
	}
	return text
}

// rolling restarts one worker after the other, under load, and measures for how long partitions have no output.
func rolling(ctx context.Context, s *stand, set setting, static bool) (*rolled, error) {
	app := fmt.Sprintf("rolling-%t-%d", static, time.Now().Unix())
	r, err := newProbeRun(ctx, s, set, app, func(slot int) job {
		j := job{Session: rollingSession, Commit: rollingCommit, Idle: rollingCommit}
		if static {
			j.Instance = fmt.Sprintf("instance-%d", slot)
		}
		return j
	})
	if err != nil {
		return nil, err
	}
	defer r.close()
	for slot := range set.processes {
		if err := r.fleet.start(slot); err != nil {
			return nil, err
		}
	}
	busy := func(arrivals [][]arrival) bool { return len(processes(arrivals)) == set.processes }
	if err := r.observer.await(ctx, time.Minute, "all workers have partitions", busy); err != nil {
		return nil, err
	}
	if !sleep(ctx, 5*time.Second) { // until the group is at rest
		return nil, ctx.Err()
	}
	began := time.Now()
	if !sleep(ctx, 5*time.Second) {
		return nil, ctx.Err()
	}
	before, err := s.client.Generations(ctx, app)
	if err != nil {
		return nil, err
	}
	rolling := time.Now()
	for slot := range set.processes {
		r.note("restart worker %d", slot)
		if err := r.fleet.stop(slot); err != nil {
			return nil, err
		}
		if err := r.fleet.start(slot); err != nil {
			return nil, err
		}
		pid := r.fleet.pid(slot)
		back := func(arrivals [][]arrival) bool { return processes(arrivals)[pid] }
		if err := r.observer.await(ctx, time.Minute, fmt.Sprintf("worker %d has partitions again", slot), back); err != nil {
			return nil, err
		}
		r.note("worker %d is back", slot)
		if !sleep(ctx, 3*time.Second) {
			return nil, ctx.Err()
		}
	}
	ended := time.Now()
	after, err := s.client.Generations(ctx, app)
	if err != nil {
		return nil, err
	}
	out := &rolled{static: static, rebalances: len(after) - len(before)}
	if out.problem, err = r.drain(ctx); err != nil {
		return nil, err
	}
	r.fleet.stopAll()
	out.unplanned = r.fleet.unplanned()
	r.observer.mu.Lock()
	defer r.observer.mu.Unlock()
	out.steady = gapsWithin(r.observer.arrivals, began, rolling)
	out.during = gapsWithin(r.observer.arrivals, rolling, ended)
	return out, nil
}

// probeRun is a run of the probe: workers, inputs at a steady pace, and who looks at the outputs.
type probeRun struct {
	*chaosRun
	pulse    *pulse
	observer *observer
}

// pulseEvery is the time between two inputs of a partition.
const pulseEvery = 50 * time.Millisecond

// newProbeRun makes topics and a fleet, whose jobs are as complete says, and begins to write and to look.
func newProbeRun(ctx context.Context, s *stand, set setting, app string, complete func(slot int) job) (*probeRun, error) {
	run, err := newRun(ctx, s, set, nature{}, app)
	if err != nil {
		return nil, err
	}
	run.fleet.job = func(slot int) job {
		j := complete(slot)
		j.names, j.Brokers, j.Probe = run.names, s.proxy.addrs(), true
		return j
	}
	r := &probeRun{chaosRun: run}
	if r.observer, err = startObserver(s.cluster.Addrs(), run.names.counts(), set.partitions); err != nil {
		return nil, err
	}
	if r.pulse, err = startPulse(s.cluster.Addrs(), run.names.in(), set.partitions, pulseEvery); err != nil {
		r.observer.close()
		return nil, err
	}
	return r, nil
}

// drain ends the inputs, waits until all are through, and says what is wrong with the outputs.
func (r *probeRun) drain(ctx context.Context) (problem string, err error) {
	inputs, err := r.pulse.end()
	r.pulse = nil
	if err != nil {
		return "", err
	}
	all := func(arrivals [][]arrival) bool {
		for _, as := range arrivals {
			if len(as) < inputs {
				return false
			}
		}
		return true
	}
	if err := r.observer.await(ctx, r.stall, "all inputs are through", all); err != nil {
		problem = err.Error() + ": "
	}
	if err := r.client.AwaitStable(ctx, r.names.counts()); err != nil {
		return "", err
	}
	records, err := r.client.Read(ctx, kafka.ReadCommitted, r.names.counts())
	if err != nil {
		return "", err
	}
	r.observer.mu.Lock()
	defer r.observer.mu.Unlock()
	n := 0
	for _, as := range r.observer.arrivals {
		n += len(as)
	}
	if n != len(records) {
		problem += fmt.Sprintf("%d outputs were seen, and there are %d; ", n, len(records))
	}
	return problem + exact(r.observer.arrivals, inputs), nil
}

// close ends what still runs.
func (r *probeRun) close() {
	if r.pulse != nil {
		_, _ = r.pulse.end()
	}
	r.observer.close()
	r.fleet.close()
}
