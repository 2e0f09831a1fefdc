package exec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

// taskState is where a task is in its life:
//
//	fencing -> restoring -> running -> draining -> closed
//	   |           |           |          |          ^
//	   +-----------+---- asked to stop ---|----------+
//	   |           |           |          |
//	   +-----------+-----------+----------+-------> failed
type taskState int32

const (
	fencing   taskState = iota // InitProducerId: earlier owners can no longer commit
	restoring                  // the changelog's tail goes into the stores
	running                    // batches and transactions
	draining                   // asked to stop: commits what it has processed
	closed                     // everything given up, all of it committed
	failed                     // given up with an error; what was open is aborted
)

// String returns the state's name.
func (s taskState) String() string {
	return [...]string{"fencing", "restoring", "running", "draining", "closed", "failed"}[s]
}

// transitions lists the states that may follow each.
var transitions = map[taskState][]taskState{
	fencing:   {restoring, failed, closed},
	restoring: {running, failed, closed},
	running:   {draining, failed},
	draining:  {closed, failed},
}

// task is one partition of one sub-topology. Its goroutine owns it: stores, offsets,
// producer, operators. What others touch is said at the field.
type task struct {
	app       *App
	sub       *topology.Subtopology
	partition int32
	id        string // <app>-<sub-topology>-<partition>: transactional id, and name of its store
	log       *slog.Logger

	// ctx ends when the task must stop without finishing; cancel is called by the app. starting ends with it, and
	// when the task is asked to stop: nothing is lost by ending a start at once.
	ctx, starting context.Context
	cancel        context.CancelCauseFunc
	cancelStart   context.CancelFunc
	// drain is closed by the group to ask for an orderly end. released is called by the task when it can commit
	// nothing any more; what is left to do then, closing its store, is nobody else's business.
	drain    chan struct{}
	released func()
	err      error        // why it ended; read by the group when run has returned
	at       atomic.Int32 // taskState: written by the task, read by anyone

	identity commitlog.Identity
	note     string // goes with the offsets it commits, see commitAs
	renote   bool   // it is to go with all offsets at once
	was      note   // what was noted when the task started
	producer commitlog.Producer
	reader   commitlog.Reader
	db       kvstore.Store
	state    *state
	env      env
	in       input
	out      outputs
	// changelog is where state.seal writes; apart from out, since it is no output of the user's.
	changelog outputs

	// opened is when the open transaction took its first record, zero if it has none.
	opened time.Time
	// overdue says that the open transaction is to close; alarm raises it. careful is how many transactions are
	// to have one record each, see expiry.go.
	overdue atomic.Bool
	alarm   Timer
	careful int
	// closedAt is when the last transaction closed, flushedAt when state went to the engine last.
	closedAt, flushedAt time.Time
	// inflight delivers the outcome of the transaction being committed, nil if there is none.
	inflight chan commitResult
	// held are the batches of the open transaction that wait for the one in flight, heldBytes their size.
	held      []heldBatch
	heldBytes int
	// sealing says that the open transaction is being closed.
	sealing bool
	// missed are the inputs that have no committed offset, see forgotten.go; lost is why reading has ended, see positions.go.
	missed []missedInput
	lost   error

	published                  published
	restoring                  *RestoreProgress // guarded by App.mu; nil unless it restores
	commits, restored, entries int64
}

type heldBatch struct {
	tp commitlog.TopicPartition
	b  *commitlog.Batch
}

// taskID names a task: its transactional id and its local store.
func taskID(app, sub string, partition int32) string {
	return app + "-" + sub + "-" + strconv.Itoa(int(partition))
}

func newTask(app *App, sub *topology.Subtopology, partition int32, identity commitlog.Identity) *task {
	t := &task{app: app, sub: sub, partition: partition, id: taskID(app.plan.Name(), sub.Name, partition), identity: identity,
		drain: make(chan struct{})}
	t.log = app.cfg.Logger.With("task", t.id)
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(app.ctx))
	t.starting, t.cancelStart = context.WithCancel(t.ctx)
	t.env.t = t
	t.out = outputs{pool: app.pool, batchBytes: app.batchBytes, send: t.send}
	t.changelog = outputs{pool: app.pool, batchBytes: app.batchBytes, send: t.send}
	return t
}

