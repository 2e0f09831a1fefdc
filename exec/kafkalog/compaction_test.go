package kafkalog_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/testkit/kafka"
)

// deleteRecords deletes a partition's records before an offset.
func deleteRecords(t testing.TB, b *kafka.Broker, tp commitlog.TopicPartition, before int64) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	require.NoError(t, err)
	defer c.Close()
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Partition, part.Offset = tp.Partition, before
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic, topic.Partitions = tp.Topic, []kmsg.DeleteRecordsRequestTopicPartition{part}
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis, req.Topics = 10_000, []kmsg.DeleteRecordsRequestTopic{topic}
	res, err := req.RequestWith(t.Context(), c)
	require.NoError(t, err)
	require.Zero(t, res.Topics[0].Partitions[0].ErrorCode)
}

// L2, E5, K5: what a real log cleaner leaves is read with contiguous positions, from every offset
// on: gaps, batches without records, markers that have gone and tombstones.
func TestCompactedLog(t *testing.T) {
	b := kafka.StartReal(t, kafka.Options{Properties: map[string]string{"log.cleaner.backoff.ms": "100"}})
	l := connect(t, b)
	tp := commitlog.TopicPartition{Topic: kafka.Name(t)}
	require.NoError(t, l.CreateTopics(t.Context(), []commitlog.TopicSpec{{Name: tp.Topic, Partitions: 1, Replication: -1, Config: map[string]string{
		"cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "0"}}}))
	p, err := l.OpenProducer(t.Context(), commitlog.ProducerConfig{TransactionalID: tp.Topic})
	require.NoError(t, err)
	defer p.Close()
	last := map[string]string{}
	write := func(key, value string) {
		builder := commitlog.NewBuilder(commitlog.NewPool(0))
		builder.Append(time.Now().UnixMilli(), []byte(key), []byte(value), nil, 0)
		builder.Append(time.Now().UnixMilli(), []byte(key+"'"), nil, nil, 0)
		require.NoError(t, p.Produce(t.Context(), tp, builder.Take()))
	}
	for i := range 120 {
		key, value := fmt.Sprintf("k%d", i%7), fmt.Sprintf("v%d", i)
		write(key, value)
		if i%3 == 2 && i%4 != 0 {
			require.NoError(t, p.Abort(t.Context()))
			continue
		}
		_, err := p.Commit(t.Context(), nil, commitlog.GroupMetadata{Generation: -1})
		require.NoError(t, err)
		last[key] = value
	}
	// Appends roll the segment, so that the one before can be cleaned.
	read := func(from int64) (map[string]string, int) {
		got, n := map[string]string{}, 0
		r, err := l.OpenReader(t.Context(), commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp: from}})
		require.NoError(t, err)
		defer r.Close()
		end := endOf(t, b, tp)
		var cur commitlog.Cursor
		var rec commitlog.Record
		for position := from; position < end; {
			c, ok := <-r.Chunks()
			require.True(t, ok, "the reader ended: %v", r.Err())
			require.Equal(t, position, c.Base)
			for cur.Reset(&c); cur.Next(&rec); n++ {
				require.GreaterOrEqual(t, rec.Offset, from)
				if rec.Value == nil {
					delete(got, string(rec.Key))
				} else {
					got[string(rec.Key)] = string(rec.Value)
				}
			}
			require.NoError(t, cur.Err())
			position = c.Next
		}
		return got, n
	}
	require.Eventually(t, func() bool {
		write("roll", "x")
		_, err := p.Commit(t.Context(), nil, commitlog.GroupMetadata{Generation: -1})
		require.NoError(t, err)
		last["roll"] = "x"
		_, n := read(0)
		return n < 40
	}, 60*time.Second, 100*time.Millisecond, "the log cleaner does not come")
	got, n := read(0)
	require.Equal(t, last, got)
	t.Logf("%d records left, end %d", n, endOf(t, b, tp))
	all := map[int64]int{}
	for from := int64(0); from < endOf(t, b, tp); from += 7 {
		_, all[from] = read(from)
		require.LessOrEqual(t, all[from], n+4)
	}
}
