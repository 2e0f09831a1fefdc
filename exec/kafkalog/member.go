package kafkalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/joingroup"
	"github.com/segmentio/kafka-go/protocol/syncgroup"

	"github.com/wickerwork/wicker/exec/commitlog"
)

const (
	defaultSessionTimeout = 45 * time.Second
	maxHeartbeatInterval  = 3 * time.Second
	groupProtocolType     = "consumer"
)

// member is a member of a consumer group under the classic protocol.
//
//	out -- Join --> joining -- SyncGroup --> in (heartbeats run) -- Join --> joining
//	any -- Close, or the log's --> closed
type member struct {
	log    *Log
	cfg    commitlog.MemberConfig
	key    coordinatorKey
	joins  *pool // JoinGroup and SyncGroup, which the broker holds
	beats  *pool // Heartbeat and LeaveGroup
	ctx    context.Context
	cancel context.CancelFunc
	once   sync.Once // shut
	signal chan struct{}

	joining sync.Mutex // one Join at a time; taken before mu

	mu         sync.Mutex // guards what follows
	id         string     // given by the coordinator; empty at first and when it was lost
	generation int32
	lost       error // why the membership cannot come back (FENCED_INSTANCE_ID)
	beating    *beating
	closed     bool
	left       bool
}

// beating is the heartbeats of one generation.
type beating struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// OpenMember implements commitlog.Log.
func (l *Log) OpenMember(ctx context.Context, cfg commitlog.MemberConfig) (commitlog.Member, error) {
	const op = "open member"
	if err := ctx.Err(); err != nil {
		return nil, wrap(op, err)
	}
	switch {
	case cfg.Group == "":
		return nil, wrap(op, errors.New("config: Group is empty"))
	case cfg.Protocol == "":
		return nil, wrap(op, errors.New("config: Protocol is empty"))
	case cfg.Assign == nil:
		return nil, wrap(op, errors.New("config: Assign is nil"))
	}
	cfg.SessionTimeout = cmp.Or(max(cfg.SessionTimeout, 0), defaultSessionTimeout)
	cfg.RebalanceTimeout = cmp.Or(max(cfg.RebalanceTimeout, 0), time.Minute)
	cfg.HeartbeatInterval = cmp.Or(max(cfg.HeartbeatInterval, 0), min(cfg.SessionTimeout/3, maxHeartbeatInterval))
	m := &member{log: l, cfg: cfg, key: coordinatorKey{groupCoordinator, cfg.Group}, joins: l.cluster.newPool(), beats: l.cluster.newPool(),
		signal: make(chan struct{}, 1), generation: -1}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	if err := l.add(m); err != nil {
		m.cancel()
		return nil, wrap(op, err)
	}
	return m, nil
}

// Rebalance implements commitlog.Member.
func (m *member) Rebalance() <-chan struct{} { return m.signal }

// notify tells the owner to join again.
func (m *member) notify() {
	select {
	case m.signal <- struct{}{}:
	default:
	}
}

// name adds the group to an error.
func (m *member) name(err error) error {
	if e, ok := errors.AsType[*commitlog.Error](err); ok && e.Group == "" {
		c := *e
		c.Group = m.cfg.Group
		return &c
	}
	return err
}

// Join implements commitlog.Member.
func (m *member) Join(ctx context.Context, owned []commitlog.TopicPartition, userData []byte) (commitlog.Assignment, error) {
	const op = "join group"
	m.joining.Lock()
	defer m.joining.Unlock()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	m.stopBeating()
	a, err := m.join(inner, op, owned, userData)
	if err != nil {
		m.mu.Lock()
		closed := m.closed
		m.mu.Unlock()
		if closed {
			err = wrap(op, commitlog.ErrClosed)
		}
		return commitlog.Assignment{}, m.name(err)
	}
	return a, nil
}

func (m *member) join(ctx context.Context, op string, owned []commitlog.TopicPartition, userData []byte) (commitlog.Assignment, error) {
	subscription := appendSubscription(nil, m.cfg.Topics, userData, owned)
	p := patience{limit: m.log.cfg.RetryTimeout}
	for {
		a, err := m.round(ctx, op, subscription, &p)
		if err == nil {
			return a, nil
		}
		if ctx.Err() != nil {
			return a, wrap(op, ctx.Err())
		}
		switch code(err) {
		case codeMemberIDRequired, codeRebalanceInProgress, codeIllegalGeneration, codeUnknownMember:
			if p.tries < 3 { // no trouble, but how the protocol goes
				p.tries++
				p.since = time.Now()
				continue
			}
		}
		wait, err := p.next(err)
		if err == nil {
			err = sleep(ctx, wait)
		}
		if err != nil {
			return a, wrap(op, err)
		}
	}
}

