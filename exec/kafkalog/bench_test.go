package kafkalog_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/exec/kafkalog"
	"github.com/wickerwork/wicker/testkit/kafka"
)

const benchWidth = 4

// benchTopic creates a topic for a benchmark.
func benchTopic(b *testing.B, l *kafkalog.Log) []commitlog.TopicPartition {
	topic := kafka.Name(b)
	require.NoError(b, l.CreateTopics(b.Context(), []commitlog.TopicSpec{{Name: topic, Partitions: benchWidth, Replication: -1}}))
	var tps []commitlog.TopicPartition
	for i := range benchWidth {
		tps = append(tps, commitlog.TopicPartition{Topic: topic, Partition: int32(i)})
	}
	return tps
}

// write writes n records of about 100 bytes in transactions of 64 batches of size bytes.
func write(b *testing.B, l *kafkalog.Log, tps []commitlog.TopicPartition, n, size int, compression string) {
	ctx := context.Background()
	p, err := l.OpenProducer(ctx, commitlog.ProducerConfig{TransactionalID: kafka.Name(b), Compression: compression})
	require.NoError(b, err)
	defer p.Close()
	pool := commitlog.NewPool(size + 4096)
	builder := commitlog.NewBuilder(pool)
	key, value := []byte("key-0000000001"), bytes.Repeat([]byte("0123456789abcdef"), 5)
	batches := 0
	send := func() {
		require.NoError(b, p.Produce(ctx, tps[batches%len(tps)], builder.Take()))
		if batches++; batches%64 == 0 {
			_, err := p.Commit(ctx, nil, commitlog.GroupMetadata{Generation: -1})
			require.NoError(b, err)
		}
	}
	for range n {
		if builder.Append(1700000000000, key, value, nil, 0); builder.Size() >= size {
			send()
		}
	}
	if builder.Len() > 0 {
		send()
	}
	_, err = p.Commit(ctx, nil, commitlog.GroupMetadata{Generation: -1})
	require.NoError(b, err)
}

// BenchmarkProduce writes records of about 100 bytes to a real broker; an op is a record.
func BenchmarkProduce(b *testing.B) {
	l := connect(b, kafka.Shared(b))
	for _, size := range []int{16 << 10, 128 << 10, 512 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			tps := benchTopic(b, l)
			b.ReportAllocs()
			b.ResetTimer()
			write(b, l, tps, b.N, size, "")
		})
	}
}

// BenchmarkFetch reads records of about 100 bytes from a real broker; an op is a record.
func BenchmarkFetch(b *testing.B) {
	l := connect(b, kafka.Shared(b))
	for _, compression := range []string{"none", "lz4"} {
		b.Run(compression, func(b *testing.B) {
			tps := benchTopic(b, l)
			write(b, l, tps, b.N, 128<<10, compression)
			from := map[commitlog.TopicPartition]int64{}
			for _, tp := range tps {
				from[tp] = 0
			}
			b.ReportAllocs()
			b.ResetTimer()
			r, err := l.OpenReader(b.Context(), commitlog.ReaderConfig{From: from})
			require.NoError(b, err)
			defer r.Close()
			var cur commitlog.Cursor
			var rec commitlog.Record
			bytes := 0
			for n := 0; n < b.N; {
				c := <-r.Chunks()
				for cur.Reset(&c); cur.Next(&rec); n++ {
					bytes += len(rec.Key) + len(rec.Value)
				}
			}
			b.SetBytes(int64(bytes / b.N))
		})
	}
}

// BenchmarkTransaction writes one small batch and an offset in a transaction of its own.
func BenchmarkTransaction(b *testing.B) {
	l := connect(b, kafka.Shared(b))
	ctx := context.Background()
	tps := benchTopic(b, l)
	p, err := l.OpenProducer(ctx, commitlog.ProducerConfig{TransactionalID: kafka.Name(b)})
	require.NoError(b, err)
	defer p.Close()
	builder := commitlog.NewBuilder(commitlog.NewPool(4096))
	group := commitlog.GroupMetadata{Group: kafka.Name(b), Generation: -1}
	var produced, committed time.Duration
	for b.Loop() {
		start := time.Now()
		builder.Append(1700000000000, []byte("k"), []byte("v"), nil, 0)
		require.NoError(b, p.Produce(ctx, tps[0], builder.Take()))
		mid := time.Now()
		_, err := p.Commit(ctx, map[commitlog.TopicPartition]int64{tps[1]: 1}, group)
		require.NoError(b, err)
		produced += mid.Sub(start)
		committed += time.Since(mid)
	}
	b.ReportMetric(float64(committed.Microseconds())/float64(b.N), "us/commit")
}
