package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What administrators, retention and time do to topics and groups that are in use.

// AddPartitions raises the number of a topic's partitions and returns when the new ones can be used.
func (c *Client) AddPartitions(ctx context.Context, topic string, total int) error {
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, int32(total)
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis, req.Topics = 30_000, append(req.Topics, t)
	res, err := req.RequestWith(ctx, c.kgo)
	if err == nil {
		for _, t := range res.Topics {
			if err = kerr.ErrorForCode(t.ErrorCode); err != nil && t.ErrorMessage != nil {
				err = fmt.Errorf("%w: %s", err, *t.ErrorMessage)
			}
		}
	}
	for err == nil {
		var ends Offsets
		if ends, err = c.EndOffsets(ctx, ReadUncommitted, topic); err == nil && len(ends) == total {
			return nil
		}
		if err == nil {
			err = pause(ctx, fmt.Errorf("it has %d", len(ends)))
		}
	}
	return fmt.Errorf("testkit/kafka: add partitions to topic %s: %w", topic, err)
}

// DeleteRecords deletes what lies below the offsets, as retention does.
func (c *Client) DeleteRecords(ctx context.Context, below Offsets) error {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 30_000
	for p, offset := range below {
		part := kmsg.NewDeleteRecordsRequestTopicPartition()
		part.Partition, part.Offset = p.Partition, offset
		topic := kmsg.NewDeleteRecordsRequestTopic()
		topic.Topic, topic.Partitions = p.Topic, append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
	}
	res, err := req.RequestWith(ctx, c.kgo)
	if err == nil {
		for _, t := range res.Topics {
			for _, p := range t.Partitions {
				if e := kerr.ErrorForCode(p.ErrorCode); e != nil {
					err = fmt.Errorf("%s[%d]: %w", t.Topic, p.Partition, e)
				}
			}
		}
	}
	if err != nil {
		return fmt.Errorf("testkit/kafka: delete records: %w", err)
	}
	return nil
}

// DeleteGroup deletes a group without members and with it what it has committed, as the broker does when its offsets have expired.
func (c *Client) DeleteGroup(ctx context.Context, group string) error {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{group}
	res, err := req.RequestWith(ctx, c.kgo)
	if err == nil {
		for _, g := range res.Groups {
			err = kerr.ErrorForCode(g.ErrorCode)
		}
	}
	if err != nil {
		return fmt.Errorf("testkit/kafka: delete group %s: %w", group, err)
	}
	return nil
}

// SetOffsets commits offsets of a group without members, as kafka-consumer-groups.sh --reset-offsets does.
func (c *Client) SetOffsets(ctx context.Context, group string, offsets Offsets) error {
	ids := map[string][16]byte{}
	for p := range offsets {
		topics, err := c.metadata(ctx, p.Topic)
		if err != nil {
			return fmt.Errorf("testkit/kafka: set offsets of group %s: %w", group, err)
		}
		ids[p.Topic] = topics[0].TopicID
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	for p, offset := range offsets {
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset = p.Partition, offset
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic, topic.TopicID, topic.Partitions = p.Topic, ids[p.Topic], append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
	}
	res, err := req.RequestWith(ctx, c.kgo)
	if err == nil {
		for _, t := range res.Topics {
			for _, p := range t.Partitions {
				if e := kerr.ErrorForCode(p.ErrorCode); e != nil {
					err = fmt.Errorf("%s[%d]: %w", t.Topic, p.Partition, e)
				}
			}
		}
	}
	if err != nil {
		return fmt.Errorf("testkit/kafka: set offsets of group %s: %w", group, err)
	}
	return nil
}
