package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

const (
	// maxInFlight is how many batches of one partition a broker remembers to tell duplicates
	// from (KIP-98), and so how many may be unanswered.
	maxInFlight = 5
	// maxProduceBytes bounds one Produce request; a single larger batch is sent all the same.
	maxProduceBytes = 8 << 20
)

// producer is a transactional producer.
//
// Each partition's batches are a queue; a lane per broker sends their heads. What is unanswered
// stays in the partition's flight list until it is acknowledged. After a retriable error the
// partition drains: nothing is sent until every unanswered batch has been answered, then all
// that was not acknowledged is sent again, in order and with the sequence numbers it had, so
// that the broker drops what it has already.
//
//	idle -- Produce --> open -- Commit --> committing -- EndTxn --> idle
//	                     | error                | error
//	                     v                      v
//	                   failed -- Abort --> idle (with a new epoch)
type producer struct {
	log      *Log
	cfg      commitlog.ProducerConfig
	key      coordinatorKey
	codec    codec
	attrs    int16
	data     *pool // Produce
	control  *pool // calls to coordinators: they must not wait behind batches
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	scratch  sync.Pool                 // *[]byte, for compressed batches
	since    atomic.Pointer[time.Time] // when the coordinator may have begun the open transaction, nil if it has none
	callOnce sync.Once                 // close

	mu      sync.Mutex // guards what follows and the partitions and lanes
	id      int64
	epoch   int16
	parts   map[commitlog.TopicPartition]*partition
	lanes   map[int32]*lane
	txn     []*partition  // those of the open transaction
	unacked int           // bytes handed over and not acknowledged
	changed chan struct{} // closed when unacked falls or failed is set; nil if nobody waits
	failed  error         // the transaction's first error
	fenced  error         // why this producer can do nothing any more
	began   bool          // the coordinator may know the transaction
	adding  bool          // AddPartitionsToTxn is under way
	finding bool          // leaders are looked up
	closed  bool
}

// partition is a producer's view of one partition.
type partition struct {
	tp     commitlog.TopicPartition
	leader int32
	seq    int32 // of the next batch that is sent for the first time

	retry  []*outBatch // to be sent again, before queue
	queue  []*outBatch // not sent yet
	flight []*outBatch // sent and not acknowledged, oldest first
	asked  int         // requests unanswered
	drain  bool        // a batch of flight has failed: wait for asked to be 0

	retryAt  time.Time
	patience patience

	// Of the open transaction:
	joined bool  // in producer.txn
	added  bool  // AddPartitionsToTxn was answered
	acked  bool  // a batch was acknowledged
	end    int64 // offset after the last acknowledged record; -1 if the broker did not tell
}

// outBatch is a batch on its way.
type outBatch struct {
	part  *partition
	batch *commitlog.Batch
	wire  []byte // with header; nil until it is sent for the first time
	buf   *[]byte
	size  int // of batch.Buf: what counts as unacknowledged
	count int
	seq   int32
}

// OpenProducer implements commitlog.Log.
func (l *Log) OpenProducer(ctx context.Context, cfg commitlog.ProducerConfig) (commitlog.Producer, error) {
	const op = "open producer"
	if cfg.MaxUnacked <= 0 {
		cfg.MaxUnacked = commitlog.DefaultMaxUnacked
	}
	if cfg.TransactionTimeout <= 0 {
		cfg.TransactionTimeout = commitlog.DefaultTransactionTimeout
	}
	if cfg.TransactionalID == "" {
		return nil, wrap(op, errors.New("TransactionalID is empty"))
	}
	if err := commitlog.CheckTimeout("TransactionTimeout", cfg.TransactionTimeout); err != nil {
		return nil, wrap(op, fmt.Errorf("config: %w", err))
	}
	codec, err := codecOf(cfg.Compression)
	if err != nil {
		return nil, wrap(op, err)
	}
	p := &producer{log: l, cfg: cfg, key: coordinatorKey{txnCoordinator, cfg.TransactionalID}, codec: codec,
		attrs: commitlog.TransactionalBit | int16(codec), data: l.cluster.newPool(), control: l.cluster.newPool(),
		parts: map[commitlog.TopicPartition]*partition{}, lanes: map[int32]*lane{}, id: -1, epoch: -1}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if err := l.add(p); err != nil {
		return nil, wrap(op, err)
	}
	if err := p.init(ctx, op); err != nil {
		p.shut()
		return nil, err
	}
	return p, nil
}

