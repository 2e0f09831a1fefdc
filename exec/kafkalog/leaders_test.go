package kafkalog_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/exec/kafkalog"
)

// L2, L4, L5: with three brokers, partitions and coordinators that move while batches, fetches
// and ends of transactions are under way lose nothing and double nothing.
func TestLeadersMove(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(3))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	l, err := kafkalog.Open(t.Context(), kafkalog.Config{Brokers: c.ListenAddrs()[:1]})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	tp := commitlog.TopicPartition{Topic: "moving"}
	require.NoError(t, l.CreateTopics(t.Context(), []commitlog.TopicSpec{{Name: tp.Topic, Partitions: 1, Replication: -1}}))
	f := follow(t, l, tp)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	moves := 0
	wg.Go(func() {
		r := rand.New(rand.NewPCG(1, 2))
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(1+r.IntN(20)) * time.Millisecond):
				if r.IntN(4) == 0 {
					c.RehashCoordinators()
				} else if err := c.MoveTopicPartition(tp.Topic, tp.Partition, int32(r.IntN(3))); err == nil {
					moves++
				}
			}
		}
	})
	s := scribe(t, l, tp, 300, 7, func(int) {})
	close(stop)
	wg.Wait()
	require.Positive(t, moves)

	// The end by another connection, when the last transaction is settled.
	other, err := kafkalog.Open(t.Context(), kafkalog.Config{Brokers: c.ListenAddrs()})
	require.NoError(t, err)
	defer other.Close()
	tps := []commitlog.TopicPartition{tp}
	var end int64
	require.Eventually(t, func() bool {
		stable, err := other.EndOffsets(t.Context(), tps, commitlog.ReadCommitted)
		require.NoError(t, err)
		all, err := other.EndOffsets(t.Context(), tps, commitlog.ReadUncommitted)
		require.NoError(t, err)
		end = stable[tp]
		return end == all[tp]
	}, 30*time.Second, 5*time.Millisecond)
	s.check(t, f.until(t, end))
}

// E12: records are deleted, and transactions told, while leaders move.
func TestAdminWhileLeadersMove(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(3))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	l, err := kafkalog.Open(t.Context(), kafkalog.Config{Brokers: c.ListenAddrs()[:1]})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	const parts = 6
	require.NoError(t, l.CreateTopics(t.Context(), []commitlog.TopicSpec{{Name: "moving", Partitions: parts, Replication: -1}}))
	var tps []commitlog.TopicPartition
	p, err := l.OpenProducer(t.Context(), commitlog.ProducerConfig{TransactionalID: "p"})
	require.NoError(t, err)
	defer p.Close()
	for i := range int32(parts) {
		tps = append(tps, commitlog.TopicPartition{Topic: "moving", Partition: i})
		require.NoError(t, p.Produce(t.Context(), tps[i], batchOf(make([]string, 50)...)))
	}
	_, err = p.Commit(t.Context(), nil, commitlog.GroupMetadata{Generation: -1})
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(3, 4))
	for below := int64(1); below <= 40; below++ {
		for range 2 {
			require.NoError(t, c.MoveTopicPartition("moving", int32(r.IntN(parts)), int32(r.IntN(3))))
		}
		want := map[commitlog.TopicPartition]int64{}
		for _, tp := range tps {
			want[tp] = below
		}
		require.NoError(t, l.DeleteRecords(t.Context(), want))
		start, err := l.StartOffsets(t.Context(), tps)
		require.NoError(t, err)
		require.Equal(t, want, start)
		open, err := l.OpenTransactions(t.Context(), tps)
		require.NoError(t, err)
		require.Empty(t, open)
	}
}
