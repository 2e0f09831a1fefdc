package memlog

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// member is a [commitlog.Member].
type member struct {
	log         *Log
	cfg         commitlog.MemberConfig
	g           *group
	busy        atomic.Bool // a Join runs
	rebalanceCh chan struct{}
	done        chan struct{} // closed by Close

	// Guarded by the cluster's mu.
	ms     *membership // of the last Join, nil before
	paused bool        // no heartbeats
	fenced bool        // another member has its instance id
	closed bool
}

var _ commitlog.Member = (*member)(nil)

// memberID returns an id as Kafka's are made: the client's or instance's name and what makes it unique.
func memberID(cfg commitlog.MemberConfig, seq int64) string {
	name := cfg.InstanceID
	if name == "" {
		name = cfg.ClientID
	}
	if name == "" {
		name = "member"
	}
	return fmt.Sprintf("%s-%06d", name, seq)
}

// OpenMember implements [commitlog.Log].
func (l *Log) OpenMember(ctx context.Context, cfg commitlog.MemberConfig) (commitlog.Member, error) {
	const op = "open member"
	if f := l.fault().OpenMember; f != nil {
		if err := f(ctx, cfg); err != nil {
			return nil, err
		}
	}
	if cfg.Group == "" {
		return nil, groupError(op, cfg.Group, invalidGroup, nil)
	}
	if cfg.Assign == nil {
		return nil, groupError(op, cfg.Group, code{class: commitlog.Fatal}, errNoAssignor)
	}
	if cfg.SessionTimeout < 0 {
		return nil, groupError(op, cfg.Group, invalidSession, nil)
	}
	if cfg.SessionTimeout == 0 {
		cfg.SessionTimeout = commitlog.DefaultSessionTimeout
	}
	if cfg.RebalanceTimeout <= 0 {
		cfg.RebalanceTimeout = commitlog.DefaultRebalanceTimeout
	}
	cfg.Topics = slices.Clone(cfg.Topics)
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if err := l.usable(ctx, op); err != nil {
		return nil, err
	}
	m := &member{log: l, cfg: cfg, g: l.c.group(cfg.Group), rebalanceCh: make(chan struct{}, 1), done: make(chan struct{})}
	l.members[m] = struct{}{}
	return m, nil
}

// Rebalance implements [commitlog.Member].
func (m *member) Rebalance() <-chan struct{} { return m.rebalanceCh }

// signal tells the owner to join again, if heartbeats go that way. It never blocks.
func (m *member) signal() {
	if m.paused || m.closed {
		return
	}
	select {
	case m.rebalanceCh <- struct{}{}:
	default:
	}
}

// Join implements [commitlog.Member].
func (m *member) Join(ctx context.Context, owned []commitlog.TopicPartition, userData []byte) (commitlog.Assignment, error) {
	if !m.busy.CompareAndSwap(false, true) {
		return commitlog.Assignment{}, groupError("join group", m.cfg.Group, code{class: commitlog.Fatal}, errConcurrentCalls)
	}
	defer m.busy.Store(false)
	if f := m.log.fault().Join; f != nil {
		if err := f(ctx, m.cfg); err != nil {
			return commitlog.Assignment{}, err
		}
	}
	owned, userData = slices.Clone(owned), slices.Clone(userData)
	m.log.c.mu.Lock()
	defer m.log.c.mu.Unlock()
	a, err := m.join(ctx, owned, userData)
	if ms := m.ms; err != nil && ms != nil && !m.closed && m.g.members[ms.id] == ms {
		ms.joining = false
		if m.paused || ms.generation < 0 { // without a generation there are no heartbeats
			m.g.startExpiry(ms)
		} else if m.g.phase == preparing {
			m.signal()
		}
	}
	return a, err
}

// join joins until a generation gets as far as its assignment. The caller holds mu; join
// lets go of it to wait and to assign.
func (m *member) join(ctx context.Context, owned []commitlog.TopicPartition, userData []byte) (commitlog.Assignment, error) {
	g := m.g
	for {
		if err := m.usable(ctx); err != nil {
			return commitlog.Assignment{}, err
		}
		if err := m.enter(owned, userData); err != nil {
			return commitlog.Assignment{}, err
		}
		ms := m.ms
		if err := m.wait(ctx, func() bool { return !ms.joining }); err != nil {
			return commitlog.Assignment{}, err
		}
		generation := ms.generation
		if g.leader == ms && g.phase == completing {
			if err := m.lead(generation); err != nil {
				return commitlog.Assignment{}, err
			}
		}
		if err := m.wait(ctx, func() bool { return g.generation != generation || g.phase != completing }); err != nil {
			return commitlog.Assignment{}, err
		}
		if g.members[ms.id] == ms && g.generation == generation && g.phase == stable {
			select { // what it was to tell has been done
			case <-m.rebalanceCh:
			default:
			}
			fresh := ms.told < 0
			ms.told = generation
			ms.owned, ms.userData = owned, userData
			return commitlog.Assignment{Partitions: slices.Clone(ms.assigned), Withheld: slices.Clone(ms.withheld), GroupMetadata: ms.metadata(), Identity: ms, Fresh: fresh}, nil
		}
		if g.members[ms.id] != ms {
			owned = nil // it was thrown out: what it held may belong to others
		}
	}
}

