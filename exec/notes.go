package exec

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// With the offsets that a task commits goes a note of the changelogs that hold its state at that time:
//
//	wicker-1 <store>=<topic id> <store>=<topic id> ...
//
// It is how a changelog that was deleted is told from one that never held anything: without it both are a topic
// that is empty, or has just been created, beside offsets that say how far the input is in the state. A tool that sets
// a group's offsets leaves no note, so what it says is believed.
const notePrefix = "wicker-1"

// maxNote bounds a note's bytes to well below what brokers take. Stores that do not fit are left out, and with that
// the check of theirs.
const maxNote = 2000

// writeNote returns the note of the stores that have something in their changelogs; "" if none has.
func (s *state) writeNote() string {
	var b strings.Builder
	for _, st := range s.stores {
		word := " " + st.spec.Name + "=" + st.changelogID.String()
		if !st.logged || st.changelogID == (commitlog.TopicID{}) || b.Len()+len(word) > maxNote {
			continue
		}
		if b.Len() == 0 {
			b.WriteString(notePrefix)
		}
		b.WriteString(word)
	}
	return b.String()
}

// readNote returns the topic ids in a note by store, nil if it is of another kind.
func readNote(note string) map[string]commitlog.TopicID {
	words := strings.Fields(note)
	if len(words) == 0 || words[0] != notePrefix {
		return nil
	}
	ids := map[string]commitlog.TopicID{}
	for _, word := range words[1:] {
		name, text, _ := strings.Cut(word, "=")
		var id commitlog.TopicID
		if raw, err := base64.RawURLEncoding.DecodeString(text); err == nil && len(raw) == len(id) {
			copy(id[:], raw)
			ids[name] = id
		}
	}
	return ids
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

// commitAs returns as whom the transaction that was just sealed commits.
func (t *task) commitAs() commitlog.Identity {
	for _, st := range t.state.stores {
		if !st.logged && len(st.inflight) > 0 {
			st.logged, t.note = true, ""
		}
		if st.logged && t.note == "" {
			t.note = t.state.writeNote()
		}
	}
	if t.note == "" {
		return t.identity
	}
	return noted{t.identity, t.note}
}

// recall refuses to begin with empty state where the group's offsets say that there was some: its changelog was
// deleted. A store on disk that has it is left as it is.
func (t *task) recall(view *changelogView) error {
	var empty []int
	for i, spec := range t.sub.Stores {
		if view.ends[commitlog.TopicPartition{Topic: spec.Changelog, Partition: t.partition}] == 0 {
			empty = append(empty, i)
		}
	}
	if len(empty) == 0 || t.forgotten {
		return nil
	}
	inputs := t.app.inputs(t.sub, t.partition)
	notes, err := t.app.log.CommittedNotes(t.starting, t.app.plan.Name(), inputs)
	if err != nil {
		return err
	}
	for _, note := range slices.Sorted(maps.Values(notes)) {
		was := readNote(note)
		for _, i := range empty {
			spec := t.sub.Stores[i]
			id, noted := was[spec.Name]
			if is := view.ids[spec.Changelog]; noted && is != id && is != (commitlog.TopicID{}) {
				return &DeletedError{Group: t.app.plan.Name(), Task: t.id, Store: spec.Name, Changelog: spec.Changelog,
					Was: id, Is: is, Inputs: inputs, Bootstrap: t.app.bootstrap()}
			}
		}
	}
	return nil
}

// DeletedError says that a changelog is gone that held state when the group committed its offsets: to go on from there
// with nothing would give wrong results.
type DeletedError struct {
	Group, Task string
	// Store is what has lost its state, Changelog its topic: Was is the id of the one that had it, Is that
	// of the empty one that has the name now.
	Store, Changelog string
	Was, Is          commitlog.TopicID
	// Inputs are the task's input partitions.
	Inputs []commitlog.TopicPartition
	// Bootstrap is the cluster's address for the command in the text; "BROKERS" if empty.
	Bootstrap string
}

// Error says what was found and what can be done about it.
func (e *DeletedError) Error() string {
	inputs := make([]string, len(e.Inputs))
	for i, tp := range e.Inputs {
		inputs[i] = fmt.Sprintf("--topic %s:%d", tp.Topic, tp.Partition)
	}
	bootstrap := e.Bootstrap
	if bootstrap == "" {
		bootstrap = "BROKERS"
	}
	return fmt.Sprintf("task %s: changelog topic %s was deleted: it held state of store %s when group %s committed its offsets (topic id %s), and the topic of that name is empty (%s). "+
		"Fill it with a copy; or stop all instances and run kafka-consumer-groups.sh --bootstrap-server %s --group %s %s --reset-offsets --to-earliest --execute "+
		"to build the state from the input again, --to-current to go on without it",
		e.Task, e.Changelog, e.Store, e.Group, e.Was, e.Is, bootstrap, e.Group, strings.Join(inputs, " "))
}
