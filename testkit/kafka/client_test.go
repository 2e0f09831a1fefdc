package kafka_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/wickerwork/wicker/testkit/kafka"
)

func TestIsolation(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		ctx, c, topic := t.Context(), b.Client(t), kafka.Name(t)
		require.NoError(t, c.CreateTopic(ctx, topic, 1, nil))
		p := kafka.Partition{Topic: topic}
		read := func(isolation kafka.Isolation) []string {
			t.Helper()
			got, err := c.Read(ctx, isolation, topic)
			require.NoError(t, err)
			return values(got)
		}
		end := func(isolation kafka.Isolation) int64 {
			t.Helper()
			ends, err := c.EndOffsets(ctx, isolation, topic)
			require.NoError(t, err)
			return ends[p]
		}
		require.Empty(t, read(kafka.ReadCommitted))

		// An aborted transaction, whose marker is the log's last entry.
		txn, err := c.Begin(ctx, topic)
		require.NoError(t, err)
		require.NoError(t, txn.Produce(ctx, records(topic, 0, 3)...))
		require.NoError(t, txn.Abort(ctx))
		require.NoError(t, c.AwaitStable(ctx, topic))
		require.Empty(t, read(kafka.ReadCommitted))
		require.Equal(t, want(0, 3), read(kafka.ReadUncommitted))
		require.Equal(t, int64(4), end(kafka.ReadCommitted))

		// An open one hides itself, and what comes after it.
		txn, err = c.Begin(ctx, topic)
		require.NoError(t, err)
		require.NoError(t, txn.Produce(ctx, records(topic, 3, 6)...))
		require.NoError(t, c.Produce(ctx, records(topic, 6, 8)...))
		require.Empty(t, read(kafka.ReadCommitted))
		require.Equal(t, want(0, 8), read(kafka.ReadUncommitted))
		require.Equal(t, int64(4), end(kafka.ReadCommitted))
		require.Equal(t, int64(9), end(kafka.ReadUncommitted))
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		require.ErrorIs(t, c.AwaitStable(short, topic), context.DeadlineExceeded)
		cancel()
		require.NoError(t, txn.Commit(ctx))
		require.NoError(t, c.AwaitStable(ctx, topic))
		require.Equal(t, want(3, 8), read(kafka.ReadCommitted))

		// Who begins with an id fences who has it, and aborts what that left.
		left, err := c.Begin(ctx, topic)
		require.NoError(t, err)
		require.NoError(t, left.Produce(ctx, records(topic, 8, 10)...))
		fenced, err := c.Begin(ctx, topic)
		require.NoError(t, err)
		left.Abandon()
		txn, err = c.Begin(ctx, topic)
		require.NoError(t, err)
		require.Error(t, fenced.Produce(ctx, records(topic, 10, 11)...))
		fenced.Abandon()
		require.NoError(t, txn.Produce(ctx, records(topic, 11, 13)...))
		require.NoError(t, txn.Commit(ctx))
		require.NoError(t, c.AwaitStable(ctx, topic))
		require.Equal(t, append(want(3, 8), want(11, 13)...), read(kafka.ReadCommitted))

		got, err := c.ReadFrom(ctx, kafka.ReadCommitted, kafka.Offsets{p: 8})
		require.NoError(t, err)
		require.Equal(t, append(want(7, 8), want(11, 13)...), values(got))
	})
}

func TestRecord(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		ctx, c, topic := t.Context(), b.Client(t), kafka.Name(t)
		require.NoError(t, c.CreateTopic(ctx, topic, 3, nil))
		at := time.UnixMilli(1_700_000_000_123)
		full := kafka.Record{
			Topic: topic, Partition: 2, Key: []byte("k"), Value: []byte{0, 255}, Timestamp: at,
			Headers: []kafka.Header{{Key: "h", Value: []byte("1")}, {Key: "h", Value: []byte{}}, {Key: "n"}},
		}
		bare := kafka.Record{Topic: topic, Partition: 1, Timestamp: at}
		empty := kafka.Record{Topic: topic, Partition: 1, Key: []byte{}, Value: []byte{}, Timestamp: at}
		require.NoError(t, c.ProduceTo(ctx, full, bare, empty))
		got, err := c.Read(ctx, kafka.ReadCommitted, topic)
		require.NoError(t, err)
		empty.Offset = 1
		require.Equal(t, []kafka.Record{bare, empty, full}, got)

		// Java's default partitioner puts this key there.
		before := time.Now().Truncate(time.Millisecond)
		require.NoError(t, c.Produce(ctx, kafka.Record{Topic: topic, Partition: 1, Key: []byte("21")}))
		got, err = c.ReadFrom(ctx, kafka.ReadCommitted, kafka.Offsets{{Topic: topic, Partition: 0}: 0})
		require.NoError(t, err)
		require.Len(t, got, 1, "murmur2 of 21 (-973932308), made positive, modulo 3 is 0")
		require.False(t, got[0].Timestamp.Before(before))
	})
}