// Produce implements commitlog.Producer.
func (p *producer) Produce(ctx context.Context, tp commitlog.TopicPartition, b *commitlog.Batch) error {
	size := len(b.Buf)
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if err := p.usableLocked(); err != nil {
			return err
		}
		if p.unacked == 0 || p.unacked+size <= p.cfg.MaxUnacked {
			break
		}
		if err := p.waitLocked(ctx); err != nil {
			return p.name(wrap("produce", err))
		}
	}
	if b.Count == 0 {
		b.Release()
		return nil
	}
	part := p.parts[tp]
	if part == nil {
		part = &partition{tp: tp, leader: p.log.cluster.leader(tp), patience: patience{limit: p.log.cfg.RetryTimeout}}
		p.parts[tp] = part
	}
	if !part.joined {
		part.joined, part.end = true, -1
		p.txn = append(p.txn, part)
	}
	part.queue = append(part.queue, &outBatch{part: part, batch: b, size: size, count: b.Count})
	p.unacked += size
	p.pushLocked(part)
	return nil
}

// usableLocked returns why nothing can be produced or committed, if so.
func (p *producer) usableLocked() error {
	switch {
	case p.closed:
		return p.name(wrap("produce", commitlog.ErrClosed))
	case p.fenced != nil:
		return p.fenced
	}
	return p.failed
}

// pushLocked gets a partition's next batch going: it needs a leader and a place in the
// transaction, and its lane has to look.
func (p *producer) pushLocked(part *partition) {
	if p.closed || p.failed != nil {
		return
	}
	if part.leader == noLeader {
		p.findLeadersLocked()
		return
	}
	if !part.added {
		p.addPartitionsLocked()
		return
	}
	p.laneLocked(part.leader).signal()
}

// waitLocked waits until something changes.
func (p *producer) waitLocked(ctx context.Context) error {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	ch := p.changed
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.ctx.Done():
		return commitlog.ErrClosed
	}
}

func (p *producer) notifyLocked() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// failLocked makes err the transaction's error, if it is the first. Nothing more is sent.
func (p *producer) failLocked(err error) {
	if p.failed == nil {
		p.failed = p.name(err)
	}
	if err = p.name(err); producerLost(code(err)) || code(err) == codeInvalidTxnState && errors.Is(err, commitlog.ErrTransactionTimeout) {
		p.fenced = err
	}
	p.notifyLocked()
}

// beginLocked notes that the coordinator may know the transaction from now on.
func (p *producer) beginLocked() {
	if !p.began {
		p.began = true
		now := time.Now()
		p.since.Store(&now)
	}
}

// name adds the transactional id to an error, and what the broker's answer leaves unsaid.
func (p *producer) name(err error) error {
	e, ok := errors.AsType[*commitlog.Error](err)
	if !ok || e.TransactionalID != "" {
		return err
	}
	c := *e
	c.TransactionalID = p.cfg.TransactionalID
	switch {
	case timedOutPerhaps(c.Code):
		since := p.since.Load()
		if since == nil {
			break
		}
		if open := time.Since(*since); open > p.cfg.TransactionTimeout {
			c.Class, c.Err = commitlog.Fenced, because(commitlog.TimedOut(open, p.cfg.TransactionTimeout), c.Err)
		}
	case c.Code == codeInvalidIDMapping:
		c.Err = because(errExpiredID, c.Err)
	}
	return &c
}

// errExpiredID is the cause of INVALID_PRODUCER_ID_MAPPING.
var errExpiredID = errors.New("the transactional id has expired at the broker (transactional.id.expiration.ms): it was idle for too long")

