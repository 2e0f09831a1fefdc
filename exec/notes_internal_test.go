package exec

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/topology"
)

// notedLog is a log whose group's offsets have a note.
type notedLog struct {
	commitlog.Log
	note string
}

func (l notedLog) CommittedNotes(context.Context, string, []commitlog.TopicPartition) (map[commitlog.TopicPartition]string, error) {
	return map[commitlog.TopicPartition]string{{Topic: "in"}: l.note}, nil
}

// EndOffsets has nothing to add to what is known.
func (l notedLog) EndOffsets(context.Context, []commitlog.TopicPartition, commitlog.Isolation) (map[commitlog.TopicPartition]int64, error) {
	return nil, nil
}

// What a note says about a changelog: the same topic, one that is empty by now, another one, one that never held anything.
func TestNotesOfChangelogs(t *testing.T) {
	was, other := commitlog.TopicID{1}, commitlog.TopicID{2}
	g := idleGroup(t, 1)
	g.app.cfg.Clock = systemClock{}
	sub := *g.slots[0].spec.sub
	sub.Stores = []topology.StoreSpec{{Name: "m", Changelog: "app-m-changelog"}, {Name: "n", Changelog: "app-n-changelog"}}
	written := newTask(g.app, &sub, 0, nil)
	written.state = &state{stores: []*store{{spec: sub.Stores[1], changelogID: was, logged: true}, {spec: sub.Stores[0], changelogID: other}}}
	note := written.writeNote()
	recall := func(note string, is commitlog.TopicID, end int64) error {
		g.app.log = notedLog{g.app.log, note}
		task := newTask(g.app, &sub, 0, nil)
		notes, err := task.readNotes(task.app.inputs(&sub, 0))
		require.NoError(t, err)
		require.Len(t, notes, 1)
		return task.recall(&changelogView{ids: map[string]commitlog.TopicID{"app-n-changelog": is},
			ends: map[commitlog.TopicPartition]int64{{Topic: "app-n-changelog"}: end}})
	}
	require.NoError(t, recall(note, was, 1))
	require.NoError(t, recall("", was, 0))
	require.NoError(t, recall("another tool's "+note, was, 0))
	require.ErrorContains(t, recall(note, was, 0), "changelog topic app-n-changelog has lost all records of partition 0: it held state of store n when")
	require.ErrorContains(t, recall(note, other, 0), "changelog topic app-n-changelog was deleted: it held state of store n when")
	require.ErrorContains(t, recall(note, other, 5), "changelog topic app-n-changelog was deleted: it held state of store n when", "whatever is in the other one")
}

// What is written is read: inputs with offsets and those that were taken out, stores with state; a topic without an id too.
func TestNotesSayWhatWasWritten(t *testing.T) {
	g := idleGroup(t, 1)
	g.app.topicIDs = map[string]commitlog.TopicID{"in": {1}, "read": {7}}
	w := newTask(g.app, g.slots[0].spec.sub, 0, nil)
	w.was = newNote()
	w.was.read(notePrefix + " @" + fingerprint("gone") + "= @" + fingerprint("in") + "=" + commitlog.TopicID{9}.String())
	for topic, known := range map[string]bool{"in": true, "never": false, "without": true} {
		w.in.sources = append(w.in.sources, &source{tp: commitlog.TopicPartition{Topic: topic}, known: known})
	}
	w.in.sources = append(w.in.sources, &source{tp: commitlog.TopicPartition{Topic: "read"}, processed: true})
	w.state = &state{stores: []*store{{spec: topology.StoreSpec{Name: "n"}, changelogID: commitlog.TopicID{2}, logged: true},
		{spec: topology.StoreSpec{Name: "empty"}, changelogID: commitlog.TopicID{3}}}}
	n := newNote()
	n.read(w.writeNote())
	require.Equal(t, note{inputs: map[string]commitlog.TopicID{fingerprint("in"): {1}, fingerprint("without"): {}, fingerprint("gone"): {}},
		processed: map[string]commitlog.TopicID{fingerprint("read"): {7}}, repartitions: map[string]commitlog.TopicID{}, stores: map[string][]commitlog.TopicID{"n": {{2}}}}, n)
	require.Empty(t, (&task{app: g.app, state: &state{}}).writeNote())
	for _, text := range []string{"", " ", "wicker-1 @a=", notePrefix, notePrefix + " = @ & a =b @=", notePrefix + " \xff=\x00"} {
		n.read(text) // whatever it is
	}
	require.Equal(t, map[string][]commitlog.TopicID{"n": {{2}}}, n.stores)
}

// A note stays within its bound, whatever there are of stores and topics.
func TestNotesAreBounded(t *testing.T) {
	g := idleGroup(t, 1)
	w := &task{app: g.app, state: &state{}}
	g.app.topicIDs = map[string]commitlog.TopicID{}
	for n := range 300 {
		w.state.stores = append(w.state.stores, &store{spec: topology.StoreSpec{Name: strings.Repeat("n", n)}, changelogID: commitlog.TopicID{1}, logged: true})
		w.in.sources = append(w.in.sources, &source{tp: commitlog.TopicPartition{Topic: fmt.Sprint(n)}, known: true})
		g.app.topicIDs[fmt.Sprint(n)] = commitlog.TopicID{1}
	}
	require.Less(t, len(w.writeNote()), maxNote+len(notePrefix)+1)
	require.Greater(t, len(w.writeNote()), maxNote-50)
}
