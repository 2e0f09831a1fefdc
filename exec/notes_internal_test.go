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

// What a note says about a changelog that is empty: the same topic, another one, one that never held anything.
func TestNotesOfEmptyChangelogs(t *testing.T) {
	was, other := commitlog.TopicID{1}, commitlog.TopicID{2}
	s := &state{stores: []*store{{spec: topology.StoreSpec{Name: "n"}, changelogID: was, logged: true}, {spec: topology.StoreSpec{Name: "m"}, changelogID: other}}}
	note := s.writeNote([]string{"in", "more"})
	g := idleGroup(t, 1)
	sub := *g.slots[0].spec.sub
	sub.Stores = []topology.StoreSpec{{Name: "m", Changelog: "app-m-changelog"}, {Name: "n", Changelog: "app-n-changelog"}}
	recall := func(note string, is commitlog.TopicID, end int64) error {
		g.app.log = notedLog{g.app.log, note}
		task := newTask(g.app, &sub, 0, nil)
		task.in.sources = []*source{{tp: commitlog.TopicPartition{Topic: "in"}, known: true}}
		return task.recall(&changelogView{ids: map[string]commitlog.TopicID{"app-n-changelog": is},
			ends: map[commitlog.TopicPartition]int64{{Topic: "app-n-changelog"}: end}})
	}
	require.NoError(t, recall(note, was, 1))
	require.NoError(t, recall("", was, 0))
	require.NoError(t, recall("another tool's "+note, was, 0))
	require.ErrorContains(t, recall(note, was, 0), "task app-in-0: changelog topic app-n-changelog has lost all records of partition 0: it held state of store n when")
	require.ErrorContains(t, recall(note, other, 0), "task app-in-0: changelog topic app-n-changelog was deleted: it held state of store n when")
}

// A note stays within its bound, whatever there are of stores and topics.
func TestNotesAreBounded(t *testing.T) {
	s := &state{}
	var topics []string
	for n := range 300 {
		s.stores = append(s.stores, &store{spec: topology.StoreSpec{Name: strings.Repeat("n", n)}, changelogID: commitlog.TopicID{1}, logged: true})
		topics = append(topics, fmt.Sprint(n))
	}
	require.Less(t, len(s.writeNote(topics)), maxNote+len(notePrefix)+1)
	require.Empty(t, (&state{}).writeNote(topics))
}
