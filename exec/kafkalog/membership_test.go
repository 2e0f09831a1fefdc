package kafkalog_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/exec/kafkalog"
	"github.com/wickerwork/wicker/testkit/kafka"
)

// freezer is a dialer whose connections can be made to stand still, as those of a process that was stopped or of a
// network that swallows what is sent.
type freezer struct {
	mu     sync.Mutex
	thawed chan struct{} // closed when nothing is frozen
	muted  chan struct{} // closed when the connections of now are muted
}

// mute has the connections that there are swallow everything from now on; later ones work.
func (f *freezer) mute() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.muted)
	f.muted = make(chan struct{})
}

// dialMute is a dialer whose connections can be muted.
func (f *freezer) dialMute(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return &mutableConn{Conn: nc, muted: f.muted, closed: make(chan struct{})}, nil
}

type mutableConn struct {
	net.Conn
	muted  <-chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (c *mutableConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil {
		select {
		case <-c.muted:
			<-c.closed
			return 0, net.ErrClosed
		default:
		}
	}
	return n, err
}

func (c *mutableConn) Write(b []byte) (int, error) {
	select {
	case <-c.muted:
		return len(b), nil
	default:
		return c.Conn.Write(b)
	}
}

func (c *mutableConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func newFreezer() *freezer {
	f := &freezer{thawed: make(chan struct{}), muted: make(chan struct{})}
	close(f.thawed)
	return f
}

func (f *freezer) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.thawed = make(chan struct{})
}

func (f *freezer) thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.thawed)
}

func (f *freezer) gate() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.thawed
}

func (f *freezer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	select {
	case <-f.gate():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &frozenConn{Conn: nc, f: f, closed: make(chan struct{})}, nil
}

// frozenConn takes what is written while it is frozen, as a socket does, and sends it when it is thawed.
type frozenConn struct {
	net.Conn
	f      *freezer
	once   sync.Once
	closed chan struct{}

	mu   sync.Mutex // guards held
	held []byte
}

func (c *frozenConn) wait() {
	select {
	case <-c.f.gate():
	case <-c.closed:
	}
}

func (c *frozenConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil {
		c.wait()
	}
	return n, err
}

func (c *frozenConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.f.gate():
		if len(c.held) == 0 {
			return c.Conn.Write(b)
		}
	default:
	}
	if len(c.held) == 0 {
		go func() {
			c.wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			_, _ = c.Conn.Write(c.held) // a broken connection is seen by its reader
			c.held = nil
		}()
	}
	c.held = append(c.held, b...)
	return len(b), nil
}

