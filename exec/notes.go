package exec

import (
	"context"
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/topology"
)

// A topic's name says nothing of what it holds: it may have been deleted and created again. So with the offsets that a task
// commits goes a note of the topics that they, and its state, are of:
//
//	wicker-2 @<topic>=<id> ... !<topic>=<id> ... &<topic>=<id> ... <store>=<id> ...
//
//	@  topics of the task's input of which the group has an offset. An offset of another topic of that name is lost
//	   (E7); one that was deleted is told from that of a source that has been added.
//	!  repartition topics of the task's input of which it has processed a record.
//	&  the plan's repartition topics. One that was deleted took its records that were not processed with it, and the
//	   group's offsets of it.
//	   the changelogs that hold state of the task, or held it before an operator was moved to another sub-topology. One
//	   that was deleted is told from one that never held anything.
//
// Topics are given by a hash of their names. A task that starts with offsets whose notes are missing, or say something
// else, commits them again at once. A tool that sets a group's offsets leaves no note, so what it says is believed.
const notePrefix = "wicker-2"

// maxNote bounds a note's bytes to well below what brokers take (4096 by default). What does not fit is left out, and with
// that the check of it.
const maxNote = 3000

// note is what was read from notes: topics' ids by hash, and ids by store. There may be several notes.
type note struct {
	inputs, processed, repartitions map[string]commitlog.TopicID
	stores                          map[string][]commitlog.TopicID
}

// newNote returns what notes say, all of them.
func newNote(texts ...string) note {
	n := note{map[string]commitlog.TopicID{}, map[string]commitlog.TopicID{}, map[string]commitlog.TopicID{}, map[string][]commitlog.TopicID{}}
	for _, text := range texts {
		n.read(text)
	}
	return n
}

// read adds what a note says, nothing if it is of another kind.
func (n *note) read(text string) {
	words := strings.Fields(text)
	if len(words) == 0 || words[0] != notePrefix {
		return
	}
	for _, word := range words[1:] {
		name, text, _ := strings.Cut(word, "=")
		var id commitlog.TopicID
		if raw, err := base64.RawURLEncoding.DecodeString(text); err == nil && len(raw) == len(id) {
			copy(id[:], raw)
		}
		hash := name[min(1, len(name)):]
		switch {
		case strings.HasPrefix(name, "@"):
			n.inputs[hash] = id
		case strings.HasPrefix(name, "!"):
			n.processed[hash] = id
		case strings.HasPrefix(name, "&"):
			n.repartitions[hash] = id
		case !id.IsZero():
			n.stores[name] = append(n.stores[name], id)
		}
	}
}

// hasProcessed says whether a record of a repartition topic was processed.
func (n note) hasProcessed(topic string, is commitlog.TopicID) bool {
	was, ok := n.processed[fingerprint(topic)]
	return ok && !was.Differs(is)
}

// writeNote returns the task's note as it is now; "" if there is nothing to note.
func (t *task) writeNote() string {
	var b strings.Builder
	add := func(word string, id commitlog.TopicID) {
		word = " " + word + "="
		if !id.IsZero() {
			word += id.String()
		}
		if b.Len()+len(word) <= maxNote {
			b.WriteString(word)
		}
	}
	mine := map[string]bool{}
	for _, s := range t.in.sources {
		if mine[fingerprint(s.tp.Topic)] = true; s.known {
			add("@"+fingerprint(s.tp.Topic), t.app.topicIDs[s.tp.Topic])
		}
		if s.processed {
			add("!"+fingerprint(s.tp.Topic), t.app.topicIDs[s.tp.Topic])
		}
	}
	own := map[string]bool{}
	for _, st := range t.state.stores {
		if own[st.spec.Name] = true; st.logged && !st.changelogID.IsZero() {
			add(st.spec.Name, st.changelogID)
		}
	}
	for _, spec := range t.app.plan.Topics() {
		if id := t.app.topicIDs[spec.Name]; spec.Kind == topology.RepartitionTopic && !id.IsZero() {
			add("&"+fingerprint(spec.Name), id)
		}
	}
	for _, hash := range slices.Sorted(maps.Keys(t.was.inputs)) { // sources that were taken out, and may come back
		if !mine[hash] {
			add("@"+hash, t.was.inputs[hash])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.was.stores)) { // state that is another sub-topology's now
		if !own[name] && slices.ContainsFunc(t.app.plan.Stores(), func(s topology.StoreSpec) bool { return s.Name == name }) {
			add(name, t.was.stores[name][0])
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return notePrefix + b.String()
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

// commitAs returns as whom the transaction that was just sealed commits. With a note that is not the one before all
// offsets are committed again: each is to have it.
func (t *task) commitAs(offsets map[commitlog.TopicPartition]int64) commitlog.Identity {
	stale := t.renote
	for _, st := range t.state.stores {
		if !st.logged && len(st.inflight) > 0 && !st.spec.Source {
			st.logged, stale = true, true
		}
	}
	for _, s := range t.in.sources {
		if _, ok := offsets[s.tp]; ok && !s.known {
			s.known, stale = true, true
		}
		if s.spec.Repartition && s.taken > 0 && !s.processed {
			s.processed, stale = true, true
		}
	}
	if t.renote = false; stale {
		t.note = t.writeNote()
		for _, s := range t.in.sources {
			if s.known {
				offsets[s.tp] = s.committed
			}
		}
	}
	if t.note == "" {
		return t.identity
	}
	return noted{t.identity, t.note}
}

// groupNotes reads the notes of all the offsets that the group has of the plan's tasks, open transactions excepted.
func (a *App) groupNotes(ctx context.Context) (map[commitlog.TopicPartition]note, error) {
	var tps []commitlog.TopicPartition
	for _, t := range a.tasks {
		tps = append(tps, t.inputs...)
	}
	texts, err := a.log.CommittedNotes(ctx, a.plan.Name(), tps)
	if err != nil {
		return nil, err
	}
	notes := make(map[commitlog.TopicPartition]note, len(texts))
	for tp, text := range texts {
		notes[tp] = newNote(text)
	}
	return notes, nil
}

// readNotes reads the notes of the task's offsets, which were stable when they were read: t.was is what all of them say. It
// returns them.
func (t *task) readNotes(tps []commitlog.TopicPartition) (map[commitlog.TopicPartition]string, error) {
	notes, err := t.app.log.CommittedNotes(t.starting, t.app.plan.Name(), tps)
	t.was = newNote(slices.Sorted(maps.Values(notes))...)
	return notes, err
}

// checkNote has the task commit again, at once, if an offset has another note than it would get now.
func (t *task) checkNote() {
	t.note = t.writeNote()
	for _, s := range t.in.sources {
		t.renote = t.renote || s.known && s.note != t.note
	}
}
