package logtest

import (
	"context"
	"reflect"
	"runtime"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Read-only.
var lifeCases = []testCase{
	{"ReaderClose", readerClose},
	{"LogCloseEndsAll", logCloseEndsAll},
	{"CancelledContext", cancelledContext},
	{"DeadlinePassesThrough", deadlinePassesThrough},
}

// A reader closes with chunks unread, more than once, and then has no error.
func readerClose(e *env) {
	tp := e.one()
	p := e.producer(e.name("p"))
	for _, v := range chunked(numbers(strings.Repeat("x", 500), 200), 5) {
		e.produce(p, tp, v...)
	}
	e.commit(p)
	e.settled(tp)
	s := e.streamWith(commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp: 0}, FetchBytes: 4000})
	s.next()
	require.NoError(e, s.r.Close())
	require.NoError(e, s.r.Close())
	for closed := false; !closed; { // what was read ahead may still be there
		select {
		case _, ok := <-s.r.Chunks():
			closed = !ok
		default:
			require.FailNow(e, "Chunks is open after Close")
		}
	}
	require.NoError(e, s.r.Err())
}

// goroutines counts those that run code of the implementation's package.
func goroutines(l commitlog.Log) int {
	t := reflect.TypeOf(l)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	count := 0
	for g := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(g, t.PkgPath()+".") {
			count++
		}
	}
	return count
}

// Close of a log ends what is open on it, is idempotent, and leaves no goroutine.
func logCloseEndsAll(e *env) {
	topic := e.topic(2)
	tp := partitions(topic, 2)[0]
	before := goroutines(e.Log)
	l := e.Connect(e.T)
	r, err := l.OpenReader(e.ctx, commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp: 0}})
	require.NoError(e, err)
	idle, err := l.OpenReader(e.ctx, commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{partitions(topic, 2)[1]: 0}})
	require.NoError(e, err)
	p := e.producerOn(l, commitlog.ProducerConfig{TransactionalID: e.name("p")})
	e.produce(p, tp, "a")
	e.commit(p)
	e.produce(p, tp, "left open")
	m := e.member(l, e.name("group"), "", topic)
	m.mustJoin(nil, nil)
	require.NoError(e, l.Close())
	require.NoError(e, l.Close())
	for range r.Chunks() {
	}
	for range idle.Chunks() {
	}
	e.eventually("the log's goroutines to end", func() bool { return goroutines(e.Log) <= before })

	_, err = l.Topics(e.ctx, topic)
	require.ErrorIs(e, err, commitlog.ErrClosed)
	_, err = l.OpenProducer(e.ctx, commitlog.ProducerConfig{TransactionalID: e.name("q")})
	require.ErrorIs(e, err, commitlog.ErrClosed)
	_, err = l.OpenReader(e.ctx, commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp: 0}})
	require.ErrorIs(e, err, commitlog.ErrClosed)
	_, err = m.Join(e.ctx, nil, nil)
	require.ErrorIs(e, err, commitlog.ErrClosed)
	require.NoError(e, m.Close(e.ctx, false))
	require.NoError(e, r.Close())
	require.NoError(e, p.Close())
}

// With a context that has ended every call returns its error, at once.
func cancelledContext(e *env) {
	topic := e.topic(1)
	tps := partitions(topic, 1)
	p := e.producer(e.name("p"))
	e.produce(p, tps[0], "open")
	m := e.member(e.Log, e.name("group"), "", topic)
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	for name, call := range map[string]func() error{
		"Topics":       func() error { _, err := e.Log.Topics(ctx, topic); return err },
		"TopicConfigs": func() error { _, err := e.Log.TopicConfigs(ctx, topic); return err },
		"CreateTopics": func() error {
			return e.Log.CreateTopics(ctx, []commitlog.TopicSpec{{Name: e.name("t"), Partitions: 1, Replication: -1}})
		},
		"StartOffsets":     func() error { _, err := e.Log.StartOffsets(ctx, tps); return err },
		"EndOffsets":       func() error { _, err := e.Log.EndOffsets(ctx, tps, commitlog.ReadCommitted); return err },
		"CommittedOffsets": func() error { _, err := e.Log.CommittedOffsets(ctx, e.name("g"), tps); return err },
		"CommittedNotes":   func() error { _, err := e.Log.CommittedNotes(ctx, e.name("g"), tps); return err },
		"OpenProducer": func() error {
			_, err := e.Log.OpenProducer(ctx, commitlog.ProducerConfig{TransactionalID: e.name("q"), TransactionTimeout: time.Minute})
			return err
		},
		"Join":   func() error { _, err := m.Join(ctx, nil, nil); return err },
		"Commit": func() error { _, err := p.Commit(ctx, nil, noMember); return err },
	} {
		done := make(chan error, 1)
		go func() { done <- call() }()
		select {
		case err := <-done:
			require.ErrorIs(e, err, context.Canceled, name)
		case <-time.After(e.Patience):
			require.FailNow(e, "did not return", name)
		}
	}
}

// A deadline that passes while a call waits is what it returns.
func deadlinePassesThrough(e *env) {
	topic := e.topic(1)
	group := e.name("group")
	a, b := e.member(e.Log, group, "", topic), e.member(e.Log, group, "", topic)
	a.mustJoin(nil, nil)
	ctx, cancel := context.WithTimeout(e.ctx, 200*time.Millisecond)
	defer cancel()
	_, err := b.Join(ctx, nil, nil) // waits for a
	require.ErrorIs(e, err, context.DeadlineExceeded)
}
