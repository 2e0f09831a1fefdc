package logtest

import (
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
	select {
	case c, ok := <-r.Chunks():
		require.False(e, ok, "a chunk from %d to %d", c.Base, c.Next)
		return r.Err()
	case <-time.After(e.Patience):
		require.FailNow(e, "the reader did not end")
		return nil
	}
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
