package exec

import (
	"errors"
	"fmt"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/kvstore"
)

// restoreBatch is the size in bytes of the batches that restored records go to the engine in.
const restoreBatch = 1 << 20

// restore opens the task's store and brings it to the end of its changelogs: the ends are
// captured here, after the fence, so that all that earlier owners committed lies before them (E5).
func (t *task) restore() error {
	limit := t.app.cfg.StateMemory / int64(t.app.taskCount.Load())
	if len(t.sub.Stores) == 0 {
		t.state = newState(nil, nil, limit)
		return nil
	}
	var tps []commitlog.TopicPartition
	for _, spec := range t.sub.Stores {
		tps = append(tps, commitlog.TopicPartition{Topic: spec.Changelog, Partition: t.partition})
	}
	ends, err := t.app.log.EndOffsets(t.starting, tps, commitlog.ReadUncommitted)
	if err != nil {
		return err
	}
	starts, err := t.app.log.StartOffsets(t.starting, tps)
	if err != nil {
		return err
	}
	from, err := t.openStore(tps, starts, ends)
	if err != nil {
		return err
	}
	for tp := range from {
		from[tp] = max(from[tp], starts[tp])
	}
	t.state = newState(t.db, t.sub.Stores, limit)
	behind := map[commitlog.TopicPartition]int64{}
	var records int64
	for _, tp := range tps {
		t.state.stores[t.changelogIndex(tp)].checkpoint = from[tp]
		if from[tp] < ends[tp] {
			behind[tp] = from[tp]
			records += ends[tp] - from[tp]
		}
	}
	if len(behind) > 0 {
		begin := time.Now()
		t.log.Info("restore", "offsets", records)
		if err := t.replay(behind, ends); err != nil {
			return err
		}
		t.log.Info("restored", "records", t.restored, "took", time.Since(begin).Round(time.Millisecond).String())
	}
	t.countEntries()
	return nil
}

// openStore opens the task's store and returns where each changelog goes on. A store that the
// changelogs cannot make exact is rebuilt from them: one that is damaged, one whose checkpoint lies
// beyond its changelog's end, which is then another topic of that name, and one whose checkpoint lies
// before its start, so that changes are missing in between.
func (t *task) openStore(tps []commitlog.TopicPartition, starts, ends map[commitlog.TopicPartition]int64) (map[commitlog.TopicPartition]int64, error) {
	for rebuilt := false; ; rebuilt = true {
		from := make(map[commitlog.TopicPartition]int64, len(tps))
		reason, err := t.tryStore(tps, starts, ends, from)
		if err != nil && !errors.Is(err, kvstore.ErrCorrupt) || rebuilt {
			return from, err
		}
		if err != nil {
			reason = err.Error()
		}
		if reason == "" {
			return from, nil
		}
		t.log.Warn("store is rebuilt", "reason", reason)
		if t.db != nil {
			if err := t.db.Close(); err != nil && !errors.Is(err, kvstore.ErrCorrupt) {
				return nil, err
			}
			t.db = nil
		}
		if err := t.app.cfg.State.DestroyStore(t.id); err != nil {
			return nil, err
		}
	}
}

// tryStore opens the store, sets where each changelog goes on and says why it is of no use, if so.
func (t *task) tryStore(tps []commitlog.TopicPartition, starts, ends, from map[commitlog.TopicPartition]int64) (reason string, err error) {
	if t.db, err = t.app.cfg.State.OpenStore(t.id); err != nil {
		t.db = nil
		return "", err
	}
	for _, tp := range tps {
		offset, ok, err := t.db.Checkpoint(tp.Topic)
		switch {
		case err != nil:
			return "", err
		case ok && offset > ends[tp]:
			reason = fmt.Sprintf("checkpoint %d of %s lies beyond its end %d", offset, tp, ends[tp])
		case ok && offset < starts[tp]:
			reason = fmt.Sprintf("checkpoint %d of %s lies before its start %d", offset, tp, starts[tp])
		}
		from[tp] = offset
	}
	return reason, nil
}

func (t *task) changelogIndex(tp commitlog.TopicPartition) int {
	for i, spec := range t.sub.Stores {
		if spec.Changelog == tp.Topic {
			return i
		}
	}
	return -1
}

// replay reads the changelogs from their positions to the ends, by position: records may be
// missing at the end (markers, aborted batches, compaction).
func (t *task) replay(from, ends map[commitlog.TopicPartition]int64) error {
	reader, err := t.app.log.OpenReader(t.starting, commitlog.ReaderConfig{From: from})
	if err != nil {
		return err
	}
	defer reader.Close()
	var batch kvstore.Batch
	var cur commitlog.Cursor
	var rec commitlog.Record
	left := len(from)
	for left > 0 {
		select {
		case <-t.starting.Done():
			return t.starting.Err()
		case c, ok := <-reader.Chunks():
			if !ok {
				return readerEnded(reader)
			}
			i := t.changelogIndex(c.TopicPartition)
			st := t.state.stores[i]
			cur.Reset(&c)
			for cur.Next(&rec) {
				if rec.Key == nil {
					return fmt.Errorf("restore %s: offset %d has no key", c.TopicPartition, rec.Offset)
				}
				if rec.Value == nil {
					batch.Delete(st.toDB(rec.Key))
				} else {
					batch.Put(st.toDB(rec.Key), rec.Value)
				}
				t.restored++
			}
			if err := cur.Err(); err != nil {
				return fmt.Errorf("restore %s: %w", c.TopicPartition, err)
			}
			if st.checkpoint < ends[c.TopicPartition] && c.Next >= ends[c.TopicPartition] {
				left--
			}
			st.checkpoint = c.Next
			batch.SetCheckpoint(st.spec.Changelog, c.Next)
			if batch.Size() >= restoreBatch || left == 0 {
				if err := t.db.Write(&batch); err != nil {
					return fmt.Errorf("restore %s: %w", c.TopicPartition, err)
				}
				batch.Reset()
				t.publish()
			}
		}
	}
	return nil
}
