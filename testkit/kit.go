package testkit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

// TB is what a Kit needs of a *testing.T or *testing.B.
type TB interface {
	// Helper marks the caller as a helper of the test.
	Helper()
	// Fatalf fails the test and ends it.
	Fatalf(format string, args ...any)
	// Cleanup runs a function when the test ends.
	Cleanup(func())
}

// DefaultPartitions is the partition count of a plan's topics in a Kit.
const DefaultPartitions = 4

// settleTimeout bounds, in real time, how long a Kit waits for the executor: a test that
// reaches it has found a hang.
const settleTimeout = 60 * time.Second

// Start is what the virtual clock shows at first.
var start = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// Option adjusts a Kit.
type Option func(*options)

type options struct {
	partitions map[string]int
	config     func(*exec.Config)
	start      time.Time
}

// Partitions sets the partition count of one topic of the plan, by name.
func Partitions(topic string, n int) Option {
	return func(o *options) { o.partitions[topic] = n }
}

// Config changes the executor's settings. Log and Clock are the Kit's own.
func Config(change func(*exec.Config)) Option {
	return func(o *options) { o.config = change }
}

// StartAt sets what the virtual clock shows at first. Default: 2024-01-01 00:00 UTC.
func StartAt(t time.Time) Option { return func(o *options) { o.start = t } }

// Kit is a plan that runs in memory. It is for one goroutine.
type Kit struct {
	tb    TB
	plan  *topology.Plan
	opts  options
	log   *memlog.Log // the test's own connection
	clock *clock
	state kvstore.Engine
	run   *run
	// partitions of the plan's user topics
	partitions map[string]int
	session    time.Duration // the last run's session time-out
}

// run is one life of the executor.
type run struct {
	app    *exec.App
	log    *memlog.Log // the executor's connection
	cancel context.CancelFunc
	ctx    context.Context // ends, with the error as its cause, when the executor has ended
}

// New makes the plan's topics in memory and starts the executor on them. It ends with the test.
func New(tb TB, plan *topology.Plan, opts ...Option) *Kit {
	tb.Helper()
	if plan == nil {
		tb.Fatalf("testkit: plan is nil: did Build return an error?")
		return nil
	}
	k := &Kit{tb: tb, plan: plan, opts: options{partitions: map[string]int{}, start: start}, partitions: map[string]int{},
		state: keep{kvstore.NewMemory()}}
	for _, o := range opts {
		o(&k.opts)
	}
	k.clock = newClock(k.opts.start)
	k.log = memlog.New(memlog.Options{Now: k.clock.Now})
	var specs []commitlog.TopicSpec
	for _, t := range plan.Topics() {
		if t.Kind.Internal() || k.partitions[t.Name] != 0 {
			continue
		}
		n := k.opts.partitions[t.Name]
		if n == 0 {
			n = DefaultPartitions
		}
		k.partitions[t.Name] = n
		specs = append(specs, commitlog.TopicSpec{Name: t.Name, Partitions: n, Replication: 1})
	}
	for name := range k.opts.partitions {
		if k.partitions[name] == 0 {
			tb.Fatalf("testkit: Partitions: topic %s is not a source or sink of the plan\n%s", name, plan.Describe())
		}
	}
	if err := k.log.CreateTopics(context.Background(), specs); err != nil {
		tb.Fatalf("testkit: create topics: %v", err)
	}
	k.start()
	tb.Cleanup(func() {
		tb.Helper()
		if err := k.stop(); err != nil && !errors.Is(err, errTaken) {
			tb.Fatalf("testkit: the executor ended with an error: %v", err)
		}
		k.log.Close()
	})
	return k
}

// errTaken marks a run whose error the test has asked for.
var errTaken = errors.New("taken")

