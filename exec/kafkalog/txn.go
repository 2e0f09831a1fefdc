package kafkalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"github.com/segmentio/kafka-go/protocol/txnoffsetcommit"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// init gets a producer id and epoch. With those that the producer has, the broker raises the
// epoch (KIP-360); without, it fences whoever used the transactional id before. Either ends an
// open transaction; CONCURRENT_TRANSACTIONS is answered until that is done.
func (p *producer) init(ctx context.Context, op string) error {
	return p.name(p.log.retry(ctx, op, func(ctx context.Context) error {
		p.mu.Lock()
		req := &initproducerid.Request{TransactionalID: p.cfg.TransactionalID, ProducerID: p.id, ProducerEpoch: p.epoch,
			TransactionTimeoutMs: int32(p.cfg.TransactionTimeout.Milliseconds())}
		p.mu.Unlock()
		msg, err := p.log.coords.call(ctx, p.control, p.key, req)
		if err != nil {
			return err
		}
		res := msg.(*initproducerid.Response)
		if e := kafkaErr(op, inTxn, res.ErrorCode); e != nil {
			p.log.coords.lost(p.key, e)
			return e
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.id, p.epoch = res.ProducerID, res.ProducerEpoch
		return nil
	}))
}

// addPartitionsLocked adds the partitions that have something to send to the transaction, in
// the background. Batches of partitions that are in it fly meanwhile.
func (p *producer) addPartitionsLocked() {
	if p.adding {
		return
	}
	p.adding = true
	p.wg.Go(func() {
		for p.addPartitions() {
		}
	})
}

// addPartitions is one round of addPartitionsLocked; it reports whether another is needed.
func (p *producer) addPartitions() bool {
	p.mu.Lock()
	var parts []*partition
	var tps []commitlog.TopicPartition
	for _, part := range p.txn {
		if !part.added && part.leader != noLeader {
			parts = append(parts, part)
			tps = append(tps, part.tp)
		}
	}
	if len(parts) == 0 || p.failed != nil || p.closed {
		p.adding = false
		p.notifyLocked()
		p.mu.Unlock()
		return false
	}
	req := &addpartitionstotxn.Request{TransactionalID: p.cfg.TransactionalID, ProducerID: p.id, ProducerEpoch: p.epoch}
	p.mu.Unlock()
	for topic, partitions := range byTopic(tps) {
		req.Topics = append(req.Topics, addpartitionstotxn.RequestTopic{Name: topic, Partitions: partitions})
	}
	const op = "add partitions to transaction"
	err := p.log.retry(p.ctx, op, func(ctx context.Context) error {
		p.mu.Lock()
		failed := p.failed
		if failed == nil {
			p.beginLocked()
		}
		p.mu.Unlock()
		if failed != nil {
			return failed
		}
		msg, err := p.log.coords.call(ctx, p.control, p.key, req)
		if err != nil {
			return err
		}
		var worst *commitlog.Error
		for _, t := range msg.(*addpartitionstotxn.Response).Results {
			for _, r := range t.Results {
				e := kafkaErr(op, inTxn, r.ErrorCode)
				// OPERATION_NOT_ATTEMPTED only says that another partition failed.
				if e != nil && (worst == nil || worst.Code == codeOperationNotAttempt) {
					worst = at(e, commitlog.TopicPartition{Topic: t.Name, Partition: r.PartitionIndex})
				}
			}
		}
		if worst != nil {
			p.log.coords.lost(p.key, worst)
			return worst
		}
		return nil
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failLocked(err)
		return true
	}
	for _, part := range parts {
		part.added = true
		if part.leader != noLeader {
			p.laneLocked(part.leader).signal()
		}
	}
	return true
}

// Commit implements commitlog.Producer.
func (p *producer) Commit(ctx context.Context, offsets map[commitlog.TopicPartition]int64, as commitlog.Identity) (map[commitlog.TopicPartition]int64, error) {
	p.mu.Lock()
	if err := p.usableLocked(); err != nil {
		p.mu.Unlock()
		return nil, err
	}
	if len(p.txn) == 0 && len(offsets) == 0 {
		p.mu.Unlock()
		return map[commitlog.TopicPartition]int64{}, nil
	}
	if len(offsets) > 0 {
		p.beginLocked()
	}
	p.mu.Unlock()

	// The offsets need not wait for the batches: what counts is EndTxn.
	sent := make(chan error, 1)
	if len(offsets) > 0 {
		inner, cancel := context.WithCancel(ctx)
		defer cancel()
		p.wg.Go(func() { sent <- p.commitOffsets(inner, offsets, as) })
	} else {
		sent <- nil
	}
	if err := p.flush(ctx); err != nil {
		return nil, err
	}
	var err error
	select {
	case err = <-sent:
	case <-p.ctx.Done():
		err = wrap("commit", commitlog.ErrClosed)
	}
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.failLocked(err)
		return nil, p.failed
	}
	if err := p.endTxn(ctx, true); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.failLocked(err)
		return nil, p.failed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ends := make(map[commitlog.TopicPartition]int64, len(p.txn))
	for _, part := range p.txn {
		ends[part.tp] = part.end
	}
	p.resetLocked()
	return ends, nil
}

// flush waits until every batch is acknowledged.
func (p *producer) flush(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.unacked > 0 && p.failed == nil && !p.closed {
		if err := p.waitLocked(ctx); err != nil {
			p.failLocked(wrap("commit", err))
		}
	}
	for _, part := range p.txn {
		if part.end < 0 && p.failed == nil {
			// A broker says so of a batch older than it remembers; five in flight it does.
			p.failLocked(at(&commitlog.Error{Op: "commit", Class: commitlog.Abort, Err: errors.New("the broker did not tell the offset of the last batch")}, part.tp))
		}
	}
	return p.usableLocked()
}

// commitOffsets adds the consumed offsets to the transaction, in a later generation if the group has moved on under
// the member.
func (p *producer) commitOffsets(ctx context.Context, offsets map[commitlog.TopicPartition]int64, as commitlog.Identity) error {
	const opAdd, opCommit = "add offsets to transaction", "commit offsets in transaction"
	group, err := as.Current(ctx, commitlog.AnyGeneration)
	if err != nil {
		return p.name(err)
	}
	p.mu.Lock()
	id, epoch := p.id, p.epoch
	p.mu.Unlock()
	groupKey := coordinatorKey{groupCoordinator, group.Group}
	named := func(err error) error {
		if e, ok := errors.AsType[*commitlog.Error](err); ok {
			c := *e
			c.Group = group.Group
			return p.name(&c)
		}
		return err
	}
	err = p.log.retry(ctx, opAdd, func(ctx context.Context) error {
		msg, err := p.log.coords.call(ctx, p.control, p.key, &addoffsetstotxn.Request{TransactionalID: p.cfg.TransactionalID,
			ProducerID: id, ProducerEpoch: epoch, GroupID: group.Group})
		if err != nil {
			return err
		}
		if e := kafkaErr(opAdd, inTxn, msg.(*addoffsetstotxn.Response).ErrorCode); e != nil {
			p.log.coords.lost(p.key, e)
			return e
		}
		return nil
	})
	if err != nil {
		return named(err)
	}
	req := &txnoffsetcommit.Request{TransactionalID: p.cfg.TransactionalID, GroupID: group.Group, ProducerID: id, ProducerEpoch: epoch}
	topics := map[string]int{}
	for tp, offset := range offsets {
		i, ok := topics[tp.Topic]
		if !ok {
			i = len(req.Topics)
			topics[tp.Topic] = i
			req.Topics = append(req.Topics, txnoffsetcommit.RequestTopic{Name: tp.Topic})
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, txnoffsetcommit.RequestPartition{Partition: tp.Partition,
			CommittedOffset: offset, CommittedLeaderEpoch: -1, CommittedMetadata: group.Note})
	}
	for {
		req.MemberID, req.GroupInstanceID, req.GenerationID = group.MemberID, group.InstanceID, group.Generation
		if group.MemberID == "" {
			req.GenerationID = -1 // not a member: the group must have none
		}
		err := p.log.retry(ctx, opCommit, func(ctx context.Context) error {
			msg, err := p.log.coords.call(ctx, p.control, groupKey, req)
			if err != nil {
				return err
			}
			for _, t := range msg.(*txnoffsetcommit.Response).Topics {
				for _, r := range t.Partitions {
					if e := kafkaErr(opCommit, inCommit, r.ErrorCode); e != nil {
						p.log.coords.lost(groupKey, e)
						return at(e, commitlog.TopicPartition{Topic: t.Name, Partition: r.Partition})
					}
				}
			}
			return nil
		})
		if code(err) != codeIllegalGeneration {
			return named(err)
		}
		// The group has gone on. If the member has too, it is still who may commit; if not, its identity tells.
		if group, err = as.Current(ctx, group.Generation); err != nil {
			return named(err)
		}
	}
}

// endTxn ends the transaction. Asking again after an answer was lost is harmless: the
// coordinator answers what it answered before.
func (p *producer) endTxn(ctx context.Context, commit bool) error {
	op := "abort transaction"
	if commit {
		op = "commit transaction"
	}
	p.mu.Lock()
	req := &endtxn.Request{TransactionalID: p.cfg.TransactionalID, ProducerID: p.id, ProducerEpoch: p.epoch, Committed: commit}
	p.mu.Unlock()
	unsure := false // a request may have reached the coordinator
	err := p.log.retry(ctx, op, func(ctx context.Context) error {
		cn, err := p.log.coords.conn(ctx, p.control, p.key)
		if err != nil {
			return err
		}
		msg, err := cn.roundTrip(ctx, req)
		if err != nil {
			unsure = true
			p.log.coords.lost(p.key, err)
			return err
		}
		if e := kafkaErr(op, inTxn, msg.(*endtxn.Response).ErrorCode); e != nil {
			p.log.coords.lost(p.key, e)
			return e
		}
		return nil
	})
	if err != nil && commit && unsure {
		if e, ok := errors.AsType[*commitlog.Error](err); ok {
			c := *e
			if c.Err == nil {
				c.Err = errOutcome
			} else {
				c.Err = fmt.Errorf("%w: %w", errOutcome, c.Err)
			}
			err = &c
		}
	}
	return p.name(err)
}

// errOutcome tells that a commit may have happened. The next producer with the same
// transactional id finishes it one way or the other before it begins.
var errOutcome = errors.New("the outcome is unknown, an answer was lost")

// Abort implements commitlog.Producer.
func (p *producer) Abort(ctx context.Context) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return p.name(wrap("abort", commitlog.ErrClosed))
	}
	clean := p.failed == nil
	if clean {
		// Stops lanes and chores; taken back below.
		p.failed = &commitlog.Error{Op: "produce", Partition: -1, Class: commitlog.Abort, Err: errors.New("the transaction is being aborted")}
	}
	// What was asked is answered, or its connection fails, within the request's timeout.
	for p.adding || p.finding || p.askedLocked() {
		if err := p.waitLocked(ctx); err != nil {
			p.mu.Unlock()
			return p.name(wrap("abort", err))
		}
	}
	added := false
	for _, part := range p.txn {
		added = added || part.added
		if len(part.flight)+len(part.retry) > 0 {
			clean = false // the broker may or may not have their sequence numbers
		}
	}
	fenced, began := p.fenced != nil, p.began
	p.mu.Unlock()
	switch {
	case fenced:
		// Whoever fenced this producer has ended its transaction.
		p.mu.Lock()
		defer p.mu.Unlock()
		p.resetLocked()
		return nil
	case clean && !began:
	case clean:
		// If no partition was added for certain there may be nothing to abort.
		if err := p.endTxn(ctx, false); err != nil && (added || code(err) != codeInvalidTxnState) {
			return err
		}
	default:
		// A new epoch begins at sequence 0 and makes the broker refuse what is still under way.
		if err := p.init(ctx, "abort transaction"); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !clean {
		p.parts = map[commitlog.TopicPartition]*partition{}
	}
	p.resetLocked()
	return nil
}

func (p *producer) askedLocked() bool {
	for _, part := range p.txn {
		if part.asked > 0 {
			return true
		}
	}
	return false
}

// resetLocked forgets the transaction. Memory of batches that were not acknowledged goes to
// the garbage collector: a broken connection may still hold it.
func (p *producer) resetLocked() {
	for _, part := range p.txn {
		part.joined, part.added, part.acked, part.drain = false, false, false, false
		part.retry, part.queue, part.flight = nil, nil, nil
		part.patience.tries = 0
	}
	p.txn = p.txn[:0]
	p.unacked, p.failed, p.began = 0, nil, false
	p.since.Store(nil)
	p.notifyLocked()
}