// because puts a cause before what there is.
func because(cause, err error) error {
	if err == nil {
		return cause
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// findLeadersLocked looks up the leaders of partitions that have something to send, in the
// background, until they are known.
func (p *producer) findLeadersLocked() {
	if p.finding {
		return
	}
	p.finding = true
	p.wg.Go(func() {
		for p.findLeaders() {
		}
	})
}

// findLeaders is one round of findLeadersLocked; it reports whether another is needed.
func (p *producer) findLeaders() bool {
	p.mu.Lock()
	var tps []commitlog.TopicPartition
	var wait time.Time
	for _, part := range p.txn {
		if part.leader == noLeader && !part.drain {
			tps = append(tps, part.tp)
			if part.retryAt.After(wait) {
				wait = part.retryAt
			}
		}
	}
	if len(tps) == 0 || p.closed || p.failed != nil {
		p.finding = false
		p.notifyLocked()
		p.mu.Unlock()
		return false
	}
	p.mu.Unlock()
	if d := time.Until(wait); d > 0 && sleep(p.ctx, d) != nil {
		return true // closed is set
	}
	_, err := p.log.cluster.locate(p.ctx, tps)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, tp := range tps {
		part := p.parts[tp]
		if id := p.log.cluster.leader(tp); id != noLeader {
			part.leader = id
			p.pushLocked(part)
			continue
		}
		if err == nil {
			err = kafkaErr("produce", inProduce, codeLeaderNotAvailable)
		}
		p.delayLocked(part, err)
	}
	return true
}

// delayLocked puts off what a partition has to send, or fails the transaction when it was put
// off for too long or err is not retriable.
func (p *producer) delayLocked(part *partition, err error) {
	cause := err
	wait, err := part.patience.next(err)
	if err != nil {
		p.failLocked(placed(wrap("produce", err), part.tp))
		return
	}
	if part.patience.tries == 1 && !settling(code(cause)) {
		p.log.cfg.Logger.Info("produce is tried again", "partition", part.tp.String(), "transactional id", p.cfg.TransactionalID, "cause", cause.Error())
	}
	part.retryAt = time.Now().Add(wait)
}

// placed adds topic and partition to an error that has none.
func placed(err error, tp commitlog.TopicPartition) error {
	if e, ok := errors.AsType[*commitlog.Error](err); ok && e.Topic == "" {
		c := *e
		return at(&c, tp)
	}
	return err
}

// answered notes what the broker said to one batch. base is its first record's offset, -1 if
// unknown; err is nil when the batch is in the log.
func (p *producer) answeredLocked(ob *outBatch, base int64, err error) {
	part := ob.part
	if part.asked--; part.asked == 0 {
		defer p.notifyLocked() // an Abort may wait for it
	}
	if err == nil {
		p.ackedLocked(ob, base)
	} else {
		p.refusedLocked(ob, err)
	}
	if part.drain && part.asked == 0 {
		part.drain = false
		part.retry = append(part.flight, part.retry...)
		part.flight = nil
	}
	if len(part.retry)+len(part.queue) > 0 {
		p.pushLocked(part)
	}
}

func (p *producer) ackedLocked(ob *outBatch, base int64) {
	part := ob.part
	for i, f := range part.flight {
		if f == ob {
			part.flight = append(part.flight[:i], part.flight[i+1:]...)
			break
		}
	}
	part.acked, part.patience.tries = true, 0
	part.end = -1
	if base >= 0 {
		part.end = base + int64(ob.count)
	}
	p.unacked -= ob.size
	p.notifyLocked()
	if ob.batch != nil {
		ob.batch.Release()
	}
	p.recycle(ob)
}

// refusedLocked is for a batch that is not in the log, or perhaps is.
func (p *producer) refusedLocked(ob *outBatch, err error) {
	part := ob.part
	if p.failed != nil {
		return // Abort takes care
	}
	c := code(err)
	if c == codeOutOfOrderSequence && part.drain {
		return // it followed one that failed: sent again with it
	}
	if classify(err) != commitlog.Retriable {
		if tooLarge(c) {
			err = &commitlog.Error{Op: "produce", Partition: -1, Code: c, Name: name(c), Class: commitlog.Fatal,
				Err: fmt.Errorf("%w: a batch of %d records and %d bytes is more than max.message.bytes of the topic", commitlog.ErrTooLarge, ob.count, len(ob.wire))}
		}
		p.failLocked(placed(wrap("produce", err), part.tp))
		return
	}
	if !part.drain {
		part.drain = true
		p.delayLocked(part, err)
	}
	if !leaderStays(c) {
		p.log.cluster.forget(part.tp)
		part.leader = noLeader
	}
}

// Close implements commitlog.Producer.
func (p *producer) Close() error {
	p.shut()
	return nil
}

func (p *producer) shut() {
	p.callOnce.Do(func() {
		p.mu.Lock()
		p.closed = true
		p.notifyLocked()
		for _, l := range p.lanes {
			l.signal()
		}
		p.mu.Unlock()
		p.cancel()
		p.data.close()
		p.control.close()
		p.wg.Wait()
		p.log.remove(p)
	})
}
