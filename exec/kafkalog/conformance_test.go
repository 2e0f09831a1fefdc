package kafkalog_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/exec/commitlog/logtest"
	"github.com/wickerwork/wicker/exec/kafkalog"
	"github.com/wickerwork/wicker/testkit/kafka"
)

// connect opens a log on a broker, as another process would.
func connect(t testing.TB, b *kafka.Broker) *kafkalog.Log {
	t.Helper()
	l, err := kafkalog.Open(t.Context(), kafkalog.Config{Brokers: []string{b.Addr()}})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// L1 to L8 on the embedded broker and on a real one; the memberships that outlive rebalances are K7.
func TestConformance(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		shared := connect(t, b)
		client := b.Client(t)
		logtest.Run(t, func(t *testing.T) logtest.Target {
			if b.Kind() == kafka.Embedded && strings.HasSuffix(t.Name(), "/BadSpecs") {
				t.Skip("SKIP: the embedded broker takes any setting")
			}
			if b.Kind() == kafka.Embedded && strings.HasSuffix(t.Name(), "/StaticMemberOfAnotherVersion") {
				t.Skip("SKIP: the embedded broker rebalances whenever the leader returns, of whatever version")
			}
			if b.Kind() == kafka.Embedded && strings.HasSuffix(t.Name(), "/WithheldIsTold") {
				t.Skip("SKIP: the embedded broker rebalances when a static member returns that holds other partitions than before")
			}
			return logtest.Target{
				Log: shared,
				Connect: func(t testing.TB) commitlog.Log {
					l, err := kafkalog.Open(context.Background(), kafkalog.Config{Brokers: []string{b.Addr()}})
					require.NoError(t, err)
					return l
				},
				Append: func(t testing.TB, tp commitlog.TopicPartition, records []commitlog.Record) int64 {
					return appendTo(t, client, tp, records)
				},
				Read: func(t testing.TB, tp commitlog.TopicPartition, n int) []commitlog.Record {
					return readFrom(t, client, tp, n)
				},
				DeleteRecords: func(t testing.TB, tp commitlog.TopicPartition, before int64) { deleteRecords(t, b, tp, before) },
				DeleteTopic: func(t testing.TB, topic string) {
					require.NoError(t, client.DeleteTopics(context.Background(), topic))
				},
				Compressions:   []string{"gzip", "snappy", "lz4", "zstd"},
				Elapse:         time.Sleep,
				SessionTimeout: 2 * time.Second,
				Patience:       10 * time.Second,
			}
		})
	})
}

// appendTo writes records by a client other than the one under test.
func appendTo(t testing.TB, c *kafka.Client, tp commitlog.TopicPartition, records []commitlog.Record) int64 {
	t.Helper()
	part := kafka.Partition{Topic: tp.Topic, Partition: tp.Partition}
	before, err := c.EndOffsets(t.Context(), kafka.ReadUncommitted, tp.Topic)
	require.NoError(t, err)
	var out []kafka.Record
	for _, r := range records {
		k := kafka.Record{Topic: tp.Topic, Partition: tp.Partition, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp)}
		require.NoError(t, r.EachHeader(func(key string, value []byte) bool {
			k.Headers = append(k.Headers, kafka.Header{Key: key, Value: value})
			return true
		}))
		out = append(out, k)
	}
	require.NoError(t, c.ProduceTo(t.Context(), out...))
	return before[part]
}

// readFrom reads a partition's first n records, read_committed, by a client other than the one under test.
func readFrom(t testing.TB, c *kafka.Client, tp commitlog.TopicPartition, n int) []commitlog.Record {
	t.Helper()
	got, err := c.ReadFrom(t.Context(), kafka.ReadCommitted, kafka.Offsets{{Topic: tp.Topic, Partition: tp.Partition}: 0})
	require.NoError(t, err)
	var out []commitlog.Record
	for _, r := range got[:min(n, len(got))] {
		k := commitlog.Record{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)}
		for _, h := range r.Headers {
			k.Headers = commitlog.AppendHeader(k.Headers, h.Key, h.Value)
			k.HeaderCount++
		}
		out = append(out, k)
	}
	return out
}
