package kafkalog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/testkit/kafka"
)

// noMember is a commit's identity where there are no offsets.
var noMember = commitlog.GroupMetadata{Generation: -1}

// E3: a transaction that the broker has aborted for its age is Fenced and called a timeout; the next producer goes on.
func TestTransactionTimesOut(t *testing.T) {
	kafka.EachOwn(t, kafka.Options{Properties: map[string]string{"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}}, func(t *testing.T, b *kafka.Broker) {
		l := connect(t, b)
		tps := topicOf(t, l, 2)
		open := func(timeout time.Duration) commitlog.Producer {
			p, err := l.OpenProducer(t.Context(), commitlog.ProducerConfig{TransactionalID: tps[0].Topic, TransactionTimeout: timeout})
			require.NoError(t, err)
			t.Cleanup(func() { p.Close() })
			return p
		}
		timedOut := func(err error) {
			t.Helper()
			require.ErrorIs(t, err, commitlog.ErrTransactionTimeout)
			require.Equal(t, commitlog.Fenced, commitlog.ClassOf(err))
			require.ErrorContains(t, err, "longer than the transaction timeout of 1s")
			t.Log(err)
		}
		aborted := func(n int) {
			t.Helper()
			require.Eventually(t, func() bool {
				open, err := l.OpenTransactions(t.Context(), tps)
				require.NoError(t, err)
				return len(open) == n
			}, 30*time.Second, 10*time.Millisecond)
		}
		// By the commit, by a batch, and by the abort of what is left of it.
		for name, late := range map[string]func(commitlog.Producer) error{
			"commit": func(p commitlog.Producer) error { _, err := p.Commit(t.Context(), nil, noMember); return err },
			"produce": func(p commitlog.Producer) error {
				require.NoError(t, p.Produce(t.Context(), tps[0], batchOf("late")))
				_, err := p.Commit(t.Context(), nil, noMember)
				return err
			},
			"new partition": func(p commitlog.Producer) error {
				require.NoError(t, p.Produce(t.Context(), tps[1], batchOf("late")))
				_, err := p.Commit(t.Context(), nil, noMember)
				return err
			},
			"offsets": func(p commitlog.Producer) error {
				_, err := p.Commit(t.Context(), map[commitlog.TopicPartition]int64{tps[0]: 1}, commitlog.GroupMetadata{Group: tps[0].Topic, Generation: -1})
				return err
			},
		} {
			t.Run(name, func(t *testing.T) {
				p := open(time.Second)
				require.NoError(t, p.Produce(t.Context(), tps[0], batchOf("never")))
				aborted(1)
				aborted(0)
				timedOut(late(p))
				require.ErrorIs(t, p.Produce(t.Context(), tps[0], batchOf("never")), commitlog.ErrTransactionTimeout)
				next := open(time.Minute)
				require.NoError(t, next.Produce(t.Context(), tps[0], batchOf(name)))
				_, err := next.Commit(t.Context(), nil, noMember)
				require.NoError(t, err)
			})
		}
		require.ElementsMatch(t, []string{"commit", "produce", "new partition", "offsets"}, readValues(t, l, tps[0], 4))
	})
}

// topicOf creates a topic of the test's own.
func topicOf(t *testing.T, l commitlog.Log, partitions int32) []commitlog.TopicPartition {
	t.Helper()
	name := kafka.Name(t)
	require.NoError(t, l.CreateTopics(t.Context(), []commitlog.TopicSpec{{Name: name, Partitions: int(partitions), Replication: -1}}))
	var tps []commitlog.TopicPartition
	for i := range partitions {
		tps = append(tps, commitlog.TopicPartition{Topic: name, Partition: i})
	}
	return tps
}

// E3: a producer that was idle for longer than its transactional id lives is Fenced and told why; a new one with the
// same id goes on. The embedded broker forgets no id.
func TestExpiredTransactionalID(t *testing.T) {
	b := kafka.StartReal(t, kafka.Options{Properties: map[string]string{
		"transactional.id.expiration.ms": "1000", "transaction.remove.expired.transaction.cleanup.interval.ms": "200", "producer.id.expiration.ms": "1000"}})
	l := connect(t, b)
	tps := topicOf(t, l, 1)
	open := func() commitlog.Producer {
		p, err := l.OpenProducer(t.Context(), commitlog.ProducerConfig{TransactionalID: tps[0].Topic})
		require.NoError(t, err)
		t.Cleanup(func() { p.Close() })
		return p
	}
	write := func(p commitlog.Producer, value string) error {
		require.NoError(t, p.Produce(t.Context(), tps[0], batchOf(value)))
		_, err := p.Commit(t.Context(), nil, noMember)
		return err
	}
	p := open()
	require.NoError(t, write(p, "first"))
	var err error
	for wait := 3 * time.Second; ; wait *= 2 { // each transaction makes the id live longer
		time.Sleep(wait)
		if err = write(p, "more"); err != nil || wait > 20*time.Second {
			break
		}
	}
	require.ErrorContains(t, err, "INVALID_PRODUCER_ID_MAPPING (49): the transactional id has expired at the broker")
	require.Equal(t, commitlog.Fenced, commitlog.ClassOf(err))
	t.Log(err)
	require.ErrorContains(t, p.Produce(t.Context(), tps[0], batchOf("never")), "has expired")
	require.NoError(t, write(open(), "last"))
}
