package logtest

import (
	"errors"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Read-only.
var positionCases = []testCase{
	{"EndsInCommitMarker", endsInCommitMarker},
	{"EndsInAbortedBatch", endsInAbortedBatch},
	{"OnlyMarkersAndAborted", onlyMarkersAndAborted},
	{"EmptyLog", emptyLog},
	{"FromWithinBatch", fromWithinBatch},
	{"FromEnd", fromEnd},
	{"BeyondEnd", beyondEnd},
	{"DeletedRecords", deletedRecords},
	{"CompactedGaps", compactedGaps},
	{"ForeignTransactionAtTheEnd", foreignTransactionAtTheEnd},
	{"EmptiedLog", emptiedLog},
	{"DeletedUnderAReader", deletedUnderAReader},
	{"RecreatedUnderAReader", recreatedUnderAReader},
	{"RecreatedBeforeAReader", recreatedBeforeAReader},
}

// L2: at the end of a log that ends in a marker a reader stands at the end, so that a
// restore by position ends.
func endsInCommitMarker(e *env) {
	tp := e.one()
	p := e.producer(e.name("p"))
	e.produce(p, tp, "a", "b")
	ends := e.commit(p)
	require.Equal(e, int64(2), ends[tp], "Commit returns the offset after the last record")
	require.Equal(e, int64(3), e.settled(tp)[tp], "a marker occupies an offset")
	s := e.all(tp)
	require.Equal(e, int64(3), s.position[tp])
	require.Equal(e, []string{"a", "b"}, s.values(tp))
}

// L2: likewise where what comes last was aborted.
func endsInAbortedBatch(e *env) {
	tp := e.one()
	p := e.producer(e.name("p"))
	e.append(tp, "a")
	e.produce(p, tp, "x", "y")
	e.written(tp, 3)
	e.abort(p)
	require.Equal(e, int64(4), e.settled(tp)[tp])
	require.Equal(e, []string{"a"}, e.all(tp).values(tp))
}

// L2: positions move over a log with nothing to see in it.
func onlyMarkersAndAborted(e *env) {
	tp := e.one()
	p := e.producer(e.name("p"))
	for i := range 10 {
		e.produce(p, tp, "x")
		e.written(tp, int64(2*i+1))
		e.abort(p)
		e.settled(tp)
	}
	s := e.all(tp)
	require.Empty(e, s.values(tp))
	require.Equal(e, int64(20), s.position[tp])
}

// A log without a record begins and ends at 0, and its reader waits.
func emptyLog(e *env) {
	tp := e.one()
	start, err := e.Log.StartOffsets(e.ctx, []commitlog.TopicPartition{tp})
	require.NoError(e, err)
	require.Equal(e, map[commitlog.TopicPartition]int64{tp: 0}, start)
	require.Equal(e, map[commitlog.TopicPartition]int64{tp: 0}, e.settled(tp))
	s := e.all(tp)
	require.Empty(e, s.values(tp))
	s = e.stream(tp)
	e.append(tp, "first")
	require.Equal(e, []string{"first"}, s.until(map[commitlog.TopicPartition]int64{tp: 1}).values(tp))
}

// L2: a reader that starts within a batch delivers from its offset on.
func fromWithinBatch(e *env) {
	tp := e.one()
	p := e.producer(e.name("p"))
	all := numbers("v", 10)
	e.produce(p, tp, all...)
	e.commit(p)
	ends := e.settled(tp)
	for from := range int64(11) {
		s := e.streamWith(commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp: from}}).until(ends)
		require.Equal(e, all[from:], s.values(tp), "from %d", from)
		require.NoError(e, s.r.Close())
	}
}

// A reader that starts at the end gets nothing of what was before.
func fromEnd(e *env) {
	tp := e.one()
	e.append(tp, numbers("old", 5)...)
	s := e.streamWith(commitlog.ReaderConfig{From: e.settled(tp)})
	e.append(tp, "new")
	require.Equal(e, []string{"new"}, s.until(map[commitlog.TopicPartition]int64{tp: 6}).values(tp))
}

// readError opens a reader that must fail and returns its error.
func (e *env) readError(tp commitlog.TopicPartition, from int64) error {
	e.Helper()
	r, err := e.Log.OpenReader(e.ctx, commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp: from}, MaxWait: 50 * time.Millisecond})
	if err != nil {
		return err
	}
	defer r.Close()
	return e.ended(r)
}

// ended returns why a reader ended, which delivers nothing before.
func (e *env) ended(r commitlog.Reader) error {
	e.Helper()
	select {
	case c, ok := <-r.Chunks():
		require.False(e, ok, "a chunk from %d to %d", c.Base, c.Next)
	case <-time.After(e.Patience):
		require.FailNow(e, "the reader did not end")
	}
	return r.Err()
}