// round is one JoinGroup and SyncGroup.
func (m *member) round(ctx context.Context, op string, subscription []byte, p *patience) (commitlog.Assignment, error) {
	var none commitlog.Assignment
	m.mu.Lock()
	id, lost, closed := m.id, m.lost, m.closed
	m.mu.Unlock()
	switch {
	case closed:
		return none, wrap(op, commitlog.ErrClosed)
	case lost != nil:
		return none, lost
	}
	msg, err := m.call(ctx, &joingroup.Request{GroupID: m.cfg.Group, SessionTimeoutMS: int32(m.cfg.SessionTimeout.Milliseconds()),
		RebalanceTimeoutMS: int32(m.cfg.RebalanceTimeout.Milliseconds()), MemberID: id, GroupInstanceID: m.cfg.InstanceID,
		ProtocolType: groupProtocolType, Protocols: []joingroup.RequestProtocol{{Name: m.cfg.Protocol, Metadata: subscription}}})
	if err != nil {
		return none, err
	}
	joined := msg.(*joingroup.Response)
	if joined.ErrorCode == codeMemberIDRequired {
		m.become(joined.MemberID, -1)
	}
	if err := m.refused(op, joined.ErrorCode); err != nil {
		return none, err
	}
	*p = patience{limit: p.limit}
	m.become(joined.MemberID, joined.GenerationID)
	req := &syncgroup.Request{GroupID: m.cfg.Group, GenerationID: joined.GenerationID, MemberID: joined.MemberID, GroupInstanceID: m.cfg.InstanceID}
	if joined.LeaderID == joined.MemberID {
		if req.Assignments, err = m.assign(joined.Members); err != nil {
			return none, err
		}
	}
	if msg, err = m.call(ctx, req); err != nil {
		return none, err
	}
	synced := msg.(*syncgroup.Response)
	if err := m.refused("sync group", synced.ErrorCode); err != nil {
		return none, err
	}
	partitions, err := readAssignment(synced.Assignments)
	if err != nil {
		return none, &commitlog.Error{Op: "sync group", Partition: -1, Class: commitlog.Fatal, Err: fmt.Errorf("assignment: %w", err)}
	}
	if err := m.startBeating(); err != nil {
		return none, wrap(op, err)
	}
	meta := commitlog.GroupMetadata{Group: m.cfg.Group, MemberID: joined.MemberID, InstanceID: m.cfg.InstanceID, Generation: joined.GenerationID}
	return commitlog.Assignment{Partitions: partitions, GroupMetadata: meta, Identity: meta, Fresh: true}, nil
}

// call sends a request that the coordinator may hold while the group rebalances. When ctx ends
// first the connection goes with it: the coordinator would answer nothing else on it.
func (m *member) call(ctx context.Context, req protocol.Message) (protocol.Message, error) {
	cn, err := m.log.coords.conn(ctx, m.joins, m.key)
	if err != nil {
		return nil, err
	}
	msg, err := cn.roundTripFor(ctx, req, m.cfg.RebalanceTimeout+m.log.cfg.RequestTimeout)
	if err != nil {
		if ctx.Err() != nil {
			cn.fail(ctx.Err())
		}
		m.log.coords.lost(m.key, err)
	}
	return msg, err
}

// refused makes an error of a code and notes what it means for the membership.
func (m *member) refused(op string, c int16) error {
	e := kafkaErr(op, inGroup, c)
	if e == nil {
		return nil
	}
	m.log.coords.lost(m.key, e)
	e.Group = m.cfg.Group
	m.mu.Lock()
	defer m.mu.Unlock()
	switch c {
	case codeUnknownMember:
		m.id, m.generation = "", -1
	case codeFencedInstance:
		m.lost = e
	}
	return e
}

func (m *member) become(id string, generation int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id, m.generation = id, generation
}

// assign runs the assignor and encodes what it says.
func (m *member) assign(joined []joingroup.ResponseMember) ([]syncgroup.RequestAssignment, error) {
	const op = "assign partitions"
	fail := func(err error) error {
		return &commitlog.Error{Op: op, Partition: -1, Group: m.cfg.Group, Class: commitlog.Fatal, Err: err}
	}
	members := make([]commitlog.GroupMember, 0, len(joined))
	for _, j := range joined {
		gm, err := readSubscription(j.Metadata)
		if err != nil {
			return nil, fail(fmt.Errorf("subscription of member %s: %w", j.MemberID, err))
		}
		gm.ID, gm.InstanceID = j.MemberID, j.GroupInstanceID
		members = append(members, gm)
	}
	assigned, err := m.cfg.Assign(members)
	if err != nil {
		return nil, fail(err)
	}
	out := make([]syncgroup.RequestAssignment, 0, len(members))
	known := 0
	for _, gm := range members {
		tps, ok := assigned[gm.ID]
		if ok {
			known++
		}
		out = append(out, syncgroup.RequestAssignment{MemberID: gm.ID, Assignment: appendAssignment(nil, tps)})
	}
	if known != len(assigned) {
		return nil, fail(fmt.Errorf("the assignor gave partitions to %d members that are not in the group", len(assigned)-known))
	}
	return out, nil
}

