package memlog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

const maxTransactionTimeout = 15 * time.Minute // transaction.max.timeout.ms

// transactional is what the coordinator knows of a transactional id.
type transactional struct {
	id       string
	number   int64     // the producer id
	owner    *producer // nil when nobody may use the id: its last owner was fenced by a timeout
	open     *txn
	deadline time.Time // of the open transaction
}

// begin returns the open transaction of p, a new one if there is none. The caller holds mu.
func (c *cluster) begin(p *producer) *txn {
	t := p.t
	if t.open == nil {
		t.open = &txn{of: t}
		p.since = c.opts.Now()
		t.deadline = p.since.Add(p.cfg.TransactionTimeout)
		c.arm(t.deadline)
	}
	return t.open
}

// end ends the open transaction of t, if there is one. The caller holds mu.
func (c *cluster) end(t *transactional, o outcome) {
	x := t.open
	if x == nil {
		return
	}
	t.open = nil
	x.outcome = o
	for _, s := range x.spans {
		s.p.finish(x, s)
	}
	if g := x.group; g != nil {
		for tp, offset := range x.offsets {
			if g.pending[tp]--; g.pending[tp] == 0 {
				delete(g.pending, tp)
			}
			if _, err := c.partition("", tp); o == committed && err == nil {
				g.offsets[tp] = offset
				g.note(tp, x.note)
			}
		}
	}
	x.spans, x.offsets, x.group = nil, nil, nil
	c.fire()
}

// producer is a [commitlog.Producer]. Its fields belong to the goroutine that calls it, but
// for closed, which the cluster's mu guards.
type producer struct {
	log     *Log
	cfg     commitlog.ProducerConfig
	t       *transactional
	busy    atomic.Bool
	begun   bool      // a transaction is open as far as the producer knows
	since   time.Time // when the open transaction began, zero without one; guarded by the cluster's mu
	failed  error     // the transaction can only be aborted
	closed  bool
	checked commitlog.Cursor
}

var _ commitlog.Producer = (*producer)(nil)

// OpenProducer implements [commitlog.Log].
func (l *Log) OpenProducer(ctx context.Context, cfg commitlog.ProducerConfig) (commitlog.Producer, error) {
	const op = "init producer id"
	if f := l.fault().OpenProducer; f != nil {
		if err := f(ctx, cfg); err != nil {
			return nil, err
		}
	}
	if cfg.TransactionalID == "" {
		return nil, &commitlog.Error{Op: op, Partition: -1, Class: commitlog.Fatal, Err: errNoTransactionID}
	}
	if cfg.TransactionTimeout == 0 {
		cfg.TransactionTimeout = commitlog.DefaultTransactionTimeout
	}
	if cfg.TransactionTimeout < 0 || cfg.TransactionTimeout > maxTransactionTimeout {
		e := topicError(op, "", invalidTxnTimeout, fmt.Errorf("%v, want more than 0 and at most %v", cfg.TransactionTimeout, maxTransactionTimeout))
		e.TransactionalID = cfg.TransactionalID
		return nil, e
	}
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := l.usable(ctx, op); err != nil {
		return nil, err
	}
	t := c.txns[cfg.TransactionalID]
	if t == nil {
		t = &transactional{id: cfg.TransactionalID, number: int64(len(c.txns))}
		c.txns[t.id] = t
	}
	c.end(t, aborted)
	if t.owner != nil && !t.owner.closed {
		c.fenced++
	}
	p := &producer{log: l, cfg: cfg, t: t}
	t.owner = p
	l.producers[p] = struct{}{}
	return p, nil
}

// Fenced returns how many producers have been fenced that had not been closed: their owners had not given them up.
func (l *Log) Fenced() int {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	return l.c.fenced
}

// enter begins a call of the producer; the caller ends it with p.busy.Store(false).
func (p *producer) enter(op string) error {
	if !p.busy.CompareAndSwap(false, true) {
		return p.error(op, code{class: commitlog.Fatal}, errConcurrentCalls)
	}
	return nil
}

func (p *producer) error(op string, c code, cause error) error {
	e := topicError(op, "", c, cause)
	e.TransactionalID = p.cfg.TransactionalID
	return e
}

