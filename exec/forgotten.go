package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/topology"
)

// Input without a committed offset begins at the earliest record: it is new, or the group's offsets were deleted, or have expired. In
// the second case it would be processed into state, or into a repartition topic, a second time (E7). They are told apart by what
// is committed in one transaction with an offset:
//
//	what there is                                               implies an offset of
//	---------------------------------------------------------   ----------------------------------------------
//	a committed record in a changelog                           the task that it is of
//	a committed record in a repartition topic, or a note that   the sub-topology that writes to it
//	says that one was processed (it may be purged), or state
//	of a sub-topology that has no other input
//	a note that names an input (notes.go)                       that topic, and in the note's task its partition
//
// A changelog is of another task if the operator was in another sub-topology before, as when a Rekey was put in front of it:
// the notes of that one's input still say that it has the state, and the changelog then says nothing. What is only aborted implies
// nothing.
//
// All is looked at first at the start of Run, before any task reads: a sub-topology that reads its source again has refilled its
// repartition topic long before the one behind it can object. What there is is looked at first and offsets afterwards: of two
// instances that start for the first time one may have committed meanwhile. Whether a single partition's offset is gone is looked
// at when its task starts; it is not told where the task has neither state nor other input.

// ForgottenError says that a group has no committed offset for input that was processed, into state or into a repartition topic:
// to process the input from its beginning would count it a second time. Nothing was changed.
type ForgottenError struct {
	Group string
	// Subtopology is what the input is of, Task one of its tasks if only that one's are missing.
	Subtopology, Task string
	// Store is one that has been written, Repartition a repartition topic that has: one of them is empty.
	Store, Repartition string
	// Internal are the plan's internal topics.
	Internal []string
	// Inputs are the partitions that have no offset, but have held something.
	Inputs []commitlog.TopicPartition
	// Bootstrap is the cluster's address for the commands in the text; "BROKERS" if empty.
	Bootstrap string
}

// Error says what was found and what can be done about it.
func (e *ForgottenError) Error() string {
	whose := "sub-topology " + e.Subtopology
	if e.Task != "" {
		whose = "task " + e.Task
	}
	written := "store " + e.Store
	if e.Repartition != "" {
		written = "repartition topic " + e.Repartition
	}
	set, from := "--to-offset N", "N"
	if len(e.Inputs) > 1 {
		set, from = "--from-file FILE", "FILE has a line topic,partition,offset for each, which"
	}
	return fmt.Sprintf("%s: group %s has no committed offset for its input %s, but %s was written: from its beginning the input would be processed into it again. "+
		"Were the offsets deleted, with the topic or without, or did they expire (offsets.retention.minutes)? To go on, %s; then either set all of them to where the group was, with "+
		"%s --reset-offsets %s --execute (%s is what the last log line with state=closed told; the earliest offset if nothing of a partition was ever processed); "+
		"or begin anew, by deleting the group and the plan's internal topics (%s), which repeats all outputs",
		whose, e.Group, listInputs(e.Inputs), written, stopAll, groupTool(e.Bootstrap, e.Group, e.Inputs), set, from, strings.Join(e.Internal, ", "))
}

