package memlog_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/exec/commitlog/logtest"
	"github.com/wickerwork/wicker/testkit/memlog"
)

// handClock is a clock that a test moves.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestConformance(t *testing.T) {
	logtest.Run(t, func(t *testing.T) logtest.Target {
		clock := &handClock{now: time.Now()}
		l := memlog.New(memlog.Options{Now: clock.Now})
		t.Cleanup(func() { require.NoError(t, l.Close()) })
		return logtest.Target{
			Log:     l,
			Connect: func(testing.TB) commitlog.Log { return l.Session() },
			Append: func(t testing.TB, tp commitlog.TopicPartition, records []commitlog.Record) int64 {
				first, err := l.Append(context.Background(), tp.Topic, tp.Partition, records)
				require.NoError(t, err)
				return first
			},
			Read: func(t testing.TB, tp commitlog.TopicPartition, n int) []commitlog.Record {
				records, err := l.Records(tp.Topic, tp.Partition, commitlog.ReadCommitted)
				require.NoError(t, err)
				return records[:n]
			},
			Compact: func(t testing.TB, topic string) {
				require.NoError(t, l.Compact(topic, memlog.CompactOptions{}))
			},
			DeleteRecords: func(t testing.TB, tp commitlog.TopicPartition, before int64) {
				_, err := l.Truncate(tp, before)
				require.NoError(t, err)
			},
			DeleteTopic: func(_ testing.TB, topic string) { l.DeleteTopics(topic) },
			Elapse: func(d time.Duration) {
				clock.advance(d)
				l.Tick()
			},
			Compressions: []string{"gzip", "snappy", "lz4", "zstd"},
			Patience:     10 * time.Second,
			Steps:        1500,
			Seeds:        []uint64{1, 2, 3, 4},
		}
	})
}
