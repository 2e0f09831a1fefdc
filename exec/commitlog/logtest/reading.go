package logtest

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Read-only.
var readingCases = []testCase{
	{"AbortedFiltered", abortedFiltered},
	{"OpenTransactionHolds", openTransactionHolds},
	{"Uncommitted", uncommitted},
	{"SameProducerAbortsThenCommits", sameProducerAbortsThenCommits},
	{"RecordsAsWritten", recordsAsWritten},
	{"ProducedAsWritten", producedAsWritten},
	{"Compressions", compressions},
	{"SmallFetches", smallFetches},
	{"LargeBatch", largeBatch},
	{"ManyPartitions", manyPartitions},
	{"FollowsLive", followsLive},
}

// L1: of producers that interleave on one partition only the committed one's records are seen.
func abortedFiltered(e *env) {
	tp := e.one()
	a, b := e.producer(e.name("a")), e.producer(e.name("b"))
	end := int64(0)
	for i := range 6 {
		p, who := a, "a"
		if i%2 == 1 {
			p, who = b, "b"
		}
		e.produce(p, tp, fmt.Sprintf("%s%d", who, i), fmt.Sprintf("%s%d'", who, i))
		end += 2
		e.written(tp, end) // fixes the order in the log
	}
	e.abort(a)
	e.commit(b)
	e.append(tp, "plain")
	require.Equal(e, []string{"b1", "b1'", "b3", "b3'", "b5", "b5'", "plain"}, e.all(tp).values(tp))
}

// L1: records behind an open transaction wait for its end, and come then, in order.
func openTransactionHolds(e *env) {
	topic := e.topic(2)
	held, other := partitions(topic, 2)[0], partitions(topic, 2)[1]
	p := e.producer(e.name("p"))
	e.append(held, "before")
	e.produce(p, held, "open")
	e.written(held, 2)
	e.append(held, "behind")
	require.Equal(e, int64(1), e.ends(commitlog.ReadCommitted, held)[held])
	require.Equal(e, int64(3), e.ends(commitlog.ReadUncommitted, held)[held])

	s := e.stream(held, other)
	s.until(map[commitlog.TopicPartition]int64{held: 1})
	for i := range 3 { // what the other partition delivers came later than what is held back
		e.append(other, "other")
		s.until(map[commitlog.TopicPartition]int64{other: int64(i + 1)})
	}
	require.Equal(e, []string{"before"}, s.values(held))
	require.Equal(e, int64(1), s.position[held])

	e.commit(p)
	s.until(e.settled(held))
	require.Equal(e, []string{"before", "open", "behind"}, s.values(held))
}

// Read uncommitted delivers everything but markers.
func uncommitted(e *env) {
	tp := e.one()
	a, b := e.producer(e.name("a")), e.producer(e.name("b"))
	e.produce(a, tp, "aborted")
	e.written(tp, 1)
	e.abort(a)
	e.settled(tp)
	e.produce(b, tp, "open")
	e.written(tp, 3)
	s := e.streamWith(commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp: 0}, Isolation: commitlog.ReadUncommitted})
	s.until(e.ends(commitlog.ReadUncommitted, tp))
	require.Equal(e, []string{"aborted", "open"}, s.values(tp))
}

// L1: what a producer aborted hides nothing of what the same producer commits afterwards.
func sameProducerAbortsThenCommits(e *env) {
	tp := e.one()
	p := e.producer(e.name("p"))
	want := []string{}
	for i := range 6 {
		v := fmt.Sprintf("v%d", i)
		e.produce(p, tp, v)
		e.written(tp, int64(i*2+1)) // a marker after each
		if i%2 == 0 {
			e.abort(p)
		} else {
			e.commit(p)
			want = append(want, v)
		}
		e.settled(tp)
	}
	e.produce(p, tp, "last")
	e.abort(p)
	require.Equal(e, want, e.all(tp).values(tp))
}

// samples are records with everything that must survive.
func samples() []commitlog.Record {
	headers := commitlog.AppendHeader(nil, "trace", []byte("t1"))
	headers = commitlog.AppendHeader(headers, "empty", []byte{})
	headers = commitlog.AppendHeader(headers, "trace", nil)
	return []commitlog.Record{
		{Timestamp: 1700000000123, Key: []byte("k"), Value: []byte("v"), Headers: headers, HeaderCount: 3},
		{Timestamp: 1600000000000, Key: nil, Value: []byte("no key, earlier than the one before")},
		{Timestamp: 1700000000124, Key: []byte("no value"), Value: nil},
		{Timestamp: 1700000000125, Key: []byte{}, Value: []byte{}},
		{Timestamp: 1700000000126, Key: nil, Value: nil, Headers: commitlog.AppendHeader(nil, "", []byte{0, 255}), HeaderCount: 1},
		{Timestamp: 0, Key: []byte{0, 1, 2, 255}, Value: bytes.Repeat([]byte{0xfe}, 40000)},
	}
}

