package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/exec/kafkalog"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

// App is one instance of a plan: a process that runs some of its tasks. Make one with New.
type App struct {
	plan *topology.Plan
	cfg  Config
	log  commitlog.Log
	// ctx is Run's; batchBytes, holdBytes, pool, partitions, topicIDs, tasks and moved are set before tasks run and not changed after.
	ctx        context.Context
	batchBytes int
	holdBytes  int
	pool       *commitlog.Pool
	partitions map[string]int               // by topic, internal ones included
	topicIDs   map[string]commitlog.TopicID // of what tasks read
	tasks      []taskSpec
	limits     map[string]int  // of records, by internal topic, where the topic's is less than MaxRecordBytes
	moved      map[string]bool // stores that were in another sub-topology, see forgotten.go
	tables     []*table
	// onDisk is what userData returns, set by takeInventory.
	onDisk []byte
	// restores has room for as many tasks as may restore in bulk at once.
	restores chan struct{}
	// taskCount is the number of tasks that this process runs, at least 1: memory is shared out by it.
	taskCount atomic.Int32
	started   atomic.Bool
	purger    *purger
	expiries  expiries
	mu        struct {
		sync.Mutex
		stats  Stats
		askers map[string]*ops.Asker
		tasks  map[*task]struct{}
	}
}

// taskSpec is a task that the plan has on this cluster.
type taskSpec struct {
	sub       *topology.Subtopology
	partition int32
	inputs    []commitlog.TopicPartition
}

// New checks the config and returns an instance that is ready to run. It does no I/O.
func New(plan *topology.Plan, cfg Config) (*App, error) {
	if plan == nil {
		return nil, &ConfigError{Err: errors.New("plan is nil: did Build return an error?")}
	}
	if plan.Name() == "" {
		return nil, &ConfigError{Err: errors.New("plan is empty: it is made by Builder.Build")}
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	a := &App{plan: plan, cfg: cfg.withDefaults(plan.Name())}
	a.batchBytes = min(512<<10, a.cfg.MaxRecordBytes)
	a.holdBytes = 8 << 20
	a.restores = make(chan struct{}, a.cfg.RestoreParallelism)
	a.pool = commitlog.NewPool(a.batchBytes + 4096)
	a.purger = newPurger(a)
	a.topicIDs = map[string]commitlog.TopicID{}
	a.limits = map[string]int{}
	for _, spec := range plan.Tables() {
		a.tables = append(a.tables, newTable(a, spec))
	}
	a.mu.stats = newStats()
	a.mu.askers = map[string]*ops.Asker{}
	a.mu.tasks = map[*task]struct{}{}
	a.taskCount.Store(1)
	return a, nil
}

// Run runs the plan until ctx ends or something fails that only a person can mend, and
// returns nil in the first case. It is New followed by App.Run.
func Run(ctx context.Context, plan *topology.Plan, cfg Config) error {
	a, err := New(plan, cfg)
	if err != nil {
		return fmt.Errorf("wicker: %w", err)
	}
	return a.Run(ctx)
}

// Run runs the instance: it checks the topics, creates the internal ones, joins the group
// and processes what is assigned to it, until ctx ends. It then commits what it has processed, within
// DrainTimeout, and returns nil. It returns an error early when a record cannot be processed
// (a *RecordError), when topics are not as planned (a *TopicsError), when input, offsets or state that were there are gone
// (a *LostError, *ForgottenError or *DeletedError, which say how to go on), when the plan lacks state that the group has
// (a *topology.LockError, the same), or when the cluster refuses what
// no retry mends. An App runs once.
func (a *App) Run(ctx context.Context) error {
	if a.plan == nil {
		return &ConfigError{Err: errors.New("the App is empty: it is made by New")}
	}
	if a.started.Swap(true) {
		return fmt.Errorf("wicker: %s: Run was called before: an App runs once", a.plan.Name())
	}
	if err := a.run(ctx); err != nil {
		return fmt.Errorf("wicker: %s: %w", a.plan.Name(), a.cfg.explainTimes(err))
	}
	return nil
}

// Stats returns what the instance has done so far. It may be called from any goroutine.
func (a *App) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.mu.stats.clone()
	for _, t := range a.tables {
		s.Tables[t.spec.Name] = t.stats
	}
	for t := range a.mu.tasks {
		switch taskState(t.at.Load()) {
		case fencing, restoring:
			s.Restoring++
		case running, draining:
			s.Tasks++
		}
		if t.restoring != nil {
			s.Restores = append(s.Restores, *t.restoring)
		}
	}
	slices.SortFunc(s.Restores, func(x, y RestoreProgress) int { return cmp.Compare(x.Task, y.Task) })
	return s
}

func (a *App) run(ctx context.Context) (err error) {
	a.ctx = ctx
	if err := a.cfg.State.Open(); err != nil {
		return err
	}
	defer func() {
		if cerr := a.cfg.State.Close(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	if a.log = a.cfg.Log; a.log == nil {
		a.log, err = kafkalog.Open(ctx, kafkalog.Config{Brokers: a.cfg.Brokers, ClientID: a.cfg.ClientID,
			TLS: a.cfg.TLS, SASL: a.cfg.SASL, Logger: a.cfg.Logger})
		if err != nil {
			return ended(ctx, err)
		}
		defer func() {
			if cerr := a.log.Close(); err == nil && cerr != nil {
				err = cerr
			}
		}()
	}
	accept, err := a.checkLock()
	if err != nil {
		return err
	}
	if err := a.prepareTopics(ctx); err != nil {
		return ended(ctx, err)
	}
	if err := accept(); err != nil {
		return err
	}
	if err := a.takeInventory(ctx); err != nil {
		return ended(ctx, err)
	}
	ctx, stopTables, err := a.openTables(ctx)
	if err != nil {
		return ended(ctx, err)
	}
	stopPurging := a.purger.start(ctx)
	err = a.runGroup(ctx)
	stopPurging(err == nil)
	return cmp.Or(stopTables(), err)
}

// ended turns an error that ctx's end has caused into nil.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}

// inputs returns the partitions that a task reads: those of its number, of each source that has as many.
func (a *App) inputs(sub *topology.Subtopology, partition int32) []commitlog.TopicPartition {
	var tps []commitlog.TopicPartition
	for _, topic := range sub.Sources {
		if int(partition) < a.partitions[topic] {
			tps = append(tps, commitlog.TopicPartition{Topic: topic, Partition: partition})
		}
	}
	return tps
}

// asker returns the process's asker for a Memo.
func (a *App) asker(name string, concurrency int) *ops.Asker {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.mu.askers[name]
	if k == nil {
		k = ops.NewAsker(concurrency)
		a.mu.askers[name] = k
	}
	return k
}

// stateShare is the bytes of state that one of this process's tasks may keep in memory.
func (a *App) stateShare() int64 { return a.cfg.StateMemory / int64(a.taskCount.Load()) }