// usable returns why the member cannot join. The caller holds mu.
func (m *member) usable(ctx context.Context) error {
	const op = "join group"
	if m.closed || m.log.closed {
		return groupError(op, m.cfg.Group, code{class: commitlog.Fatal}, commitlog.ErrClosed)
	}
	if m.fenced {
		return groupError(op, m.cfg.Group, fencedInstance, nil)
	}
	if err := ctx.Err(); err != nil {
		return groupError(op, m.cfg.Group, code{class: commitlog.Retriable}, err)
	}
	return nil
}

// enter is the JoinGroup request: the membership then waits for the next generation, or has
// its assignment of the current one.
func (m *member) enter(owned []commitlog.TopicPartition, userData []byte) error {
	g := m.g
	ms := m.ms
	if ms != nil && g.members[ms.id] != ms {
		ms, owned = nil, nil // it was thrown out, and comes as a new member
	}
	if ms == nil {
		if len(g.members) > 0 && g.protocol != m.cfg.Protocol {
			return groupError("join group", g.name, inconsistentGroup,
				fmt.Errorf("protocol %s, the group's is %s", m.cfg.Protocol, g.protocol))
		}
		old := g.static[m.cfg.InstanceID]
		ms = g.add(m)
		m.ms = ms
		if old != nil {
			ms.owned, ms.userData = owned, userData
			if g.replace(old, ms) {
				return nil
			}
		}
	}
	// On Kafka a follower that says what it said before gets what it has; but it says which generation it is of.
	ms.owned, ms.userData, ms.claim, ms.joining = owned, userData, ms.told, true
	g.rebalance()
	return nil
}

// replace puts a static member's new membership in the place of its old one. It returns true
// if the group need not rebalance for it (KIP-345).
func (g *group) replace(old, ms *membership) bool {
	ms.seq, ms.generation, ms.assigned, ms.withheld = old.seq, old.generation, old.assigned, old.withheld
	if g.leader == old {
		g.leader = ms
	}
	delete(g.members, old.id)
	old.client.fenced = true
	old.client.signal()
	g.fire()
	if g.phase != stable || ms.client.cfg.Version != old.client.cfg.Version {
		return false
	}
	ms.generation = g.generation // also if the group went on without the old one: the leader has assigned something to it
	return true
}

// lead assigns partitions as the group's leader, without the lock.
func (m *member) lead(generation int32) error {
	g := m.g
	members := g.ordered()
	in := make([]commitlog.GroupMember, 0, len(members))
	for _, x := range members {
		in = append(in, commitlog.GroupMember{ID: x.id, InstanceID: x.client.cfg.InstanceID, Topics: slices.Clone(x.client.cfg.Topics),
			Owned: slices.Clone(x.owned), Generation: x.claim, UserData: slices.Clone(x.userData)})
	}
	c := m.log.c
	c.mu.Unlock()
	out, err := m.cfg.Assign(in)
	c.mu.Lock()
	if err != nil {
		return groupError("assign partitions", g.name, code{class: commitlog.Fatal}, err)
	}
	g.assign(generation, out)
	return nil
}

// wait waits until done, or the member is no longer in the group, which is no error here. The
// caller holds mu, and done is called with it held.
func (m *member) wait(ctx context.Context, done func() bool) error {
	c, g := m.log.c, m.g
	for {
		if err := m.usable(ctx); err != nil {
			return err
		}
		if done() || g.members[m.ms.id] != m.ms {
			return nil
		}
		changed := g.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		case <-m.done:
		}
		c.mu.Lock()
	}
}

// Close implements [commitlog.Member].
func (m *member) Close(ctx context.Context, leave bool) error {
	m.log.c.mu.Lock()
	defer m.log.c.mu.Unlock()
	m.closeLocked(leave)
	return nil
}

func (m *member) closeLocked(leave bool) {
	if m.closed {
		return
	}
	m.closed = true
	close(m.done)
	delete(m.log.members, m)
	g := m.g
	if m.ms == nil || g.members[m.ms.id] != m.ms {
		return
	}
	if leave {
		g.remove(m.ms)
		return
	}
	m.ms.joining = false
	g.startExpiry(m.ms)
	g.fire()
}

// PauseMember stops or resumes the heartbeats of a member, as a process that hangs does: once its
// session timeout has passed the group goes on without it. Its Rebalance receives nothing
// until it is resumed.
func (l *Log) PauseMember(groupName, memberID string, paused bool) error {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	g := l.c.groups[groupName]
	if g == nil {
		return fmt.Errorf("%w: %s in group %s", errNoSuchMember, memberID, groupName)
	}
	ms := g.paused[memberID]
	if !paused && ms != nil {
		delete(g.paused, memberID)
		m := ms.client
		m.paused = false
		// It may have been thrown out meanwhile and have joined anew, or have been closed: then nothing
		// sends heartbeats any more.
		if ms = m.ms; !m.closed && g.members[ms.id] == ms {
			ms.expires = time.Time{}
		}
		if g.members[ms.id] != ms || g.phase == preparing && !ms.joining {
			m.signal()
		}
		return nil
	}
	if ms = g.members[memberID]; ms == nil {
		return fmt.Errorf("%w: %s in group %s", errNoSuchMember, memberID, groupName)
	}
	if paused && !ms.client.paused {
		g.paused[memberID] = ms
		ms.client.paused = true
		if !ms.joining {
			g.startExpiry(ms)
		}
	}
	return nil
}
