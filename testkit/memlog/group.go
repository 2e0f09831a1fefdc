package memlog

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// phase is a group's state:
//
//	         join               all joined            leader assigned
//	empty ---------> preparing ------------> completing -------------> stable
//	  ^               |  ^  ^                    |                       |
//	  |  last one left|  |  +--------------------+                       |
//	  +---------------+  |    join, leave, expiry of a session           |
//	                     +-----------------------------------------------+
type phase int8

const (
	empty phase = iota
	preparing
	completing
	stable
)

func (p phase) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}[p]
}

// group is a consumer group as its coordinator knows it. The cluster's mu guards it.
type group struct {
	c          *cluster
	name       string
	phase      phase
	generation int32
	protocol   string
	leader     *membership
	members    map[string]*membership
	static     map[string]*membership // by instance id
	offsets    map[commitlog.TopicPartition]int64
	notes      map[commitlog.TopicPartition]string // with offsets; none is empty
	pending    map[commitlog.TopicPartition]int    // open transactions that hold an offset
	deadline   time.Time                           // of the rebalance
	paused     map[string]*membership              // without heartbeats, by member id, also when thrown out
	had        bool                                // it has had a member
	changed    chan struct{}                       // closed when a Join may go on
}

// membership is one member of a group.
type membership struct {
	seq      int64
	id       string
	client   *member
	owned    []commitlog.TopicPartition
	userData []byte
	// joining: its Join waits for the next generation.
	joining bool
	// generation is the one it joined last, assigned what it was given in it and withheld what it was not, told the one of the last assignment
	// that its Join has returned, and claim what told was when it joined last. -1 is none.
	generation, told, claim int32
	assigned, withheld      []commitlog.TopicPartition
	// expires is when the session ends; zero while heartbeats arrive.
	expires time.Time
}

// group returns the group with a name, a new one if need be. The caller holds mu.
func (c *cluster) group(name string) *group {
	g := c.groups[name]
	if g == nil {
		g = &group{c: c, name: name, members: map[string]*membership{}, static: map[string]*membership{}, paused: map[string]*membership{},
			offsets: map[commitlog.TopicPartition]int64{}, notes: map[commitlog.TopicPartition]string{}, pending: map[commitlog.TopicPartition]int{}, changed: make(chan struct{})}
		c.groups[name] = g
	}
	return g
}

// fire wakes Joins and all others who wait for a change.
func (g *group) fire() {
	close(g.changed)
	g.changed = make(chan struct{})
	g.c.fire()
}

// ordered returns the members in the order they came.
func (g *group) ordered() []*membership {
	return slices.SortedFunc(maps.Values(g.members), func(a, b *membership) int { return cmp.Compare(a.seq, b.seq) })
}

// validate checks who commits offsets in a transaction (KIP-447). As on Kafka a generation of -1
// without a member is no membership and always good.
func (g *group) validate(meta commitlog.GroupMetadata) code {
	if meta.Generation < 0 && meta.MemberID == "" && meta.InstanceID == "" {
		return code{}
	}
	if meta.InstanceID != "" {
		m := g.static[meta.InstanceID]
		if m == nil {
			return unknownMember
		}
		if m.id != meta.MemberID {
			return fencedInstance
		}
	}
	if g.members[meta.MemberID] == nil {
		return unknownMember
	}
	if meta.Generation != g.generation {
		return illegalGeneration
	}
	return code{}
}

// add makes a member of m.
func (g *group) add(m *member) *membership {
	g.c.memberSeq++
	ms := &membership{seq: g.c.memberSeq, client: m, generation: -1, told: -1, claim: -1}
	ms.id = memberID(m.cfg, ms.seq)
	g.members[ms.id] = ms
	if m.cfg.InstanceID != "" {
		g.static[m.cfg.InstanceID] = ms
	}
	g.protocol = m.cfg.Protocol
	g.had = true
	return ms
}

// remove takes a member out and has the others rebalance.
func (g *group) remove(ms *membership) {
	g.drop(ms)
	if g.phase == empty {
		return
	}
	g.rebalance()
}

// drop takes a member out.
func (g *group) drop(ms *membership) {
	delete(g.members, ms.id)
	if id := ms.client.cfg.InstanceID; id != "" && g.static[id] == ms {
		delete(g.static, id)
	}
	if g.leader == ms {
		g.leader = nil
	}
	ms.client.signal()
	g.fire()
}

