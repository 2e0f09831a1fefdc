package exec

import (
	"fmt"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// The commit sequence. Each step is where a crash may fall; what then holds is said with it.
//
//	C1  outputs of the open transaction are sent     crash: the next owner's fence aborts them
//	C2  changelog records, one a changed key         crash: the same
//	C3  positions go along as the group's offsets    crash: the same
//	C4  EndTxn                                       crash before: aborted; after: committed, all or nothing
//	C5  the engine gets values and checkpoint        crash before: the changelog's tail is replayed
//
// C1 to C3 are done by the task's goroutine, C4 beside it while it processes the next
// transaction, whose batches are held until C4 is known to have succeeded. C5 follows at
// most FlushInterval later, in one batch for all transactions since (E4).

type commitResult struct {
	// ends is where each partition written to ends, offsets what was committed of the input.
	ends, offsets map[commitlog.TopicPartition]int64
	err           error
}

// due says whether the open transaction closes now, and if not in how long it will.
func (t *task) due(now time.Time) (bool, time.Duration) {
	if t.inflight != nil {
		return false, 0
	}
	var at time.Time
	switch {
	case t.opened.IsZero():
		if !t.in.moved() || t.in.buffered() {
			return false, 0
		}
		at = t.closedAt.Add(positionInterval)
	case t.state.crowded() || t.overdue.Load() || t.careful > 0:
		return true, 0
	default:
		at = t.opened.Add(t.app.cfg.CommitInterval)
		if !t.in.buffered() && t.in.idle() {
			if early := t.closedAt.Add(t.app.cfg.IdleCommitInterval); early.Before(at) {
				at = early
			}
		}
	}
	if wait := at.Sub(now); wait > 0 {
		return false, wait
	}
	return true, 0
}

// closeTransaction does C1 to C3 and starts C4. No transaction may be in flight.
func (t *task) closeTransaction(now time.Time) error {
	t.sealing = true
	defer func() { t.sealing = false }()
	if err := t.sendHeld(); err != nil {
		return err
	}
	if err := t.out.flush(); err != nil { // C1
		return err
	}
	t.state.limit = t.app.stateShare()
	stamp := now.UnixMilli()
	err := t.state.seal(func(st *store, key, value []byte) error { // C2
		if st.measure(key, value, now, t.log); st.spec.Source {
			return nil // it is in its changelog already
		}
		if st.changelog == nil {
			st.changelog = t.changelog.topic(st.spec.Changelog, t.app.partitions[st.spec.Changelog], t.app.limit(st.spec.Changelog))
		}
		if err := st.changelog.write(t.partition, stamp, key, value, nil, 0); err != nil {
			return fmt.Errorf("store %s: %w", st.spec.Name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := t.changelog.flush(); err != nil {
		return err
	}
	for _, l := range t.env.lookups {
		if l.bridge != nil {
			l.bridge.seal()
		}
	}
	offsets := t.in.offsets() // C3
	result := make(chan commitResult, 1)
	t.inflight, t.opened, t.closedAt = result, time.Time{}, now
	ctx, producer, identity := t.ctx, t.producer, t.commitAs(offsets)
	go func() { // C4
		ends, err := producer.Commit(ctx, offsets, identity)
		result <- commitResult{ends, offsets, err}
	}()
	return nil
}

// send hands a batch to the producer, or holds it while a transaction is being committed. With the first one sent
// the brokers' transaction begins: a careful task sends none before the transaction closes.
func (t *task) send(tp commitlog.TopicPartition, b *commitlog.Batch) error {
	if t.inflight != nil || t.careful > 0 && !t.sealing {
		t.held = append(t.held, heldBatch{tp, b})
		t.heldBytes += len(b.Buf)
		return nil
	}
	return t.producer.Produce(t.ctx, tp, b)
}

// sendHeld sends what was held.
func (t *task) sendHeld() error {
	for i, h := range t.held {
		t.held[i].b = nil // the producer's, also if it fails: dropHeld must not release it
		if err := t.producer.Produce(t.ctx, h.tp, h.b); err != nil {
			return err
		}
	}
	t.dropHeld() // nothing is left in them
	return nil
}

// committed takes the outcome of C4. On success the state in flight is committed, and what was held is sent.
func (t *task) committed(r commitResult) error {
	t.inflight = nil
	if r.err != nil {
		return r.err
	}
	if err := t.checkEnds(r.ends); err != nil {
		return err
	}
	t.commits++
	for _, l := range t.env.lookups {
		if l.bridge != nil {
			l.bridge.commit(r.ends)
		}
	}
	t.state.committed(r.ends, r.offsets, t.partition, t.closedAt)
	for _, s := range t.in.sources {
		if offset, ok := r.offsets[s.tp]; ok && s.spec.Repartition {
			t.app.purger.committed(s.tp, offset)
		}
	}
	if t.relax(); t.careful > 0 {
		return nil // the next transaction's outputs wait until it closes
	}
	return t.sendHeld()
}

// checkEnds returns an error if a changelog to which was written ends before it did when it was written to last: it
// is another log, which lacks what was there before. What the next start makes of it is said in notes.go.
func (t *task) checkEnds(ends map[commitlog.TopicPartition]int64) error {
	for _, st := range t.state.stores {
		end, ok := ends[commitlog.TopicPartition{Topic: st.spec.Changelog, Partition: t.partition}]
		if !ok || end > st.checkpoint || st.spec.Source {
			continue
		}
		if err := t.app.checkTopics(t.ctx); err != nil {
			return err
		}
		return &TopicsError{Problems: []string{fmt.Sprintf("changelog topic %s partition %d ended at offset %d and ends at %d after more was written: was it deleted and created again, or was a leader elected that was not in sync?",
			st.spec.Changelog, t.partition, st.checkpoint, end)}}
	}
	return nil
}

// dropHeld drops what was held for a transaction that will not come.
func (t *task) dropHeld() {
	for _, h := range t.held {
		if h.b != nil {
			h.b.Release()
		}
	}
	clear(t.held)
	t.held, t.heldBytes = t.held[:0], 0
}

// flushState does C5 when it is time for it, or memory wants it, or it must be now.
func (t *task) flushState(now time.Time, must bool) error {
	if t.inflight != nil || t.state.pendingBytes == 0 {
		return nil
	}
	if !must && now.Sub(t.flushedAt) < t.app.cfg.FlushInterval && t.state.pendingBytes < t.state.limit/flushShare {
		return nil
	}
	t.flushedAt = now
	if err := t.state.flush(now); err != nil {
		return err
	}
	t.countEntries()
	t.publish()
	return nil
}

// flushIn returns in how long committed state is due to go to the engine; 0 if there is none to
// go, or if it is due now. A task with nothing to read must not keep it in memory for ever.
func (t *task) flushIn(now time.Time) time.Duration {
	if t.inflight != nil || t.state.pendingBytes == 0 {
		return 0
	}
	return max(0, t.flushedAt.Add(t.app.cfg.FlushInterval).Sub(now))
}

// countEntries notes how many keys the stores have.
func (t *task) countEntries() {
	if s, err := t.db.Stats(); err == nil {
		t.entries = s.Entries
	}
}

// drainTransactions commits what has been processed and nothing else.
func (t *task) drainTransactions() error {
	for t.inflight != nil || !t.opened.IsZero() {
		if t.inflight == nil {
			if err := t.closeTransaction(t.app.cfg.Clock.Now()); err != nil {
				return err
			}
		}
		select {
		case r := <-t.inflight:
			if err := t.committed(r); err != nil {
				return err
			}
		case <-t.ctx.Done():
			return ErrDrainTimeout
		}
	}
	return nil
}
