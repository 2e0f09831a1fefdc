package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Log is a connection to one Kafka cluster. It is safe for concurrent use.
type Log struct {
	cfg     Config
	cluster *cluster
	coords  *coordinators

	mu     sync.Mutex // guards what follows
	open   map[interface{ shut() }]struct{}
	closed bool
}

var _ commitlog.Log = (*Log)(nil)

// Open connects to the cluster: one of the configured brokers has to answer within
// OpenTimeout. The error says which addresses were tried and what the last one answered; it
// wraps commitlog.ErrUnreachable if none did.
func Open(ctx context.Context, cfg Config) (*Log, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("kafkalog: %w", err)
	}
	l := &Log{cfg: cfg.withDefaults(), open: map[interface{ shut() }]struct{}{}}
	l.cluster = newCluster(&l.cfg)
	l.coords = newCoordinators(l.cluster)
	if err := l.firstContact(ctx); err != nil {
		l.cluster.conns.close()
		return nil, fmt.Errorf("kafkalog: %w", err)
	}
	return l, nil
}

// firstContact asks for the brokers until one answers or OpenTimeout has passed.
func (l *Log) firstContact(ctx context.Context) error {
	inner, cancel := context.WithTimeout(ctx, l.cfg.OpenTimeout+openGrace)
	defer cancel()
	var last error
	err := retryFor(inner, l.cfg.OpenTimeout, "connect", func(ctx context.Context) error {
		_, err := l.cluster.refresh(ctx, nil)
		if err != nil && ctx.Err() == nil {
			last = err
		}
		return err
	})
	if err != nil && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		if last == nil {
			last = &connError{addr: strings.Join(l.cfg.Brokers, ", "), err: fmt.Errorf("no answer within %v", l.cfg.OpenTimeout)}
		}
		return wrap("connect", last)
	}
	return err
}

// add registers what Close has to close; it fails when the log is closed.
func (l *Log) add(what interface{ shut() }) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return commitlog.ErrClosed
	}
	l.open[what] = struct{}{}
	return nil
}

func (l *Log) remove(what interface{ shut() }) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, what)
}

// Close closes what is open, readers, producers and members included, and returns when no
// goroutine is left. Open transactions are left to their timeout, memberships to theirs. It is
// idempotent.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	open := l.open
	l.open = map[interface{ shut() }]struct{}{}
	l.mu.Unlock()
	var wg sync.WaitGroup
	for what := range open {
		wg.Go(what.shut)
	}
	wg.Wait()
	l.cluster.conns.close()
	return nil
}
