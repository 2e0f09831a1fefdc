package kafkalog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/exec/kafkalog"
	"github.com/wickerwork/wicker/testkit/kafka"
)

// outcome is what is known of a transaction.
type outcome int

const (
	unknown outcome = iota // Commit failed
	committed
	aborted
)

// story is what a writer did: values by transaction, and how it ended.
type story struct {
	values   [][]string
	outcomes []outcome
}

// scribe writes n transactions of numbered values to a partition under one transactional id
// and opens the producer anew after each error, as a task of the executor does.
func scribe(t *testing.T, l *kafkalog.Log, tp commitlog.TopicPartition, n int, seed uint64, pause func(i int)) *story {
	r := rand.New(rand.NewPCG(seed, 1))
	ctx := t.Context()
	id := kafka.Name(t)
	pool := commitlog.NewPool(4096)
	open := func() commitlog.Producer {
		p, err := l.OpenProducer(ctx, commitlog.ProducerConfig{TransactionalID: id})
		require.NoError(t, err)
		return p
	}
	p := open()
	defer func() { p.Close() }()
	s := &story{}
	for i := range n {
		pause(i)
		var values []string
		var err error
		for j := range 1 + r.IntN(12) {
			b := commitlog.NewBuilder(pool)
			for k := range 1 + r.IntN(5) {
				v := fmt.Sprintf("%d/%d/%d", i, j, k)
				values = append(values, v)
				b.Append(1700000000000, nil, []byte(v), nil, 0)
			}
			if err = p.Produce(ctx, tp, b.Take()); err != nil {
				break
			}
		}
		end := unknown
		switch {
		case err != nil:
		case r.IntN(4) == 0:
			if err = p.Abort(ctx); err == nil {
				end = aborted
			}
		default:
			if _, err = p.Commit(ctx, nil, commitlog.GroupMetadata{Generation: -1}); err == nil {
				end = committed
			}
		}
		s.values, s.outcomes = append(s.values, values), append(s.outcomes, end)
		if err != nil {
			require.NotEqual(t, commitlog.Fatal, commitlog.ClassOf(err), "transaction %d: %v", i, err)
			p.Close()
			p = open()
		}
	}
	return s
}

// check requires of what was read that each transaction is there as a whole, once and in
// order, or not at all, and that what is known of it is so.
func (s *story) check(t *testing.T, got []string) {
	t.Helper()
	lost := 0
	for i, values := range s.values {
		if s.outcomes[i] == unknown {
			lost++
		}
		there := len(got) > 0 && strings.HasPrefix(got[0], fmt.Sprintf("%d/", i))
		require.False(t, there && s.outcomes[i] == aborted, "transaction %d was aborted and is there", i)
		require.False(t, !there && s.outcomes[i] == committed, "transaction %d was committed and is missing", i)
		if there {
			require.GreaterOrEqual(t, len(got), len(values))
			require.Equal(t, values, got[:len(values)])
			got = got[len(values):]
		}
	}
	require.Empty(t, got)
	t.Logf("%d transactions, %d with unknown outcome", len(s.values), lost)
}

// follower reads a partition live and checks that positions are contiguous (L2).
type follower struct {
	r      commitlog.Reader
	done   chan struct{}
	end    chan int64
	values []string
	err    error
}

func follow(t *testing.T, l *kafkalog.Log, tp commitlog.TopicPartition) *follower {
	r, err := l.OpenReader(t.Context(), commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp: 0}, MaxWait: 100 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	f := &follower{r: r, done: make(chan struct{}), end: make(chan int64, 1)}
	go func() {
		defer close(f.done)
		var cur commitlog.Cursor
		var rec commitlog.Record
		position, end := int64(0), int64(-1)
		for end < 0 || position < end {
			select {
			case end = <-f.end:
			case c, ok := <-r.Chunks():
				if !ok {
					f.err = fmt.Errorf("the reader ended: %w", r.Err())
					return
				}
				if c.Base != position {
					f.err = fmt.Errorf("chunk at %d, want %d", c.Base, position)
					return
				}
				for cur.Reset(&c); cur.Next(&rec); {
					f.values = append(f.values, string(rec.Value))
				}
				if f.err = cur.Err(); f.err != nil {
					return
				}
				position = c.Next
			}
		}
	}()
	return f
}

// until waits for the follower to come to end and returns what it read.
func (f *follower) until(t *testing.T, end int64) []string {
	t.Helper()
	f.end <- end
	select {
	case <-f.done:
	case <-time.After(60 * time.Second):
		require.FailNow(t, "the reader does not come to the end", "%d", end)
	}
	require.NoError(t, f.err)
	return f.values
}

// endOf returns a partition's end when no transaction is open any more.
func endOf(t *testing.T, b *kafka.Broker, tp commitlog.TopicPartition) int64 {
	t.Helper()
	c := b.Client(t)
	require.NoError(t, c.AwaitStable(t.Context(), tp.Topic))
	ends, err := c.EndOffsets(t.Context(), kafka.ReadCommitted, tp.Topic)
	require.NoError(t, err)
	return ends[kafka.Partition{Topic: tp.Topic, Partition: tp.Partition}]
}