func (c *frozenConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// toFirst gives every partition to the member that comes first in the group.
func toFirst(tps []commitlog.TopicPartition) commitlog.Assignor {
	return func(members []commitlog.GroupMember) (map[string][]commitlog.TopicPartition, error) {
		return map[string][]commitlog.TopicPartition{members[0].ID: tps}, nil
	}
}

func memberOf(t *testing.T, l commitlog.Log, tps []commitlog.TopicPartition, session time.Duration) commitlog.Member {
	t.Helper()
	m, err := l.OpenMember(t.Context(), commitlog.MemberConfig{Group: tps[0].Topic, Protocol: "p", Topics: []string{tps[0].Topic},
		SessionTimeout: session, RebalanceTimeout: 20 * time.Second, Assign: toFirst(tps)})
	require.NoError(t, err)
	return m
}

// asked requires that the owner of a member is asked to join.
func asked(t *testing.T, m commitlog.Member) {
	t.Helper()
	select {
	case <-m.Rebalance():
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the owner is not asked to join")
	}
}

// commitAs commits an offset in a transaction of its own.
func commitAs(t *testing.T, l commitlog.Log, tp commitlog.TopicPartition, offset int64, as commitlog.Identity) error {
	t.Helper()
	p, err := l.OpenProducer(t.Context(), commitlog.ProducerConfig{TransactionalID: kafka.Name(t)})
	require.NoError(t, err)
	defer p.Close()
	_, err = p.Commit(t.Context(), map[commitlog.TopicPartition]int64{tp: offset}, as)
	return err
}

// E3, L6, K6: a member that has heard nothing for its session knows by its own clock that its place may be gone, before it has
// asked anybody: nothing commits under it any more. It comes back as a new one.
func TestSilentMember(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		l := connect(t, b)
		f := newFreezer()
		cold, err := kafkalog.Open(t.Context(), kafkalog.Config{Brokers: []string{b.Addr()}, Dialer: f.dial})
		require.NoError(t, err)
		defer cold.Close()
		tps := topicOf(t, l, 2)
		m := memberOf(t, cold, tps, 2*time.Second)
		a, err := m.Join(t.Context(), nil, nil)
		require.NoError(t, err)
		require.NoError(t, commitAs(t, l, tps[0], 1, a.Identity))

		f.freeze()
		start := time.Now()
		_, err = a.Identity.Current(t.Context(), a.Generation)
		require.ErrorContains(t, err, "nothing was heard from the coordinator for the session timeout of 2s")
		require.Equal(t, commitlog.Fenced, commitlog.ClassOf(err))
		require.Less(t, time.Since(start), 20*time.Second)
		asked(t, m)
		require.Equal(t, commitlog.Fenced, commitlog.ClassOf(commitAs(t, l, tps[0], 2, a.Identity)))
		f.thaw()
		again, err := m.Join(t.Context(), a.Partitions, nil)
		require.NoError(t, err)
		require.True(t, again.Fresh)
		require.False(t, again.Identity == a.Identity)
		require.NoError(t, commitAs(t, l, tps[0], 3, again.Identity))
		require.Equal(t, commitlog.Fenced, commitlog.ClassOf(commitAs(t, l, tps[0], 4, a.Identity)), "for ever")
		offsets, err := l.CommittedOffsets(t.Context(), tps[0].Topic, tps)
		require.NoError(t, err)
		require.Equal(t, map[commitlog.TopicPartition]int64{tps[0]: 3}, offsets)
		require.NoError(t, m.Close(t.Context(), true))
	})
}

// Connections that swallow what is sent, for less than a session, cost nothing.
func TestSilenceWithinTheSession(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		l := connect(t, b)
		f := newFreezer()
		cold, err := kafkalog.Open(t.Context(), kafkalog.Config{Brokers: []string{b.Addr()}, Dialer: f.dial})
		require.NoError(t, err)
		defer cold.Close()
		tps := topicOf(t, l, 2)
		m := memberOf(t, cold, tps, 20*time.Second)
		a, err := m.Join(t.Context(), nil, nil)
		require.NoError(t, err)
		for range 3 {
			f.freeze()
			time.Sleep(300 * time.Millisecond)
			f.thaw()
			require.NoError(t, commitAs(t, cold, tps[0], 1, a.Identity))
		}
		select {
		case <-m.Rebalance():
			require.Fail(t, "a rebalance without a cause")
		default:
		}
		require.NoError(t, m.Close(t.Context(), true))
	})
}

// A group that was deleted under a member, which an administrator has put out before: the member's commits are
// Fenced, and it makes the group anew.
func TestDeletedGroup(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		l := connect(t, b)
		tps := topicOf(t, l, 2)
		group := tps[0].Topic
		m := memberOf(t, l, tps, 20*time.Second)
		a, err := m.Join(t.Context(), nil, nil)
		require.NoError(t, err)
		require.NoError(t, commitAs(t, l, tps[0], 7, a.Identity))
		c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
		require.NoError(t, err)
		defer c.Close()
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Group = group
		out := kmsg.NewLeaveGroupRequestMember()
		out.MemberID = a.MemberID
		leave.Members = append(leave.Members, out)
		left, err := leave.RequestWith(t.Context(), c)
		require.NoError(t, err)
		require.Zero(t, left.ErrorCode)
		del := kmsg.NewPtrDeleteGroupsRequest()
		del.Groups = []string{group}
		require.Eventually(t, func() bool { // the offset may still be pending
			deleted, err := del.RequestWith(t.Context(), c)
			require.NoError(t, err)
			return deleted.Groups[0].ErrorCode == 0
		}, 30*time.Second, 10*time.Millisecond)

		require.Equal(t, commitlog.Fenced, commitlog.ClassOf(commitAs(t, l, tps[0], 8, a.Identity)))
		// Whoever commits by the metadata of then is Fenced as well.
		require.Equal(t, commitlog.Fenced, commitlog.ClassOf(commitAs(t, l, tps[0], 8, a.GroupMetadata)))
		asked(t, m)
		_, err = a.Identity.Current(t.Context(), commitlog.AnyGeneration)
		require.Regexp(t, "UNKNOWN_MEMBER_ID|GROUP_ID_NOT_FOUND", err.Error())
		again, err := m.Join(t.Context(), a.Partitions, nil)
		require.NoError(t, err)
		require.True(t, again.Fresh)
		offsets, err := l.CommittedOffsets(t.Context(), group, tps)
		require.NoError(t, err)
		require.Empty(t, offsets)
		require.NoError(t, commitAs(t, l, tps[0], 9, again.Identity))
		require.NoError(t, m.Close(t.Context(), true))
	})
}

