package exec

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/topology"
)

// storeFormat is the version of how a task lays its state out in a store: keys with the prefix of store.prefix,
// checkpoints by changelog, the label. A store of another one is rebuilt.
const storeFormat = 1

// labelName is the name of the metadata that holds a store's label.
const labelName = "wicker"

// storeLabel is what a store says of itself, beside its checkpoints: with every batch it is written anew.
type storeLabel struct {
	// format is 0 if the store has no label.
	format uint64
	// synced is when the store held all that its changelogs held: what was written to them before then is in
	// it, or lies behind its checkpoints and was not compacted away before then.
	synced time.Time
	// stores are those whose state is in it.
	stores []labelStore
	// checkpoints are by changelog.
	checkpoints map[string]int64
}

// labelStore is one named store, and which changelog its state is from.
type labelStore struct {
	name string
	id   commitlog.TopicID
}

// appendLabel appends the label's bytes, without the checkpoints, which the store holds apart:
//
//	format      uvarint
//	synced      8 bytes, big endian, milliseconds since 1970
//	per store   uvarint length, name, 16 bytes of topic id
func appendLabel(dst []byte, synced time.Time, stores []*store) []byte {
	dst = binary.AppendUvarint(dst, storeFormat)
	dst = binary.BigEndian.AppendUint64(dst, uint64(synced.UnixMilli()))
	for _, st := range stores {
		dst = binary.AppendUvarint(dst, uint64(len(st.spec.Name)))
		dst = append(dst, st.spec.Name...)
		dst = append(dst, st.changelogID[:]...)
	}
	return dst
}

// readLabel reads a store's label and its checkpoints of the changelogs that the sub-topology has.
func readLabel(db kvstore.Store, sub *topology.Subtopology) (storeLabel, error) {
	l := storeLabel{checkpoints: map[string]int64{}}
	for _, spec := range sub.Stores {
		offset, ok, err := db.Checkpoint(spec.Changelog)
		if err != nil {
			return l, err
		}
		if ok {
			l.checkpoints[spec.Changelog] = offset
		}
	}
	data, ok, err := db.Meta(labelName)
	if err != nil || !ok {
		return l, err
	}
	format, n := binary.Uvarint(data)
	if n <= 0 || format == 0 {
		return l, fmt.Errorf("label of %d bytes: %w", len(data), kvstore.ErrCorrupt)
	}
	if l.format = format; format != storeFormat {
		return l, nil
	}
	rest := data[n:]
	if len(rest) < 8 {
		return l, fmt.Errorf("label of %d bytes: %w", len(data), kvstore.ErrCorrupt)
	}
	l.synced = time.UnixMilli(int64(binary.BigEndian.Uint64(rest)))
	for rest = rest[8:]; len(rest) > 0; {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) || len(rest)-n-int(size) < len(commitlog.TopicID{}) {
			return l, fmt.Errorf("label of %d bytes: %w", len(data), kvstore.ErrCorrupt)
		}
		rest = rest[n:]
		st := labelStore{name: string(rest[:size])}
		rest = rest[size+uint64(copy(st.id[:], rest[size:])):]
		l.stores = append(l.stores, st)
	}
	return l, nil
}

// changelogView is what the cluster says of some changelogs at one time.
type changelogView struct {
	ids          map[string]commitlog.TopicID
	starts, ends map[commitlog.TopicPartition]int64
	// processed are partitions of source topics that are changelogs too: their ends are not the logs', which are here, but how far the group has
	// processed them.
	processed map[commitlog.TopicPartition]int64
}

// viewChangelogs asks for the ids of changelogs, and for the offsets of the partitions.
func (a *App) viewChangelogs(ctx context.Context, tps []commitlog.TopicPartition) (*changelogView, error) {
	v := &changelogView{ids: map[string]commitlog.TopicID{}, processed: map[commitlog.TopicPartition]int64{}}
	var names []string
	for _, tp := range tps {
		names = append(names, tp.Topic)
	}
	slices.Sort(names)
	topics, err := a.log.Topics(ctx, slices.Compact(names)...)
	if err != nil {
		return nil, err
	}
	for name, t := range topics {
		v.ids[name] = t.ID
	}
	if v.ends, err = a.log.EndOffsets(ctx, tps, commitlog.ReadUncommitted); err != nil {
		return nil, err
	}
	v.starts, err = a.log.StartOffsets(ctx, tps)
	return v, err
}

