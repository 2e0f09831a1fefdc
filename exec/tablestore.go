package exec

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/kvstore"
)

// A global table on disk (G7) has a store of its own in the engine, whose checkpoints say how far its topics have been read. A start reads what has come since, unless the topics
// cannot make the rows exact from there on, or the rows were made otherwise than they would be now: then the store is rebuilt.

// tableFormat is the version of a table's store: rows by key, checkpoints by partition, the label.
const tableFormat = 1

// tableLabel is what a table's store says of itself, beside its checkpoints.
type tableLabel struct {
	Format int `json:"format"`
	// Synced is when it held all that its topics held, see storeLabel.
	Synced time.Time `json:"synced"`
	// Topics are what it was read from.
	Topics map[string]commitlog.TopicID `json:"topics"`
	// The rest is how its rows were made, see globaltable.Spec.
	Key         string `json:"key"`
	Value       string `json:"value"`
	Version     string `json:"version"`
	Enriched    bool   `json:"enriched"`
	Skip        bool   `json:"skip"`
	Substitutes bool   `json:"substitutes"`
}

// tableStore is the name of a table's store. Tasks' have no slash.
func tableStore(app, table string) string { return app + "/table/" + table }

// labelOf is the label of a table's store in this run.
func (t *table) labelOf(ids map[string]commitlog.TopicID, synced time.Time) tableLabel {
	s := t.spec
	l := tableLabel{Format: tableFormat, Synced: synced, Topics: map[string]commitlog.TopicID{}, Key: s.KeyCodec, Value: s.ValueCodec, Version: s.Version,
		Enriched: s.Enriched, Skip: s.Skip, Substitutes: s.Substitutes}
	for _, topic := range s.Topics {
		l.Topics[topic] = ids[topic]
	}
	return l
}

// note has the label written.
func (t *table) note(synced time.Time) error {
	data, err := json.Marshal(t.labelOf(t.ids, synced))
	if err != nil {
		return fmt.Errorf("table %s: label: %w", t.spec.Name, err)
	}
	t.loader.Note(labelName, data)
	return nil
}

// open opens the table's store, rebuilt if it is of no use, and returns from where its topics are to be read.
func (t *table) open(ctx context.Context, tps []commitlog.TopicPartition) (from map[commitlog.TopicPartition]int64, err error) {
	a := t.app
	began := a.cfg.Clock.Now()
	view, err := a.viewChangelogs(ctx, tps)
	if err != nil {
		return nil, err
	}
	t.ids = view.ids
	name := tableStore(a.plan.Name(), t.spec.Name)
	for rebuilt := false; ; rebuilt = true {
		synced, reason, err := t.tryStore(ctx, name, tps, view)
		if err != nil && (rebuilt || !errors.Is(err, kvstore.ErrCorrupt)) {
			return nil, err
		}
		if err == nil && reason == "" {
			if t.began = began; synced.IsZero() { // it is new
				if err := t.note(began); err != nil {
					return nil, err
				}
			}
			break
		}
		if err != nil {
			reason = err.Error()
		}
		a.cfg.Logger.Warn("table is read anew", "table", t.spec.Name, "reason", reason)
		if err := t.close(); err != nil && !errors.Is(err, kvstore.ErrCorrupt) {
			return nil, err
		}
		if err := a.cfg.State.DestroyStore(name); err != nil {
			return nil, err
		}
	}
	t.loader.Open(t.db)
	from = map[commitlog.TopicPartition]int64{}
	left := int64(0)
	for _, tp := range tps {
		offset, _, err := t.loader.Position(tp.Topic, tp.Partition)
		if err != nil {
			return nil, err
		}
		from[tp] = max(offset, view.starts[tp])
		left += max(0, view.ends[tp]-from[tp])
	}
	if left > bulkOffsets { // no task uses its memory yet
		t.loader.Expect(max(1, min(loadMemory, a.cfg.StateMemory/int64(len(a.tables)))))
	}
	return from, nil
}

