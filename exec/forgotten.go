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
// is committed along with an offset, in one transaction:
//
//	what there is                                         implies an offset of
//	---------------------------------------------------   --------------------------------------------------------
//	a committed record in a changelog                     the task that it is of, and so its sub-topology
//	a committed record in a repartition topic, or one     the sub-topology that writes to it
//	that was purged, or an offset of the group in it
//	a note that names the topic (notes.go)                that topic in the note's task
//
// The first two are looked into at the start of Run, before any task reads, since a sub-topology that reads its source again
// has refilled its repartition topic long before the one behind it can object; the first and the last at the start of a task.
//
// What is only aborted implies nothing. What there is is looked at first and offsets afterwards: of two instances that start for
// the first time one may have committed meanwhile. If the input has never held anything, nothing can be processed twice.

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
	whose, all := "sub-topology "+e.Subtopology, "of the sub-topology"
	if e.Task != "" {
		whose, all = "task "+e.Task, "of the task"
	}
	written := "store " + e.Store
	if e.Repartition != "" {
		written = "repartition topic " + e.Repartition
	}
	return fmt.Sprintf("%s: group %s has no committed offset for its input %s, but %s was written: from its beginning the input would be processed into it again. "+
		"Were the offsets deleted, with the topic or without, or did they expire (offsets.retention.minutes)? To go on, %s; then either set them, all inputs %s, to where the group was, with "+
		"%s --reset-offsets --to-offset N --execute (N as the last log line with state=closed told; --to-earliest if nothing of this input was ever processed); "+
		"or begin anew, by deleting the group and the plan's internal topics (%s), which repeats all outputs",
		whose, e.Group, listInputs(e.Inputs), written, stopAll, all, groupTool(e.Bootstrap, e.Group, e.Inputs), strings.Join(e.Internal, ", "))
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
	e := t.app.forgotten(t.sub)
	e.Task = t.id
	for _, m := range t.missed {
		e.Inputs = append(e.Inputs, m.tp)
	}
	tp, found, err := t.app.written(t.starting, changelogPartitions(t.sub, t.partition))
	if err != nil {
		return err
	}
	for _, st := range t.sub.Stores {
		if found && st.Changelog == tp.Topic {
			e.Store = st.Name
			return e
		}
	}
	if topics := t.app.repartitions(t.sub); len(topics) > 0 && slices.ContainsFunc(t.missed, func(m missedInput) bool { return m.noted }) {
		e.Repartition = topics[0]
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
		if a.kindOf(topic) == topology.RepartitionTopic {
			topics = append(topics, topic)
		}
	}
	return topics
}

// kindOf says what a topic of the plan is to it.
func (a *App) kindOf(topic string) topology.TopicKind {
	for _, spec := range a.plan.Topics() {
		if spec.Name == topic {
			return spec.Kind
		}
	}
	return topology.SourceTopic
}

// checkForgotten returns a *ForgottenError, or several, for sub-topologies that have written to those of the plan's internal
// topics that were found, while no input of theirs has an offset. Notes are those of the group's offsets.
func (a *App) checkForgotten(ctx context.Context, found map[string]commitlog.Topic, notes map[commitlog.TopicPartition]note) error {
	if len(found) == 0 {
		return nil
	}
	noted := map[string]bool{}
	for tp := range notes {
		noted[tp.Topic] = true
	}
	var problems []error
	for _, sub := range a.plan.Subtopologies() {
		if slices.ContainsFunc(sub.Sources, func(topic string) bool { return noted[topic] }) {
			continue
		}
		e := a.forgotten(sub)
		wrote, err := a.findWritten(ctx, e, sub, found, noted)
		if err == nil && wrote {
			e.Inputs, err = a.missedInputs(ctx, sub, found)
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

// missedInputs returns the input of a sub-topology that has held something, none if the group has an offset of any.
func (a *App) missedInputs(ctx context.Context, sub *topology.Subtopology, found map[string]commitlog.Topic) ([]commitlog.TopicPartition, error) {
	var tps []commitlog.TopicPartition
	for _, t := range a.tasks {
		if t.sub == sub {
			tps = append(tps, t.inputs...)
		}
	}
	tps = slices.DeleteFunc(tps, func(tp commitlog.TopicPartition) bool { // what has to be created yet has no offsets
		_, ok := found[tp.Topic]
		return !ok && a.kindOf(tp.Topic) == topology.RepartitionTopic
	})
	committed, err := a.log.CommittedOffsets(ctx, a.plan.Name(), tps)
	if err != nil || len(committed) > 0 {
		return nil, err
	}
	ends, err := a.log.EndOffsets(ctx, tps, commitlog.ReadUncommitted)
	return slices.DeleteFunc(tps, func(tp commitlog.TopicPartition) bool { return ends[tp] == 0 }), err
}

// findWritten says whether the sub-topology has committed something, and puts the store or the topic into e.
func (a *App) findWritten(ctx context.Context, e *ForgottenError, sub *topology.Subtopology, found map[string]commitlog.Topic, noted map[string]bool) (bool, error) {
	of := map[string]string{} // stores by changelog
	var tps []commitlog.TopicPartition
	add := func(topic string) {
		for p := range found[topic].Partitions {
			tps = append(tps, commitlog.TopicPartition{Topic: topic, Partition: int32(p)})
		}
	}
	for _, st := range sub.Stores {
		of[st.Changelog] = st.Name
		add(st.Changelog)
	}
	for _, topic := range a.repartitions(sub) {
		if noted[topic] {
			e.Repartition = topic
			return true, nil
		}
		add(topic)
	}
	tp, ok, err := a.written(ctx, tps)
	if e.Store = of[tp.Topic]; e.Store == "" {
		e.Repartition = tp.Topic
	}
	return ok, err
}

// written returns a partition that has, or has had, a committed record, if there is one among those of internal topics.
func (a *App) written(ctx context.Context, tps []commitlog.TopicPartition) (first commitlog.TopicPartition, ok bool, err error) {
	if len(tps) == 0 {
		return first, false, nil
	}
	ends, err := a.log.EndOffsets(ctx, tps, commitlog.ReadCommitted)
	if err != nil {
		return first, false, err
	}
	starts, err := a.log.StartOffsets(ctx, tps)
	if err != nil {
		return first, false, err
	}
	from := map[commitlog.TopicPartition]int64{}
	for _, tp := range tps {
		if starts[tp] > 0 && a.kindOf(tp.Topic) == topology.RepartitionTopic { // only what was processed is deleted (E12)
			return tp, true, nil
		}
		if starts[tp] < ends[tp] {
			from[tp] = starts[tp]
		}
	}
	if len(from) == 0 {
		return first, false, nil
	}
	left := len(from)
	reader, err := a.log.OpenReader(ctx, commitlog.ReaderConfig{From: from, IDs: a.topicIDs})
	if err != nil {
		return first, false, err
	}
	defer reader.Close()
	var cur commitlog.Cursor
	var rec commitlog.Record
	for left > 0 {
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
			if from[c.TopicPartition] < ends[c.TopicPartition] && c.Next >= ends[c.TopicPartition] {
				left--
			}
			from[c.TopicPartition] = max(from[c.TopicPartition], c.Next)
		}
	}
	return first, false, nil
}
