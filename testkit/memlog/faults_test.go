package memlog_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/testkit/memlog"
)

var errInjected = &commitlog.Error{Op: "test", Partition: -1, Class: commitlog.Abort, Name: "INJECTED"}

// A produce that fails leaves a transaction that can only be aborted.
func TestProduceFault(t *testing.T) {
	ctx := context.Background()
	l := memlog.New(memlog.Options{})
	defer l.Close()
	create(t, l, "a", 1)
	p := producer(t, l, "p")
	require.NoError(t, p.Produce(ctx, tp("a", 0), batchOf(kv("a=1"))))
	l.SetFaults(memlog.Faults{Produce: func(_ context.Context, id string, at commitlog.TopicPartition, records int) error {
		require.Equal(t, "p", id)
		require.Equal(t, 2, records)
		return errInjected
	}})
	require.ErrorIs(t, p.Produce(ctx, tp("a", 0), batchOf(kv("b=1", "c=1"))), errInjected)
	l.SetFaults(memlog.Faults{})
	require.ErrorIs(t, p.Produce(ctx, tp("a", 0), batchOf(kv("d=1"))), errInjected)
	_, err := p.Commit(ctx, nil, noGroup)
	require.ErrorIs(t, err, errInjected)
	require.NoError(t, p.Abort(ctx))
	require.NoError(t, p.Produce(ctx, tp("a", 0), batchOf(kv("e=1"))))
	_, err = p.Commit(ctx, nil, noGroup)
	require.NoError(t, err)
	require.Equal(t, []string{"2:e=1"}, shown(t, l, "a", 0, commitlog.ReadCommitted))
}

// A commit that fails before it had an effect, and one whose answer is lost.
func TestCommitFaults(t *testing.T) {
	ctx := context.Background()
	l := memlog.New(memlog.Options{})
	defer l.Close()
	create(t, l, "in", 1)
	create(t, l, "a", 1)
	in := map[commitlog.TopicPartition]int64{tp("in", 0): 3}
	_, p, as := idleWith(t, l)
	require.NoError(t, p.Produce(ctx, tp("a", 0), batchOf(kv("a=1"))))
	l.SetFaults(memlog.Faults{Commit: func(context.Context, string, map[commitlog.TopicPartition]int64) error { return errInjected }})
	_, err := p.Commit(ctx, in, as.GroupMetadata)
	require.ErrorIs(t, err, errInjected)
	require.Empty(t, shown(t, l, "a", 0, commitlog.ReadCommitted))

	l.SetFaults(memlog.Faults{Committed: func(context.Context, string) error { return errInjected }})
	p = producer(t, l, "worker")
	require.NoError(t, p.Produce(ctx, tp("a", 0), batchOf(kv("b=1"))))
	_, err = p.Commit(ctx, in, as.GroupMetadata)
	require.ErrorIs(t, err, errInjected)
	require.Equal(t, []string{"2:b=1"}, shown(t, l, "a", 0, commitlog.ReadCommitted))
	got, err := l.CommittedOffsets(ctx, "g", []commitlog.TopicPartition{tp("in", 0)})
	require.NoError(t, err)
	require.Equal(t, in, got)
}

// Offsets of a transaction that has not ended are waited for (KIP-447), and are not there if
// it is aborted.
func TestPendingOffsets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := memlog.New(memlog.Options{})
		defer l.Close()
		create(t, l, "in", 1)
		_, p, as := idleWith(t, l)
		l.SetFaults(memlog.Faults{EndTxn: func(context.Context, string) error { return errInjected }})
		_, err := p.Commit(ctx, map[commitlog.TopicPartition]int64{tp("in", 0): 3}, as.GroupMetadata)
		require.ErrorIs(t, err, errInjected)
		require.NoError(t, p.Close())
		got := make(chan map[commitlog.TopicPartition]int64, 1)
		go func() {
			out, err := l.CommittedOffsets(ctx, "g", []commitlog.TopicPartition{tp("in", 0)})
			require.NoError(t, err)
			got <- out
		}()
		synctest.Wait()
		require.Empty(t, got)
		producer(t, l, "worker")
		require.Empty(t, <-got)
	})
}

// A hook may hold a call where it is.
func TestHookBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := memlog.New(memlog.Options{})
		defer l.Close()
		create(t, l, "a", 1)
		p := producer(t, l, "p")
		gate := make(chan struct{})
		l.SetFaults(memlog.Faults{EndTxn: func(context.Context, string) error { <-gate; return nil }})
		require.NoError(t, p.Produce(ctx, tp("a", 0), batchOf(kv("a=1"))))
		done := make(chan error, 1)
		go func() {
			_, err := p.Commit(ctx, nil, noGroup)
			done <- err
		}()
		synctest.Wait()
		require.Error(t, p.Abort(ctx), "a producer is for one goroutine at a time")
		require.Empty(t, shown(t, l, "a", 0, commitlog.ReadCommitted))
		close(gate)
		require.NoError(t, <-done)
		require.Len(t, shown(t, l, "a", 0, commitlog.ReadCommitted), 1)
	})
}