func TestManyBatches(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		ctx, c, topic := t.Context(), b.Client(t), kafka.Name(t)
		require.NoError(t, c.CreateTopic(ctx, topic, 2, nil))
		const rounds, per = 30, 40
		value := make([]byte, 16<<10) // 19 MiB in all: more than one fetch
		for range rounds {
			var rs []kafka.Record
			for i := range per {
				rs = append(rs, kafka.Record{Topic: topic, Partition: int32(i % 2), Value: value})
			}
			require.NoError(t, c.ProduceTo(ctx, rs...))
		}
		got, err := c.Read(ctx, kafka.ReadCommitted, topic)
		require.NoError(t, err)
		require.Len(t, got, rounds*per)
		for i, r := range got {
			half := rounds * per / 2
			require.Equal(t, kafka.Partition{Topic: topic, Partition: int32(i / half)}, kafka.Partition{Topic: r.Topic, Partition: r.Partition})
			require.Equal(t, int64(i%half), r.Offset)
		}
	})
}

func TestTopics(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		ctx, c, topic := t.Context(), b.Client(t), kafka.Name(t)
		require.NoError(t, c.CreateTopic(ctx, topic, 3, map[string]string{"cleanup.policy": "compact"}))
		require.ErrorIs(t, c.CreateTopic(ctx, topic, 3, nil), kerr.TopicAlreadyExists)
		configs, err := c.TopicConfigs(ctx, topic)
		require.NoError(t, err)
		require.Equal(t, "compact", configs["cleanup.policy"])
		require.NotEmpty(t, configs["retention.ms"])

		one := topic + "-one"
		require.NoError(t, c.CreateTopic(ctx, one, 0, nil))
		topics, err := c.Topics(ctx)
		require.NoError(t, err)
		require.Equal(t, 3, topics[topic])
		require.Equal(t, 1, topics[one])

		require.NoError(t, c.DeleteTopics(ctx, topic, one))
		topics, err = c.Topics(ctx)
		require.NoError(t, err)
		require.NotContains(t, topics, topic)
		require.NotContains(t, topics, one)
		require.ErrorIs(t, c.DeleteTopics(ctx, topic), kerr.UnknownTopicOrPartition)
		_, err = c.TopicConfigs(ctx, topic)
		require.Error(t, err)
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		_, err = c.Read(short, kafka.ReadCommitted, topic)
		require.ErrorIs(t, err, kerr.UnknownTopicOrPartition)
	})
}

func TestGroup(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		ctx, c, topic, group := t.Context(), b.Client(t), kafka.Name(t), kafka.Name(t)
		require.NoError(t, c.CreateTopic(ctx, topic, 2, nil))
		offsets, err := c.CommittedOffsets(ctx, group)
		require.NoError(t, err)
		require.Empty(t, offsets)
		for i := range 4 {
			require.NoError(t, c.ProduceTo(ctx, kafka.Record{Topic: topic, Partition: int32(i % 2), Value: fmt.Append(nil, i)}))
		}

		member, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group),
			kgo.DisableAutoCommit(), kgo.FetchMaxWait(100*time.Millisecond))
		require.NoError(t, err)
		defer member.Close()
		for n := 0; n < 4; {
			fetches := member.PollFetches(ctx)
			require.NoError(t, fetches.Err())
			n += fetches.NumRecords()
		}
		require.NoError(t, member.CommitUncommittedOffsets(ctx))
		offsets, err = c.CommittedOffsets(ctx, group)
		require.NoError(t, err)
		require.Equal(t, kafka.Offsets{{Topic: topic, Partition: 0}: 2, {Topic: topic, Partition: 1}: 2}, offsets)

		g, err := c.Group(ctx, group)
		require.NoError(t, err)
		require.Equal(t, "Stable", g.State)
		require.Len(t, g.Members, 1)
		g, err = c.Group(ctx, kafka.Name(t))
		require.NoError(t, err)
		require.Equal(t, kafka.Group{State: "Dead"}, g)
		if b.Kind() == kafka.Embedded {
			return // it keeps groups elsewhere
		}
		generations, err := c.Generations(ctx, group)
		require.NoError(t, err)
		require.Equal(t, []int32{1}, generations)

		// Whatever partition of Kafka's topic it is kept in.
		for i := range 8 {
			other := fmt.Sprint(group, i)
			member, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(other))
			require.NoError(t, err)
			require.NoError(t, member.PollFetches(ctx).Err())
			generations, err = c.Generations(ctx, other)
			require.NoError(t, err)
			require.Equal(t, []int32{1}, generations)
			member.Close()
		}
	})
}

func TestName(t *testing.T) {
	t.Run("a case/with (odd) names, \u00fcmlauts and much more text than a topic's name should have", func(t *testing.T) {
		name := kafka.Name(t)
		require.Regexp(t, `^TestName-a-case-with-odd-names-[a-zA-Z0-9-]+-[A-Z2-7]{10}$`, name)
		require.LessOrEqual(t, len(name), 64)
		require.NotEqual(t, name, kafka.Name(t))
	})
}
