package kafkalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/wickerwork/wicker/exec/commitlog"
)

const groupProtocolType = "consumer"

// member is a member of a consumer group under the classic protocol. It joins again while its owner goes on working;
// what it is known as meanwhile is an identity, which lasts from one loss of the membership to the next.
//
//	no identity -- JoinGroup answered --> identity, generation g (heartbeats run) -- JoinGroup answered --> g+1
//	      ^                                      |
//	      +-- UNKNOWN_MEMBER_ID, session over ---+
//	any -- FENCED_INSTANCE_ID --> fenced        any -- Close, or the log's --> closed
type member struct {
	log    *Log
	cfg    commitlog.MemberConfig
	key    coordinatorKey
	joins  *pool // JoinGroup and SyncGroup, which the broker holds
	beats  *pool // Heartbeat and LeaveGroup
	ctx    context.Context
	cancel context.CancelFunc
	once   sync.Once // shut
	wg     sync.WaitGroup
	signal chan struct{}

	turn sync.Mutex // one Join at a time; taken before mu

	mu      sync.Mutex // guards what follows; taken before an identity's
	who     *identity  // nil at first and when it was lost
	id      string     // to join with: given by the coordinator, empty if it has or knows none
	fenced  error      // why the membership cannot come back (FENCED_INSTANCE_ID)
	joining bool       // a Join runs
	beating bool
	had     bool      // there was an identity before: what is owned without one is owned no more
	naming  *naming   // the coordinator is being asked for an id, nil if not
	flight  *flight   // the JoinGroup that is unanswered, nil if there is none
	passed  time.Time // since when heartbeats hear of a generation that the Join that runs was not told of, zero if not
	closed  bool
	left    bool
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
	if err := errors.Join(commitlog.CheckTimeout("SessionTimeout", cfg.SessionTimeout), commitlog.CheckTimeout("RebalanceTimeout", cfg.RebalanceTimeout)); err != nil {
		return nil, wrap(op, fmt.Errorf("config: %w", err))
	}
	cfg.SessionTimeout = cmp.Or(max(cfg.SessionTimeout, 0), commitlog.DefaultSessionTimeout)
	cfg.RebalanceTimeout = cmp.Or(max(cfg.RebalanceTimeout, 0), commitlog.DefaultRebalanceTimeout)
	cfg.HeartbeatInterval = cmp.Or(max(cfg.HeartbeatInterval, 0), commitlog.DefaultHeartbeatInterval(cfg.SessionTimeout, cfg.RebalanceTimeout))
	m := &member{log: l, cfg: cfg, key: coordinatorKey{groupCoordinator, cfg.Group}, joins: l.cluster.newPool(), beats: l.cluster.newPool(),
		signal: make(chan struct{}, 1)}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	if err := l.add(m); err != nil {
		m.cancel()
		return nil, wrap(op, err)
	}
	return m, nil
}

// Rebalance implements commitlog.Member.
func (m *member) Rebalance() <-chan struct{} { return m.signal }