// tryStore opens the store and reads its label, which has a zero time if there is none, and says why it is of no use, if so.
func (t *table) tryStore(ctx context.Context, name string, tps []commitlog.TopicPartition, view *changelogView) (synced time.Time, reason string, err error) {
	if t.db, err = t.app.cfg.State.OpenStore(name); err != nil {
		t.db = nil
		return synced, "", err
	}
	data, ok, err := t.db.Meta(labelName)
	if err != nil || !ok { // without a label nothing is in it: that comes with the first row
		return synced, "", err
	}
	var l tableLabel
	if err := json.Unmarshal(data, &l); err != nil {
		return synced, "", fmt.Errorf("label of %d bytes: %w", len(data), kvstore.ErrCorrupt)
	}
	if l.Format != tableFormat {
		return synced, fmt.Sprintf("it has format %d, want %d", l.Format, tableFormat), nil
	}
	if reason = l.differs(t.labelOf(view.ids, l.Synced)); reason != "" {
		return synced, reason, nil
	}
	t.loader.Open(t.db)
	checkpoints := map[commitlog.TopicPartition]int64{}
	for _, tp := range tps {
		offset, ok, err := t.loader.Position(tp.Topic, tp.Partition)
		if err != nil {
			return synced, "", err
		}
		if ok {
			checkpoints[tp] = offset
		}
	}
	reason, err = t.app.outdated(ctx, tps, checkpoints, view, l.Synced)
	return l.Synced, reason, err
}

// differs says why the rows are not those that now would be made, "" if they are.
func (l *tableLabel) differs(now tableLabel) string {
	was := slices.Sorted(maps.Keys(l.Topics))
	if want := slices.Sorted(maps.Keys(now.Topics)); !slices.Equal(was, want) {
		return fmt.Sprintf("it is of the topics %q, the table of %q", was, want)
	}
	for topic, id := range l.Topics {
		if now := now.Topics[topic]; id.Differs(now) {
			return fmt.Sprintf("topic %s was created again: it has id %s, the store is from %s", topic, now, id)
		}
	}
	const text = "its rows were made with %s %v, the table has %v"
	switch {
	case l.Key != now.Key:
		return fmt.Sprintf(text, "key codec", l.Key, now.Key)
	case l.Value != now.Value:
		return fmt.Sprintf(text, "value codec", l.Value, now.Value)
	case l.Version != now.Version:
		return fmt.Sprintf("its rows are of version %q, the table's is %q", l.Version, now.Version)
	case l.Enriched != now.Enriched:
		return fmt.Sprintf(text, "Enrich", l.Enriched, now.Enriched)
	case l.Skip != now.Skip:
		return fmt.Sprintf(text, "SkipInvalid", l.Skip, now.Skip)
	case l.Substitutes != now.Substitutes:
		return fmt.Sprintf(text, "SubstituteInvalid", l.Substitutes, now.Substitutes)
	}
	return ""
}

// close closes the store, if there is one.
func (t *table) close() error {
	if t.db == nil {
		return nil
	}
	db := t.db
	t.db = nil
	return db.Close()
}

// syncing is a table on disk that is followed: now and then it notes a time at which it had all that its topics had, or the deletions of a table with little to
// write might be older than its topics keep them when it is opened again.
type syncing struct {
	next time.Time
	// at and ends are what is to be reached, nil if nothing is.
	at   time.Time
	ends map[commitlog.TopicPartition]int64
}

// sync is called when something was read, after it was published.
func (t *table) sync(ctx context.Context, tps []commitlog.TopicPartition) error {
	s, now := &t.syncing, t.app.cfg.Clock.Now()
	if s.ends == nil {
		if now.Before(s.next) {
			return nil
		}
		asking, cancel := context.WithTimeout(ctx, checkTimeout)
		ends, err := t.app.log.EndOffsets(asking, tps, commitlog.ReadCommitted)
		cancel()
		if err != nil { // the table can be followed all the same, or its reader says why not
			if ctx.Err() == nil {
				t.app.cfg.Logger.Info("where the table's topics end is not known", "table", t.spec.Name, "error", err.Error())
			}
			s.next = now.Add(checkInterval)
			return nil
		}
		s.at, s.ends = now, ends
	}
	if !t.hasRead(s.ends) {
		return nil
	}
	if err := t.note(s.at); err != nil {
		return err
	}
	if err := t.loader.Publish(); err != nil {
		return err
	}
	s.ends, s.next = nil, now.Add(durableInterval)
	if err := t.db.Flush(); err != nil {
		return fmt.Errorf("table %s: %w", t.spec.Name, err)
	}
	return nil
}

// isTable says whether a store is that of one of the plan's tables.
func (a *App) isTable(name string) bool {
	return slices.ContainsFunc(a.plan.Tables(), func(s *globaltable.Spec) bool { return s.Disk && tableStore(a.plan.Name(), s.Name) == name })
}
