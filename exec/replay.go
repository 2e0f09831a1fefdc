package exec

import (
	"context"
	"fmt"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/ops"
)

const (
	// bulkOffsets is how many offsets a replay must have before it to be worth a bulk load and a slot: most restarts
	// have a tail of a second or so to replay, and that must cost nothing else.
	bulkOffsets = 20_000
	// replayBatch is the size in bytes of the batches in which records go to the engine: they stay in the processor's cache.
	replayBatch = 256 << 10
	// replayAhead and replayFetch bound what is read ahead and what is fetched at once.
	replayAhead = 16 << 20
	replayFetch = 4 << 20
	// loadMemory is the most that a bulk load is given; more makes it no faster.
	loadMemory = 64 << 20
)

// replay brings a task's stores from their checkpoints to the ends that the changelogs had when it began. It goes
// by position, since the last offsets may hold no record: markers, aborted batches, what was compacted away (E5). It
// belongs to the task's goroutine.
//
// Reading runs ahead on the reader's goroutines while records go to the engine, which writes its files
// on another one.
type replay struct {
	*task
	view  *changelogView
	began time.Time
	// positions are those of the changelogs that are not at their end yet.
	positions map[commitlog.TopicPartition]int64

	write func(*kvstore.Batch) error
	batch kvstore.Batch
	// slot says that the replay has one of those of App.restores.
	slot bool
	progress
	// shrunk are the changelogs that were found to end before where they should.
	shrunk map[commitlog.TopicPartition]bool
}

// left is how many offsets are to be read.
func (r *replay) left() int64 {
	var n int64
	for tp, position := range r.positions {
		n += r.view.ends[tp] - position
	}
	return n
}

