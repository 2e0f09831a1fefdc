package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// coordinatorPartitions is how many partitions each of the coordinators' topics has.
const coordinatorPartitions = 5

// awaitReady returns when the broker serves all that a client may ask for: it knows itself, it
// hands out producer ids, and it has loaded every partition of the topics in which it keeps
// groups and transactions. died, if not nil, tells that it is gone.
func (b *Broker) awaitReady(ctx context.Context, died <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, b.opts.StartTimeout)
	defer cancel()
	c, err := b.dialLocked()
	if err != nil {
		return err
	}
	defer c.Close()
	return c.awaitReady(ctx, 1, died)
}

// awaitReady is the same of a cluster in which that many brokers have to take part.
func (c *Client) awaitReady(ctx context.Context, brokers int, died <-chan struct{}) error {
	for {
		asked, stop := context.WithTimeout(ctx, 5*time.Second)
		err := c.probe(asked, brokers)
		stop()
		if err == nil {
			return nil
		}
		select {
		case <-died:
			return fmt.Errorf("it ended before it was ready: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// probe asks for everything that has to work, and leaves nothing behind but the topics of the
// coordinators.
func (c *Client) probe(ctx context.Context, brokers int) error {
	meta, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, c.kgo)
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	if len(meta.Brokers) < brokers {
		return fmt.Errorf("metadata: %d of %d brokers yet", len(meta.Brokers), brokers)
	}
	id, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(ctx, c.kgo)
	if err == nil {
		err = kerr.ErrorForCode(id.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("producer ids: %w", err)
	}
	groups := kmsg.NewPtrDescribeGroupsRequest()
	groups.Groups = probeNames()
	g, err := groups.RequestWith(ctx, c.kgo)
	if err != nil {
		return fmt.Errorf("groups: %w", err)
	}
	for _, g := range g.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return fmt.Errorf("groups: %w", err)
		}
	}
	txns := kmsg.NewPtrDescribeTransactionsRequest()
	txns.TransactionalIDs = probeNames()
	t, err := txns.RequestWith(ctx, c.kgo)
	if err != nil {
		return fmt.Errorf("transactions: %w", err)
	}
	for _, t := range t.TransactionStates {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil && !errors.Is(err, kerr.TransactionalIDNotFound) {
			return fmt.Errorf("transactions: %w", err)
		}
	}
	return nil
}

// probeNames returns names of which each belongs to another partition of the coordinators'
// topics.
func probeNames() []string {
	names := make([]string, coordinatorPartitions)
	for i, missing := 0, len(names); missing > 0; i++ {
		name := fmt.Sprintf("wicker-probe-%d", i)
		if at := coordinatorPartition(name); names[at] == "" {
			names[at] = name
			missing--
		}
	}
	return names
}
