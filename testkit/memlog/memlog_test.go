package memlog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/testkit/memlog"
)

func tp(topic string, partition int32) commitlog.TopicPartition {
	return commitlog.TopicPartition{Topic: topic, Partition: partition}
}

// kv makes records with keys and values "k=v", or "k" for a null value.
func kv(pairs ...string) []commitlog.Record {
	var out []commitlog.Record
	for i, p := range pairs {
		r := commitlog.Record{Timestamp: int64(1000 + i)}
		for j := range len(p) {
			if p[j] == '=' {
				r.Key, r.Value = []byte(p[:j]), []byte(p[j+1:])
			}
		}
		if r.Key == nil {
			r.Key = []byte(p)
		}
		out = append(out, r)
	}
	return out
}

func batchOf(records []commitlog.Record) *commitlog.Batch {
	b := commitlog.NewBuilder(commitlog.NewPool(0))
	for _, r := range records {
		b.Append(r.Timestamp, r.Key, r.Value, r.Headers, r.HeaderCount)
	}
	return b.Take()
}

// shown returns "offset:key=value" of what iso sees.
func shown(t *testing.T, l *memlog.Log, topic string, partition int32, iso commitlog.Isolation) []string {
	t.Helper()
	records, err := l.Records(topic, partition, iso)
	require.NoError(t, err)
	out := []string{}
	for _, r := range records {
		out = append(out, fmt.Sprintf("%d:%s=%s", r.Offset, r.Key, r.Value))
	}
	return out
}

func create(t *testing.T, l *memlog.Log, name string, partitions int, config ...string) {
	t.Helper()
	spec := commitlog.TopicSpec{Name: name, Partitions: partitions, Replication: -1, Config: map[string]string{}}
	for i := 0; i < len(config); i += 2 {
		spec.Config[config[i]] = config[i+1]
	}
	require.NoError(t, l.CreateTopics(context.Background(), []commitlog.TopicSpec{spec}))
}

func producer(t *testing.T, l *memlog.Log, id string) commitlog.Producer {
	t.Helper()
	p, err := l.OpenProducer(context.Background(), commitlog.ProducerConfig{TransactionalID: id})
	require.NoError(t, err)
	return p
}

var noGroup = commitlog.GroupMetadata{Generation: -1}

// everyPartition assigns partition i to member i mod n.
func everyPartition(partitions int) commitlog.Assignor {
	return func(members []commitlog.GroupMember) (map[string][]commitlog.TopicPartition, error) {
		out := map[string][]commitlog.TopicPartition{}
		for _, topic := range members[0].Topics {
			for i := range partitions {
				id := members[i%len(members)].ID
				out[id] = append(out[id], tp(topic, int32(i)))
			}
		}
		return out, nil
	}
}

func member(t *testing.T, l *memlog.Log, group, instance string, partitions int, topics ...string) commitlog.Member {
	t.Helper()
	m, err := l.OpenMember(context.Background(), commitlog.MemberConfig{Group: group, InstanceID: instance, ClientID: "c", Protocol: "p",
		Topics: topics, SessionTimeout: 10 * time.Second, RebalanceTimeout: 30 * time.Second, Assign: everyPartition(partitions)})
	require.NoError(t, err)
	return m
}

// A marker takes an offset, an open transaction holds readers back, an aborted one shows nothing.
func TestTransactionsShowWhatKafkaShows(t *testing.T) {
	ctx := context.Background()
	l := memlog.New(memlog.Options{})
	defer l.Close()
	create(t, l, "a", 1)
	p1, p2 := producer(t, l, "p1"), producer(t, l, "p2")
	require.NoError(t, p1.Produce(ctx, tp("a", 0), batchOf(kv("a=1", "b=2"))))
	require.NoError(t, p2.Produce(ctx, tp("a", 0), batchOf(kv("c=3"))))
	ends, err := p2.Commit(ctx, nil, noGroup)
	require.NoError(t, err)
	require.Equal(t, map[commitlog.TopicPartition]int64{tp("a", 0): 3}, ends)
	require.Empty(t, shown(t, l, "a", 0, commitlog.ReadCommitted))
	require.Equal(t, []string{"0:a=1", "1:b=2", "2:c=3"}, shown(t, l, "a", 0, commitlog.ReadUncommitted))
	require.NoError(t, p1.Abort(ctx))
	require.Equal(t, []string{"2:c=3"}, shown(t, l, "a", 0, commitlog.ReadCommitted))
	end, err := l.EndOffsets(ctx, []commitlog.TopicPartition{tp("a", 0)}, commitlog.ReadCommitted)
	require.NoError(t, err)
	require.Equal(t, int64(5), end[tp("a", 0)])
}

