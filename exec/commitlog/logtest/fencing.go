package logtest

import (
	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Read-only.
var fencingCases = []testCase{
	{"OldProducerFails", oldProducerFails},
	{"OldTransactionAborted", oldTransactionAborted},
	{"OldAbortFails", oldAbortFails},
	{"OtherConnection", otherConnection},
	{"RestoreToEnd", restoreToEnd},
	{"OtherIDUntouched", otherIDUntouched},
	{"ManyTakeovers", manyTakeovers},
}

// fenced requires that an old producer can neither write nor commit.
func (e *env) fenced(old commitlog.Producer, tp commitlog.TopicPartition) {
	e.Helper()
	err := old.Produce(e.ctx, tp, e.batch(recordsOf("zombie")...))
	if err == nil {
		_, err = old.Commit(e.ctx, nil, noMember)
	}
	e.requireClass(commitlog.Fenced, err)
}

// L3: opening a producer fences the one before it with the same id.
func oldProducerFails(e *env) {
	tp := e.one()
	id := e.name("p")
	old := e.producer(id)
	e.produce(old, tp, "first")
	e.commit(old)
	p := e.producer(id)
	e.fenced(old, tp)
	e.produce(p, tp, "second")
	e.commit(p)
	e.fenced(old, tp)
	require.Equal(e, []string{"first", "second"}, e.all(tp).values(tp))
}

// L3: what the old one had open is aborted, and its commit fails.
func oldTransactionAborted(e *env) {
	tp := e.one()
	id := e.name("p")
	old := e.producer(id)
	e.produce(old, tp, "open")
	e.written(tp, 1)
	e.producer(id)
	_, err := old.Commit(e.ctx, nil, noMember)
	e.requireClass(commitlog.Fenced, err)
	require.Empty(e, e.all(tp).values(tp))
}

// L3: the old one cannot abort the new one's transaction either.
func oldAbortFails(e *env) {
	tp := e.one()
	id := e.name("p")
	old := e.producer(id)
	e.produce(old, tp, "open")
	e.written(tp, 1)
	p := e.producer(id)
	e.produce(p, tp, "new")
	e.written(tp, 3)
	e.requireClass(commitlog.Fenced, old.Abort(e.ctx))
	e.commit(p)
	require.Equal(e, []string{"new"}, e.all(tp).values(tp))
}

// L3: a producer of another process fences just so.
func otherConnection(e *env) {
	tp := e.one()
	id := e.name("p")
	old := e.producer(id)
	e.produce(old, tp, "open")
	l := e.Connect(e.T)
	defer l.Close()
	p := e.producerOn(l, commitlog.ProducerConfig{TransactionalID: id})
	e.fenced(old, tp)
	e.produce(p, tp, "new")
	e.commit(p)
	require.Equal(e, []string{"new"}, e.all(tp).values(tp))
}

// L3: after OpenProducer the end offset shows the end of all that was written under the id, and
// a reader reaches it by position, whatever lies there (markers, aborted batches).
func restoreToEnd(e *env) {
	tp := e.one()
	id := e.name("p")
	var want []string
	for i, v := range numbers("v", 8) {
		p := e.producer(id)
		end := e.ends(commitlog.ReadUncommitted, tp)
		s := e.stream(tp).until(end)
		require.Equal(e, end, s.position)
		require.Equal(e, want, append([]string(nil), s.values(tp)...), "restored by producer %d", i)
		require.NoError(e, s.r.Close())

		e.produce(p, tp, v)
		if i%2 == 0 {
			e.commit(p)
			want = append(want, v)
			e.produce(p, tp, "left open "+v)
		}
		require.NoError(e, p.Close())
	}
}

// L3: other transactional ids have nothing to do with it.
func otherIDUntouched(e *env) {
	tp := e.one()
	a := e.producer(e.name("a"))
	e.produce(a, tp, "a")
	e.producer(e.name("b"))
	e.commit(a)
	require.Equal(e, []string{"a"}, e.all(tp).values(tp))
}

// L3: of many producers that take over from one another only the last one writes.
func manyTakeovers(e *env) {
	tp := e.one()
	id := e.name("p")
	var all []commitlog.Producer
	for _, v := range numbers("v", 6) {
		p := e.producer(id)
		e.produce(p, tp, v)
		all = append(all, p)
	}
	for _, p := range all[:5] {
		_, err := p.Commit(e.ctx, nil, noMember)
		e.requireClass(commitlog.Fenced, err)
	}
	e.commit(all[5])
	require.Equal(e, []string{"v5"}, e.all(tp).values(tp))
}