// L7: an offset that is not in the log is ErrOffsetOutOfRange, never a silent reset.
func beyondEnd(e *env) {
	tp := e.one()
	e.append(tp, "a", "b", "c")
	err := e.readError(tp, 1000)
	require.ErrorIs(e, err, commitlog.ErrOffsetOutOfRange)
	e.requireClass(commitlog.Fatal, err)
	require.ErrorContains(e, err, tp.Topic)
	e.requireRange(err, commitlog.RangeError{Offset: 1000, Start: 0, End: 3})
}

// requireRange requires that an error tells what was wanted and what there is.
func (e *env) requireRange(err error, want commitlog.RangeError) {
	e.Helper()
	var re *commitlog.RangeError
	require.ErrorAs(e, err, &re)
	require.Equal(e, want, *re)
	require.ErrorIs(e, err, commitlog.ErrOffsetOutOfRange)
}

// L7: likewise an offset that is no longer there.
func deletedRecords(e *env) {
	e.need(e.DeleteRecords != nil, "DeleteRecords")
	tp := e.one()
	e.append(tp, numbers("v", 10)...)
	e.DeleteRecords(e.T, tp, 4)
	start, err := e.Log.StartOffsets(e.ctx, []commitlog.TopicPartition{tp})
	require.NoError(e, err)
	require.Equal(e, int64(4), start[tp])
	e.requireRange(e.readError(tp, 3), commitlog.RangeError{Offset: 3, Start: 4, End: 10})
	s := e.streamWith(commitlog.ReaderConfig{From: start}).until(e.settled(tp))
	require.Equal(e, numbers("v", 10)[4:], s.values(tp))
}

// L2: positions move over what compaction has left out.
func compactedGaps(e *env) {
	e.need(e.Compact != nil, "Compact")
	tp := e.one("cleanup.policy", "compact")
	p := e.producer(e.name("p"))
	last := map[string]string{}
	for i := range 60 {
		k, v := fmt.Sprintf("k%d", i%7), fmt.Sprintf("v%d", i)
		last[k] = v
		require.NoError(e, p.Produce(e.ctx, tp, e.batch(commitlog.Record{Timestamp: time.Now().UnixMilli(), Key: []byte(k), Value: []byte(v)})))
		if i%5 == 4 {
			e.commit(p)
		}
	}
	before := e.settled(tp)
	e.Compact(e.T, tp.Topic)
	require.Equal(e, before, e.settled(tp), "compaction does not move the end")
	s := e.all(tp)
	require.Less(e, len(s.got[tp]), 60, "nothing was compacted")
	got := map[string]string{}
	for _, r := range s.records(tp) {
		got[string(r.Key)] = string(r.Value)
	}
	require.Equal(e, last, got)
}

// E5: a restore whose end lies behind a transaction of somebody else waits for that, knows it by name, and
// ends when it has ended, either way.
func foreignTransactionAtTheEnd(e *env) {
	tp := e.one()
	id, foreign := e.name("own"), e.name("foreign")
	want := []string{"a", "b"}
	p := e.producer(id)
	e.produce(p, tp, want...)
	e.commit(p)
	end := e.settled(tp)[tp]
	for _, commit := range []bool{false, true} {
		f := e.producer(foreign)
		e.produce(f, tp, "foreign", "foreign too")
		e.written(tp, end+2)
		e.producer(id) // fences nobody but its own
		to := e.ends(commitlog.ReadUncommitted, tp)
		require.Equal(e, end+2, to[tp])
		s := e.stream(tp).until(map[commitlog.TopicPartition]int64{tp: end})
		require.Equal(e, end, s.position[tp], "it waits at the last stable offset")
		require.Equal(e, want, s.values(tp))
		open, err := e.Log.OpenTransactions(e.ctx, []commitlog.TopicPartition{tp})
		require.NoError(e, err)
		require.Len(e, open, 1)
		require.Equal(e, foreign, open[0].TransactionalID)
		require.Equal(e, end, open[0].Start)
		if commit {
			e.commit(f)
			want = append(want, "foreign", "foreign too")
		} else {
			e.abort(f)
		}
		s.until(to)
		require.Equal(e, want, s.values(tp))
		end = e.settled(tp)[tp]
		s.until(map[commitlog.TopicPartition]int64{tp: end})
		require.NoError(e, s.r.Close())
	}
}