// listInputs names the partitions, or their number if they are many.
func listInputs(tps []commitlog.TopicPartition) string {
	const most = 8
	var names []string
	for _, tp := range tps[:min(most, len(tps))] {
		names = append(names, tp.String())
	}
	if more := len(tps) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// missedInput is a partition of a task's input that has no committed offset, but has held something.
type missedInput struct {
	tp commitlog.TopicPartition
	// noted says that it had one.
	noted bool
}

// miss takes note of input without a committed offset. It is of interest if no input of the task has one, or if it once had.
func (t *task) miss(tp commitlog.TopicPartition, log extent, none bool) {
	_, noted := t.was.inputs[fingerprint(tp.Topic)]
	if log.end > 0 && (noted || none) {
		t.missed = append(t.missed, missedInput{tp, noted})
	}
}

// remember returns a *ForgottenError if input without an offset was processed by the task: into one of its stores, or, by the
// notes of others, into a repartition topic. Earlier owners are fenced, so that nothing is committed meanwhile.
func (t *task) remember() error {
	if len(t.missed) == 0 {
		return nil
	}
	if err := t.owned(); err != nil {
		return err
	}
	e := t.app.forgotten(t.sub)
	e.Task = t.id
	for _, m := range t.missed {
		e.Inputs = append(e.Inputs, m.tp)
	}
	var changelogs []commitlog.TopicPartition
	for _, st := range t.sub.Stores {
		if !t.app.moved[st.Name] && !st.Source {
			changelogs = append(changelogs, commitlog.TopicPartition{Topic: st.Changelog, Partition: t.partition})
		}
	}
	if err := t.app.evidence(t.starting, e, t.sub, changelogs); err != nil {
		return err
	}
	topics := t.app.repartitions(t.sub)
	if noted := slices.ContainsFunc(t.missed, func(m missedInput) bool { return m.noted }); noted && e.Store == "" && len(topics) > 0 {
		e.Repartition = topics[0]
	}
	if e.Store != "" || e.Repartition != "" {
		return e
	}
	return nil
}

func (a *App) forgotten(sub *topology.Subtopology) *ForgottenError {
	return &ForgottenError{Group: a.plan.Name(), Subtopology: sub.Name, Internal: a.internalTopics(), Bootstrap: a.bootstrap()}
}

// repartitions are the repartition topics that a sub-topology writes to.
func (a *App) repartitions(sub *topology.Subtopology) []string {
	var topics []string
	for _, topic := range sub.Sinks {
		if a.isRepartition(topic) {
			topics = append(topics, topic)
		}
	}
	return topics
}

func (a *App) isRepartition(topic string) bool {
	spec, _ := a.plan.Topic(topic)
	return spec.Kind == topology.RepartitionTopic
}

// checkForgotten returns a *ForgottenError, or several, for sub-topologies that have written to those of the plan's internal
// topics that were found, while the group has no offset of their input, or of one of their topics that it had one of. Notes are
// those of the group's offsets.
func (a *App) checkForgotten(ctx context.Context, found map[string]commitlog.Topic, notes map[commitlog.TopicPartition]note) error {
	a.moved = a.movedStores(notes)
	var problems []error
	for _, sub := range a.plan.Subtopologies() {
		e := a.forgotten(sub)
		err := a.findWritten(ctx, e, sub, found, notes)
		if err == nil && (e.Store != "" || e.Repartition != "") {
			e.Inputs, err = a.missedInputs(ctx, sub, found, notes)
		}
		if err != nil {
			return err
		}
		if len(e.Inputs) > 0 {
			problems = append(problems, e)
		}
	}
	if len(problems) == 1 {
		return problems[0]
	}
	return errors.Join(problems...)
}

// movedStores returns the stores that are named by notes of input of another sub-topology than theirs.
func (a *App) movedStores(notes map[commitlog.TopicPartition]note) map[string]bool {
	moved := map[string]bool{}
	for _, sub := range a.plan.Subtopologies() {
		for _, st := range sub.Stores {
			for tp, n := range notes {
				if len(n.stores[st.Name]) > 0 && !slices.Contains(sub.Sources, tp.Topic) {
					moved[st.Name] = true
				}
			}
		}
	}
	return moved
}

// notedTopics says which topics have an offset with a note, and which are named by a note of a sub-topology's input.
func notedTopics(sub *topology.Subtopology, notes map[commitlog.TopicPartition]note) (have, named map[string]bool) {
	have, named = map[string]bool{}, map[string]bool{}
	for tp, n := range notes {
		if !slices.Contains(sub.Sources, tp.Topic) {
			continue
		}
		have[tp.Topic] = true
		for _, topic := range sub.Sources {
			if _, ok := n.inputs[fingerprint(topic)]; ok {
				named[topic] = true
			}
		}
	}
	return have, named
}

// missedInputs returns the input of a sub-topology of which the group has no offset: all of it, or else of topics that it had one
// of. What has never held anything cannot be processed twice; if it is a repartition topic that was deleted, it can if the
// sub-topology in front begins anew, which is told there.
func (a *App) missedInputs(ctx context.Context, sub *topology.Subtopology, found map[string]commitlog.Topic, notes map[commitlog.TopicPartition]note) ([]commitlog.TopicPartition, error) {
	have, named := notedTopics(sub, notes)
	var tps []commitlog.TopicPartition
	for _, t := range a.tasks {
		for _, tp := range t.inputs {
			if _, ok := found[tp.Topic]; t.sub == sub && (ok || !a.isRepartition(tp.Topic)) { // else it is yet to be created
				tps = append(tps, tp)
			}
		}
	}
	committed, err := a.log.CommittedOffsets(ctx, a.plan.Name(), tps)
	if err != nil {
		return nil, err
	}
	for tp := range committed {
		have[tp.Topic] = true
	}
	if len(have) > 0 {
		tps = slices.DeleteFunc(tps, func(tp commitlog.TopicPartition) bool { return have[tp.Topic] || !named[tp.Topic] })
	}
	ends, err := a.log.EndOffsets(ctx, tps, commitlog.ReadUncommitted)
	return slices.DeleteFunc(tps, func(tp commitlog.TopicPartition) bool { return ends[tp] == 0 }), err
}

// findWritten puts into e what the sub-topology has committed, if it has, and if it matters: all its topics have offsets otherwise.
func (a *App) findWritten(ctx context.Context, e *ForgottenError, sub *topology.Subtopology, found map[string]commitlog.Topic, notes map[commitlog.TopicPartition]note) error {
	have, named := notedTopics(sub, notes)
	whole := len(have) > 0
	for topic := range named {
		whole = whole && have[topic]
	}
	if whole {
		return nil
	}
	var tps []commitlog.TopicPartition
	add := func(topic string) {
		for p := range found[topic].Partitions {
			tps = append(tps, commitlog.TopicPartition{Topic: topic, Partition: int32(p)})
		}
	}
	for _, st := range sub.Stores {
		if !a.moved[st.Name] && !st.Source {
			add(st.Changelog)
		}
	}
	for _, topic := range a.repartitions(sub) {
		for tp, n := range notes {
			if tp.Topic == topic && n.hasProcessed(topic, found[topic].ID) {
				e.Repartition = topic
				return nil
			}
		}
		add(topic)
	}
	if err := a.evidence(ctx, e, sub, tps); err != nil || e.Store != "" || e.Repartition != "" {
		return err
	}
	for _, topic := range a.repartitions(sub) {
		behind := a.reads(topic)
		if !a.fed(behind, notes) {
			continue
		}
		tps = nil
		for _, st := range behind.Stores {
			if !a.moved[st.Name] && !st.Source {
				add(st.Changelog)
			}
		}
		if _, ok, err := a.written(ctx, tps); err != nil {
			return err
		} else if ok {
			e.Repartition = topic
			return nil
		}
	}
	return nil
}

// reads returns the sub-topology that reads a repartition topic.
func (a *App) reads(topic string) *topology.Subtopology {
	for _, sub := range a.plan.Subtopologies() {
		if slices.Contains(sub.Sources, topic) {
			return sub
		}
	}
	return nil
}

// fed says that all input of a sub-topology is written by others, of which none has an offset with a note: if it has processed
// anything, they have.
func (a *App) fed(sub *topology.Subtopology, notes map[commitlog.TopicPartition]note) bool {
	for _, source := range sub.Sources {
		if !a.isRepartition(source) {
			return false
		}
		for _, other := range a.plan.Subtopologies() {
			if have, _ := notedTopics(other, notes); slices.Contains(other.Sinks, source) && len(have) > 0 {
				return false
			}
		}
	}
	return true
}

// evidence puts into e the store or repartition topic of a sub-topology that has a committed record in one of the partitions.
func (a *App) evidence(ctx context.Context, e *ForgottenError, sub *topology.Subtopology, tps []commitlog.TopicPartition) error {
	tp, ok, err := a.written(ctx, tps)
	if err != nil || !ok {
		return err
	}
	for _, st := range sub.Stores {
		if st.Changelog == tp.Topic {
			e.Store = st.Name
			return nil
		}
	}
	e.Repartition = tp.Topic
	return nil
}

// written returns a partition that has a committed record, if there is one among those of internal topics. It asks again for the
// partitions' bounds when they may have changed: another instance may purge, and a leader may be elected that has less.
func (a *App) written(ctx context.Context, tps []commitlog.TopicPartition) (first commitlog.TopicPartition, ok bool, err error) {
	for len(tps) > 0 {
		bound, cancel := context.WithTimeout(ctx, reportInterval)
		first, ok, err = a.scan(bound, tps)
		cancel()
		switch {
		case ctx.Err() != nil:
			return first, false, context.Cause(ctx)
		case errors.Is(err, context.DeadlineExceeded):
			a.cfg.Logger.Warn("looking for committed records stands still", "partitions", len(tps), "error", err.Error())
		case !errors.Is(err, commitlog.ErrOffsetOutOfRange):
			return first, ok, err
		}
	}
	return first, false, nil
}

// scan reads the partitions up to the first committed record, or to their last stable offsets.
func (a *App) scan(ctx context.Context, tps []commitlog.TopicPartition) (first commitlog.TopicPartition, ok bool, err error) {
	left, err := a.extents(ctx, tps, commitlog.ReadCommitted)
	if err != nil {
		return first, false, err
	}
	from := map[commitlog.TopicPartition]int64{}
	for tp, x := range left {
		if x.start < x.end {
			from[tp] = x.start
		} else {
			delete(left, tp)
		}
	}
	if len(left) == 0 {
		return first, false, nil
	}
	reader, err := a.log.OpenReader(ctx, commitlog.ReaderConfig{From: from, IDs: a.topicIDs})
	if err != nil {
		return first, false, err
	}
	defer reader.Close()
	var cur commitlog.Cursor
	var rec commitlog.Record
	for len(left) > 0 {
		select {
		case <-ctx.Done():
			return first, false, context.Cause(ctx)
		case c, open := <-reader.Chunks():
			if !open {
				return first, false, readerEnded(reader)
			}
			cur.Reset(&c)
			if cur.Next(&rec) {
				return c.TopicPartition, true, nil
			}
			if err := cur.Err(); err != nil {
				return first, false, fmt.Errorf("%s: %w", c.TopicPartition, err)
			}
			if c.Next >= left[c.TopicPartition].end {
				delete(left, c.TopicPartition)
			}
		}
	}
	return first, false, nil
}
