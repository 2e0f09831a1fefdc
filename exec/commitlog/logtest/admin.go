package logtest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Read-only.
var adminCases = []testCase{
	{"TopicIDs", topicIDs},
	{"DeleteBelow", deleteBelow},
	{"DeleteOutOfRange", deleteOutOfRange},
	{"NoOpenTransaction", noOpenTransaction},
	{"OpenTransactionsNamed", openTransactionsNamed},
}

// A topic has an id of its own, which stays; one that is deleted and created again has another.
func topicIDs(e *env) {
	a, b := e.topic(2), e.topic(1)
	id := func(name string) commitlog.TopicID {
		topics, err := e.Log.Topics(e.ctx, name)
		require.NoError(e, err)
		return topics[name].ID
	}
	ida, idb := id(a), id(b)
	require.NotZero(e, ida)
	require.NotZero(e, idb)
	require.NotEqual(e, ida, idb)
	require.Equal(e, ida, id(a))
	require.Len(e, ida.String(), 22)
	e.deleteTopic(a)
	require.NoError(e, e.Log.CreateTopics(e.ctx, []commitlog.TopicSpec{{Name: a, Partitions: 2, Replication: -1}}))
	require.NotEqual(e, ida, id(a))
	require.Equal(e, idb, id(b))
}

// E12: records below an offset go, in all partitions that are named and no others; what was there to read after them
// still is, and asking again is harmless.
func deleteBelow(e *env) {
	topic, other := e.topic(3), e.one()
	tps := append(partitions(topic, 3), other)
	for _, tp := range tps {
		e.append(tp, numbers("v", 10)...)
	}
	start := func() map[commitlog.TopicPartition]int64 {
		out, err := e.Log.StartOffsets(e.ctx, tps)
		require.NoError(e, err)
		return out
	}
	for range 2 {
		require.NoError(e, e.Log.DeleteRecords(e.ctx, map[commitlog.TopicPartition]int64{tps[0]: 4, tps[1]: 10, other: 7}))
		require.Equal(e, map[commitlog.TopicPartition]int64{tps[0]: 4, tps[1]: 10, tps[2]: 0, other: 7}, start())
	}
	// Nothing is deleted by offsets that are passed already, nor by those that stand for none.
	require.NoError(e, e.Log.DeleteRecords(e.ctx, map[commitlog.TopicPartition]int64{tps[0]: 2, tps[2]: 0, other: -1}))
	require.NoError(e, e.Log.DeleteRecords(e.ctx, nil))
	require.Equal(e, map[commitlog.TopicPartition]int64{tps[0]: 4, tps[1]: 10, tps[2]: 0, other: 7}, start())
	s := e.streamWith(commitlog.ReaderConfig{From: start()}).until(e.settled(tps...))
	require.Equal(e, numbers("v", 10)[4:], s.values(tps[0]))
	require.Empty(e, s.values(tps[1]))
	require.Equal(e, numbers("v", 10), s.values(tps[2]))
	require.Equal(e, numbers("v", 10)[7:], s.values(other))
	// The emptied log goes on where it was (E5).
	require.Equal(e, int64(10), e.append(tps[1], "next"))
	require.Equal(e, []string{"next"}, e.streamWith(commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tps[1]: 10}}).
		until(map[commitlog.TopicPartition]int64{tps[1]: 11}).values(tps[1]))
}

// An offset beyond the end is an error that tells the range.
func deleteOutOfRange(e *env) {
	tp := e.one()
	e.append(tp, numbers("v", 3)...)
	err := e.Log.DeleteRecords(e.ctx, map[commitlog.TopicPartition]int64{tp: 8})
	e.requireClass(commitlog.Fatal, err)
	require.ErrorContains(e, err, tp.Topic)
	e.requireRange(err, commitlog.RangeError{Offset: 8, Start: 0, End: 3})
}

// Where nothing is open, nothing is told.
func noOpenTransaction(e *env) {
	topic := e.topic(2)
	tps := partitions(topic, 2)
	open, err := e.Log.OpenTransactions(e.ctx, tps)
	require.NoError(e, err)
	require.Empty(e, open)
	p := e.producer(e.name("p"))
	e.produce(p, tps[0], "a")
	e.commit(p)
	e.produce(p, tps[1], "b")
	e.written(tps[1], 1)
	e.abort(p)
	e.append(tps[0], "c")
	e.settled(tps...)
	open, err = e.Log.OpenTransactions(e.ctx, tps)
	require.NoError(e, err)
	require.Empty(e, open)
	open, err = e.Log.OpenTransactions(e.ctx, nil)
	require.NoError(e, err)
	require.Empty(e, open)
}

// What holds the last stable offset back is told, by name, with where it began (KIP-664).
func openTransactionsNamed(e *env) {
	topic := e.topic(3)
	tps := partitions(topic, 3)
	ids := []string{e.name("p"), e.name("q")}
	p, q := e.producer(ids[0]), e.producer(ids[1])
	e.append(tps[0], numbers("v", 5)...)
	before := time.Now().Add(-time.Hour)
	e.produce(p, tps[0], "p")
	e.produce(p, tps[1], "p")
	e.written(tps[0], 6)
	e.written(tps[1], 1)
	e.produce(q, tps[0], "q", "q")
	e.written(tps[0], 8)
	ask := func() []commitlog.OpenTransaction {
		open, err := e.Log.OpenTransactions(e.ctx, tps)
		require.NoError(e, err)
		return open
	}
	open := ask()
	type known struct {
		tp    commitlog.TopicPartition
		id    string
		start int64
	}
	var got []known
	producers := map[string]int64{}
	for _, o := range open {
		got = append(got, known{o.TopicPartition, o.TransactionalID, o.Start})
		if id, ok := producers[o.TransactionalID]; ok {
			require.Equal(e, id, o.ProducerID)
		}
		producers[o.TransactionalID] = o.ProducerID
		require.GreaterOrEqual(e, o.ProducerID, int64(0))
		require.True(e, o.Since.After(before), "written %v", o.Since)
	}
	require.ElementsMatch(e, []known{{tps[0], ids[0], 5}, {tps[1], ids[0], 0}, {tps[0], ids[1], 6}}, got)
	require.NotEqual(e, producers[ids[0]], producers[ids[1]])
	e.commit(p)
	e.eventually("one of them to be over", func() bool { return len(ask()) == 1 })
	require.True(e, slices.ContainsFunc(ask(), func(o commitlog.OpenTransaction) bool { return o.TransactionalID == ids[1] }))
	// A fence ends it.
	e.producer(ids[1])
	e.eventually("none to be open", func() bool { return len(ask()) == 0 })
}
