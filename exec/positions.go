package exec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

// Where a task's input goes on (E7):
//
//	committed offset   position               the log holds it   it does not
//	----------------   --------------------   ----------------   ---------------------------
//	yes                the committed offset   goes on there      as the source's policy says
//	none, others have  the earliest record    goes on there, unless it was forgotten
//	none at all        the earliest record    goes on there, unless it was forgotten
//
// What is forgotten, and refused, is said in forgotten.go.
//
// "Holds" means that the offset is of this topic too, and not of one of the same name that was deleted (see notes.go).
//
// The log may lose the position of a running task too, by retention. The task then processes and commits what it has read, and
// goes by the same table. If its topic is deleted and created again it does the former, and the run ends: the next one goes by
// the table.

// LostError says that the log no longer holds, or does not hold yet, what a group would read next from a partition.
// It wraps commitlog.ErrOffsetOutOfRange.
type LostError struct {
	Group     string
	Topic     string
	Partition int32
	// Position is the offset that the group goes on at; the log holds those from Start up to, not including, End.
	// With Position below Start what lies between them is lost.
	Position, Start, End int64
	// Was is the id of the topic that Position is of, if it was deleted and Is, another one, has its name: then Position says nothing
	// of this log. Both are zero otherwise.
	Was, Is commitlog.TopicID
	// Bootstrap is the cluster's address for the command in the text; "BROKERS" if empty.
	Bootstrap string
	// Internal says that the topic is a repartition topic, so that no source can have a policy for it.
	Internal bool
}

// Error names what is lost, and what can be done about it.
func (e *LostError) Error() string {
	text := fmt.Sprintf("topic %s partition %d: ", e.Topic, e.Partition)
	switch {
	case !e.Was.IsZero():
		text += fmt.Sprintf("the topic was deleted and created again (its id was %s and is %s): group %s had come to offset %d of the one before, and this one holds %d to %d.",
			e.Was, e.Is, e.Group, e.Position, e.Start, e.End)
	case e.Position < e.Start:
		text += fmt.Sprintf("offsets %d to %d (%d) are lost: group %s has not processed them, but the log starts at %d; does the topic keep records for less time than the group was away?",
			e.Position, e.Start-1, e.Start-e.Position, e.Group, e.Start)
	default:
		text += fmt.Sprintf("group %s goes on at offset %d, but the log ends at %d (it starts at %d): was the topic created again, or did it lose its end?",
			e.Group, e.Position, e.End, e.Start)
	}
	text += " To go on with what is there, "
	if !e.Internal {
		text += "give the source ops.OnLost(ops.FromEarliest), or "
	}
	return text + fmt.Sprintf("%s and run %s --reset-offsets --to-earliest --execute",
		stopAll, groupTool(e.Bootstrap, e.Group, []commitlog.TopicPartition{{Topic: e.Topic, Partition: e.Partition}}))
}

// Unwrap returns commitlog.ErrOffsetOutOfRange.
func (e *LostError) Unwrap() error { return commitlog.ErrOffsetOutOfRange }

// extent is what a log holds of a partition: the offsets from start up to end.
type extent struct {
	start, end int64
	// another says that the log is another one than that of the position it is asked for.
	another bool
}

func (x extent) holds(position int64) bool {
	return !x.another && x.start <= position && position <= x.end
}

// extents asks for what the log holds of the partitions, up to the end that a reader sees.
func (a *App) extents(ctx context.Context, tps []commitlog.TopicPartition, iso commitlog.Isolation) (map[commitlog.TopicPartition]extent, error) {
	starts, err := a.log.StartOffsets(ctx, tps)
	if err != nil {
		return nil, err
	}
	ends, err := a.log.EndOffsets(ctx, tps, iso)
	if err != nil {
		return nil, err
	}
	all := make(map[commitlog.TopicPartition]extent, len(tps))
	for _, tp := range tps {
		all[tp] = extent{start: starts[tp], end: ends[tp]}
	}
	return all, nil
}

