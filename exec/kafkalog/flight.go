package kafkalog

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// flight is a JoinGroup and the SyncGroup after it. It goes on when the Join that has sent it is given up: the
// coordinator may count it all the same, and then the membership's generation moves on, under which alone can be
// committed, and a leader has to assign, or others would wait. The next Join puts an end to it unless it is as
// far as the SyncGroup.
type flight struct {
	cancel  context.CancelFunc
	syncing bool          // guarded by member.mu
	done    chan struct{} // closed when what follows is set
	who     *identity     // under which the JoinGroup was answered, nil if it was not
	joined  joinResponse
	result  share
	err     error
}

// land waits for the end of a flight whose Join was given up. One that is not as far as its SyncGroup is broken off, and
// then another has to follow it, whatever becomes of ctx: the coordinator may have counted it, and go on to a generation
// that nobody here would hear of.
func (m *member) land(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	f := m.flight
	if f == nil {
		m.mu.Unlock()
		return nil
	}
	syncing := f.syncing
	if !syncing {
		f.cancel()
	}
	m.mu.Unlock()
	if !syncing {
		<-f.done
		return nil
	}
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// launch begins a flight.
func (m *member) launch(op, id string, who *identity, subscription []byte) (*flight, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, commitlog.ErrClosed
	}
	ctx, cancel := context.WithCancel(m.ctx)
	f := &flight{cancel: cancel, done: make(chan struct{})}
	m.flight = f
	m.wg.Go(func() {
		defer cancel()
		f.result, f.err = m.fly(ctx, f, op, id, who, subscription)
		m.mu.Lock()
		m.flight = nil
		m.mu.Unlock()
		close(f.done)
	})
	return f, nil
}

// fly is a flight's goroutine. It returns what the member was assigned.
func (m *member) fly(ctx context.Context, f *flight, op, id string, who *identity, subscription []byte) (assigned share, err error) {
	if f.joined, err = m.joinGroup(ctx, id, subscription, joinTimeout(m.cfg.RebalanceTimeout, m.log.cfg.RequestTimeout)); err != nil {
		return assigned, err
	}
	if err := m.refused(op, f.joined.code); err != nil {
		return assigned, m.took(who, err)
	}
	if f.who, err = m.joined(ctx, f, who); err != nil {
		return assigned, err
	}
	req := &syncRequest{group: m.cfg.Group, generation: f.joined.generation, memberID: f.joined.memberID, instanceID: m.cfg.InstanceID, protocol: f.joined.protocol}
	if f.joined.leader == f.joined.memberID {
		if req.assignments, err = m.assign(f.joined.members); err != nil {
			return assigned, err
		}
	}
	asked := time.Now()
	var c int16
	err = m.ask(ctx, m.joins, protocol.SyncGroup, m.log.cfg.RequestTimeout, // if the leader takes longer it is asked again
		func(b []byte, clientID string) []byte { return appendSync(b, clientID, req) },
		func(body []byte) (err error) {
			c, assigned, err = readSync(body)
			return err
		})
	if err != nil {
		return assigned, err
	}
	if err := m.refused("sync group", c); err != nil {
		return assigned, m.took(f.who, err)
	}
	f.who.answered(asked)
	return assigned, nil
}

// joined moves the membership on to the generation of an answered JoinGroup, or begins one, and has heartbeats run. A
// flight that land has broken off ends here, without a SyncGroup: the coordinator would hold it while the next
// JoinGroup comes in.
func (m *member) joined(ctx context.Context, f *flight, who *identity) (*identity, error) {
	j := &f.joined
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, commitlog.ErrClosed
	}
	if who == nil || who != m.who || who.id != j.memberID || !who.join(j.generation) {
		if who != nil {
			m.loseLocked(who, nil)
		}
		who = newIdentity(&m.cfg, j.memberID, m.expired)
		who.join(j.generation)
		m.who, m.id, m.had = who, j.memberID, true
	}
	if !m.beating {
		m.beating = true
		m.wg.Go(m.beat)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.syncing = true
	return who, nil
}

// assign runs the assignor.
func (m *member) assign(members []commitlog.GroupMember) (map[string]share, error) {
	fail := func(err error) error {
		return &commitlog.Error{Op: "assign partitions", Partition: -1, Group: m.cfg.Group, Class: commitlog.Fatal, Err: err}
	}
	assigned, err := m.cfg.Assign(members)
	if err != nil {
		return nil, fail(err)
	}
	out := make(map[string]share, len(members))
	known := 0
	for _, gm := range members {
		tps, ok := assigned[gm.ID]
		if ok {
			known++
		}
		out[gm.ID] = share{tps, commitlog.Withheld(gm.Owned, tps)}
	}
	if known != len(assigned) {
		return nil, fail(fmt.Errorf("the assignor gave partitions to %d members that are not in the group", len(assigned)-known))
	}
	return out, nil
}

// joinGroup is one JoinGroup, held by the coordinator for as long as members are missing.
func (m *member) joinGroup(ctx context.Context, id string, subscription []byte, timeout time.Duration) (joined joinResponse, err error) {
	err = m.ask(ctx, m.joins, protocol.JoinGroup, timeout, func(b []byte, clientID string) []byte {
		return appendJoin(b, clientID, &joinRequest{group: m.cfg.Group, memberID: id, instanceID: m.cfg.InstanceID,
			sessionMS: int32(m.cfg.SessionTimeout.Milliseconds()), rebalanceMS: int32(m.cfg.RebalanceTimeout.Milliseconds()),
			protocols: m.protocols(), subscription: subscription})
	}, func(body []byte) (err error) {
		joined, err = readJoin(body)
		return err
	})
	return joined, err
}

// naming is the coordinator being asked for a member's id.
type naming struct {
	done chan struct{} // closed when err is set
	err  error
}

// register gets a dynamic member its id, by a JoinGroup that is answered at once (KIP-394). A rebalance waits for
// whoever was given one, up to a session: so it is not given up with ctx but is there for the next Join, or for
// Close to leave with.
func (m *member) register(ctx context.Context, op string) (id string, err error) {
	m.mu.Lock()
	n := m.naming
	if n == nil {
		if m.closed {
			m.mu.Unlock()
			return "", commitlog.ErrClosed
		}
		n = &naming{done: make(chan struct{})}
		m.naming = n
		m.wg.Go(func() { m.nameIt(n, op) })
	}
	m.mu.Unlock()
	select {
	case <-n.done:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id, n.err
}

// nameIt asks for the id of register.
func (m *member) nameIt(n *naming, op string) {
	ctx, cancel := context.WithTimeout(m.ctx, m.log.cfg.RequestTimeout)
	defer cancel()
	joined, err := m.joinGroup(ctx, "", appendSubscription(nil, m.cfg.Topics, nil, nil, -1), m.log.cfg.RequestTimeout)
	if err == nil && joined.code != codeMemberIDRequired {
		err = m.refused(op, joined.code)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.naming = nil; err == nil {
		m.id = joined.memberID
	}
	n.err = err
	close(n.done)
}

// protocols are the names under which the member offers its assignor: one that only members of its version have, and
// one that all have. A group agrees on the first if all are of one version. It rebalances when a static
// member comes back with which it would agree on another one.
func (m *member) protocols() []string {
	if m.cfg.Version == "" {
		return []string{m.cfg.Protocol}
	}
	return []string{m.cfg.Protocol + "-" + m.cfg.Version, m.cfg.Protocol}
}