// of returns the part of the view that is of some partitions.
func (v *changelogView) of(tps []commitlog.TopicPartition) *changelogView {
	part := &changelogView{ids: v.ids, starts: map[commitlog.TopicPartition]int64{}, ends: map[commitlog.TopicPartition]int64{}}
	for _, tp := range tps {
		part.starts[tp], part.ends[tp] = v.starts[tp], v.ends[tp]
	}
	return part
}

// changelogPartitions are those of a task. A changelog that is a source topic may have fewer than the sub-topology has tasks.
func (a *App) changelogPartitions(sub *topology.Subtopology, partition int32) []commitlog.TopicPartition {
	var tps []commitlog.TopicPartition
	for _, spec := range sub.Stores {
		if int(partition) < a.partitions[spec.Changelog] {
			tps = append(tps, commitlog.TopicPartition{Topic: spec.Changelog, Partition: partition})
		}
	}
	return tps
}

// unusable returns why the changelogs cannot make a store exact from its checkpoints on, "" if they can (E4).
// These are all the reasons for which a store that can be opened is rebuilt. The view is of the task's changelogs alone.
func (a *App) unusable(ctx context.Context, l storeLabel, sub *topology.Subtopology, partition int32, view *changelogView) (reason string, err error) {
	switch {
	case l.format == 0 && len(l.checkpoints) == 0:
		return "", nil // nothing is in it
	case l.format == 0:
		return "it does not say what wrote it", nil
	case l.format != storeFormat:
		return fmt.Sprintf("it has format %d, want %d", l.format, storeFormat), nil
	}
	for _, st := range l.stores {
		i := slices.IndexFunc(sub.Stores, func(s topology.StoreSpec) bool { return s.Name == st.name })
		if i < 0 {
			return fmt.Sprintf("it has state of %q, which sub-topology %s no longer has", st.name, sub.Name), nil
		}
		topic := sub.Stores[i].Changelog
		id := view.ids[topic]
		if st.id.Differs(id) {
			return fmt.Sprintf("topic %s was created again: it has id %s, the store is from %s", topic, id, st.id), nil
		}
	}
	tps := a.changelogPartitions(sub, partition)
	checkpoints := map[commitlog.TopicPartition]int64{}
	for _, tp := range tps {
		if offset, ok := l.checkpoints[tp.Topic]; ok {
			checkpoints[tp] = offset
		}
	}
	return a.outdated(ctx, tps, checkpoints, view, l.synced)
}

// outdated returns why partitions cannot make exact what was so at their checkpoints, and in step with them at the time synced, "" if they can.
func (a *App) outdated(ctx context.Context, tps []commitlog.TopicPartition, checkpoints map[commitlog.TopicPartition]int64, view *changelogView, synced time.Time) (reason string, err error) {
	if err := a.confirm(ctx, view.ends, func(tp commitlog.TopicPartition, end int64) bool {
		_, processed := view.processed[tp]
		return processed || checkpoints[tp] <= end
	}); err != nil {
		return "", err
	}
	var behind []string
	for _, tp := range tps {
		offset, ok := checkpoints[tp]
		switch start, end := view.starts[tp], view.ends[tp]; {
		case !ok: // read from the start
		case offset > end:
			return fmt.Sprintf("checkpoint %d of %s lies beyond its end %d", offset, tp, end), nil
		case offset < start:
			return fmt.Sprintf("checkpoint %d of %s lies before its start %d", offset, tp, start), nil
		case max(end, view.processed[tp])-offset > 1:
			// What is not processed yet may have lost deletions too, and those would never come. One offset is the marker of the last transaction that the store has: a later one takes two at least.
			behind = append(behind, tp.Topic)
		}
	}
	age := a.cfg.Clock.Now().Sub(synced)
	if len(behind) == 0 || age <= 0 {
		return "", nil
	}
	behind = slices.Compact(slices.Sorted(slices.Values(behind)))
	configs, err := a.log.TopicConfigs(ctx, behind...)
	if err != nil {
		return "", err
	}
	for _, topic := range behind {
		ms, err := strconv.ParseInt(configs[topic]["delete.retention.ms"], 10, 64)
		if retention := time.Duration(ms) * time.Millisecond; err == nil && age > retention {
			return fmt.Sprintf("it was last in step with its topics %v ago, and %s keeps deletions for %v (delete.retention.ms)",
				age.Round(time.Second), topic, retention), nil
		}
	}
	return "", nil
}
