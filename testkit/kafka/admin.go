package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreateTopic creates a topic and returns when it can be used. 0 partitions is the broker's
// default. configs, as "cleanup.policy", may be nil.
func (c *Client) CreateTopic(ctx context.Context, name string, partitions int, configs map[string]string) error {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, int32(partitions), -1
	if partitions == 0 {
		topic.NumPartitions = -1
	}
	for _, k := range slices.Sorted(maps.Keys(configs)) {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = k, kmsg.StringPtr(configs[k])
		topic.Configs = append(topic.Configs, config)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.Topics = 30_000, append(req.Topics, topic)
	res, err := req.RequestWith(ctx, c.kgo)
	if err == nil {
		for _, t := range res.Topics {
			if err = kerr.ErrorForCode(t.ErrorCode); err != nil && t.ErrorMessage != nil {
				err = fmt.Errorf("%w: %s", err, *t.ErrorMessage)
			}
		}
	}
	if err == nil {
		// The broker learns of it from the controller, a moment later.
		_, err = c.EndOffsets(ctx, ReadUncommitted, name)
	}
	if err != nil {
		return fmt.Errorf("testkit/kafka: create topic %s: %w", name, err)
	}
	return nil
}

// DeleteTopics deletes topics and returns when the broker does not list them any more.
func (c *Client) DeleteTopics(ctx context.Context, names ...string) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 30_000
	req.TopicNames = names
	for _, name := range names {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, topic)
	}
	res, err := req.RequestWith(ctx, c.kgo)
	if err != nil {
		return fmt.Errorf("testkit/kafka: delete topics: %w", err)
	}
	for i, t := range res.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("testkit/kafka: delete topic %s: %w", names[i], err)
		}
	}
	for {
		topics, err := c.Topics(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(names, func(name string) bool { return topics[name] > 0 }) {
			return nil
		}
		if err := pause(ctx, fmt.Errorf("the broker lists them still")); err != nil {
			return fmt.Errorf("testkit/kafka: delete topics: %w", err)
		}
	}
}

// Topics returns the topics and how many partitions each has, without those of Kafka itself.
func (c *Client) Topics(ctx context.Context) (map[string]int, error) {
	res, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, c.kgo)
	if err != nil {
		return nil, fmt.Errorf("testkit/kafka: list topics: %w", err)
	}
	topics := map[string]int{}
	for _, t := range res.Topics {
		if t.Topic != nil && !t.IsInternal && t.ErrorCode == 0 {
			topics[*t.Topic] = len(t.Partitions)
		}
	}
	return topics, nil
}

// TopicConfigs returns the settings of a topic, with those that it has from the broker.
func (c *Client) TopicConfigs(ctx context.Context, topic string) (map[string]string, error) {
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = append(req.Resources, resource)
	res, err := req.RequestWith(ctx, c.kgo)
	if err == nil && len(res.Resources) != 1 {
		err = fmt.Errorf("%d answers", len(res.Resources))
	}
	if err == nil {
		err = kerr.ErrorForCode(res.Resources[0].ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("testkit/kafka: configs of topic %s: %w", topic, err)
	}
	configs := map[string]string{}
	for _, cfg := range res.Resources[0].Configs {
		if cfg.Value != nil {
			configs[cfg.Name] = *cfg.Value
		}
	}
	return configs, nil
}

// StartOffsets returns the offset of the first record that each partition still has.
func (c *Client) StartOffsets(ctx context.Context, topics ...string) (Offsets, error) {
	return c.listOffsets(ctx, ReadUncommitted, -2, topics)
}

// EndOffsets returns the offset after the last record of each partition: read committed, it is
// the last stable offset, which is before the first open transaction.
func (c *Client) EndOffsets(ctx context.Context, isolation Isolation, topics ...string) (Offsets, error) {
	return c.listOffsets(ctx, isolation, -1, topics)
}

// AwaitStable returns when no transaction is open in the topics: when both isolation levels see
// the same ends. Kafka acknowledges the end of a transaction before its markers are written, and
// a broker that was killed in between writes them some time after its restart.
func (c *Client) AwaitStable(ctx context.Context, topics ...string) error {
	for {
		stable, err := c.EndOffsets(ctx, ReadCommitted, topics...)
		if err != nil {
			return err
		}
		ends, err := c.EndOffsets(ctx, ReadUncommitted, topics...)
		if err != nil {
			return err
		}
		if maps.Equal(stable, ends) {
			return nil
		}
		if err := pause(ctx, fmt.Errorf("ends %v, stable up to %v", ends, stable)); err != nil {
			return fmt.Errorf("testkit/kafka: await the end of transactions: %w", err)
		}
	}
}

func (c *Client) listOffsets(ctx context.Context, isolation Isolation, timestamp int64, topics []string) (Offsets, error) {
	if len(topics) == 0 {
		return Offsets{}, nil
	}
	for last := error(nil); ; {
		offsets, err := c.tryListOffsets(ctx, isolation, timestamp, topics)
		if err != nil && kerr.IsRetriable(err) { // as of a topic that was created just now
			last = err
			if err = pause(ctx, err); err == nil {
				continue
			}
		} else if err != nil && last != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", err, last) // what was waited for
		}
		if err != nil {
			return nil, fmt.Errorf("testkit/kafka: list offsets: %w", err)
		}
		return offsets, nil
	}
}

