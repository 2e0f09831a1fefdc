package kafkalog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/exec/kafkalog"
)

// Brokers from before topic ids and DescribeProducers are served as far as they go: topics have no id, and of an
// open transaction is told where it begins.
func TestOldBrokers(t *testing.T) {
	t.Run("2.5", func(t *testing.T) { oldBroker(t, kversion.V2_5_0()) })
	t.Run("2.7", func(t *testing.T) { oldBroker(t, kversion.V2_7_0()) })
}

func oldBroker(t *testing.T, versions *kversion.Versions) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.MaxVersions(versions))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	works(t, kafkalog.Config{Brokers: c.ListenAddrs()})
	l, err := kafkalog.Open(t.Context(), kafkalog.Config{Brokers: c.ListenAddrs()})
	require.NoError(t, err)
	defer l.Close()
	tps := []commitlog.TopicPartition{{Topic: "old"}, {Topic: "old", Partition: 1}}
	require.NoError(t, l.CreateTopics(t.Context(), []commitlog.TopicSpec{{Name: "old", Partitions: 2, Replication: -1}}))
	topics, err := l.Topics(t.Context(), "old", "missing")
	require.NoError(t, err)
	require.Equal(t, map[string]commitlog.Topic{"old": {Name: "old", Partitions: 2}}, topics)

	p, err := l.OpenProducer(t.Context(), commitlog.ProducerConfig{TransactionalID: "p"})
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.Produce(t.Context(), tps[1], batchOf("a")))
	_, err = p.Commit(t.Context(), nil, commitlog.GroupMetadata{Generation: -1})
	require.NoError(t, err)
	open, err := l.OpenTransactions(t.Context(), tps)
	require.NoError(t, err)
	require.Empty(t, open)
	require.NoError(t, p.Produce(t.Context(), tps[1], batchOf("b")))
	require.Eventually(t, func() bool {
		open, err = l.OpenTransactions(t.Context(), tps)
		require.NoError(t, err)
		return len(open) > 0
	}, 30*time.Second, 5*time.Millisecond)
	require.Equal(t, []commitlog.OpenTransaction{{TopicPartition: tps[1], ProducerID: -1, Start: 2}}, open)

	m, err := l.OpenMember(t.Context(), commitlog.MemberConfig{Group: "g", Protocol: "p", Topics: []string{"old"},
		Assign: func(members []commitlog.GroupMember) (map[string][]commitlog.TopicPartition, error) {
			return map[string][]commitlog.TopicPartition{members[0].ID: tps}, nil
		}})
	require.NoError(t, err)
	a, err := m.Join(t.Context(), nil, nil)
	require.NoError(t, err)
	require.Equal(t, tps, a.Partitions)
	require.NoError(t, m.Close(t.Context(), true))
}