func (k *Kit) start() {
	k.tb.Helper()
	cfg := exec.Config{}
	if k.opts.config != nil {
		k.opts.config(&cfg)
	}
	if cfg.State == nil {
		cfg.State = k.state
	}
	if cfg.IdleCommitInterval == 0 {
		cfg.IdleCommitInterval = -1
	}
	if k.session = cfg.SessionTimeout; k.session == 0 {
		k.session = commitlog.DefaultSessionTimeout
	}
	log := k.log.Session()
	cfg.Log, cfg.Clock = log, k.clock
	app, err := exec.New(k.plan, cfg)
	if err != nil {
		k.tb.Fatalf("testkit: %v", err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done, finish := context.WithCancelCause(context.Background())
	k.run = &run{app: app, log: log, cancel: cancel, ctx: done}
	go func() {
		err := app.Run(ctx)
		log.Close()
		if err == nil {
			err = context.Canceled
		}
		finish(err)
	}()
}

// stop ends the executor in order and returns the error it ended with.
func (k *Kit) stop() error {
	if k.run == nil {
		return nil
	}
	k.run.cancel()
	<-k.run.ctx.Done()
	err := context.Cause(k.run.ctx)
	k.run = nil
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Settle waits until everything pushed has been processed and committed.
func (k *Kit) Settle() {
	k.tb.Helper()
	if err := k.settle(); err != nil {
		k.fail(err)
	}
}

func (k *Kit) settle() error {
	if k.run == nil {
		return errors.New("the executor is not running: Restart starts it")
	}
	ctx, cancel := context.WithTimeout(k.run.ctx, settleTimeout)
	defer cancel()
	group := k.plan.Name()
	err := k.log.AwaitIdle(ctx, group)
	for errors.Is(err, memlog.ErrNoMembers) { // the executor is about to join, or about to end
		if err = k.log.Await(ctx, func() bool { return len(k.log.Group(group).Members) > 0 }); err == nil {
			err = k.log.AwaitIdle(ctx, group)
		}
	}
	if errors.Is(err, context.DeadlineExceeded) && k.run.ctx.Err() == nil {
		return fmt.Errorf("not idle after %v: group %+v", settleTimeout, k.log.Group(k.plan.Name()))
	}
	if err == nil { // the plan may write rows itself
		err = k.settleTables()
	}
	return err
}

func (k *Kit) fail(err error) {
	k.tb.Helper()
	k.run = nil
	k.tb.Fatalf("testkit: %v\n%s", err, k.plan.Describe())
}

// Err waits until everything pushed has been processed, and returns nil, or until the
// executor has ended, and returns the error. The executor is then gone until Restart.
func (k *Kit) Err() error {
	k.tb.Helper()
	err := k.settle()
	if err != nil && k.run != nil && k.run.ctx.Err() != nil {
		k.run = nil
	}
	return err
}

// Stop ends the executor in order, as SIGTERM would.
func (k *Kit) Stop() {
	k.tb.Helper()
	if err := k.stop(); err != nil {
		k.fail(err)
	}
}

// Restart ends the executor in order, if it runs, and starts it again.
func (k *Kit) Restart() {
	k.tb.Helper()
	k.Stop()
	k.start()
}

// Crash ends the executor as kill -9 would, with transactions left open and local
// state as the engine happens to have it, lets the virtual clock pass its session's time-out, so that the
// group has noticed, and starts it again.
func (k *Kit) Crash() {
	k.tb.Helper()
	if k.run != nil {
		k.run.log.Close()
		k.run.cancel()
		<-k.run.ctx.Done()
		k.run = nil
		k.Advance(k.session)
	}
	k.start()
}

// Now returns the virtual clock's time.
func (k *Kit) Now() time.Time { return k.clock.Now() }

// Advance moves the virtual clock.
func (k *Kit) Advance(d time.Duration) {
	k.clock.advance(d)
	k.log.Tick()
}

// Stats returns what the executor has done since its last start.
func (k *Kit) Stats() exec.Stats {
	k.tb.Helper()
	k.Settle()
	if k.run == nil {
		return exec.Stats{}
	}
	return k.run.app.Stats()
}

// Log returns the log, for what pipes do not show.
func (k *Kit) Log() *memlog.Log { return k.log }

// keep is a memory engine that the executor may open again after it has closed it. Its stores
// begin empty each time.
type keep struct{ *kvstore.Memory }

// Open implements kvstore.Engine.
func (k keep) Open() error { return k.Memory.Open() }

// Close implements kvstore.Engine. It does nothing: tasks have closed their stores.
func (k keep) Close() error { return nil }