// rebalance has all members join again, and goes on at once if all have.
func (g *group) rebalance() {
	if g.phase != preparing {
		g.phase = preparing
		for _, m := range g.members {
			if !m.joining {
				m.client.signal()
			}
		}
		g.startDeadline()
	}
	for _, m := range g.members {
		if !m.joining {
			g.fire()
			return
		}
	}
	g.complete()
}

// startDeadline gives the phase of a rebalance its time: that of the members to join, and then that of the
// leader to assign, each as long as the most patient member allows.
func (g *group) startDeadline() {
	var timeout time.Duration
	for _, m := range g.members {
		timeout = max(timeout, m.client.cfg.RebalanceTimeout)
	}
	g.deadline = g.c.opts.Now().Add(timeout)
	g.c.arm(g.deadline)
}

// complete begins the next generation with the members there are.
func (g *group) complete() {
	g.generation++
	g.leader = nil
	if len(g.members) == 0 {
		g.phase = empty
		g.fire()
		return
	}
	g.phase = completing
	for _, m := range g.ordered() {
		if !m.joining {
			continue // a static member that has not come back: it keeps its place
		}
		if g.leader == nil {
			g.leader = m
		}
		m.joining, m.generation = false, g.generation
		if m.expires = (time.Time{}); m.client.paused {
			g.startExpiry(m)
		}
	}
	g.startDeadline() // a leader is not late because some member was
	g.fire()
}

// startExpiry ends the member's session after its timeout.
func (g *group) startExpiry(m *membership) {
	m.expires = g.c.opts.Now().Add(m.client.cfg.SessionTimeout)
	g.c.arm(m.expires)
}

// expire applies timeouts that have passed and returns when the next one is due, zero if none is.
func (g *group) expire(now time.Time) (next time.Time) {
	for _, m := range g.ordered() {
		if !m.joining && !m.expires.IsZero() && !now.Before(m.expires) {
			g.remove(m)
		}
	}
	if (g.phase == preparing || g.phase == completing) && !now.Before(g.deadline) {
		g.overdue(now)
	}
	if g.phase == preparing || g.phase == completing {
		next = g.deadline
	}
	for _, m := range g.members {
		if !m.joining && !m.expires.IsZero() && (next.IsZero() || m.expires.Before(next)) {
			next = m.expires
		}
	}
	return next
}

// overdue ends a rebalance that took too long: without the dynamic members that have not
// joined, or, if the leader did not assign, without the leader.
func (g *group) overdue(now time.Time) {
	if g.phase == completing {
		if g.leader != nil {
			g.drop(g.leader)
		}
		g.rebalance()
		return
	}
	joined := 0
	for _, m := range g.ordered() {
		if m.joining {
			joined++
		} else if m.client.cfg.InstanceID == "" {
			g.drop(m)
		}
	}
	if joined == 0 && len(g.members) > 0 {
		g.deadline = now.Add(time.Second) // nobody to lead: wait for the sessions of the static ones
		return
	}
	g.complete()
}

// assign stores what the leader assigned, if the generation is still the group's.
func (g *group) assign(generation int32, assignments map[string][]commitlog.TopicPartition) {
	if g.phase != completing || g.generation != generation {
		return
	}
	for id, m := range g.members {
		m.assigned = slices.Clone(assignments[id])
		m.withheld = commitlog.Withheld(m.owned, m.assigned)
	}
	g.phase = stable
	g.fire()
}

// metadata is what identifies the membership. The caller holds mu.
func (ms *membership) metadata() commitlog.GroupMetadata {
	m := ms.client
	return commitlog.GroupMetadata{Group: m.g.name, MemberID: ms.id, InstanceID: m.cfg.InstanceID, Generation: ms.generation}
}

// Current implements [commitlog.Identity].
func (ms *membership) Current(ctx context.Context, after int32) (commitlog.GroupMetadata, error) {
	const op = "commit offsets"
	m := ms.client
	g, c := m.g, m.log.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if m.closed || m.log.closed {
			return commitlog.GroupMetadata{}, groupError(op, g.name, code{class: commitlog.Fenced}, commitlog.ErrClosed)
		}
		if g.members[ms.id] != ms {
			return commitlog.GroupMetadata{}, groupError(op, g.name, unknownMember, nil)
		}
		if ms.generation > after {
			return ms.metadata(), nil
		}
		changed := g.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		case <-m.done:
		}
		c.mu.Lock()
		if err := ctx.Err(); err != nil {
			return commitlog.GroupMetadata{}, groupError(op, g.name, code{class: commitlog.Retriable}, err)
		}
	}
}