// E5: a log that was emptied begins where it ends, marker and all, and goes on from there.
func emptiedLog(e *env) {
	tp := e.one()
	p := e.producer(e.name("p"))
	e.produce(p, tp, "a", "b")
	e.commit(p)
	end := e.settled(tp)
	require.NoError(e, e.Log.DeleteRecords(e.ctx, end))
	start, err := e.Log.StartOffsets(e.ctx, []commitlog.TopicPartition{tp})
	require.NoError(e, err)
	require.Equal(e, end, start)
	require.Equal(e, end, e.settled(tp))
	e.requireRange(e.readError(tp, 0), commitlog.RangeError{Offset: 0, Start: 3, End: 3})
	s := e.streamWith(commitlog.ReaderConfig{From: start})
	e.produce(p, tp, "never")
	e.written(tp, 4)
	e.abort(p)
	require.Empty(e, s.until(e.settled(tp)).values(tp))
	require.Equal(e, int64(5), s.position[tp])
	e.produce(p, tp, "c")
	e.commit(p)
	require.Equal(e, []string{"c"}, s.until(e.settled(tp)).values(tp))
	require.NoError(e, e.Log.DeleteRecords(e.ctx, map[commitlog.TopicPartition]int64{tp: 4})) // between a batch and its marker
	s = e.streamWith(commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp: 4}})
	require.Equal(e, []string{"c"}, s.until(e.settled(tp)).values(tp))
}

// E7, E12: records that are deleted behind a reader's position are none of its business; those before it are lost to it, and it
// says which.
func deletedUnderAReader(e *env) {
	tp := e.one()
	e.append(tp, numbers("v", 4)...)
	s := e.streamWith(commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp: 0}})
	s.until(map[commitlog.TopicPartition]int64{tp: 4})
	require.NoError(e, e.Log.DeleteRecords(e.ctx, map[commitlog.TopicPartition]int64{tp: 4}))
	e.append(tp, "next")
	require.Equal(e, append(numbers("v", 4), "next"), s.until(map[commitlog.TopicPartition]int64{tp: 5}).values(tp))
	require.NoError(e, s.r.Close())

	// A reader that cannot go on until the deletion: what it wants next is behind an open transaction.
	f := e.producer(e.name("p"))
	e.produce(f, tp, "open", "open too")
	e.written(tp, 7)
	s = e.streamWith(commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp: 4}})
	s.until(map[commitlog.TopicPartition]int64{tp: 5})
	require.NoError(e, e.Log.DeleteRecords(e.ctx, map[commitlog.TopicPartition]int64{tp: 6}))
	e.abort(f)
	var re *commitlog.RangeError
	require.ErrorAs(e, e.ended(s.r), &re)
	require.Equal(e, int64(5), re.Offset)
	require.Equal(e, int64(6), re.Start)
}

// recreate deletes a topic of one partition and makes another one of that name, with these values.
func (e *env) recreate(tp commitlog.TopicPartition, values ...string) {
	e.Helper()
	e.deleteTopic(tp.Topic)
	require.NoError(e, e.Log.CreateTopics(e.ctx, []commitlog.TopicSpec{{Name: tp.Topic, Partitions: 1, Replication: -1}}))
	e.append(tp, values...)
}

// E7: a topic that is deleted and created again under a reader is another one, also if it has grown beyond the reader's
// position by the time that is looked at: what lies before that would be passed over.
func recreatedUnderAReader(e *env) {
	tp := e.one()
	e.append(tp, numbers("v", 3)...)
	s := e.streamWith(commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp: 0}, MaxWait: 50 * time.Millisecond})
	s.until(map[commitlog.TopicPartition]int64{tp: 3})
	e.recreate(tp, numbers("w", 6)...)
	err := e.ended(s.r)
	if !errors.Is(err, commitlog.ErrTopicRecreated) { // it may have looked when there was no topic of that name
		require.ErrorContains(e, err, "UNKNOWN_TOPIC_OR_PARTITION")
	}
	e.requireClass(commitlog.Fatal, err)
	require.NoError(e, s.r.Close())
}

// E7: so is one that was created again before it is read, if the reader is told which one is meant.
func recreatedBeforeAReader(e *env) {
	tp := e.one()
	e.append(tp, numbers("v", 3)...)
	topics, err := e.Log.Topics(e.ctx, tp.Topic)
	require.NoError(e, err)
	was := map[string]commitlog.TopicID{tp.Topic: topics[tp.Topic].ID}
	require.NotZero(e, was[tp.Topic])
	s := e.streamWith(commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp: 1}, IDs: was})
	require.Equal(e, numbers("v", 3)[1:], s.until(map[commitlog.TopicPartition]int64{tp: 3}).values(tp))
	require.NoError(e, s.r.Close())
	e.recreate(tp, numbers("w", 6)...)
	r, err := e.Log.OpenReader(e.ctx, commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp: 3}, IDs: was})
	if err == nil {
		err = e.ended(r)
		require.NoError(e, r.Close())
	}
	require.ErrorIs(e, err, commitlog.ErrTopicRecreated)
	e.requireClass(commitlog.Fatal, err)
}