func (r *replay) run() error {
	if len(r.positions) == 0 {
		return nil
	}
	left := r.left()
	r.begin(r.task, left)
	defer r.end(r.task)
	bulk := left > bulkOffsets
	r.write = r.db.Write
	share := r.app.stateShare()
	cfg := commitlog.ReaderConfig{From: r.positions, IDs: r.view.ids, Ahead: int(min(replayAhead, share/4)), FetchBytes: int(min(replayFetch, share/8))}
	var loader kvstore.Loader
	if bulk {
		if err := r.takeSlot(); err != nil {
			return err
		}
		defer r.giveSlot()
		var err error
		if loader, err = r.db.Load(min(loadMemory, share-int64(cfg.Ahead))); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
		r.write = loader.Write
	}
	reader, err := r.app.log.OpenReader(r.starting, cfg)
	if err != nil {
		return err
	}
	defer reader.Close()
	r.log.Info("restore", "offsets", left, "bulk", bulk)
	if err := r.read(reader); err != nil {
		return err // what the loader holds is dropped when the store is closed
	}
	if loader != nil {
		if err := loader.Close(); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	took := r.app.cfg.Clock.Now().Sub(r.began)
	r.log.Info("restored", "records", r.restored, "took", took.Round(time.Millisecond).String())
	return nil
}

// takeSlot waits until fewer than Config.RestoreParallelism of the process's tasks load in bulk.
func (r *replay) takeSlot() error {
	select {
	case r.app.restores <- struct{}{}:
		r.slot = true
		return nil
	case <-r.starting.Done():
		return r.starting.Err()
	}
}

func (r *replay) giveSlot() {
	if r.slot {
		r.slot = false
		<-r.app.restores
	}
}

// read reads the changelogs to their ends.
func (r *replay) read(reader commitlog.Reader) error {
	clock := r.app.cfg.Clock
	timer := clock.NewTimer(reportInterval)
	defer timer.Stop()
	moved := clock.Now() // when a position moved last
	reported := moved
	for len(r.positions) > 0 {
		select {
		case <-r.starting.Done():
			return r.starting.Err()
		case <-timer.C():
			now := clock.Now()
			if now.Sub(moved) >= reportInterval {
				if err := r.explain(); err != nil {
					return err
				}
				moved = clock.Now()
				reported = moved
				r.stall(r.task, moved)
			} else if now.Sub(reported) >= reportInterval {
				reported = now
				r.report(r.task)
			}
			timer.Reset(max(0, min(moved.Sub(now), reported.Sub(now))+reportInterval))
		case c, ok := <-reader.Chunks():
			if !ok {
				return fmt.Errorf("restore: %w", readerEnded(reader))
			}
			if err := r.take(&c); err != nil {
				return err
			}
			moved = clock.Now()
			r.update(r.task, moved, r.left())
		}
	}
	return nil
}

// take gives a chunk's records to the engine.
func (r *replay) take(c *commitlog.Chunk) (err error) {
	tp := c.TopicPartition
	at, ok := r.positions[tp]
	if !ok {
		return nil // it was at its end before
	}
	if c.Base != at { // E6
		return fmt.Errorf("restore %s: read on at offset %d, want %d: positions must be contiguous", tp, c.Base, at)
	}
	st := r.state.of(tp.Topic)
	var cur commitlog.Cursor
	var rec commitlog.Record
	cur.Reset(c)
	defer func() {
		if thrown := recover(); thrown != nil { // of a codec, in Valid
			err = fmt.Errorf("restore %s: offset %d: %w", tp, rec.Offset, ops.Panicked(thrown))
		}
	}()
	for cur.Next(&rec) {
		if st.spec.Source && (rec.Offset >= r.view.ends[tp] || !st.spec.Valid(rec.Key, rec.Value)) {
			continue // it was not processed yet, or not into a row
		}
		if rec.Key == nil {
			return fmt.Errorf("restore %s: offset %d has no key", tp, rec.Offset)
		}
		if rec.Value == nil {
			r.batch.Delete(st.toDB(rec.Key))
		} else {
			r.batch.Put(st.toDB(rec.Key), rec.Value)
		}
		r.restored++
		if r.batch.Size() >= replayBatch {
			if err := r.flush(st, rec.Offset+1); err != nil {
				return err
			}
		}
	}
	if err := cur.Err(); err != nil {
		return fmt.Errorf("restore %s: %w", tp, err)
	}
	next := c.Next
	if st.spec.Source {
		next = min(next, r.view.ends[tp])
	}
	if r.positions[tp] = c.Next; next >= r.view.ends[tp] {
		delete(r.positions, tp)
	}
	if len(r.positions) == 0 {
		r.state.synced = r.began // all that there was when it began is in the store with this batch
	}
	return r.flush(st, next)
}

// flush writes what has been read, up to a position in the changelog of st.
func (r *replay) flush(st *store, position int64) error {
	st.checkpoint = position
	r.batch.SetCheckpoint(st.spec.Changelog, position)
	r.state.writeLabel(&r.batch)
	if err := r.write(&r.batch); err != nil {
		return fmt.Errorf("restore %s: %w", st.spec.Changelog, err)
	}
	r.batch.Reset()
	return nil
}

// explain says in the log why nothing comes, and fails if nothing ever will. Others may have the slot meanwhile.
func (r *replay) explain() error {
	r.giveSlot()
	var tps []commitlog.TopicPartition
	var names []string
	for tp := range r.positions {
		tps = append(tps, tp)
		names = append(names, tp.Topic)
	}
	ctx, cancel := context.WithTimeout(r.starting, reportInterval)
	defer cancel()
	topics, err := r.app.log.Topics(ctx, names...)
	var ends map[commitlog.TopicPartition]int64
	if err == nil {
		for _, tp := range tps {
			topic, ok := topics[tp.Topic]
			if !ok || r.view.ids[tp.Topic].Differs(topic.ID) {
				return fmt.Errorf("restore %s: the topic was deleted while it was read, up to offset %d of %d", tp, r.positions[tp], r.view.ends[tp])
			}
		}
		ends, err = r.app.log.EndOffsets(ctx, tps, commitlog.ReadUncommitted)
	}
	if err == nil {
		for _, tp := range tps {
			if ends[tp] >= r.view.ends[tp] {
				delete(r.shrunk, tp)
				continue
			}
			if r.shrunk[tp] { // a leader may be behind for a moment after it was elected
				return fmt.Errorf("restore %s: the log ended at offset %d and ends at %d now: what was committed is lost; was a leader elected that was not in sync?",
					tp, r.view.ends[tp], ends[tp])
			}
			if r.shrunk == nil {
				r.shrunk = map[commitlog.TopicPartition]bool{}
			}
			r.shrunk[tp] = true
		}
	}
	var open []commitlog.OpenTransaction
	if err == nil {
		open, err = r.app.log.OpenTransactions(ctx, tps)
	}
	if r.starting.Err() != nil {
		return r.starting.Err()
	}
	if err != nil {
		r.log.Warn("restore stands still, and the cluster does not say why", "left", r.left(), "error", err.Error())
		return nil
	}
	for _, o := range open {
		if end := r.view.ends[o.TopicPartition]; o.Start < end {
			r.log.Warn("restore waits for an open transaction of another producer", "partition", o.TopicPartition.String(), "offset", o.Start,
				"producer", o.ProducerID, "transactional id", o.TransactionalID, "since", o.Since, "left", end-r.positions[o.TopicPartition])
		}
	}
	if len(open) == 0 {
		r.log.Warn("restore stands still", "left", r.left())
	}
	return nil
}
