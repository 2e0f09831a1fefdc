package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// What the pause is like: transactions are open for long, so that one is when the worker is stopped.
const (
	pauseSession = 2 * time.Second
	pauseCommit  = time.Second
	pauseFor     = 6 * time.Second
)

// paused is what came of a worker that was stopped beyond its session timeout and let go on.
type paused struct {
	static bool
	// open is how many outputs it had written in transactions that were never committed.
	open int
	// takeover is how long its partitions had no output, back how long after it went on it had outputs again.
	takeover, back time.Duration
	// refused is what its log says of its late commit.
	refused   string
	unplanned []exit
	problem   string
}

func (p *paused) String() string {
	ids := "dynamic"
	if p.static {
		ids = "static"
	}
	text := fmt.Sprintf("pause of %v, session timeout %v, %s membership: %d outputs of its open transactions never show; taken over after %v; working again %v after it went on; unplanned exits %d",
		pauseFor, pauseSession, ids, p.open, p.takeover.Round(10*time.Millisecond), p.back.Round(10*time.Millisecond), len(p.unplanned))
	if p.problem != "" {
		text += "; WRONG: " + p.problem
	}
	text += "\n  what became of its late commit: " + p.refused
	for _, e := range p.unplanned {
		text += "\n  unplanned: " + e.String()
	}
	return text
}

// pauseOne stops a worker in the middle of a transaction, beyond its session timeout, and lets it go on.
func pauseOne(ctx context.Context, s *stand, set setting, static bool) (*paused, error) {
	app := fmt.Sprintf("pause-%t-%d", static, time.Now().Unix())
	r, err := newProbeRun(ctx, s, set, app, func(slot int) job {
		j := job{Session: pauseSession, Commit: pauseCommit}
		if static {
			j.Instance = fmt.Sprintf("instance-%d", slot)
		}
		return j
	})
	if err != nil {
		return nil, err
	}
	defer r.close()
	for slot := range 2 {
		if err := r.fleet.start(slot); err != nil {
			return nil, err
		}
	}
	victim := r.fleet.pid(0)
	both := func(arrivals [][]arrival) bool { return len(processes(arrivals)) == 2 }
	if err := r.observer.await(ctx, time.Minute, "both workers have partitions", both); err != nil {
		return nil, err
	}
	if !sleep(ctx, 2*pauseCommit) {
		return nil, ctx.Err()
	}
	// In the middle of a commit: outputs and offsets have been written, and the request to commit is under way until
	// others have taken over.
	lift := s.proxy.disturb(rule{slot: 0, node: anyone, on: up, hold: true, commits: true})
	defer func() { lift() }()
	if !sleep(ctx, pauseCommit*5/4) {
		return nil, ctx.Err()
	}
	r.note("stop")
	if err := r.fleet.signal(0, syscall.SIGSTOP); err != nil {
		return nil, err
	}
	stopped := time.Now()
	other := func(arrivals [][]arrival) bool { return !processes(arrivals)[victim] }
	err = r.observer.await(ctx, pauseFor*5, "the other worker has all partitions", other)
	sleep(ctx, time.Until(stopped.Add(pauseFor)))
	lift()
	lift = func() {}
	logged := size(r.fleet.logPath(0))
	if cerr := r.fleet.signal(0, syscall.SIGCONT); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	r.note("go on")
	resumed := time.Now()
	back := func(arrivals [][]arrival) bool { return processes(arrivals)[victim] }
	if err := r.observer.await(ctx, time.Minute, "the worker that was stopped has partitions again", back); err != nil {
		return nil, err
	}
	out := &paused{static: static, back: time.Since(resumed)}
	if out.problem, err = r.drain(ctx); err != nil {
		return nil, err
	}
	if r.fleet.pid(0) != victim {
		out.problem += "the worker that was stopped is not the same process"
	}
	r.fleet.stopAll()
	out.unplanned = r.fleet.unplanned()
	if out.open, err = r.hidden(ctx, victim); err != nil {
		return nil, err
	}
	r.observer.mu.Lock()
	defer r.observer.mu.Unlock()
	for _, as := range r.observer.arrivals {
		for i := 1; i < len(as); i++ {
			if as[i-1].By == victim && as[i].By != victim {
				out.takeover = max(out.takeover, as[i].at.Sub(stopped))
			}
		}
	}
	out.refused, err = refusal(r.fleet.logPath(0), logged)
	return out, err
}

// hidden returns how many outputs of a process are in the topic and not committed.
func (r *probeRun) hidden(ctx context.Context, process int) (int, error) {
	n := 0
	for sign, isolation := range map[int]kafka.Isolation{1: kafka.ReadUncommitted, -1: kafka.ReadCommitted} {
		records, err := r.client.Read(ctx, isolation, r.names.counts())
		if err != nil {
			return 0, err
		}
		for _, rec := range records {
			var s sighting
			if err := json.Unmarshal(rec.Value, &s); err != nil {
				return 0, err
			}
			if s.By == process {
				n += sign
			}
		}
	}
	return n, nil
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// refusal finds what a worker's log says from an offset on about why its first task came to nothing.
func refusal(path string, from int64) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text[from:])) {
		if _, cause, ok := strings.Cut(line, "cause="); ok {
			return strings.TrimSpace(cause), nil
		}
	}
	return "(none)", nil
}