// Every other hook is asked, and its error is the call's.
func TestOtherFaults(t *testing.T) {
	ctx := context.Background()
	l := memlog.New(memlog.Options{})
	defer l.Close()
	create(t, l, "a", 1)
	m := member(t, l, "g", "", 1, "a")
	p := producer(t, l, "p")
	_, err := l.Append(ctx, "a", 0, kv("a=1"))
	require.NoError(t, err)
	var methods []string
	l.SetFaults(memlog.Faults{
		Admin:        func(_ context.Context, method string) error { methods = append(methods, method); return errInjected },
		OpenProducer: func(context.Context, commitlog.ProducerConfig) error { return errInjected },
		OpenReader:   func(context.Context, commitlog.ReaderConfig) error { return errInjected },
		OpenMember:   func(context.Context, commitlog.MemberConfig) error { return errInjected },
		Join:         func(context.Context, commitlog.MemberConfig) error { return errInjected },
		Abort:        func(context.Context, string) error { return errInjected },
	})
	tps := []commitlog.TopicPartition{tp("a", 0)}
	_, e1 := l.Topics(ctx, "a")
	_, e2 := l.TopicConfigs(ctx, "a")
	e3 := l.CreateTopics(ctx, nil)
	_, e4 := l.StartOffsets(ctx, tps)
	_, e5 := l.EndOffsets(ctx, tps, commitlog.ReadCommitted)
	_, e6 := l.CommittedOffsets(ctx, "g", tps)
	_, e7 := l.OpenProducer(ctx, commitlog.ProducerConfig{TransactionalID: "q"})
	_, e8 := l.OpenReader(ctx, commitlog.ReaderConfig{})
	_, e9 := l.OpenMember(ctx, commitlog.MemberConfig{})
	_, e10 := m.Join(ctx, nil, nil)
	require.NoError(t, p.Produce(ctx, tp("a", 0), batchOf(kv("b=1"))))
	for i, err := range []error{e1, e2, e3, e4, e5, e6, e7, e8, e9, e10, p.Abort(ctx)} {
		require.ErrorIs(t, err, errInjected, "call %d", i)
	}
	require.Equal(t, []string{"Topics", "TopicConfigs", "CreateTopics", "StartOffsets", "EndOffsets", "CommittedOffsets"}, methods)

	l.SetFaults(memlog.Faults{Fetch: func(commitlog.TopicPartition) error { return errInjected }})
	r, err := l.OpenReader(ctx, commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp("a", 0): 0}})
	require.NoError(t, err)
	_, ok := <-r.Chunks()
	require.False(t, ok)
	require.ErrorIs(t, r.Err(), errInjected)
	s := l.Session()
	_, err = s.Topics(ctx, "a")
	require.NoError(t, err, "another connection has no faults")
	require.NoError(t, s.Close())
}

// A transaction that outlives its timeout is aborted and its producer fenced.
func TestTransactionTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := memlog.New(memlog.Options{})
		defer l.Close()
		create(t, l, "a", 1)
		p, err := l.OpenProducer(ctx, commitlog.ProducerConfig{TransactionalID: "p", TransactionTimeout: 10 * time.Second})
		require.NoError(t, err)
		for range 3 { // transactions in time are not disturbed
			require.NoError(t, p.Produce(ctx, tp("a", 0), batchOf(kv("a=1"))))
			time.Sleep(9 * time.Second)
			_, err = p.Commit(ctx, nil, noGroup)
			require.NoError(t, err)
		}
		require.NoError(t, p.Produce(ctx, tp("a", 0), batchOf(kv("b=1"))))
		_, err = l.Append(ctx, "a", 0, kv("c=1"))
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Len(t, shown(t, l, "a", 0, commitlog.ReadCommitted), 4)
		_, err = p.Commit(ctx, nil, noGroup)
		require.ErrorContains(t, err, "PRODUCER_FENCED (90): transaction timed out: open for 10s, longer than the transaction timeout of 10s")
		require.ErrorIs(t, err, commitlog.ErrTransactionTimeout)
		require.Equal(t, commitlog.Fenced, commitlog.ClassOf(err))
		var e *commitlog.Error
		require.True(t, errors.As(err, &e))
		require.Equal(t, "p", e.TransactionalID)
		// Another producer's fence is none.
		p, err = l.OpenProducer(ctx, commitlog.ProducerConfig{TransactionalID: "p", TransactionTimeout: 10 * time.Second})
		require.NoError(t, err)
		require.NoError(t, p.Produce(ctx, tp("a", 0), batchOf(kv("d=1"))))
		_, err = l.OpenProducer(ctx, commitlog.ProducerConfig{TransactionalID: "p"})
		require.NoError(t, err)
		_, err = p.Commit(ctx, nil, noGroup)
		require.ErrorContains(t, err, "PRODUCER_FENCED (90)")
		require.NotErrorIs(t, err, commitlog.ErrTransactionTimeout)
	})
}

// A closed connection leaves what it had open, as a killed process does.
func TestClosedConnectionIsAKilledProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := memlog.New(memlog.Options{})
		defer l.Close()
		create(t, l, "in", 2)
		s := l.Session()
		a, p := member(t, s, "g", "", 2, "in"), producer(t, s, "p")
		_, err := a.Join(ctx, nil, nil)
		require.NoError(t, err)
		require.NoError(t, p.Produce(ctx, tp("in", 0), batchOf(kv("a=1"))))
		require.NoError(t, s.Close())
		require.ErrorIs(t, p.Abort(ctx), commitlog.ErrClosed)
		end, err := l.EndOffsets(ctx, []commitlog.TopicPartition{tp("in", 0)}, commitlog.ReadCommitted)
		require.NoError(t, err)
		require.Zero(t, end[tp("in", 0)], "the transaction is open")
		begin := time.Now()
		as, err := member(t, l, "g", "", 2, "in").Join(ctx, nil, nil)
		require.NoError(t, err)
		require.Equal(t, 10*time.Second, time.Since(begin), "after the session")
		require.Len(t, as.Partitions, 2)
		time.Sleep(time.Minute)
		synctest.Wait()
		end, err = l.EndOffsets(ctx, []commitlog.TopicPartition{tp("in", 0)}, commitlog.ReadCommitted)
		require.NoError(t, err)
		require.Equal(t, int64(2), end[tp("in", 0)], "after the transaction's timeout")
	})
}