// startBeating begins the heartbeats of a new generation.
func (m *member) startBeating() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return commitlog.ErrClosed
	}
	select { // what is left of the generation before
	case <-m.signal:
	default:
	}
	ctx, cancel := context.WithCancel(m.ctx)
	b := &beating{cancel: cancel, done: make(chan struct{})}
	m.beating = b
	id, generation := m.id, m.generation
	go func() {
		defer close(b.done)
		m.beat(ctx, id, generation)
	}()
	return nil
}

// stopBeating ends the heartbeats and returns when they have ended.
func (m *member) stopBeating() {
	m.mu.Lock()
	b := m.beating
	m.beating = nil
	m.mu.Unlock()
	if b != nil {
		b.cancel()
		<-b.done
	}
}

// beat sends heartbeats until ctx or the membership ends. While the group rebalances they go
// on, so that an owner who takes its time keeps its place (L6).
func (m *member) beat(ctx context.Context, id string, generation int32) {
	logger := m.log.cfg.Logger.With("group", m.cfg.Group, "member", id, "generation", generation)
	heard := time.Now()
	wait := m.cfg.HeartbeatInterval
	for tries := 0; ; {
		if sleep(ctx, wait) != nil {
			return
		}
		err := m.beatOnce(ctx, id, generation)
		if ctx.Err() != nil {
			return
		}
		wait = m.cfg.HeartbeatInterval
		if err == nil || code(err) == codeRebalanceInProgress {
			heard, tries = time.Now(), 0
			if err != nil {
				m.notify()
			}
			continue
		}
		switch c := code(err); {
		case c == codeIllegalGeneration, c == codeUnknownMember, classify(err) != commitlog.Retriable:
			logger.Warn("membership lost", "error", err.Error())
			m.notify()
			return
		}
		tries++
		wait = min(wait, backoff(tries, err))
		if tries == 1 {
			logger.Warn("heartbeat", "error", err.Error())
		}
		if time.Since(heard) > m.cfg.SessionTimeout {
			m.notify() // the coordinator has given this member up, if it can be reached by others
		}
	}
}

func (m *member) beatOnce(ctx context.Context, id string, generation int32) error {
	c, err := m.tell(ctx, protocol.Heartbeat, func(b []byte, clientID string) []byte {
		return appendHeartbeat(b, clientID, m.cfg.Group, id, m.cfg.InstanceID, generation)
	}, readHeartbeat)
	if err != nil {
		return err
	}
	return m.refused("heartbeat", c)
}

// tell sends one of this package's own requests to the coordinator and returns the code that
// it answers.
func (m *member) tell(ctx context.Context, key protocol.ApiKey, request func(b []byte, clientID string) []byte, read func(body []byte) (int16, error)) (int16, error) {
	cn, err := m.log.coords.conn(ctx, m.beats, m.key)
	if err != nil {
		return 0, err
	}
	if _, err := cn.version(key); err != nil {
		return 0, err
	}
	frame, err := cn.exchange(ctx, request(nil, cn.clientID), cn.timeout)
	var c int16
	if err == nil {
		if c, err = read(frame[frameHeader:]); err != nil {
			err = &connError{addr: cn.addr, err: fmt.Errorf("answer to %s: %w", key, err)}
		}
	}
	if err != nil {
		m.log.coords.lost(m.key, err)
	}
	return c, err
}

// Close implements commitlog.Member.
func (m *member) Close(ctx context.Context, leave bool) error {
	m.mu.Lock()
	m.closed = true
	left := m.left
	m.left = true
	m.mu.Unlock()
	m.cancel() // ends a Join
	m.stopBeating()
	m.joining.Lock() // a Join that was under way is over, and may have learned its id
	m.mu.Lock()
	id := m.id
	m.mu.Unlock()
	m.joining.Unlock()
	var err error
	if leave && !left && id != "" {
		err = m.leave(ctx, id)
	}
	m.shut()
	return m.name(err)
}

// leave tells the coordinator. That it knows nothing of this member is as good.
func (m *member) leave(ctx context.Context, id string) error {
	const op = "leave group"
	return retryFor(ctx, m.log.cfg.RequestTimeout, op, func(ctx context.Context) error {
		c, err := m.tell(ctx, protocol.LeaveGroup, func(b []byte, clientID string) []byte {
			return appendLeave(b, clientID, m.cfg.Group, id, m.cfg.InstanceID)
		}, readLeave)
		if err != nil {
			return err
		}
		if c == codeUnknownMember || c == codeFencedInstance {
			return nil
		}
		return m.refused(op, c)
	})
}

// shut ends the membership without a word.
func (m *member) shut() {
	m.once.Do(func() {
		m.mu.Lock()
		m.closed = true
		m.mu.Unlock()
		m.cancel()
		m.joins.close()
		m.beats.close()
		m.stopBeating()
		m.log.remove(m)
	})
}
