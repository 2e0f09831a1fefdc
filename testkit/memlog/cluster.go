package memlog

import (
	"sync"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// cluster is the data that connections share.
type cluster struct {
	opts Options

	// mu guards everything below and the state of all topics, groups, producers, members and
	// readers. It is held for short steps only, never while something is waited for.
	mu        sync.Mutex
	pool      *commitlog.Pool // of Append's batches; set once
	topics    map[string]*topic
	txns      map[string]*transactional
	groups    map[string]*group
	memberSeq int64 // last given out
	topicSeq  uint64
	fenced    int // see Log.Fenced
	sessions  int // open connections
	changed   chan struct{}
	timer     *time.Timer // fires at timerAt, nil if nothing is due
	timerAt   time.Time
}

func newCluster(opts Options) *cluster {
	return &cluster{opts: opts, pool: commitlog.NewPool(appendBytes + 4096), topics: map[string]*topic{}, txns: map[string]*transactional{}, groups: map[string]*group{}}
}

// next returns a channel that is closed at the next change. The caller holds mu.
func (c *cluster) next() <-chan struct{} {
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// fire wakes all who wait for a change. The caller holds mu.
func (c *cluster) fire() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// arm has expire called at the given time. The caller holds mu.
func (c *cluster) arm(at time.Time) {
	if at.IsZero() || c.sessions == 0 || c.timer != nil && !at.Before(c.timerAt) {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timerAt = at
	c.timer = time.AfterFunc(at.Sub(c.opts.Now()), c.expire)
}

// expire applies what is due and arms the timer for what is next.
func (c *cluster) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	now := c.opts.Now()
	var next time.Time
	wait := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	for _, t := range c.txns {
		if t.open == nil {
			continue
		}
		if now.Before(t.deadline) {
			wait(t.deadline)
			continue
		}
		t.owner = nil // fences: the coordinator has raised the epoch
		c.end(t, aborted)
	}
	for _, g := range c.groups {
		if at := g.expire(now); !at.IsZero() {
			wait(at)
		}
	}
	c.arm(next)
}

// partition returns a partition that exists, or the error of op. The caller holds mu.
func (c *cluster) partition(op string, tp commitlog.TopicPartition) (*partition, error) {
	t := c.topics[tp.Topic]
	if t == nil || tp.Partition < 0 || int(tp.Partition) >= len(t.parts) {
		return nil, kafkaError(op, tp, unknownTopic, nil)
	}
	return t.parts[tp.Partition], nil
}