// cutter is a dialer whose connections can be cut.
type cutter struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cutter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err == nil {
		c.mu.Lock()
		c.conns = append(c.conns, nc)
		c.mu.Unlock()
	}
	return nc, err
}

// cut breaks every connection, at once and without a word.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, nc := range c.conns {
		if tc, ok := nc.(*net.TCPConn); ok {
			_ = tc.SetLinger(0)
		}
		nc.Close()
	}
	c.conns = nil
}

// L4, L5, K1, K2: whatever the connections do, a transaction is there once or not at all.
func TestBrokenConnections(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		var c cutter
		l, err := kafkalog.Open(t.Context(), kafkalog.Config{Brokers: []string{b.Addr()}, Dialer: c.dial})
		require.NoError(t, err)
		defer l.Close()
		tp := commitlog.TopicPartition{Topic: kafka.Name(t)}
		require.NoError(t, l.CreateTopics(t.Context(), []commitlog.TopicSpec{{Name: tp.Topic, Partitions: 1, Replication: -1}}))
		f := follow(t, l, tp)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, 2))
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(1+r.IntN(60)) * time.Millisecond):
					c.cut()
				}
			}
		})
		s := scribe(t, l, tp, 150, 3, func(int) {})
		close(stop)
		wg.Wait()
		s.check(t, f.until(t, endOf(t, b, tp)))
	})
}

// A broker that goes (a real one is killed) and comes back costs time and nothing else; the group goes on too.
func TestBrokerRestarts(t *testing.T) {
	kafka.EachOwn(t, kafka.Options{}, func(t *testing.T, b *kafka.Broker) {
		l := connect(t, b)
		tp := commitlog.TopicPartition{Topic: kafka.Name(t)}
		require.NoError(t, l.CreateTopics(t.Context(), []commitlog.TopicSpec{{Name: tp.Topic, Partitions: 1, Replication: -1}}))
		m, err := l.OpenMember(t.Context(), commitlog.MemberConfig{Group: kafka.Name(t), InstanceID: "one", Protocol: "p", Topics: []string{tp.Topic},
			SessionTimeout: 10 * time.Second, RebalanceTimeout: 10 * time.Second, HeartbeatInterval: 200 * time.Millisecond,
			Assign: func(members []commitlog.GroupMember) (map[string][]commitlog.TopicPartition, error) {
				return map[string][]commitlog.TopicPartition{members[0].ID: {tp}}, nil
			}})
		require.NoError(t, err)
		_, err = m.Join(t.Context(), nil, nil)
		require.NoError(t, err)
		f := follow(t, l, tp)

		again := make(chan error, 1)
		s := scribe(t, l, tp, 90, 5, func(i int) {
			if i == 30 || i == 60 { // between and within transactions: the restart runs beside the next ones
				go func() {
					var err error
					if b.Kind() == kafka.Embedded {
						err = b.Stop() // killed it would lose what it has acknowledged
					} else {
						err = b.Kill()
					}
					if err == nil {
						err = b.Restart(context.WithoutCancel(t.Context()))
					}
					again <- err
				}()
			}
			if i == 59 || i == 89 {
				require.NoError(t, <-again)
			}
		})
		s.check(t, f.until(t, endOf(t, b, tp)))

		a, err := m.Join(t.Context(), []commitlog.TopicPartition{tp}, nil)
		require.NoError(t, err)
		require.Equal(t, []commitlog.TopicPartition{tp}, a.Partitions)
		p, err := l.OpenProducer(t.Context(), commitlog.ProducerConfig{TransactionalID: kafka.Name(t)})
		require.NoError(t, err)
		defer p.Close()
		_, err = p.Commit(t.Context(), map[commitlog.TopicPartition]int64{tp: 7}, a.GroupMetadata)
		require.NoError(t, err)
		offsets, err := l.CommittedOffsets(t.Context(), a.Group, []commitlog.TopicPartition{tp})
		require.NoError(t, err)
		require.Equal(t, map[commitlog.TopicPartition]int64{tp: 7}, offsets)
		require.NoError(t, m.Close(t.Context(), true))
	})
}

// A topic that is not there is told within seconds, by name.
func TestMissingTopic(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		l := connect(t, b)
		tp := commitlog.TopicPartition{Topic: kafka.Name(t)}
		r, err := l.OpenReader(t.Context(), commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp: 0}})
		require.NoError(t, err)
		defer r.Close()
		for range r.Chunks() {
		}
		require.ErrorContains(t, r.Err(), tp.Topic)
		require.ErrorContains(t, r.Err(), "does the topic exist?")
		require.Equal(t, commitlog.Fatal, commitlog.ClassOf(r.Err()))
		topics, err := l.Topics(t.Context(), tp.Topic)
		require.NoError(t, err)
		require.Empty(t, topics, "L8")
	})
}
