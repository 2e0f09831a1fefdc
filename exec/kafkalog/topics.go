package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"

	"github.com/wickerwork/wicker/exec/commitlog"
)

const topicResource = 2 // Kafka's resource type in DescribeConfigs

// Topics implements commitlog.Log. Brokers before Kafka 2.8 tell no topic ids: they are zero.
func (l *Log) Topics(ctx context.Context, names ...string) (map[string]commitlog.Topic, error) {
	topics := make(map[string]commitlog.Topic, len(names))
	if len(names) == 0 {
		return topics, nil
	}
	err := l.retry(ctx, "describe topics", func(ctx context.Context) error {
		res, err := l.cluster.describe(ctx, names)
		if err != nil {
			return err
		}
		clear(topics)
		for i := range res.topics {
			t := &res.topics[i]
			if t.code == codeUnknownTopic {
				continue
			}
			if e := kafkaErr("describe topic", inCall, t.code); e != nil {
				e.Topic = t.name
				return e
			}
			topics[t.name] = commitlog.Topic{Name: t.name, Partitions: len(t.partitions), ID: t.id}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return topics, nil
}

// TopicConfigs implements commitlog.Log.
func (l *Log) TopicConfigs(ctx context.Context, names ...string) (map[string]map[string]string, error) {
	configs := make(map[string]map[string]string, len(names))
	if len(names) == 0 {
		return configs, nil
	}
	req := &describeconfigs.Request{}
	for _, n := range names {
		req.Resources = append(req.Resources, describeconfigs.RequestResource{ResourceType: topicResource, ResourceName: n})
	}
	err := l.retry(ctx, "describe topic settings", func(ctx context.Context) error {
		msg, err := l.cluster.anyBroker(ctx, req)
		if err != nil {
			return err
		}
		clear(configs)
		for _, r := range msg.(*describeconfigs.Response).Resources {
			if e := kafkaErr("describe topic settings", inCall, r.ErrorCode); e != nil {
				e.Topic = r.ResourceName
				return message(e, r.ErrorMessage)
			}
			m := make(map[string]string, len(r.ConfigEntries))
			for _, c := range r.ConfigEntries {
				m[c.ConfigName] = c.ConfigValue
			}
			configs[r.ResourceName] = m
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return configs, nil
}

// CreateTopics implements commitlog.Log.
func (l *Log) CreateTopics(ctx context.Context, specs []commitlog.TopicSpec) error {
	if len(specs) == 0 {
		return nil
	}
	req := &createtopics.Request{TimeoutMs: int32(brokersShare(l.cfg.RequestTimeout).Milliseconds())}
	var names []string
	for _, s := range specs {
		t := createtopics.RequestTopic{Name: s.Name, NumPartitions: int32(s.Partitions), ReplicationFactor: int16(s.Replication)}
		for k, v := range s.Config {
			t.Configs = append(t.Configs, createtopics.RequestConfig{Name: k, Value: v})
		}
		slices.SortFunc(t.Configs, func(a, b createtopics.RequestConfig) int { return strings.Compare(a.Name, b.Name) })
		req.Topics = append(req.Topics, t)
		names = append(names, s.Name)
	}
	err := l.retry(ctx, "create topics", func(ctx context.Context) error {
		msg, err := l.cluster.anyController(ctx, req)
		if err != nil {
			// The controller may be another broker by now.
			_, _ = l.cluster.describe(ctx, nil)
			return err
		}
		var all []error
		for _, t := range msg.(*createtopics.Response).Topics {
			if t.ErrorCode == codeTopicExists {
				continue
			}
			if e := kafkaErr("create topic", inCall, t.ErrorCode); e != nil {
				e.Topic = t.Name
				if e.Class == commitlog.Retriable {
					if e.Code == codeNotController {
						_, _ = l.cluster.describe(ctx, nil)
					}
					return message(e, t.ErrorMessage)
				}
				all = append(all, message(e, t.ErrorMessage))
			}
		}
		switch len(all) {
		case 0:
			return nil
		case 1:
			return all[0]
		}
		return &commitlog.Error{Op: fmt.Sprintf("create %d topics", len(specs)), Partition: -1, Class: commitlog.Fatal, Err: errors.Join(all...)}
	})
	if err != nil {
		return err
	}
	return l.retry(ctx, "wait for leaders of created topics", func(ctx context.Context) error {
		res, err := l.cluster.describe(ctx, names)
		if err != nil {
			return err
		}
		for i := range res.topics {
			t := &res.topics[i]
			// A broker may hear of a topic later than the controller: not the caller's mistake.
			code := t.code
			if code == codeUnknownTopic || code == 0 && len(t.partitions) == 0 {
				code = codeLeaderNotAvailable
			}
			for _, p := range t.partitions {
				if code == 0 && p.leader == noLeader {
					code = codeLeaderNotAvailable
				}
			}
			if e := kafkaErr("wait for leaders of created topic", inCall, code); e != nil {
				e.Topic = t.name
				return e
			}
		}
		return nil
	})
}
