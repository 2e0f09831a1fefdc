package exec

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/topology"
)

// DeletedError says that a changelog is gone, another one, or empty, that held state when the group committed its offsets: to go
// on from there with what it holds now would give wrong results. Nothing was changed: a store on disk that has the state
// is as it was.
type DeletedError struct {
	Group string
	// Store is what has lost its state, Changelog where it was: Was is the id of the topic that had it, Is that
	// of the one that has the name now, zero if there is none. They are the same if the topic has lost its records of Partition,
	// which is -1 otherwise.
	Store, Changelog string
	Partition        int32
	Was, Is          commitlog.TopicID
	// Inputs are the input partitions whose offsets say so.
	Inputs []commitlog.TopicPartition
	// Bootstrap is the cluster's address for the command in the text; "BROKERS" if empty.
	Bootstrap string
	// Internal says that an input is a repartition topic, which no longer holds what was processed (E12).
	Internal bool
}

// Error says what was found and what can be done about it.
func (e *DeletedError) Error() string {
	gone := fmt.Sprintf("%s was deleted: it held state of store %s when group %s committed its offsets (topic id %s), and %s", e.Changelog, e.Store, e.Group, e.Was, nowIs(e.Is))
	if e.Was == e.Is {
		gone = fmt.Sprintf("%s has lost all records of partition %d: it held state of store %s when group %s committed its offsets", e.Changelog, e.Partition, e.Store, e.Group)
	}
	reset := groupTool(e.Bootstrap, e.Group, e.Inputs) + " --reset-offsets"
	text := fmt.Sprintf("changelog topic %s. To go on without that state, or with a copy that you have filled the topic with, %s and run %s --to-current --execute", gone, stopAll, reset)
	if e.Internal {
		return text + ". The input is purged of what was processed, so that the state cannot be built from it again; " +
			"for that delete the group and all internal topics of the plan, which processes the sources from their beginnings and repeats all outputs"
	}
	return text + fmt.Sprintf("; to build the state again from what the input still has, which repeats its outputs, delete the topic if it exists and run %s --to-earliest --execute", reset)
}

// nowIs says what has a topic's name now.
func nowIs(id commitlog.TopicID) string {
	if id.IsZero() {
		return "there is no topic of that name"
	}
	return fmt.Sprintf("the topic of that name is another one (%s)", id)
}

// checkNotes compares what the offsets of the group's tasks say of the plan's internal topics (see notes.go) with those that were
// found, before any is created.
func (a *App) checkNotes(found map[string]commitlog.Topic, notes map[commitlog.TopicPartition]note) error {
	var problems []error
	for _, spec := range a.plan.Topics() {
		if spec.Kind == topology.RepartitionTopic {
			if err := a.checkRepartition(spec.Name, found[spec.Name].ID, notes); err != nil {
				problems = append(problems, err)
			}
		}
	}
	for _, sub := range a.plan.Subtopologies() {
		for _, st := range sub.Stores {
			if st.Source {
				continue // it is input, and looked at as such
			}
			if err := a.checkChangelog(sub, st, found[st.Changelog].ID, notes); err != nil {
				problems = append(problems, err)
			}
		}
	}
	if len(problems) == 1 {
		return problems[0]
	}
	return errors.Join(problems...)
}

// checkRepartition returns a *TopicsError if offsets have been committed beside another topic of that name.
func (a *App) checkRepartition(name string, is commitlog.TopicID, notes map[commitlog.TopicPartition]note) error {
	var was commitlog.TopicID
	var inputs []commitlog.TopicPartition
	for tp, n := range notes {
		if id := n.repartitions[fingerprint(name)]; !id.IsZero() && id != is {
			was, inputs = id, append(inputs, tp)
		}
	}
	if len(inputs) == 0 {
		return nil
	}
	return &TopicsError{Problems: []string{fmt.Sprintf("repartition topic %s was deleted (topic id %s), and %s: what it held and was not processed is lost. To go on without it, "+
		"and without state whose changelogs were deleted too, %s and run %s --reset-offsets --to-current --execute; or begin anew, by deleting the group and the plan's internal topics (%s), which repeats all outputs",
		name, was, nowIs(is), stopAll, groupTool(a.bootstrap(), a.plan.Name(), inputs), strings.Join(a.internalTopics(), ", "))}}
}

// internalTopics are what is deleted to begin anew: what is left in repartition topics would be processed beside what
// is written to them again.
func (a *App) internalTopics() []string {
	var topics []string
	for _, spec := range a.plan.Topics() {
		if spec.Kind.Internal() {
			topics = append(topics, spec.Name)
		}
	}
	return topics
}

// checkChangelog returns a *DeletedError if offsets have been committed beside another topic that held the store.
func (a *App) checkChangelog(sub *topology.Subtopology, st topology.StoreSpec, is commitlog.TopicID, notes map[commitlog.TopicPartition]note) error {
	var was commitlog.TopicID
	var inputs []commitlog.TopicPartition
	for _, t := range a.tasks {
		if t.sub != sub {
			continue
		}
		var ids []commitlog.TopicID
		var noted []commitlog.TopicPartition
		for _, tp := range t.inputs {
			if n, ok := notes[tp]; ok {
				ids, noted = append(ids, n.stores[st.Name]...), append(noted, tp)
			}
		}
		if len(ids) > 0 && !slices.Contains(ids, is) {
			was, inputs = ids[0], append(inputs, noted...)
		}
	}
	if len(inputs) == 0 {
		return nil
	}
	return a.deleted(sub, st, -1, was, is, inputs)
}

func (a *App) deleted(sub *topology.Subtopology, st topology.StoreSpec, partition int32, was, is commitlog.TopicID, inputs []commitlog.TopicPartition) *DeletedError {
	return &DeletedError{Group: a.plan.Name(), Store: st.Name, Changelog: st.Changelog, Partition: partition, Was: was, Is: is, Inputs: inputs, Bootstrap: a.bootstrap(),
		Internal: slices.ContainsFunc(sub.SourceSpecs(), func(s topology.SourceSpec) bool { return s.Repartition })}
}

// recall refuses to begin with a changelog that has lost its records of the task, or is another one than when the task's offsets
// were committed. It is asked for its end more than once: a leader that is new may not know of anything yet.
func (t *task) recall(view *changelogView) error {
	for _, spec := range t.sub.Stores {
		ids, is := t.was.stores[spec.Name], view.ids[spec.Changelog]
		if len(ids) == 0 || spec.Source {
			continue
		}
		tp := commitlog.TopicPartition{Topic: spec.Changelog, Partition: t.partition}
		partition := int32(-1)
		if slices.Contains(ids, is) || is.IsZero() {
			if err := t.app.confirm(t.starting, view.ends, func(p commitlog.TopicPartition, end int64) bool { return p != tp || end > 0 }); err != nil {
				return err
			}
			if view.ends[tp] > 0 {
				continue
			}
			partition, is = t.partition, ids[0]
		}
		return t.app.deleted(t.sub, spec, partition, ids[0], is, t.app.inputs(t.sub, t.partition))
	}
	return nil
}