// A coordinator that is killed and comes back within the session costs no member its place, whether it works, joins or
// does nothing.
func TestCoordinatorRestarts(t *testing.T) {
	b := kafka.StartReal(t, kafka.Options{})
	l := connect(t, b)
	tps := topicOf(t, l, 2)
	m, idle := memberOf(t, l, tps, 60*time.Second), memberOf(t, l, tps, 60*time.Second)
	a, err := m.Join(t.Context(), nil, nil)
	require.NoError(t, err)
	type joined struct {
		commitlog.Assignment
		err error
	}
	join := func(m commitlog.Member, owned []commitlog.TopicPartition) <-chan joined {
		ch := make(chan joined, 1)
		go func() {
			a, err := m.Join(t.Context(), owned, nil)
			ch <- joined{a, err}
		}()
		return ch
	}
	second := join(idle, nil)
	asked(t, m)
	a, err = m.Join(t.Context(), a.Partitions, nil)
	require.NoError(t, err)
	second1 := <-second
	require.NoError(t, second1.err)

	// A third member's Join is held while the broker goes: it and the others are in one generation in the end.
	late := memberOf(t, l, tps, 60*time.Second)
	third := join(late, nil)
	asked(t, m)
	require.NoError(t, b.Kill())
	committed := make(chan error, 1)
	go func() { committed <- commitAs(t, l, tps[0], 5, a.Identity) }()
	require.NoError(t, b.Restart(t.Context()))
	require.NoError(t, <-committed)
	var last [3]joined
	members := []commitlog.Member{m, idle, late}
	pending := []<-chan joined{join(m, a.Partitions), join(idle, second1.Partitions), third}
	require.Eventually(t, func() bool {
		for i, mm := range members {
			select {
			case last[i] = <-pending[i]:
				require.NoError(t, last[i].err)
				pending[i] = nil
			default:
			}
			if pending[i] == nil {
				select {
				case <-mm.Rebalance():
					pending[i] = join(mm, last[i].Partitions)
				default:
				}
			}
		}
		for i := range last {
			if pending[i] != nil || last[i].Generation != last[0].Generation {
				return false
			}
		}
		return true
	}, 60*time.Second, 10*time.Millisecond)
	for i, was := range []commitlog.Assignment{a, second1.Assignment} {
		require.True(t, last[i].Identity == was.Identity, "member %d has its place still", i)
		require.Equal(t, was.MemberID, last[i].MemberID)
		require.NoError(t, commitAs(t, l, tps[0], int64(10+i), was.Identity))
	}
	for _, m := range members {
		require.NoError(t, m.Close(t.Context(), true))
	}
}