func TestCompactionLeavesGaps(t *testing.T) {
	ctx := context.Background()
	l := memlog.New(memlog.Options{})
	defer l.Close()
	create(t, l, "a", 1, "cleanup.policy", "compact")
	_, err := l.Append(ctx, "a", 0, []commitlog.Record{{Value: []byte("x")}})
	require.ErrorContains(t, err, "INVALID_RECORD")
	p := producer(t, l, "p")
	require.NoError(t, p.Produce(ctx, tp("a", 0), batchOf(kv("a=1", "b=1", "c=1"))))
	require.NoError(t, p.Abort(ctx))
	_, err = l.Append(ctx, "a", 0, kv("a=1", "b=2", "a=3", "c=4"))
	require.NoError(t, err)
	_, err = l.Append(ctx, "a", 0, kv("b", "d=1", "c"))
	require.NoError(t, err)
	before, err := l.Records("a", 0, commitlog.ReadCommitted)
	require.NoError(t, err)
	require.NoError(t, l.Compact("a", memlog.CompactOptions{}))
	require.Equal(t, []string{"6:a=3", "8:b=", "9:d=1", "10:c="}, shown(t, l, "a", 0, commitlog.ReadCommitted))
	require.NoError(t, l.Compact("a", memlog.CompactOptions{Tombstones: true, Markers: true}))
	require.Equal(t, []string{"6:a=3", "9:d=1"}, shown(t, l, "a", 0, commitlog.ReadCommitted))
	require.Len(t, before, 7)
	require.Equal(t, "a", string(before[0].Key), "what was read before stays")

	r, err := l.OpenReader(ctx, commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp("a", 0): 0}})
	require.NoError(t, err)
	defer r.Close()
	c := <-r.Chunks()
	require.Equal(t, int64(0), c.Base)
	require.Equal(t, int64(11), c.Next)
}

// A group is idle only when everything went through the topic that it writes to itself.
func TestAwaitIdleFollowsRepartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		l := memlog.New(memlog.Options{})
		create(t, l, "in", 2)
		create(t, l, "mid", 2)
		create(t, l, "out", 1)
		for i := range 200 {
			_, err := l.Append(ctx, "in", int32(i%2), kv(fmt.Sprintf("%d=x", i)))
			require.NoError(t, err)
		}
		done := make(chan error, 1)
		s := l.Session()
		go func() { done <- work(ctx, s) }()
		require.NoError(t, l.AwaitIdle(ctx, "g"))
		require.Len(t, shown(t, l, "out", 0, commitlog.ReadCommitted), 200)
		_, err := l.Append(ctx, "in", 1, kv("more=1"))
		require.NoError(t, err)
		require.NoError(t, l.AwaitIdle(ctx, "g"))
		require.Len(t, shown(t, l, "out", 0, commitlog.ReadCommitted), 201)
		require.NoError(t, s.Close())
		<-done
		require.ErrorIs(t, l.AwaitIdle(ctx, "g"), memlog.ErrNoMembers)
		require.NoError(t, l.Close())
	})
}

// work copies in to mid and mid to out, as a small executor does.
func work(ctx context.Context, l *memlog.Log) error {
	m, err := l.OpenMember(ctx, commitlog.MemberConfig{Group: "g", Protocol: "p", Topics: []string{"in", "mid"}, Assign: everyPartition(2)})
	if err != nil {
		return err
	}
	a, err := m.Join(ctx, nil, nil)
	if err != nil {
		return err
	}
	p, err := l.OpenProducer(ctx, commitlog.ProducerConfig{TransactionalID: "t"})
	if err != nil {
		return err
	}
	from := map[commitlog.TopicPartition]int64{}
	for _, tp := range a.Partitions {
		from[tp] = 0
	}
	r, err := l.OpenReader(ctx, commitlog.ReaderConfig{From: from, FetchBytes: 200})
	if err != nil {
		return err
	}
	for c := range r.Chunks() {
		var cursor commitlog.Cursor
		cursor.Reset(&c)
		b := commitlog.NewBuilder(commitlog.NewPool(0))
		var rec commitlog.Record
		for cursor.Next(&rec) {
			b.Append(rec.Timestamp, rec.Key, rec.Value, nil, 0)
		}
		to := tp("out", 0)
		if c.Topic == "in" {
			to = tp("mid", c.Partition)
		}
		if b.Len() > 0 {
			if err := p.Produce(ctx, to, b.Take()); err != nil {
				return err
			}
		}
		if _, err := p.Commit(ctx, map[commitlog.TopicPartition]int64{c.TopicPartition: c.Next}, a.GroupMetadata); err != nil {
			return err
		}
	}
	return errors.Join(r.Err(), p.Close(), m.Close(ctx, true))
}
