package memlog

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Options describe a cluster in memory. The zero value is usable.
type Options struct {
	// Now is the cluster's clock; nil means time.Now. It is called with a lock held: it must
	// not block or call the log.
	Now func() time.Time
	// DefaultPartitions is the count of a topic created with -1 partitions. 0 means 1.
	DefaultPartitions int
	// TopicDefaults replace the brokers' defaults of topic settings, by Kafka's names.
	TopicDefaults map[string]string
}

// Log is a connection to a cluster in memory. It is safe for concurrent use.
type Log struct {
	c      *cluster
	faults atomic.Pointer[Faults]

	// Guarded by c.mu.
	closed    bool
	readers   map[*reader]struct{}
	producers map[*producer]struct{}
	members   map[*member]struct{}
}

var _ commitlog.Log = (*Log)(nil)

// New makes an empty cluster and returns a connection to it.
func New(opts Options) *Log {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.DefaultPartitions <= 0 {
		opts.DefaultPartitions = 1
	}
	return newCluster(opts).connect()
}

// Session returns a new connection to the same cluster, without faults.
func (l *Log) Session() *Log { return l.c.connect() }

func (c *cluster) connect() *Log {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions++
	return &Log{c: c, readers: map[*reader]struct{}{}, producers: map[*producer]struct{}{}, members: map[*member]struct{}{}}
}

// Close ends the connection as the death of its process would: readers end, producers leave
// their transaction open, members leave without a word. It returns when no goroutine of the
// connection is left. It is idempotent and never fails.
func (l *Log) Close() error {
	c := l.c
	c.mu.Lock()
	if l.closed {
		c.mu.Unlock()
		return nil
	}
	l.closed = true
	readers := make([]*reader, 0, len(l.readers))
	for r := range l.readers {
		readers = append(readers, r)
	}
	for p := range l.producers {
		p.closed = true
	}
	for m := range l.members {
		m.closeLocked(false)
	}
	if c.sessions--; c.sessions == 0 && c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	c.fire()
	c.mu.Unlock()
	for _, r := range readers {
		r.Close()
	}
	return nil
}

// Tick applies every timeout that has passed on the cluster's clock: sessions, rebalances and
// transactions. A test with a clock of its own calls it after moving the clock.
func (l *Log) Tick() { l.c.expire() }

// usable returns the error of a call on a closed log or with an ended context.
// The caller holds c.mu.
func (l *Log) usable(ctx context.Context, op string) error {
	if l.closed {
		return closedError(op)
	}
	if err := ctx.Err(); err != nil {
		return contextError(op, err)
	}
	return nil
}
