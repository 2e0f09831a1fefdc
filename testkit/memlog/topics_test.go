package memlog_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/testkit/memlog"
)

// A topic deleted and created again is another one: readers of the old one end, its offsets are gone.
func TestDeletedTopic(t *testing.T) {
	ctx := context.Background()
	l := memlog.New(memlog.Options{})
	defer l.Close()
	create(t, l, "a", 1)
	_, err := l.Append(ctx, "a", 0, kv("a=1"))
	require.NoError(t, err)
	l.SetCommitted("g", map[commitlog.TopicPartition]int64{tp("a", 0): 1})
	from := map[commitlog.TopicPartition]int64{tp("a", 0): 0}
	r, err := l.OpenReader(ctx, commitlog.ReaderConfig{From: from})
	require.NoError(t, err)
	<-r.Chunks()
	p := producer(t, l, "p")
	require.NoError(t, p.Produce(ctx, tp("a", 0), batchOf(kv("b=1"))))
	was, err := l.Topics(ctx, "a")
	require.NoError(t, err)
	l.DeleteTopics("a", "never")
	_, ok := <-r.Chunks()
	require.False(t, ok)
	require.ErrorContains(t, r.Err(), "UNKNOWN_TOPIC_OR_PARTITION")
	create(t, l, "a", 2)
	_, err = l.OpenReader(ctx, commitlog.ReaderConfig{From: from, IDs: map[string]commitlog.TopicID{"a": was["a"].ID}})
	require.ErrorIs(t, err, commitlog.ErrTopicRecreated)
	r, err = l.OpenReader(ctx, commitlog.ReaderConfig{From: from})
	require.NoError(t, err)
	require.NoError(t, l.RecreateTopic(commitlog.TopicSpec{Name: "a", Partitions: 2, Replication: 1}))
	_, ok = <-r.Chunks()
	require.False(t, ok)
	require.ErrorIs(t, r.Err(), commitlog.ErrTopicRecreated)
	got, err := l.CommittedOffsets(ctx, "g", []commitlog.TopicPartition{tp("a", 0)})
	require.NoError(t, err)
	require.Empty(t, got)
	_, err = p.Commit(ctx, nil, noGroup)
	require.NoError(t, err)
	require.Empty(t, shown(t, l, "a", 0, commitlog.ReadUncommitted))
}

func TestSettings(t *testing.T) {
	ctx := context.Background()
	now := time.UnixMilli(1700000000000)
	l := memlog.New(memlog.Options{Now: func() time.Time { return now }, DefaultPartitions: 3, TopicDefaults: map[string]string{"message.timestamp.type": "LogAppendTime"}})
	defer l.Close()
	create(t, l, "default", -1)
	topics, err := l.Topics(ctx, "default")
	require.NoError(t, err)
	require.Equal(t, 3, topics["default"].Partitions)
	_, err = l.Append(ctx, "default", 1, kv("a=1"))
	require.NoError(t, err)
	records, err := l.Records("default", 1, commitlog.ReadCommitted)
	require.NoError(t, err)
	require.Equal(t, int64(1700000000000), records[0].Timestamp)

	create(t, l, "small", 1, "max.message.bytes", "200", "message.timestamp.type", "CreateTime")
	big := batchOf(kv("a=" + strings.Repeat("x", 300)))
	require.ErrorIs(t, producer(t, l, "p").Produce(ctx, tp("small", 0), big), commitlog.ErrTooLarge)

	for want, spec := range map[string]commitlog.TopicSpec{
		"INVALID_TOPIC_EXCEPTION (17)":    {Name: "no spaces", Partitions: 1, Replication: 1},
		"INVALID_PARTITIONS (37)":         {Name: "a", Partitions: 0, Replication: 1},
		"INVALID_REPLICATION_FACTOR (38)": {Name: "a", Partitions: 1},
		"INVALID_CONFIG (40)":             {Name: "a", Partitions: 1, Replication: 1, Config: map[string]string{"retention": "1"}},
	} {
		ok := commitlog.TopicSpec{Name: "ok-" + want[:12], Partitions: 1, Replication: 1}
		err := l.CreateTopics(ctx, []commitlog.TopicSpec{spec, ok})
		require.ErrorContains(t, err, want)
		require.Equal(t, commitlog.Fatal, commitlog.ClassOf(err))
		topics, err := l.Topics(ctx, ok.Name)
		require.NoError(t, err)
		require.Len(t, topics, 1, "the others are created")
	}
}

// Append keeps order and offsets over many batches.
func TestAppendMany(t *testing.T) {
	ctx := context.Background()
	l := memlog.New(memlog.Options{})
	defer l.Close()
	create(t, l, "a", 1)
	var in []commitlog.Record
	for i := range 20000 {
		in = append(in, commitlog.Record{Timestamp: int64(i), Key: fmt.Appendf(nil, "%d", i), Value: []byte("a value of some length")})
	}
	for i := range 3 {
		first, err := l.Append(ctx, "a", 0, in)
		require.NoError(t, err)
		require.Equal(t, int64(i*20000), first)
	}
	out, err := l.Records("a", 0, commitlog.ReadCommitted)
	require.NoError(t, err)
	require.Len(t, out, 60000)
	for i, r := range out {
		if int64(i) != r.Offset || string(r.Key) != string(in[i%20000].Key) || r.Timestamp != in[i%20000].Timestamp {
			require.FailNow(t, "record differs", "%d: %d %s", i, r.Offset, r.Key)
		}
	}
}

// A million records and more go in, through a transaction each batch, and out.
func BenchmarkProduceAndRead(b *testing.B) {
	ctx := context.Background()
	l := memlog.New(memlog.Options{})
	defer l.Close()
	require.NoError(b, l.CreateTopics(ctx, []commitlog.TopicSpec{{Name: "a", Partitions: 4, Replication: 1}}))
	p, err := l.OpenProducer(ctx, commitlog.ProducerConfig{TransactionalID: "p"})
	require.NoError(b, err)
	from := map[commitlog.TopicPartition]int64{}
	for i := range int32(4) {
		from[tp("a", i)] = 0
	}
	r, err := l.OpenReader(ctx, commitlog.ReaderConfig{From: from})
	require.NoError(b, err)
	pool := commitlog.NewPool(64 << 10)
	builder := commitlog.NewBuilder(pool)
	key, value := []byte("key-0123"), make([]byte, 100)
	const records = 500
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for range records {
			builder.Append(1700000000000, key, value, nil, 0)
		}
		require.NoError(b, p.Produce(ctx, tp("a", int32(i%4)), builder.Take()))
		_, err := p.Commit(ctx, nil, noGroup)
		require.NoError(b, err)
		seen := 0
		for seen < records {
			c := <-r.Chunks()
			var cursor commitlog.Cursor
			var rec commitlog.Record
			for cursor.Reset(&c); cursor.Next(&rec); {
				seen++
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*records), "ns/record")
}