// A held Join whose connection has gone silent is asked for again when a heartbeat is missed: it ends long before
// its own patience does.
func TestHeldJoinOnASilentConnection(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		l := connect(t, b)
		f := newFreezer()
		cold, err := kafkalog.Open(t.Context(), kafkalog.Config{Brokers: []string{b.Addr()}, Dialer: f.dialMute})
		require.NoError(t, err)
		defer cold.Close()
		tps := topicOf(t, l, 2)
		m, other := memberOf(t, cold, tps, 6*time.Second), memberOf(t, l, tps, 60*time.Second)
		a, err := m.Join(t.Context(), nil, nil)
		require.NoError(t, err)
		first := make(chan error, 1)
		go func() { _, err := other.Join(t.Context(), nil, nil); first <- err }()
		asked(t, m)
		_, err = m.Join(t.Context(), a.Partitions, nil)
		require.NoError(t, err)
		require.NoError(t, <-first)

		third := memberOf(t, l, tps, 60*time.Second)
		go func() { _, err := third.Join(t.Context(), nil, nil); first <- err }()
		asked(t, m)
		held := make(chan error, 1)
		go func() {
			again, err := m.Join(t.Context(), a.Partitions, nil)
			if err == nil && again.Identity != a.Identity {
				err = context.Canceled
			}
			held <- err
		}()
		time.Sleep(200 * time.Millisecond) // it is held, or on its way; either is good
		f.mute()                           // what is connected now is never heard of again
		start := time.Now()
		asked(t, other)
		_, err = other.Join(t.Context(), nil, nil)
		require.NoError(t, err)
		require.NoError(t, <-held)
		require.NoError(t, <-first)
		require.Less(t, time.Since(start), 25*time.Second, "the rebalance timeout and the request's make 30 s")
		require.NoError(t, commitAs(t, l, tps[0], 1, a.Identity))
		for _, m := range []commitlog.Member{m, other, third} {
			require.NoError(t, m.Close(t.Context(), true))
		}
	})
}

// thief is a dialer that takes the answer to one JoinGroup away.
type thief struct {
	mu   sync.Mutex
	lose bool // the next one's
	lost int
}

func (s *thief) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &thiefConn{Conn: nc, s: s, muted: make(chan struct{}), closed: make(chan struct{})}, nil
}

type thiefConn struct {
	net.Conn
	s            *thief
	muted        chan struct{}
	mute, finish sync.Once
	closed       chan struct{}
}

const joinGroupKey = 11

func (c *thiefConn) Write(b []byte) (int, error) {
	if len(b) > 8 && b[4] == 0 && b[5] == joinGroupKey {
		c.s.mu.Lock()
		if c.s.lose {
			c.s.lose = false
			c.s.lost++
			c.mute.Do(func() { close(c.muted) })
		}
		c.s.mu.Unlock()
	}
	return c.Conn.Write(b)
}

func (c *thiefConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	select {
	case <-c.muted:
		if err == nil {
			<-c.closed
			return 0, net.ErrClosed
		}
	default:
	}
	return n, err
}

func (c *thiefConn) Close() error {
	c.finish.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// K6: a JoinGroup whose answer is lost while the connection looks well is asked for again when heartbeats tell that
// the group has gone on; nobody loses their place meanwhile.
func TestLostAnswerToJoin(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		l := connect(t, b)
		var s thief
		robbed, err := kafkalog.Open(t.Context(), kafkalog.Config{Brokers: []string{b.Addr()}, Dialer: s.dial})
		require.NoError(t, err)
		defer robbed.Close()
		tps := topicOf(t, l, 2)
		m, other := memberOf(t, robbed, tps, 60*time.Second), memberOf(t, l, tps, 60*time.Second)
		a, err := m.Join(t.Context(), nil, nil)
		require.NoError(t, err)
		first := make(chan error, 1)
		go func() { _, err := other.Join(t.Context(), nil, nil); first <- err }()
		asked(t, m)
		s.mu.Lock()
		s.lose = true
		s.mu.Unlock()
		start := time.Now()
		again, err := m.Join(t.Context(), a.Partitions, nil)
		require.NoError(t, err)
		require.NoError(t, <-first)
		require.Equal(t, 1, s.lost)
		require.True(t, again.Identity == a.Identity)
		require.Less(t, time.Since(start), 15*time.Second, "the rebalance timeout alone is 20 s")
		require.NoError(t, commitAs(t, l, tps[0], 1, a.Identity))
		require.NoError(t, m.Close(t.Context(), true))
		require.NoError(t, other.Close(t.Context(), true))
	})
}
