package logtest

import (
	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Read-only.
var offsetCases = []testCase{
	{"WithTheTransaction", withTheTransaction},
	{"WithoutRecords", withoutRecords},
	{"AbsentWithoutCommit", absentWithoutCommit},
	{"StaleGeneration", staleGeneration},
	{"MemberThatLeft", memberThatLeft},
	{"FencedProducer", fencedProducer},
	{"Notes", notes},
}

func (e *env) committed(group string, tps ...commitlog.TopicPartition) map[commitlog.TopicPartition]int64 {
	e.Helper()
	out, err := e.Log.CommittedOffsets(e.ctx, group, tps)
	require.NoError(e, err)
	return out
}

// L5: offsets are there as soon as Commit has returned, and move with the next transaction.
func withTheTransaction(e *env) {
	topic := e.topic(2)
	tps := partitions(topic, 2)
	out := e.one()
	g := e.member(e.Log, e.name("group"), "", topic)
	a := g.mustJoin(nil, nil)
	p := e.producer(e.name("p"))
	e.produce(p, out, "one")
	ends, err := p.Commit(e.ctx, map[commitlog.TopicPartition]int64{tps[0]: 7, tps[1]: 0}, a.GroupMetadata)
	require.NoError(e, err)
	require.Equal(e, map[commitlog.TopicPartition]int64{out: 1}, ends)
	require.Equal(e, map[commitlog.TopicPartition]int64{tps[0]: 7, tps[1]: 0}, e.committed(a.Group, tps...))
	e.produce(p, out, "aborted")
	e.abort(p)
	require.Equal(e, map[commitlog.TopicPartition]int64{tps[0]: 7, tps[1]: 0}, e.committed(a.Group, tps...))
	e.produce(p, out, "two")
	_, err = p.Commit(e.ctx, map[commitlog.TopicPartition]int64{tps[1]: 5}, a.GroupMetadata)
	require.NoError(e, err)
	require.Equal(e, map[commitlog.TopicPartition]int64{tps[0]: 7, tps[1]: 5}, e.committed(a.Group, tps...))
	require.Equal(e, []string{"one", "two"}, e.all(out).values(out))
}

// A note is kept with each offset that is committed under it, and goes with the next one that has none.
func notes(e *env) {
	topic := e.topic(3)
	tps := partitions(topic, 3)
	a := e.member(e.Log, e.name("group"), "", topic).mustJoin(nil, nil)
	p := e.producer(e.name("p"))
	commit := func(note string, tps ...commitlog.TopicPartition) {
		offsets := map[commitlog.TopicPartition]int64{}
		for _, tp := range tps {
			offsets[tp] = 1
		}
		as := a.GroupMetadata
		as.Note = note
		_, err := p.Commit(e.ctx, offsets, as)
		require.NoError(e, err)
	}
	get := func() map[commitlog.TopicPartition]string {
		e.committed(a.Group, tps...) // waits until what was committed is there
		got, err := e.Log.CommittedNotes(e.ctx, a.Group, tps)
		require.NoError(e, err)
		return got
	}
	require.Empty(e, get())
	commit("first note", tps[0], tps[1])
	require.Equal(e, map[commitlog.TopicPartition]string{tps[0]: "first note", tps[1]: "first note"}, get())
	commit("second", tps[1], tps[2])
	commit("", tps[0])
	require.Equal(e, map[commitlog.TopicPartition]string{tps[1]: "second", tps[2]: "second"}, get())
	require.Equal(e, map[commitlog.TopicPartition]int64{tps[0]: 1, tps[1]: 1, tps[2]: 1}, e.committed(a.Group, tps...))
	nobody, err := e.Log.CommittedNotes(e.ctx, e.name("never"), tps)
	require.NoError(e, err)
	require.Empty(e, nobody)
}

// A transaction of offsets alone commits.
func withoutRecords(e *env) {
	tp := e.one()
	a := e.member(e.Log, e.name("group"), "", tp.Topic).mustJoin(nil, nil)
	p := e.producer(e.name("p"))
	for offset := range int64(3) {
		ends, err := p.Commit(e.ctx, map[commitlog.TopicPartition]int64{tp: offset}, a.GroupMetadata)
		require.NoError(e, err)
		require.Empty(e, ends)
		require.Equal(e, offset, e.committed(a.Group, tp)[tp])
	}
	require.Zero(e, e.settled(tp)[tp])
}

// Partitions without an offset, and groups that never were, are absent from the result.
func absentWithoutCommit(e *env) {
	topic := e.topic(2)
	tps := partitions(topic, 2)
	require.Empty(e, e.committed(e.name("never"), tps...))
	a := e.member(e.Log, e.name("group"), "", topic).mustJoin(nil, nil)
	require.Empty(e, e.committed(a.Group, tps...))
	_, err := e.producer(e.name("p")).Commit(e.ctx, map[commitlog.TopicPartition]int64{tps[1]: 3}, a.GroupMetadata)
	require.NoError(e, err)
	require.Equal(e, map[commitlog.TopicPartition]int64{tps[1]: 3}, e.committed(a.Group, tps...))
}

// refused requires that a commit under a membership is refused as fenced, with nothing visible.
func (e *env) refused(group commitlog.GroupMetadata, in commitlog.TopicPartition) {
	e.Helper()
	out := e.one()
	id := e.name("p")
	before := e.committed(group.Group, in)
	p := e.producer(id)
	e.produce(p, out, "never")
	_, err := p.Commit(e.ctx, map[commitlog.TopicPartition]int64{in: 99}, group)
	e.requireClass(commitlog.Fenced, err)
	require.NoError(e, p.Close())
	e.producer(id)
	require.Empty(e, e.all(out).values(out))
	require.Equal(e, before, e.committed(group.Group, in))
}

// L5: a member of an earlier generation commits nothing (KIP-447).
func staleGeneration(e *env) {
	topic := e.topic(2)
	in := partitions(topic, 2)[0]
	group := e.name("group")
	a, b := e.member(e.Log, group, "", topic), e.member(e.Log, group, "", topic)
	old := a.mustJoin(nil, nil)
	p := e.producer(e.name("p"))
	_, err := p.Commit(e.ctx, map[commitlog.TopicPartition]int64{in: 1}, old.GroupMetadata)
	require.NoError(e, err)
	now, _ := joinBoth(a, b)
	e.refused(old.GroupMetadata, in)
	_, err = p.Commit(e.ctx, map[commitlog.TopicPartition]int64{in: 2}, now.GroupMetadata)
	require.NoError(e, err)
	require.Equal(e, int64(2), e.committed(group, in)[in])
}

// L5: nor does one that is no longer in the group.
func memberThatLeft(e *env) {
	topic := e.topic(2)
	group := e.name("group")
	a, b := e.member(e.Log, group, "", topic), e.member(e.Log, group, "", topic)
	a.mustJoin(nil, nil)
	_, left := joinBoth(a, b)
	require.NoError(e, b.Close(e.ctx, true))
	a.awaitRebalance()
	a.mustJoin(nil, nil)
	e.refused(left.GroupMetadata, partitions(topic, 2)[0])
}

// L3, L5: nor does a fenced producer, whatever its membership.
func fencedProducer(e *env) {
	tp, out := e.one(), e.one()
	a := e.member(e.Log, e.name("group"), "", tp.Topic).mustJoin(nil, nil)
	id := e.name("p")
	old := e.producer(id)
	e.produce(old, out, "never")
	e.producer(id)
	_, err := old.Commit(e.ctx, map[commitlog.TopicPartition]int64{tp: 5}, a.GroupMetadata)
	e.requireClass(commitlog.Fenced, err)
	require.Empty(e, e.committed(a.Group, tp))
	require.Empty(e, e.all(out).values(out))
}
