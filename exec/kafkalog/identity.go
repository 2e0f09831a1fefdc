package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// identity is one membership, from the coordinator's naming the member to the membership's end. It is safe for
// concurrent use.
//
// It is lost when the coordinator says so (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID) or, by this process's clock, when
// nothing that the coordinator has answered was asked within the session timeout: a process that was stopped knows
// that its place is gone before it has asked anybody (E3).
type identity struct {
	group, instance, id string
	session             time.Duration
	expired             func()      // called when the session is over by our clock, without a lock held
	timer               *time.Timer // calls it

	mu         sync.Mutex    // guards what follows
	generation int32         // of the last JoinGroup that was answered, -1 before
	assignedIn int32         // of the last assignment, -1 before
	heard      time.Time     // when the last request that was answered well was sent
	over       error         // why the membership is lost
	changed    chan struct{} // closed when generation or over changes; nil if nobody waits
}

// newIdentity begins a membership whose session starts now. expired is called, on a goroutine of its own, when it is
// over without anything heard.
func newIdentity(cfg *commitlog.MemberConfig, id string, expired func(*identity)) *identity {
	i := &identity{group: cfg.Group, instance: cfg.InstanceID, id: id, session: cfg.SessionTimeout, generation: -1, assignedIn: -1, heard: time.Now()}
	i.expired = func() { expired(i) }
	i.mu.Lock()
	defer i.mu.Unlock()
	i.timer = time.AfterFunc(i.session, i.watch)
	return i
}

// watch ends the membership if its session is over, or looks again when it may be.
func (i *identity) watch() {
	i.mu.Lock()
	left := i.leftLocked()
	over := i.over != nil
	if !over {
		i.timer.Reset(left)
	}
	i.mu.Unlock()
	if over {
		i.expired()
	}
}

// Current implements commitlog.Identity.
func (i *identity) Current(ctx context.Context, after int32) (commitlog.GroupMetadata, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for {
		left := i.leftLocked()
		if i.over != nil {
			return commitlog.GroupMetadata{}, i.over
		}
		if i.generation > after {
			return commitlog.GroupMetadata{Group: i.group, MemberID: i.id, InstanceID: i.instance, Generation: i.generation}, nil
		}
		if err := ctx.Err(); err != nil {
			return commitlog.GroupMetadata{}, &commitlog.Error{Op: opIdentity, Partition: -1, Group: i.group, Class: commitlog.Retriable,
				Err: fmt.Errorf("waiting for a generation after %d: %w", after, err)}
		}
		if i.changed == nil {
			i.changed = make(chan struct{})
		}
		changed := i.changed
		i.mu.Unlock()
		t := time.NewTimer(left)
		select {
		case <-changed:
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
		i.mu.Lock()
	}
}

const opIdentity = "ask for the group's generation"

// leftLocked returns how long the membership lives if nothing is heard; it ends one whose time is over.
func (i *identity) leftLocked() time.Duration {
	left := time.Until(i.heard.Add(i.session))
	if left <= 0 && i.over == nil {
		i.endLocked(&commitlog.Error{Op: opIdentity, Partition: -1, Class: commitlog.Fenced,
			Err: fmt.Errorf("nothing was heard from the coordinator for the session timeout of %v", i.session)})
		i.timer.Reset(0)
	}
	return max(left, leastWait)
}

// answered notes that a request sent at asked was answered by a coordinator that knows the member.
func (i *identity) answered(asked time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.leftLocked()
	if asked.After(i.heard) {
		i.heard = asked
	}
}

// join moves the membership on to a generation. It returns false if the membership was lost before.
func (i *identity) join(generation int32) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over != nil {
		return false
	}
	i.generation = generation
	i.fireLocked()
	return true
}

// assigned notes that the generation got as far as an assignment and returns whether it is the first one.
func (i *identity) assigned(generation int32) (fresh bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	fresh = i.assignedIn < 0
	i.assignedIn = generation
	return fresh, i.over
}

// end loses the membership for a reason, the first one given.
func (i *identity) end(err *commitlog.Error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.endLocked(err)
}

func (i *identity) endLocked(err *commitlog.Error) {
	if i.over == nil {
		c := *err
		c.Group, c.Class = i.group, commitlog.Fenced
		if c.Err == nil {
			c.Err = errMembershipLost
		}
		i.over = &c
		i.timer.Stop()
		i.fireLocked()
	}
}

// errMembershipLost is the cause of errors that end a membership.
var errMembershipLost = errors.New("the membership is lost")

func (i *identity) fireLocked() {
	if i.changed != nil {
		close(i.changed)
		i.changed = nil
	}
}

// state returns the generation now, the last one with an assignment, and whether the membership is lost.
func (i *identity) state() (generation, assignedIn int32, lost bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.leftLocked()
	return i.generation, i.assignedIn, i.over != nil
}
