package memlog

import (
	"context"
	"slices"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// CommittedOffsets implements [commitlog.Log]. Where a transaction that holds offsets of one of
// the partitions is open it waits for its end, as with require_stable (KIP-447).
func (l *Log) CommittedOffsets(ctx context.Context, groupName string, tps []commitlog.TopicPartition) (map[commitlog.TopicPartition]int64, error) {
	if err := l.adminFault(ctx, "CommittedOffsets"); err != nil {
		return nil, err
	}
	return committedOf(ctx, l, groupName, tps, func(g *group) map[commitlog.TopicPartition]int64 { return g.offsets }, true)
}

// CommittedNotes implements [commitlog.Log].
func (l *Log) CommittedNotes(ctx context.Context, groupName string, tps []commitlog.TopicPartition) (map[commitlog.TopicPartition]string, error) {
	if err := l.adminFault(ctx, "CommittedNotes"); err != nil {
		return nil, err
	}
	return committedOf(ctx, l, groupName, tps, func(g *group) map[commitlog.TopicPartition]string { return g.notes }, false)
}

// committedOf returns what a group has of the partitions, if stable when no open transaction holds an offset of them.
func committedOf[V any](ctx context.Context, l *Log, groupName string, tps []commitlog.TopicPartition, of func(*group) map[commitlog.TopicPartition]V, stable bool) (map[commitlog.TopicPartition]V, error) {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if err := l.usable(ctx, "fetch offsets"); err != nil {
			return nil, err
		}
		out := make(map[commitlog.TopicPartition]V, len(tps))
		g := c.groups[groupName]
		if g == nil {
			return out, nil
		}
		if stable && slices.ContainsFunc(tps, func(tp commitlog.TopicPartition) bool { return g.pending[tp] > 0 }) {
			changed := c.next()
			c.mu.Unlock()
			select {
			case <-changed:
			case <-ctx.Done():
			}
			c.mu.Lock()
			continue
		}
		for _, tp := range tps {
			if v, ok := of(g)[tp]; ok {
				out[tp] = v
			}
		}
		return out, nil
	}
}

// SetCommitted sets a group's offsets, as an administrator does, without a note. A negative offset removes one.
func (l *Log) SetCommitted(groupName string, offsets map[commitlog.TopicPartition]int64) {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.group(groupName)
	for tp, offset := range offsets {
		if g.forget(tp); offset >= 0 {
			g.offsets[tp] = offset
		}
	}
	c.fire()
}

// forget removes what the group has of a partition. The caller holds mu.
func (g *group) forget(tp commitlog.TopicPartition) {
	delete(g.offsets, tp)
	delete(g.notes, tp)
}

// note sets what is kept with an offset. The caller holds mu.
func (g *group) note(tp commitlog.TopicPartition, note string) {
	delete(g.notes, tp)
	if note != "" {
		g.notes[tp] = note
	}
}

// Await returns nil once done returns true, and the cause of ctx's end if that comes first. It
// calls done now and after each change of the cluster (records, transactions, groups,
// topics), without a lock held: done may call any method of the log.
func (l *Log) Await(ctx context.Context, done func() bool) error {
	for {
		l.c.mu.Lock()
		changed := l.c.next()
		l.c.mu.Unlock()
		if done() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// AwaitIdle waits until a group has nothing left to do: it is stable with at least one
// member, no transaction is open in any partition of the topics its members subscribe to, and
// no record in them that can be seen lies at or after the group's offset (the log's start
// without one). What the group writes to topics that it reads again is included, because
// offsets and records of a transaction appear together.
//
// It waits for the first member of a group that never had one. It returns [ErrNoMembers] as
// soon as a group that had members has none but those whose connection is closed, and
// the cause of ctx's end. A member that fails without leaving is seen when its connection
// closes or its session ends; a test that runs the members itself cancels ctx with their error.
func (l *Log) AwaitIdle(ctx context.Context, groupName string) error {
	c := l.c
	for {
		c.mu.Lock()
		idle, err := c.idle(groupName)
		changed := c.next()
		c.mu.Unlock()
		if idle || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// idle says whether the group has consumed everything. The caller holds mu.
func (c *cluster) idle(groupName string) (bool, error) {
	g := c.groups[groupName]
	if g == nil || !g.had {
		return false, nil
	}
	live := 0
	for _, m := range g.members {
		if !m.client.closed {
			live++
		}
	}
	if live == 0 {
		return false, ErrNoMembers
	}
	if g.phase != stable {
		return false, nil
	}
	for _, m := range g.members {
		for _, name := range m.client.cfg.Topics {
			t := c.topics[name]
			if t == nil {
				continue
			}
			for _, p := range t.parts {
				if len(p.open) > 0 || p.shown > max(p.start, g.offsets[p.TopicPartition]) {
					return false, nil
				}
			}
		}
	}
	return true, nil
}

// MemberState is what the coordinator knows of a member.
type MemberState struct {
	ID, InstanceID, ClientID string
	// Leader says that it assigned the generation's partitions.
	Leader bool
	// Assigned are its partitions in the current generation.
	Assigned []commitlog.TopicPartition
}

// GroupState is what the coordinator knows of a group.
type GroupState struct {
	// State is Kafka's name: Empty, PreparingRebalance, CompletingRebalance or Stable.
	State      string
	Generation int32
	// Members are in the order they joined first.
	Members []MemberState
}

// Group describes a group. One that never was is Empty, in generation 0.
func (l *Log) Group(name string) GroupState {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	g := l.c.groups[name]
	if g == nil {
		return GroupState{State: empty.String()}
	}
	s := GroupState{State: g.phase.String(), Generation: g.generation}
	for _, m := range g.ordered() {
		s.Members = append(s.Members, MemberState{ID: m.id, InstanceID: m.client.cfg.InstanceID, ClientID: m.client.cfg.ClientID,
			Leader: g.leader == m, Assigned: slices.Clone(m.assigned)})
	}
	return s
}
