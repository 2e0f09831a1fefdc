package exec

import (
	"errors"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/kvstore"
)

// restore opens the task's store and brings it to the end of its changelogs: the ends are
// captured here, after the fence, so that all that earlier owners committed lies before them (E5).
func (t *task) restore() error {
	limit := t.app.stateShare()
	if len(t.sub.Stores) == 0 {
		t.state = newState(nil, nil, limit)
		return nil
	}
	tps := t.app.changelogPartitions(t.sub, t.partition)
	began := t.app.cfg.Clock.Now()
	view, err := t.app.viewChangelogs(t.starting, tps)
	if err != nil {
		return err
	}
	for _, spec := range t.sub.Stores {
		for _, s := range t.in.sources {
			if spec.Source && s.tp.Topic == spec.Changelog { // what the group has processed of it is in the state, and no more
				view.ends[s.tp], view.processed[s.tp] = s.arrived, view.ends[s.tp]
				if !s.known {
					view.ends[s.tp] = view.starts[s.tp]
				}
			}
		}
	}
	if err := t.recall(view); err != nil {
		return err
	}
	label, err := t.openStore(view)
	if err != nil {
		return err
	}
	t.state = newState(t.db, t.sub.Stores, limit)
	for _, st := range t.state.stores {
		if !st.spec.Source { // what is in a source topic fits
			st.most, st.bound = t.app.limit(st.spec.Changelog), t.app.limitOf(st.spec.Changelog)
		}
	}
	if t.state.synced = label.synced; len(label.checkpoints) == 0 {
		t.state.synced = began
	}
	r := &replay{task: t, view: view, began: began, positions: map[commitlog.TopicPartition]int64{}}
	for _, tp := range tps {
		st := t.state.of(tp.Topic)
		st.changelogID, st.logged = view.ids[tp.Topic], view.ends[tp] > 0 && !st.spec.Source
		st.checkpoint = max(label.checkpoints[tp.Topic], view.starts[tp])
		if st.checkpoint < view.ends[tp] {
			r.positions[tp] = st.checkpoint
		}
	}
	if err := r.run(); err != nil {
		return err
	}
	t.state.synced, t.state.durableAt = began, began
	if len(label.checkpoints) > 0 && began.Sub(label.synced) >= durableInterval && r.restored > 0 {
		if err := t.state.persist(began); err != nil {
			return err
		}
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