// notifyLocked tells the owner to join again, unless it is about that.
func (m *member) notifyLocked() {
	if m.joining || m.closed {
		return
	}
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

// Join implements commitlog.Member. When ctx ends first the membership is as it was, and its heartbeats go on: the
// coordinator may have counted the Join all the same, and then wants another one.
func (m *member) Join(ctx context.Context, owned []commitlog.TopicPartition, userData []byte) (commitlog.Assignment, error) {
	const op = "join group"
	m.turn.Lock()
	defer m.turn.Unlock()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	m.mu.Lock()
	m.joining = true
	m.mu.Unlock()
	a, err := m.join(inner, op, owned, userData)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.joining = false
	if m.closed {
		return commitlog.Assignment{}, m.name(wrap(op, commitlog.ErrClosed))
	}
	if err != nil {
		return commitlog.Assignment{}, m.name(err)
	}
	if lost := m.who == nil || commitlog.Identity(m.who) != a.Identity; lost {
		m.notifyLocked() // lost again since it was assigned
		return a, nil
	}
	select { // what is left of the generation before
	case <-m.signal:
	default:
	}
	return a, nil
}

func (m *member) join(ctx context.Context, op string, owned []commitlog.TopicPartition, userData []byte) (commitlog.Assignment, error) {
	p := patience{limit: m.log.cfg.RetryTimeout}
	m.mu.Lock()
	first, had := m.who, m.had
	m.mu.Unlock()
	// claim is what a membership owns of it: nothing was held under any but the one that there was when the Join
	// began. A member that never was one says what it likes.
	claim := func(who *identity) []commitlog.TopicPartition {
		if first == nil && had || first != nil && who != first {
			return nil
		}
		return owned
	}
	for {
		a, err := m.round(ctx, op, claim, userData, &p)
		if err == nil {
			return a, nil
		}
		if ctx.Err() != nil {
			return a, wrap(op, ctx.Err())
		}
		if joinAgain(code(err)) && p.tries < promptJoins {
			p.tries++
			p.since = time.Now()
			continue
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
func (m *member) round(ctx context.Context, op string, claim func(*identity) []commitlog.TopicPartition, userData []byte, p *patience) (commitlog.Assignment, error) {
	var none commitlog.Assignment
	if err := m.land(ctx); err != nil {
		return none, err
	}
	m.mu.Lock()
	if m.who != nil {
		if _, _, lost := m.who.state(); lost {
			m.loseLocked(m.who, nil)
		}
	}
	id, who, fenced, closed := m.id, m.who, m.fenced, m.closed
	m.mu.Unlock()
	switch {
	case closed:
		return none, wrap(op, commitlog.ErrClosed)
	case fenced != nil:
		return none, fenced
	}
	if id == "" && m.cfg.InstanceID == "" {
		var err error
		if id, err = m.register(ctx, op); err != nil {
			return none, err
		}
	}
	generation := int32(-1)
	if who != nil {
		_, generation, _ = who.state()
	}
	owned := claim(who)
	f, err := m.launch(op, id, who, appendSubscription(nil, m.cfg.Topics, userData, owned, generation))
	if err != nil {
		return none, err
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	if f.who != nil {
		*p = patience{limit: p.limit}
	}
	if f.err != nil {
		return none, f.err
	}
	fresh, err := f.who.assigned(f.joined.generation)
	if err != nil {
		return none, m.took(f.who, kafkaErr("sync group", inGroup, codeUnknownMember))
	}
	return commitlog.Assignment{Partitions: f.result.partitions, Withheld: f.result.keptFrom(owned), Identity: f.who, Fresh: fresh, GroupMetadata: commitlog.GroupMetadata{
		Group: m.cfg.Group, MemberID: f.joined.memberID, InstanceID: m.cfg.InstanceID, Generation: f.joined.generation}}, nil
}

// expired forgets a membership whose session is over by our clock, and tells the owner.
func (m *member) expired(who *identity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.who == who && !m.closed {
		m.log.cfg.Logger.Warn("membership lost", "group", m.cfg.Group, "member", who.id, "error", "nothing heard for the session timeout")
		m.loseLocked(who, nil)
	}
}

// loseLocked forgets a membership, nil if there was none. err is what the coordinator said, nil if it was not
// asked: then it may know the member's id still, which is joined with again, so that it need not wait for an old self.
func (m *member) loseLocked(who *identity, err error) {
	e, ok := errors.AsType[*commitlog.Error](err)
	if !ok {
		e = &commitlog.Error{Op: opIdentity, Partition: -1}
	}
	if who != nil {
		who.end(e)
	}
	if code(err) == codeFencedInstance {
		m.fenced = e
	}
	if m.who != nil && m.who != who {
		return
	}
	m.who = nil
	if ok && (who == nil || who.id == m.id) { // a late answer says nothing of an id that was given since
		m.id = ""
	}
	m.notifyLocked()
}

// took takes in what JoinGroup or SyncGroup was refused with, under the identity of then, and returns it.
func (m *member) took(who *identity, err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if membershipLost(code(err)) {
		m.loseLocked(who, err)
	}
	return err
}

// ask sends a request to the coordinator over a connection of p and reads the answer. When ctx ends first the
// connection goes with it: a coordinator that holds the request would answer nothing else on it.
func (m *member) ask(ctx context.Context, p *pool, key protocol.ApiKey, timeout time.Duration, request func(b []byte, clientID string) []byte, read func(body []byte) error) error {
	cn, err := m.log.coords.connBy(ctx, m.beats, p, m.key)
	if err != nil {
		return err
	}
	if _, err := cn.version(key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err // nothing was sent: the connection is good
	}
	frame, err := cn.exchange(ctx, request(nil, cn.clientID), timeout)
	if err == nil {
		if err = read(frame[frameHeader:]); errors.Is(err, errShort) {
			cn.fail(err)
			err = &connError{addr: cn.addr, err: fmt.Errorf("answer to %s: %w", key, err)}
		}
	} else if ctx.Err() != nil {
		cn.fail(ctx.Err())
	}
	if err != nil {
		m.log.coords.lost(m.key, err)
	}
	return err
}

// refused makes an error of a code, nil if it is none.
func (m *member) refused(op string, c int16) error {
	e := kafkaErr(op, inGroup, c)
	if e == nil {
		return nil
	}
	m.log.coords.lost(m.key, e)
	e.Group = m.cfg.Group
	return e
}

// Close implements commitlog.Member. Heartbeats end first.
func (m *member) Close(ctx context.Context, leave bool) error {
	m.mu.Lock()
	m.closed = true
	left := m.left
	m.left = true
	var ending []<-chan struct{} // what others would wait for if it was broken off
	if n := m.naming; n != nil {
		ending = append(ending, n.done)
	}
	if f := m.flight; f != nil && f.syncing {
		ending = append(ending, f.done)
	}
	m.mu.Unlock()
	if leave {
		grace, cancel := context.WithTimeout(ctx, leaveGrace)
		for _, done := range ending {
			select {
			case <-done:
			case <-grace.Done():
			}
		}
		cancel()
	}
	m.cancel() // ends a Join
	m.wg.Wait()
	m.turn.Lock() // a Join that was under way is over, and may have learned its id
	m.mu.Lock()
	id := m.id
	m.mu.Unlock()
	m.turn.Unlock()
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
		c, err := m.tell(ctx, m.log.cfg.RequestTimeout, protocol.LeaveGroup, func(b []byte, clientID string) []byte {
			return appendLeave(b, clientID, m.cfg.Group, id, m.cfg.InstanceID)
		}, readLeave)
		if err != nil {
			return err
		}
		if membershipLost(c) {
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
		who := m.who
		m.mu.Unlock()
		if who != nil {
			who.end(&commitlog.Error{Op: opIdentity, Partition: -1, Err: commitlog.ErrClosed})
		}
		m.cancel()
		m.joins.close()
		m.beats.close()
		m.wg.Wait()
		m.log.remove(m)
	})
}
