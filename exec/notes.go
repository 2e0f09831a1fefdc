package exec

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/topology"
)

// With the offsets that a task commits goes a note of the changelogs that hold its state at that time, and of the topics
// of which the group has offsets:
//
//	wicker-1 <store>=<topic id> ... @<hash of a topic's name> ...
//
// It is how a changelog that was deleted is told from one that never held anything: without it both are a topic
// that is empty, or has just been created, beside offsets that say how far the input is in the state. And it is how an
// offset that was deleted is told from that of a source that has been added. A tool that sets a group's offsets leaves no
// note, so what it says is believed.
const notePrefix = "wicker-1"

// maxNote bounds a note's bytes to well below what brokers take. Stores and topics that do not fit are left out, and with
// that the check of theirs.
const maxNote = 2000

// note is what was read from the notes of a task's offsets.
type note struct {
	stores map[string][]commitlog.TopicID // by name; there may be several notes
	inputs map[string]bool                // hashes of topics' names
}

// writeNote returns the note of the stores that have something in their changelogs, and of the topics; "" if no
// store has.
func (s *state) writeNote(topics []string) string {
	var b strings.Builder
	add := func(word string) {
		if b.Len()+len(word) <= maxNote {
			b.WriteString(word)
		}
	}
	for _, st := range s.stores {
		if st.logged && st.changelogID != (commitlog.TopicID{}) {
			add(" " + st.spec.Name + "=" + st.changelogID.String())
		}
	}
	if b.Len() == 0 {
		return ""
	}
	for _, topic := range topics {
		add(" @" + fingerprint(topic))
	}
	return notePrefix + b.String()
}

// read adds what a note says, nothing if it is of another kind.
func (n *note) read(text string) {
	words := strings.Fields(text)
	if len(words) == 0 || words[0] != notePrefix {
		return
	}
	for _, word := range words[1:] {
		if hash, ok := strings.CutPrefix(word, "@"); ok {
			n.inputs[hash] = true
			continue
		}
		name, text, _ := strings.Cut(word, "=")
		var id commitlog.TopicID
		if raw, err := base64.RawURLEncoding.DecodeString(text); err == nil && len(raw) == len(id) {
			copy(id[:], raw)
			n.stores[name] = append(n.stores[name], id)
		}
	}
}

// noted is an identity whose commits carry a note.
type noted struct {
	commitlog.Identity
	note string
}

// Current implements commitlog.Identity.
func (n noted) Current(ctx context.Context, after int32) (commitlog.GroupMetadata, error) {
	m, err := n.Identity.Current(ctx, after)
	m.Note = n.note
	return m, err
}

// commitAs returns as whom the transaction that was just sealed commits. With a note that says more than the one before all
// offsets are committed again: each is to have it.
func (t *task) commitAs(offsets map[commitlog.TopicPartition]int64) commitlog.Identity {
	logged, stale := false, t.note == ""
	for _, st := range t.state.stores {
		if !st.logged && len(st.inflight) > 0 {
			st.logged, stale = true, true
		}
		logged = logged || st.logged
	}
	for _, s := range t.in.sources {
		if _, ok := offsets[s.tp]; ok && !s.known {
			s.known, stale = true, true
		}
	}
	if stale && logged {
		var topics []string
		for _, s := range t.in.sources {
			if s.known {
				topics = append(topics, s.tp.Topic)
			}
		}
		t.note = t.state.writeNote(topics)
		for _, s := range t.in.sources {
			if s.known && t.note != "" {
				offsets[s.tp] = s.committed
			}
		}
	}
	if t.note == "" {
		return t.identity
	}
	return noted{t.identity, t.note}
}

// readNotes returns what the notes of the task's offsets say.
func (t *task) readNotes() (note, error) {
	n := note{stores: map[string][]commitlog.TopicID{}, inputs: map[string]bool{}}
	notes, err := t.app.log.CommittedNotes(t.starting, t.app.plan.Name(), t.app.inputs(t.sub, t.partition))
	for _, text := range slices.Sorted(maps.Values(notes)) {
		n.read(text)
	}
	return n, err
}

// recall refuses to begin with empty state where the group's offsets say that there was some: its changelog was
// deleted, or has lost all its records. A store on disk that has it is left as it is.
func (t *task) recall(view *changelogView) error {
	var empty []topology.StoreSpec
	for _, spec := range t.sub.Stores {
		if view.ends[commitlog.TopicPartition{Topic: spec.Changelog, Partition: t.partition}] == 0 {
			empty = append(empty, spec)
		}
	}
	if len(empty) == 0 || !t.in.known() {
		return nil
	}
	was, err := t.readNotes()
	if err != nil {
		return err
	}
	for _, spec := range empty {
		if ids := was.stores[spec.Name]; len(ids) > 0 {
			return &DeletedError{Group: t.app.plan.Name(), Task: t.id, Store: spec.Name, Changelog: spec.Changelog, Partition: t.partition,
				Was: ids[0], Is: view.ids[spec.Changelog], Inputs: t.app.inputs(t.sub, t.partition),
				Bootstrap: t.app.bootstrap(), Internal: slices.ContainsFunc(t.in.sources, func(s *source) bool { return s.spec.Repartition })}
		}
	}
	return nil
}

// DeletedError says that a changelog is gone, or empty, that held state when the group committed its offsets: to go on from there
// with nothing would give wrong results.
type DeletedError struct {
	Group, Task string
	// Store is what has lost its state, Changelog and Partition where it was: Was is the id of the topic that had it, Is that
	// of the one that has the name now. They are the same if the topic has lost its records.
	Store, Changelog string
	Partition        int32
	Was, Is          commitlog.TopicID
	// Inputs are the task's input partitions.
	Inputs []commitlog.TopicPartition
	// Bootstrap is the cluster's address for the command in the text; "BROKERS" if empty.
	Bootstrap string
	// Internal says that an input is a repartition topic, which no longer holds what was processed (E12).
	Internal bool
}

// Error says what was found and what can be done about it.
func (e *DeletedError) Error() string {
	again := "--to-earliest --execute to build the state from the input again, --to-current to go on without it"
	if e.Internal {
		again = "--to-current --execute to go on without it. The input is purged of what was processed, so that the state cannot be built from it again; " +
			"for that delete the group and all internal topics of the plan, which processes the sources from their beginnings"
	}
	gone := fmt.Sprintf("topic %s was deleted: it held state of store %s when group %s committed its offsets (topic id %s), and the topic of that name is empty (%s)",
		e.Changelog, e.Store, e.Group, e.Was, e.Is)
	if e.Was == e.Is {
		gone = fmt.Sprintf("topic %s has lost all records of partition %d: it held state of store %s when group %s committed its offsets", e.Changelog, e.Partition, e.Store, e.Group)
	}
	return fmt.Sprintf("task %s: changelog %s. Fill it with a copy; or stop all instances and run %s --reset-offsets %s",
		e.Task, gone, groupTool(e.Bootstrap, e.Group, e.Inputs), again)
}
