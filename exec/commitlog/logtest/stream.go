package logtest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// stream reads with a reader and checks what every reader promises: contiguous positions (L2),
// records in order and within their chunk, bytes that stay as they were.
type stream struct {
	e        *env
	r        commitlog.Reader
	cfg      commitlog.ReaderConfig
	position map[commitlog.TopicPartition]int64
	got      map[commitlog.TopicPartition][]kept
	chunks   int
}

// kept is a record as it was delivered and a copy made at once.
type kept struct {
	commitlog.Record
	copy commitlog.Record
}

// stream opens a reader of partitions from their first offset on.
func (e *env) stream(tps ...commitlog.TopicPartition) *stream {
	e.Helper()
	from := map[commitlog.TopicPartition]int64{}
	for _, tp := range tps {
		from[tp] = 0
	}
	return e.streamWith(commitlog.ReaderConfig{From: from})
}

func (e *env) streamWith(cfg commitlog.ReaderConfig) *stream {
	e.Helper()
	cfg.MaxWait = 50 * time.Millisecond
	s := &stream{e: e, cfg: cfg, position: maps.Clone(cfg.From), got: map[commitlog.TopicPartition][]kept{}}
	var err error
	s.r, err = e.Log.OpenReader(e.ctx, cfg)
	require.NoError(e, err)
	e.Cleanup(func() { s.r.Close() })
	return s
}

// next takes one chunk.
func (s *stream) next() commitlog.Chunk {
	s.e.Helper()
	select {
	case c, ok := <-s.r.Chunks():
		require.True(s.e, ok, "the reader ended: %v", s.r.Err())
		s.take(c)
		return c
	case <-time.After(s.e.Patience):
		require.FailNow(s.e, "no chunk came", "positions %v", s.position)
		panic("unreachable")
	}
}

// take checks a chunk and keeps its records.
func (s *stream) take(c commitlog.Chunk) {
	e := s.e
	e.Helper()
	s.chunks++
	tp := c.TopicPartition
	position, ok := s.position[tp]
	require.True(e, ok, "chunk of %s, which is not read", tp)
	require.Equal(e, position, c.Base, "L2: %s goes on where it ended", tp)
	require.Greater(e, c.Next, c.Base, "L2: %s moves", tp)
	if s.cfg.Isolation == commitlog.ReadCommitted {
		require.LessOrEqual(e, c.Next, c.LastStable, "L1: %s ends at the last stable offset", tp)
	}
	require.LessOrEqual(e, c.Next, c.HighWatermark)
	require.LessOrEqual(e, c.LogStart, c.Base)
	var cursor commitlog.Cursor
	cursor.Reset(&c)
	var r commitlog.Record
	last := c.Base - 1
	for cursor.Next(&r) {
		require.Greater(e, r.Offset, last, "L2: offsets of %s rise", tp)
		require.Less(e, r.Offset, c.Next, "L2: records of %s lie in their chunk", tp)
		last = r.Offset
		s.got[tp] = append(s.got[tp], kept{Record: r, copy: clone(r)})
	}
	require.NoError(e, cursor.Err())
	if len(c.Batches) > 0 {
		require.Positive(e, c.Size)
	}
	s.position[tp] = c.Next
}

// clone copies a record, null staying null.
func clone(r commitlog.Record) commitlog.Record {
	r.Key, r.Value, r.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), bytes.Clone(r.Headers)
	return r
}

// until reads up to the given positions.
func (s *stream) until(ends map[commitlog.TopicPartition]int64) *stream {
	s.e.Helper()
	for {
		behind := false
		for tp, end := range ends {
			behind = behind || s.position[tp] < end
		}
		if !behind {
			return s
		}
		s.next()
	}
}

// values returns the values read of a partition, after a check that kept bytes are unchanged.
func (s *stream) values(tp commitlog.TopicPartition) []string {
	s.e.Helper()
	out := []string{}
	for _, k := range s.got[tp] {
		require.Equal(s.e, k.copy, clone(k.Record), "bytes that were delivered change")
		out = append(out, string(k.Value))
	}
	return out
}

// records returns what was read of a partition.
func (s *stream) records(tp commitlog.TopicPartition) []commitlog.Record {
	var out []commitlog.Record
	for _, k := range s.got[tp] {
		out = append(out, k.Record)
	}
	return out
}

// all reads the partitions from their beginning to their settled end.
func (e *env) all(tps ...commitlog.TopicPartition) *stream {
	e.Helper()
	ends := e.settled(tps...)
	s := e.stream(tps...).until(ends)
	require.Equal(e, ends, s.position)
	require.NoError(e, s.r.Close())
	return s
}

// numbers returns prefix0, prefix1 and so on.
func numbers(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return out
}

// chunked splits values into runs of at most n.
func chunked(values []string, n int) [][]string { return slices.Collect(slices.Chunk(values, n)) }