// become moves the task to another state.
func (t *task) become(s taskState) {
	from := taskState(t.at.Load())
	for _, ok := range transitions[from] {
		if ok == s {
			t.at.Store(int32(s))
			if s == running || s == closed && from == draining {
				t.log.Info("task", "state", s.String(), "from", from.String(), "committed", t.in.committed())
			} else {
				t.log.Debug("task", "state", s.String(), "from", from.String())
			}
			return
		}
	}
	panic(fmt.Sprintf("wicker: task %s from %s to %s", t.id, from, s)) // a bug of this package: no input leads here
}

// run is the task's goroutine. What must happen at its end is deferred: a user's function may end
// the goroutine (runtime.Goexit) instead of returning, which nothing can stop.
func (t *task) run() {
	err := ops.ErrExited // unless the loop returns
	defer func() {
		if err == ops.ErrExited {
			err = t.recordError(err)
		}
		t.err = t.close(err)
		t.noteExpiry(t.err)
		t.publish()
		t.cancel(nil)
	}()
	serr := t.start()
	t.cancelStart()
	switch {
	case serr == nil:
		t.become(running)
		err = t.loop()
	case t.drained():
		err = nil // nothing was processed yet: there is nothing to lose
	default:
		err = serr
	}
}

// drained says whether the task was asked to end in order.
func (t *task) drained() bool {
	select {
	case <-t.drain:
		return true
	default:
		return false
	}
}

// stop asks the task to end in order: one that still starts ends at once. The group calls it once.
func (t *task) stop() {
	close(t.drain)
	t.cancelStart()
}

// start fences earlier owners, restores the stores and opens the input, in this order (E3, E5).
func (t *task) start() error {
	cfg := &t.app.cfg
	var err error
	t.producer, err = t.app.log.OpenProducer(t.starting, commitlog.ProducerConfig{TransactionalID: t.id,
		TransactionTimeout: cfg.TransactionTimeout, Compression: cfg.Compression})
	if err != nil {
		return err
	}
	if err := t.locate(); err != nil {
		return err
	}
	if err := t.remember(); err != nil {
		return err
	}
	t.become(restoring)
	if err := t.restore(); err != nil {
		return err
	}
	t.checkNote()
	emits, err := t.sub.Wire(&t.env)
	if err != nil {
		return err
	}
	for _, s := range t.in.sources {
		s.emit, s.placement = emits[s.tp.Topic], t.placementOf(s.spec)
	}
	return t.read(t.starting)
}

// loop processes batches and closes transactions until it is asked to stop.
func (t *task) loop() error {
	cfg := &t.app.cfg
	timer := cfg.Clock.NewTimer(farOff)
	defer timer.Stop()
	t.flushedAt = cfg.Clock.Now()
	t.careful = t.app.expiries.of(t.id)
	defer t.watch()()
	t.publish() // what was restored
	if t.renote {
		t.opened = t.flushedAt
	}
	for {
		wait := true
		if t.room() && t.in.buffered() {
			n, err := t.batch()
			if err != nil {
				return err
			}
			wait = n == 0
			t.publish()
		}
		if t.lost != nil && !t.in.buffered() {
			if err := t.drainTransactions(); err != nil {
				return err
			}
			return t.lost
		}
		if t.commits != t.published.commits {
			t.publish() // a task without input too
		}
		now := cfg.Clock.Now()
		// Before the next commit is in flight: while one is, nothing may be flushed, and when commits take
		// as long as CommitInterval there is no other moment.
		if err := t.flushState(now, false); err != nil {
			return err
		}
		if due, in := t.due(now); due {
			if err := t.closeTransaction(now); err != nil {
				return err
			}
		} else if wait {
			for _, other := range [...]time.Duration{t.flushIn(now), t.in.waiting(now)} {
				if other > 0 && (in == 0 || other < in) {
					in = other
				}
			}
			if in > 0 {
				timer.Reset(in)
			}
		}
		if err := t.event(wait, timer); err != nil {
			if errors.Is(err, errDrain) {
				return nil
			}
			return err
		}
	}
}

// errDrain ends the loop in order.
var errDrain = errors.New("drain")