// usable returns why the producer cannot do op. The caller holds mu.
func (p *producer) usable(ctx context.Context, op string) error {
	if p.closed || p.log.closed {
		return p.error(op, code{class: commitlog.Fatal}, commitlog.ErrClosed)
	}
	if p.t.owner != p {
		var cause error
		if open := p.log.c.opts.Now().Sub(p.since); !p.since.IsZero() && open >= p.cfg.TransactionTimeout {
			cause = commitlog.TimedOut(open, p.cfg.TransactionTimeout)
		}
		return p.error(op, producerFenced, cause)
	}
	if err := ctx.Err(); err != nil {
		return p.error(op, code{class: commitlog.Abort}, err)
	}
	return nil
}

// Produce implements [commitlog.Producer]. The batch is in the log when it returns.
func (p *producer) Produce(ctx context.Context, tp commitlog.TopicPartition, b *commitlog.Batch) error {
	if err := p.enter("produce"); err != nil {
		return err
	}
	defer p.busy.Store(false)
	if p.failed != nil {
		return p.failed
	}
	err := p.produce(ctx, tp, b)
	if err != nil {
		p.begun, p.failed = true, err
	}
	return err
}

func (p *producer) produce(ctx context.Context, tp commitlog.TopicPartition, b *commitlog.Batch) error {
	if f := p.log.fault().Produce; f != nil {
		if err := f(ctx, p.cfg.TransactionalID, tp, b.Count); err != nil {
			return err
		}
	}
	if b.Count == 0 {
		return kafkaError("produce", tp, invalidRecord, errEmptyBatch)
	}
	size := len(b.Buf)
	rb := adopt(b)
	c := p.log.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := p.usable(ctx, "produce"); err != nil {
		return err
	}
	part, err := c.partition("produce", tp)
	if err != nil {
		return err
	}
	if size > part.topic.maxBytes && (p.cfg.Compression == "" || p.cfg.Compression == "none") {
		return kafkaError("produce", tp, messageTooLarge,
			fmt.Errorf("%w: batch of %d bytes, want at most %d", commitlog.ErrTooLarge, size, part.topic.maxBytes))
	}
	if err := part.check(rb, &p.checked); err != nil {
		return err
	}
	p.begun = true
	part.append(rb, c.begin(p), c.millis)
	c.fire()
	return nil
}

// adopt makes a batch of a log from a producer's. Buffers mostly unused are given back.
func adopt(b *commitlog.Batch) commitlog.RecordBatch {
	rb := commitlog.RecordBatch{LastOffset: int64(b.Count) - 1, BaseTimestamp: b.BaseTimestamp, Count: b.Count}
	records := b.Buf[commitlog.HeaderSize:]
	if cap(b.Buf) <= 2*len(b.Buf) {
		rb.Records = records[:len(records):len(records)]
		return rb // never released: readers share it
	}
	rb.Records = append(make([]byte, 0, len(records)), records...)
	b.Release()
	return rb
}

// check refuses what a broker would: records without a key where compaction needs one.
func (p *partition) check(rb commitlog.RecordBatch, cursor *commitlog.Cursor) error {
	if !p.topic.compact {
		return nil
	}
	cursor.Reset(&commitlog.Chunk{Batches: []commitlog.RecordBatch{rb}})
	var r commitlog.Record
	for cursor.Next(&r) {
		if r.Key == nil {
			return kafkaError("produce", p.TopicPartition, invalidRecord, errNullKeyCompacted)
		}
	}
	if err := cursor.Err(); err != nil {
		return kafkaError("produce", p.TopicPartition, invalidRecord, err)
	}
	return nil
}

// Commit implements [commitlog.Producer].
func (p *producer) Commit(ctx context.Context, offsets map[commitlog.TopicPartition]int64, as commitlog.Identity) (map[commitlog.TopicPartition]int64, error) {
	if err := p.enter("commit"); err != nil {
		return nil, err
	}
	defer p.busy.Store(false)
	if p.failed != nil {
		return nil, p.failed
	}
	if !p.begun && len(offsets) == 0 {
		return map[commitlog.TopicPartition]int64{}, nil
	}
	ends, err := p.commit(ctx, offsets, as)
	if err != nil {
		p.failed = err
		return nil, err
	}
	p.begun = false
	return ends, nil
}