func (c *Client) tryListOffsets(ctx context.Context, isolation Isolation, timestamp int64, topics []string) (Offsets, error) {
	meta, err := c.metadata(ctx, topics...)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel = int8(isolation)
	for _, t := range meta {
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = *t.Topic
		for _, p := range t.Partitions {
			part := kmsg.NewListOffsetsRequestTopicPartition()
			part.Partition, part.Timestamp = p.Partition, timestamp
			topic.Partitions = append(topic.Partitions, part)
		}
		req.Topics = append(req.Topics, topic)
	}
	res, err := req.RequestWith(ctx, c.kgo)
	if err != nil {
		return nil, err
	}
	offsets := Offsets{}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("%s[%d]: %w", t.Topic, p.Partition, err)
			}
			offsets[Partition{t.Topic, p.Partition}] = p.Offset
		}
	}
	return offsets, nil
}

// metadata returns the broker's view of topics.
func (c *Client) metadata(ctx context.Context, topics ...string) ([]kmsg.MetadataResponseTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, topic)
	}
	res, err := req.RequestWith(ctx, c.kgo)
	if err != nil {
		return nil, err
	}
	if len(res.Topics) != len(topics) {
		return nil, fmt.Errorf("the broker answers for %d of %d topics", len(res.Topics), len(topics))
	}
	for _, t := range res.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return nil, fmt.Errorf("topic %s: %w", *t.Topic, err)
		}
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("%s[%d]: %w", *t.Topic, p.Partition, err)
			}
		}
	}
	return res.Topics, nil
}

// CommittedOffsets returns what a group has committed, of all partitions of which it has
// committed anything; a group that does not exist has none. Offsets of open transactions are not among them.
func (c *Client) CommittedOffsets(ctx context.Context, group string) (Offsets, error) {
	asked := kmsg.NewOffsetFetchRequestGroup()
	asked.Group, asked.Topics = group, nil // all
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups = append(req.Groups, asked)
	res, err := req.RequestWith(ctx, c.kgo)
	if err == nil && len(res.Groups) != 1 {
		err = fmt.Errorf("%d answers", len(res.Groups))
	}
	if err == nil {
		err = kerr.ErrorForCode(res.Groups[0].ErrorCode)
	}
	if errors.Is(err, kerr.GroupIDNotFound) { // kfake's answer; Kafka's is that there are none
		return Offsets{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("testkit/kafka: offsets of group %s: %w", group, err)
	}
	offsets := Offsets{}
	for _, t := range res.Groups[0].Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("testkit/kafka: offsets of group %s: %s[%d]: %w", group, t.Topic, p.Partition, err)
			}
			if p.Offset >= 0 {
				offsets[Partition{t.Topic, p.Partition}] = p.Offset
			}
		}
	}
	return offsets, nil
}