// event takes what has happened meanwhile; with wait it waits until something has.
func (t *task) event(wait bool, timer Timer) error {
	for {
		chunks := t.reader.Chunks()
		if t.in.full() || t.lost != nil {
			chunks = nil
		}
		var tick <-chan time.Time
		if wait {
			tick = timer.C()
		}
		select {
		case c, ok := <-chunks:
			if !ok {
				return t.readOn()
			}
			if err := t.in.add(c); err != nil {
				return err
			}
			wait = false
			continue
		case r := <-t.inflight:
			if err := t.committed(r); err != nil {
				return err
			}
			wait = false
			continue
		case <-t.drain:
			return errDrain
		case <-t.ctx.Done():
			return context.Cause(t.ctx)
		default:
		}
		if !wait {
			return nil
		}
		select {
		case c, ok := <-chunks:
			if !ok {
				return t.readOn()
			}
			return t.in.add(c)
		case r := <-t.inflight:
			return t.committed(r)
		case <-tick:
			return nil
		case <-t.drain:
			return errDrain
		case <-t.ctx.Done():
			return context.Cause(t.ctx)
		}
	}
}

// readerEnded returns why a reader that the task has not closed ended: also one that gives no
// reason, as when the log was closed, has not delivered what was asked for.
func readerEnded(r commitlog.Reader) error {
	if err := r.Err(); err != nil {
		return err
	}
	return &commitlog.Error{Op: "fetch", Partition: -1, Class: commitlog.Fatal, Err: commitlog.ErrClosed}
}

// close gives everything up. Without an error, or when drained, what was processed is
// committed first; with one, what is open is aborted. It returns the error that the task ended with.
func (t *task) close(err error) error {
	if taskState(t.at.Load()) == running && err == nil {
		t.become(draining)
		if t.opened.IsZero() && t.in.moved() {
			t.opened = t.app.cfg.Clock.Now()
		}
		err = t.drainTransactions()
	}
	if err != nil {
		t.dropHeld()
	}
	err = t.settle(err)
	switch cause := context.Cause(t.ctx); {
	case err == nil:
	case errors.Is(cause, ErrDrainTimeout):
		err = ErrDrainTimeout // whatever was cut short by it
	case cause == errLost:
		err = errLost // whatever was cut short by it: calls to the outside have errors of their own for that
	}
	t.cancel(err) // ends a commit, and calls of Memo that nobody waits for any more
	errs := []error{t.closeProducer(err)}
	t.released()
	t.out.discard()
	t.changelog.discard()
	if t.reader != nil {
		errs = append(errs, t.reader.Close())
	}
	if t.db != nil {
		if t.inflight == nil && t.state != nil && !t.state.anyInflight() {
			errs = append(errs, t.flushState(t.app.cfg.Clock.Now(), true))
		}
		errs = append(errs, t.db.Close())
	}
	t.entries = 0
	if err == nil {
		err = errors.Join(errs...)
	}
	if err != nil {
		t.become(failed)
		if errors.Is(err, kvstore.ErrInUse) || errors.Is(err, kvstore.ErrClosed) {
			err = fmt.Errorf("%w: is Config.State shared by two Apps?", err)
		}
		return err
	}
	t.become(closed)
	return nil
}

// settle waits for the transaction in flight: one that was closed in order may still commit.
func (t *task) settle(err error) error {
	if t.inflight == nil {
		return err
	}
	late := time.NewTimer(settleTimeout(&t.app.cfg))
	defer late.Stop()
	select {
	case r := <-t.inflight:
		if cerr := t.committed(r); cerr != nil && err == nil {
			err = cerr
		}
	case <-late.C:
	case <-t.ctx.Done():
	}
	if t.inflight != nil && err == nil {
		err = ErrDrainTimeout
	}
	return err
}

// closeProducer gives up the producer, and with an error aborts what is open first. That has time of its own: what is
// left open hides what others write behind it until the transaction's timeout.
func (t *task) closeProducer(err error) error {
	if t.producer == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), abortTimeout(&t.app.cfg))
	defer cancel()
	if t.inflight != nil {
		select {
		case r := <-t.inflight:
			if cerr := t.committed(r); cerr != nil {
				t.log.Debug("commit", "error", cerr.Error())
			}
		case <-ctx.Done():
		}
	}
	if err != nil && t.inflight == nil {
		if aerr := t.producer.Abort(ctx); aerr != nil && commitlog.ClassOf(aerr) != commitlog.Fenced {
			t.log.Warn("abort", "error", aerr.Error())
		}
	}
	return t.producer.Close()
}
