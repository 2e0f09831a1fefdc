package logtest

import (
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Read-only.
var transactionCases = []testCase{
	{"ManyBatchesInOrder", manyBatchesInOrder},
	{"CommitReturnsEnds", commitReturnsEnds},
	{"NothingToCommit", nothingToCommit},
	{"AbortThenGoOn", abortThenGoOn},
	{"AllPartitionsTogether", allPartitionsTogether},
	{"BackToBack", backToBack},
	{"SmallWindow", smallWindow},
	{"TooLarge", tooLarge},
	{"CloseLeavesOpen", closeLeavesOpen},
}

// L4: many small batches over several partitions arrive in order, each exactly once.
func manyBatchesInOrder(e *env) {
	topic := e.topic(5)
	tps := partitions(topic, 5)
	p := e.producer(e.name("p"))
	want := numbers("v", 600)
	for i, v := range chunked(want, 2) {
		for j, tp := range tps {
			if j == 0 || i%j != 0 || i < 200 {
				e.produce(p, tp, v...)
			}
		}
		if i%90 == 89 {
			e.commit(p)
		}
	}
	e.commit(p)
	s := e.all(tps...)
	for j, tp := range tps {
		var expect []string
		for i, v := range chunked(want, 2) {
			if j == 0 || i%j != 0 || i < 200 {
				expect = append(expect, v...)
			}
		}
		require.Equal(e, expect, s.values(tp), "%s", tp)
	}
}

// Commit returns where each partition's last record of the transaction lies, others not.
func commitReturnsEnds(e *env) {
	topic := e.topic(3)
	tps := partitions(topic, 3)
	p := e.producer(e.name("p"))
	e.produce(p, tps[0], "a", "b")
	e.produce(p, tps[2], "c")
	e.produce(p, tps[0], "d")
	require.Equal(e, map[commitlog.TopicPartition]int64{tps[0]: 3, tps[2]: 1}, e.commit(p))
	e.settled(tps...)
	e.produce(p, tps[1], "e")
	e.produce(p, tps[0], "f")
	require.Equal(e, map[commitlog.TopicPartition]int64{tps[1]: 1, tps[0]: 5}, e.commit(p), "a marker lies between")
}

// Without a batch and an offset neither Commit nor Abort does anything.
func nothingToCommit(e *env) {
	tp := e.one()
	p := e.producer(e.name("p"))
	require.Empty(e, e.commit(p))
	e.abort(p)
	e.produce(p, tp, "a")
	e.commit(p)
	e.abort(p)
	require.Empty(e, e.commit(p))
	require.Equal(e, int64(2), e.settled(tp)[tp], "one record, one marker")
}

// L5: an aborted transaction is never seen; the producer goes on with the next.
func abortThenGoOn(e *env) {
	topic := e.topic(2)
	tps := partitions(topic, 2)
	p := e.producer(e.name("p"))
	var want []string
	for i, v := range numbers("v", 9) {
		for _, tp := range tps {
			e.produce(p, tp, v)
		}
		if i%3 == 0 {
			e.abort(p)
			continue
		}
		want = append(want, v)
		e.commit(p)
	}
	s := e.all(tps...)
	require.Equal(e, want, s.values(tps[0]))
	require.Equal(e, want, s.values(tps[1]))
}

// L5: whoever reads one of a transaction's records finds all of them once it has committed.
func allPartitionsTogether(e *env) {
	topic := e.topic(4)
	tps := partitions(topic, 4)
	p := e.producer(e.name("p"))
	for _, tp := range tps {
		e.produce(p, tp, "a", "b")
	}
	for _, tp := range tps {
		e.written(tp, 2)
		require.Zero(e, e.ends(commitlog.ReadCommitted, tp)[tp])
	}
	e.commit(p)
	s := e.all(tps...)
	for _, tp := range tps {
		require.Equal(e, []string{"a", "b"}, s.values(tp))
	}
}

// A transaction may follow the one before it at once.
func backToBack(e *env) {
	tp := e.one()
	p := e.producer(e.name("p"))
	want := numbers("v", 40)
	for _, v := range want {
		e.produce(p, tp, v)
		e.commit(p)
	}
	require.Equal(e, want, e.all(tp).values(tp))
	require.Equal(e, int64(80), e.settled(tp)[tp])
}

// A producer with little room for unacknowledged bytes waits, and loses nothing.
func smallWindow(e *env) {
	topic := e.topic(2)
	tps := partitions(topic, 2)
	p := e.producerOn(e.Log, commitlog.ProducerConfig{TransactionalID: e.name("p"), MaxUnacked: 4000})
	want := numbers(strings.Repeat("z", 300), 200)
	for _, v := range chunked(want, 5) {
		e.produce(p, tps[0], v...)
		e.produce(p, tps[1], v...)
	}
	e.produce(p, tps[0], strings.Repeat("larger than the window ", 400))
	e.commit(p)
	s := e.all(tps...)
	require.Equal(e, want, s.values(tps[0])[:200])
	require.Len(e, s.values(tps[0]), 201)
	require.Equal(e, want, s.values(tps[1]))
}

// L7: a batch that the broker does not take is ErrTooLarge, and its transaction can be aborted.
func tooLarge(e *env) {
	tp := e.one("max.message.bytes", "2000")
	id := e.name("p")
	p := e.producer(id)
	e.produce(p, tp, "fits")
	err := p.Produce(e.ctx, tp, e.batch(recordsOf(strings.Repeat("x", 5000))...))
	if err == nil {
		_, err = p.Commit(e.ctx, nil, noMember)
	}
	require.ErrorIs(e, err, commitlog.ErrTooLarge)
	e.requireClass(commitlog.Fatal, err)
	require.NotContains(e, err.Error(), "xxxx", "no record content in an error")
	require.NoError(e, p.Close())
	p = e.producer(id)
	e.produce(p, tp, "next")
	e.commit(p)
	require.Equal(e, []string{"next"}, e.all(tp).values(tp))
}

// Close leaves the transaction open: the next producer with the id aborts it.
func closeLeavesOpen(e *env) {
	tp := e.one()
	id := e.name("p")
	p := e.producer(id)
	e.produce(p, tp, "left")
	e.written(tp, 1)
	require.NoError(e, p.Close())
	require.NoError(e, p.Close())
	require.Zero(e, e.ends(commitlog.ReadCommitted, tp)[tp])
	require.ErrorIs(e, p.Produce(e.ctx, tp, e.batch(recordsOf("late")...)), commitlog.ErrClosed)
	p = e.producer(id)
	e.produce(p, tp, "next")
	e.commit(p)
	require.Equal(e, []string{"next"}, e.all(tp).values(tp))
}