func (p *producer) commit(ctx context.Context, offsets map[commitlog.TopicPartition]int64, as commitlog.Identity) (map[commitlog.TopicPartition]int64, error) {
	c, faults := p.log.c, p.log.fault()
	if f := faults.Commit; f != nil {
		if err := f(ctx, p.cfg.TransactionalID, offsets); err != nil {
			return nil, err
		}
	}
	if len(offsets) > 0 {
		if err := p.commitOffsets(ctx, offsets, as); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	locked := true
	defer func() {
		if locked {
			c.mu.Unlock()
		}
	}()
	if err := p.usable(ctx, "commit"); err != nil {
		return nil, err
	}
	if f := faults.EndTxn; f != nil {
		c.mu.Unlock()
		locked = false
		if err := f(ctx, p.cfg.TransactionalID); err != nil {
			return nil, err
		}
		c.mu.Lock()
		locked = true
		if err := p.usable(ctx, "commit"); err != nil {
			return nil, err
		}
	}
	ends := map[commitlog.TopicPartition]int64{}
	for _, s := range p.t.open.spans {
		ends[s.p.TopicPartition] = s.next
	}
	c.end(p.t, committed)
	p.since = time.Time{}
	c.mu.Unlock()
	locked = false
	if f := faults.Committed; f != nil {
		if err := f(ctx, p.cfg.TransactionalID); err != nil {
			return nil, err
		}
	}
	return ends, nil
}

// commitOffsets adds offsets to the transaction, in a later generation if the group has moved on under the
// member.
func (p *producer) commitOffsets(ctx context.Context, offsets map[commitlog.TopicPartition]int64, as commitlog.Identity) error {
	after := int32(commitlog.AnyGeneration)
	for {
		meta, err := as.Current(ctx, after)
		if err != nil {
			return err
		}
		p.log.c.mu.Lock()
		if err = p.usable(ctx, "commit"); err == nil {
			err = p.addOffsets(offsets, meta)
		}
		p.log.c.mu.Unlock()
		if e, ok := errors.AsType[*commitlog.Error](err); !ok || e.Code != illegalGeneration.number {
			return err
		}
		after = meta.Generation
	}
}

// addOffsets adds offsets to the transaction if the membership is the group's. The caller holds mu.
func (p *producer) addOffsets(offsets map[commitlog.TopicPartition]int64, meta commitlog.GroupMetadata) error {
	const op = "commit offsets"
	c := p.log.c
	fail := func(k code) error {
		e := groupError(op, meta.Group, k, nil)
		e.TransactionalID = p.cfg.TransactionalID
		return e
	}
	if meta.Group == "" {
		return fail(invalidGroup)
	}
	for tp := range offsets {
		if _, err := c.partition(op, tp); err != nil {
			return err
		}
	}
	g := c.groups[meta.Group]
	if g == nil {
		if meta.Generation >= 0 {
			return fail(illegalGeneration)
		}
		g = c.group(meta.Group)
	}
	if k := g.validate(meta); k != (code{}) {
		return fail(k)
	}
	x := c.begin(p)
	x.group, x.note, x.offsets = g, meta.Note, make(map[commitlog.TopicPartition]int64, len(offsets))
	for tp, offset := range offsets {
		x.offsets[tp] = offset
		g.pending[tp]++
	}
	return nil
}

// Abort implements [commitlog.Producer].
func (p *producer) Abort(ctx context.Context) error {
	if err := p.enter("abort"); err != nil {
		return err
	}
	defer p.busy.Store(false)
	if !p.begun && p.failed == nil {
		return nil
	}
	if f := p.log.fault().Abort; f != nil {
		if err := f(ctx, p.cfg.TransactionalID); err != nil {
			return err
		}
	}
	c := p.log.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := p.usable(ctx, "abort"); err != nil {
		return err
	}
	c.end(p.t, aborted)
	p.begun, p.failed, p.since = false, nil, time.Time{}
	return nil
}

// Close implements [commitlog.Producer].
func (p *producer) Close() error {
	c := p.log.c
	c.mu.Lock()
	defer c.mu.Unlock()
	p.closed = true
	delete(p.log.producers, p)
	return nil
}
