package main

import (
	"context"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// tail reads topics as they grow, as read_committed sees them.
type tail struct {
	client *kafka.Client
	at     kafka.Offsets
}

func newTail(ctx context.Context, c *kafka.Client, topics ...string) (*tail, error) {
	at, err := c.StartOffsets(ctx, topics...)
	return &tail{client: c, at: at}, err
}

// next returns what came since the last call.
func (t *tail) next(ctx context.Context) ([]kafka.Record, error) {
	records, err := t.client.ReadFrom(ctx, kafka.ReadCommitted, t.at)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		t.at[kafka.Partition{Topic: r.Topic, Partition: r.Partition}] = r.Offset + 1
	}
	return records, nil
}