// same requires equal records, offsets apart. Null and empty differ.
func (e *env) same(want, got []commitlog.Record) {
	e.Helper()
	require.Len(e, got, len(want))
	type header struct {
		key   string
		value []byte
	}
	headers := func(r commitlog.Record) []header {
		var out []header
		require.NoError(e, r.EachHeader(func(k string, v []byte) bool {
			out = append(out, header{k, v})
			return true
		}))
		return out
	}
	for i := range want {
		w, g := want[i], got[i]
		require.Equal(e, w.Timestamp, g.Timestamp, "timestamp of record %d", i)
		require.Equal(e, w.Key, g.Key, "key of record %d", i)
		require.Equal(e, w.Value, g.Value, "value of record %d", i)
		require.Equal(e, headers(w), headers(g), "headers of record %d", i)
	}
}

// What another client wrote is read as it was.
func recordsAsWritten(e *env) {
	tp := e.one()
	require.Equal(e, int64(0), e.Append(e.T, tp, samples()))
	e.same(samples(), e.all(tp).records(tp))
}

// What a producer wrote is read as it was, by this log and by another client.
func producedAsWritten(e *env) {
	tp := e.one()
	p := e.producer(e.name("p"))
	require.NoError(e, p.Produce(e.ctx, tp, e.batch(samples()...)))
	e.commit(p)
	e.same(samples(), e.all(tp).records(tp))
	e.need(e.Read != nil, "Read")
	e.same(samples(), e.Read(e.T, tp, len(samples())))
}

// Compressed batches come back, whatever the codec.
func compressions(e *env) {
	for _, c := range append([]string{"none", ""}, e.Compressions...) {
		tp := e.one()
		p := e.producerOn(e.Log, commitlog.ProducerConfig{TransactionalID: e.name("p"), Compression: c})
		values := []string{}
		for i := range 300 {
			values = append(values, strings.Repeat(fmt.Sprintf("%s %d ", c, i), 5))
		}
		for _, v := range chunked(values, 100) {
			e.produce(p, tp, v...)
		}
		e.commit(p)
		require.Equal(e, values, e.all(tp).values(tp), "compression %q", c)
		if e.Read != nil {
			require.Len(e, e.Read(e.T, tp, len(values)), len(values))
		}
	}
}

// Many fetches, each smaller than what there is, deliver everything once (L2).
func smallFetches(e *env) {
	topic := e.topic(2)
	tps := partitions(topic, 2)
	p := e.producer(e.name("p"))
	want := numbers(strings.Repeat("x", 100), 400)
	for _, v := range chunked(want, 10) {
		for _, tp := range tps {
			e.produce(p, tp, v...)
		}
	}
	e.commit(p)
	ends := e.settled(tps...)
	s := e.streamWith(commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tps[0]: 0, tps[1]: 0}, FetchBytes: 3000, Ahead: 6000}).until(ends)
	require.Greater(e, s.chunks, 10)
	for _, tp := range tps {
		require.Equal(e, want, s.values(tp))
	}
}

// A batch larger than a fetch is delivered all the same.
func largeBatch(e *env) {
	tp := e.one()
	p := e.producer(e.name("p"))
	want := numbers(strings.Repeat("y", 1000), 200)
	e.produce(p, tp, want...)
	e.commit(p)
	ends := e.settled(tp)
	s := e.streamWith(commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp: 0}, FetchBytes: 1000, Ahead: 2000}).until(ends)
	require.Equal(e, want, s.values(tp))
}

// A reader of many partitions starves none.
func manyPartitions(e *env) {
	topics := []string{e.topic(8), e.topic(4)}
	tps := append(partitions(topics[0], 8), partitions(topics[1], 4)...)
	for i, tp := range tps {
		e.append(tp, numbers(fmt.Sprintf("p%d-", i), 20*i+1)...)
	}
	s := e.all(tps...)
	for i, tp := range tps {
		require.Equal(e, numbers(fmt.Sprintf("p%d-", i), 20*i+1), s.values(tp))
	}
}

// A reader at the end gets what is written later.
func followsLive(e *env) {
	tp := e.one()
	s := e.stream(tp)
	p := e.producer(e.name("p"))
	var want []string
	for i := range 5 {
		v := fmt.Sprintf("v%d", i)
		want = append(want, v)
		e.produce(p, tp, v)
		ends := e.commit(p)
		s.until(ends)
		require.Equal(e, want, s.values(tp))
	}
}
