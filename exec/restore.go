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
	limit := t.app.stateShare()
	if len(t.sub.Stores) == 0 {
		t.state = newState(nil, nil, limit)
		return nil
	}
	tps := changelogPartitions(t.sub, t.partition)
	began := t.app.cfg.Clock.Now()
	view, err := t.app.viewChangelogs(t.starting, tps)
	if err != nil {
		return err
	}
	label, err := t.openStore(view)
	if err != nil {
		return err
	}
	t.state = newState(t.db, t.sub.Stores, limit)
	if t.state.synced = label.synced; len(label.checkpoints) == 0 {
		t.state.synced = began
	}
	behind := map[commitlog.TopicPartition]int64{}
	var records int64
	ends := view.ends
	for i, tp := range tps {
		st := t.state.stores[i]
		st.changelogID = view.ids[tp.Topic]
		st.checkpoint = max(label.checkpoints[tp.Topic], view.starts[tp])
		if st.checkpoint < ends[tp] {
			behind[tp] = st.checkpoint
			records += ends[tp] - st.checkpoint
		}
	}
	if len(behind) == 0 {
		t.state.synced = began
	} else {
		begin := time.Now()
		t.log.Info("restore", "offsets", records)
		if err := t.replay(behind, ends, began); err != nil {
			return err
		}
		t.log.Info("restored", "records", t.restored, "took", time.Since(begin).Round(time.Millisecond).String())
	}
	t.countEntries()
	return nil
}

// openStore opens the task's store and reads its label. A store that the changelogs cannot make exact is
// rebuilt from them: one that is damaged, and one that is unusable.
func (t *task) openStore(view *changelogView) (storeLabel, error) {
	for rebuilt := false; ; rebuilt = true {
		label, reason, err := t.tryStore(view)
		if err != nil && !errors.Is(err, kvstore.ErrCorrupt) || rebuilt {
			return label, err
		}
		if err != nil {
			reason = err.Error()
		}
		if reason == "" {
			return label, nil
		}
		t.log.Warn("store is rebuilt", "reason", reason)
		if t.db != nil {
			if err := t.db.Close(); err != nil && !errors.Is(err, kvstore.ErrCorrupt) {
				return label, err
			}
			t.db = nil
		}
		if err := t.app.cfg.State.DestroyStore(t.id); err != nil {
			return label, err
		}
	}
}

// tryStore opens the store, reads its label and says why it is of no use, if so.
func (t *task) tryStore(view *changelogView) (label storeLabel, reason string, err error) {
	if t.db, err = t.app.cfg.State.OpenStore(t.id); err != nil {
		t.db = nil
		return label, "", err
	}
	if label, err = readLabel(t.db, t.sub); err != nil {
		return label, "", err
	}
	reason, err = t.app.unusable(t.starting, label, t.sub, t.partition, view)
	return label, reason, err
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
func (t *task) replay(from, ends map[commitlog.TopicPartition]int64, began time.Time) error {
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
				if left == 0 {
					t.state.synced = began
				}
				t.state.writeLabel(&batch)
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