// confirm asks again, for a while, for the ends of partitions that are not as they should be: a leader that is new may not
// know better yet.
func (a *App) confirm(ctx context.Context, ends map[commitlog.TopicPartition]int64, good func(tp commitlog.TopicPartition, end int64) bool) error {
	for range endTries {
		var doubtful []commitlog.TopicPartition
		for tp, end := range ends {
			if !good(tp, end) {
				doubtful = append(doubtful, tp)
			}
		}
		if len(doubtful) == 0 {
			return nil
		}
		if err := a.pause(ctx, endRetry); err != nil {
			return err
		}
		again, err := a.log.EndOffsets(ctx, doubtful, commitlog.ReadUncommitted)
		if err != nil {
			return err
		}
		maps.Copy(ends, again)
	}
	return nil
}

// pause waits for as long as said, or until ctx ends, whose cause it then returns.
func (a *App) pause(ctx context.Context, d time.Duration) error {
	timer := a.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// goOn returns where reading goes on that would go on at position, and how many offsets are passed over
// without having been read. ok is false if the policy is to end the run.
func goOn(position int64, log extent, policy ops.LostPolicy) (next, lost int64, ok bool) {
	switch {
	case log.holds(position):
		return position, 0, true
	case policy == ops.FromEarliest && log.another:
		return log.start, 0, true
	case policy == ops.FromEarliest:
		return log.start, max(0, log.start-position), true
	case policy == ops.FromLatest && position < log.start && !log.another:
		return log.end, log.end - position, true
	case policy == ops.FromLatest: // another log: nothing of it was read
		return log.end, log.end - log.start, true
	}
	return 0, 0, false
}

// locate finds where the task's input goes on and sets its sources, their way into the operators excepted.
func (t *task) locate() error {
	tps := t.app.inputs(t.sub, t.partition)
	committed, err := t.app.log.CommittedOffsets(t.starting, t.app.plan.Name(), tps)
	if err != nil {
		return err
	}
	log, err := t.reach(tps, committed)
	if err != nil {
		return err
	}
	specs := map[string]topology.SourceSpec{}
	for _, spec := range t.sub.SourceSpecs() {
		specs[spec.Topic] = spec
	}
	var notes map[commitlog.TopicPartition]string
	if len(committed) > 0 {
		if notes, err = t.readNotes(tps); err != nil {
			return err
		}
	}
	for _, tp := range tps {
		at, ok := committed[tp]
		if !ok {
			at = log[tp].start
			t.miss(tp, log[tp], len(committed) == 0)
		}
		if ok && at > log[tp].start && specs[tp.Topic].Repartition { // what the one before has not purged
			t.app.purger.committed(tp, at)
		}
		s := newSource(tp, specs[tp.Topic], at)
		s.known, s.note = ok, notes[tp]
		n, is := newNote(s.note), t.app.topicIDs[tp.Topic]
		s.processed = n.hasProcessed(tp.Topic, is)
		if was := n.inputs[fingerprint(tp.Topic)]; was.Differs(is) {
			s.was = was
		}
		if err := t.skipLost(s, log[tp]); err != nil {
			return err
		}
		t.in.sources = append(t.in.sources, s)
	}
	if len(t.in.sources) > 1 {
		ends, err := t.app.log.EndOffsets(t.starting, tps, commitlog.ReadCommitted)
		if err != nil {
			return err
		}
		for _, s := range t.in.sources {
			s.stable = max(s.stable, ends[s.tp])
		}
	}
	slices.SortStableFunc(t.in.sources, func(a, b *source) int { // of equal timestamps tables' records come first
		switch {
		case a.spec.Table == b.spec.Table:
			return 0
		case a.spec.Table:
			return -1
		}
		return 1
	})
	return nil
}

// reach returns what the log holds of the partitions. A new leader may not know yet how far its log is agreed
// on, so one that ends before a committed offset is asked again.
func (t *task) reach(tps []commitlog.TopicPartition, committed map[commitlog.TopicPartition]int64) (map[commitlog.TopicPartition]extent, error) {
	log, err := t.app.extents(t.starting, tps, commitlog.ReadUncommitted)
	if err != nil {
		return nil, err
	}
	ends := make(map[commitlog.TopicPartition]int64, len(log))
	for tp, x := range log {
		ends[tp] = x.end
	}
	err = t.app.confirm(t.starting, ends, func(tp commitlog.TopicPartition, end int64) bool { return committed[tp] <= end })
	for tp, end := range ends {
		log[tp] = extent{start: log[tp].start, end: end}
	}
	return log, err
}

// skipLost moves a source on if the log does not hold what it would be asked for next, or returns a
// *LostError. In a process that was paused for long nothing need be lost: the task's next owner may have gone on from
// there, and purged what it has processed (E12). Such a task is fenced, as its identity says.
func (t *task) skipLost(s *source, log extent) error {
	if log.another = !s.was.IsZero(); log.holds(s.arrived) {
		return nil
	}
	if err := t.owned(); err != nil {
		return err
	}
	next, lost, ok := goOn(s.arrived, log, s.spec.OnLost)
	if !ok {
		e := &LostError{Group: t.app.plan.Name(), Topic: s.tp.Topic, Partition: s.tp.Partition, Position: s.arrived,
			Start: log.start, End: log.end, Was: s.was, Bootstrap: t.app.bootstrap(), Internal: s.spec.Repartition}
		if log.another {
			e.Is = t.app.topicIDs[s.tp.Topic]
		}
		return e
	}
	t.log.Warn("input is lost", "topic", s.tp.Topic, "partition", s.tp.Partition, "policy", s.spec.OnLost.String(),
		"position", s.arrived, "goes on at", next, "lost offsets", lost, "log start", log.start, "log end", log.end)
	t.env.Counter(s.spec.At, ops.CountLost).Add(lost)
	s.was = commitlog.TopicID{}
	s.jump(next)
	return nil
}

// owned returns an error, of class Fenced, if the task is another process's by now: what it finds then may be that one's doing.
func (t *task) owned() error {
	_, err := t.identity.Current(t.ctx, commitlog.AnyGeneration)
	return err
}

// read opens the reader of the task's input.
func (t *task) read(ctx context.Context) error {
	from := make(map[commitlog.TopicPartition]int64, len(t.in.sources))
	for _, s := range t.in.sources {
		from[s.tp] = s.arrived
	}
	reader, err := t.app.log.OpenReader(ctx, commitlog.ReaderConfig{From: from, IDs: t.app.topicIDs})
	if err != nil {
		return err
	}
	t.reader = reader
	return nil
}

// readOn is for a reader that has ended: if the log has lost its position, another one goes on as the policy says. Where
// that is to end the run or the task, t.lost is set: what was read before is processed first.
func (t *task) readOn() error {
	err := readerEnded(t.reader)
	switch {
	case errors.Is(err, commitlog.ErrTopicRecreated):
		if t.lost = t.app.checkTopics(t.ctx); t.lost == nil {
			t.lost = err
		}
		return nil
	case !errors.Is(err, commitlog.ErrOffsetOutOfRange):
		return err
	}
	t.log.Debug("reader", "error", err.Error())
	if err := t.reader.Close(); err != nil {
		return err
	}
	var tps []commitlog.TopicPartition
	for _, s := range t.in.sources {
		tps = append(tps, s.tp)
	}
	log, err := t.app.extents(t.ctx, tps, commitlog.ReadUncommitted)
	if err != nil {
		return err
	}
	for _, s := range t.in.sources {
		if t.lost = t.skipLost(s, log[s.tp]); t.lost != nil {
			return nil
		}
	}
	return t.read(t.ctx)
}
