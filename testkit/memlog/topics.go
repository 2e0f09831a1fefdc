package memlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// topic is a topic's settings and logs. Only its partitions change.
type topic struct {
	name       string
	id         commitlog.TopicID
	config     map[string]string // what was set explicitly
	parts      []*partition
	compact    bool
	appendTime bool
	maxBytes   int
}

// topicDefaults are a broker's defaults of the settings a topic can have. Read-only.
var topicDefaults = map[string]string{
	"cleanup.policy":                          "delete",
	"compression.gzip.level":                  "-1",
	"compression.lz4.level":                   "9",
	"compression.type":                        "producer",
	"compression.zstd.level":                  "3",
	"delete.retention.ms":                     "86400000",
	"file.delete.delay.ms":                    "60000",
	"flush.messages":                          "9223372036854775807",
	"flush.ms":                                "9223372036854775807",
	"index.interval.bytes":                    "4096",
	"local.retention.bytes":                   "-2",
	"local.retention.ms":                      "-2",
	"max.compaction.lag.ms":                   "9223372036854775807",
	"max.message.bytes":                       "1048588",
	"message.timestamp.after.max.ms":          "3600000",
	"message.timestamp.before.max.ms":         "9223372036854775807",
	"message.timestamp.type":                  "CreateTime",
	"min.cleanable.dirty.ratio":               "0.5",
	"min.compaction.lag.ms":                   "0",
	"min.insync.replicas":                     "1",
	"preallocate":                             "false",
	"remote.log.copy.disable":                 "false",
	"remote.log.delete.on.disable":            "false",
	"remote.storage.enable":                   "false",
	"retention.bytes":                         "-1",
	"retention.ms":                            "604800000",
	"segment.bytes":                           "1073741824",
	"segment.index.bytes":                     "10485760",
	"segment.jitter.ms":                       "0",
	"segment.ms":                              "604800000",
	"unclean.leader.election.enable":          "false",
	"follower.replication.throttled.replicas": "",
	"leader.replication.throttled.replicas":   "",
}

// setting returns t's value of a setting, defaults included.
func (c *cluster) setting(config map[string]string, name string) string {
	if v, ok := config[name]; ok {
		return v
	}
	if v, ok := c.opts.TopicDefaults[name]; ok {
		return v
	}
	return topicDefaults[name]
}

// Topics implements [commitlog.Log].
func (l *Log) Topics(ctx context.Context, names ...string) (map[string]commitlog.Topic, error) {
	if err := l.adminFault(ctx, "Topics"); err != nil {
		return nil, err
	}
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if err := l.usable(ctx, "describe topics"); err != nil {
		return nil, err
	}
	out := make(map[string]commitlog.Topic, len(names))
	for _, n := range names {
		if t := l.c.topics[n]; t != nil {
			out[n] = commitlog.Topic{Name: n, Partitions: len(t.parts), ID: t.id}
		}
	}
	return out, nil
}

// TopicConfigs implements [commitlog.Log]. A topic that does not exist is an error.
func (l *Log) TopicConfigs(ctx context.Context, names ...string) (map[string]map[string]string, error) {
	if err := l.adminFault(ctx, "TopicConfigs"); err != nil {
		return nil, err
	}
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := l.usable(ctx, "describe configs"); err != nil {
		return nil, err
	}
	out := make(map[string]map[string]string, len(names))
	for _, n := range names {
		t := c.topics[n]
		if t == nil {
			return nil, topicError("describe configs", n, unknownTopic, nil)
		}
		m := maps.Clone(topicDefaults)
		maps.Copy(m, c.opts.TopicDefaults)
		maps.Copy(m, t.config)
		out[n] = m
	}
	return out, nil
}

// CreateTopics implements [commitlog.Log]. As on Kafka each topic is created or refused on its
// own; the errors of those refused are joined.
func (l *Log) CreateTopics(ctx context.Context, specs []commitlog.TopicSpec) error {
	if err := l.adminFault(ctx, "CreateTopics"); err != nil {
		return err
	}
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := l.usable(ctx, "create topics"); err != nil {
		return err
	}
	return c.create(specs)
}

// create is CreateTopics. The caller holds mu.
func (c *cluster) create(specs []commitlog.TopicSpec) error {
	var errs []error
	for _, s := range specs {
		if c.topics[s.Name] != nil {
			continue
		}
		t, err := c.newTopic(s)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		c.topicSeq++
		binary.BigEndian.PutUint64(t.id[8:], c.topicSeq)
		c.topics[s.Name] = t
	}
	c.fire()
	return errors.Join(errs...)
}

// newTopic makes a topic as spec says or returns why it cannot be.
func (c *cluster) newTopic(s commitlog.TopicSpec) (*topic, error) {
	const op = "create topic"
	if err := checkTopicName(s.Name); err != nil {
		return nil, topicError(op, s.Name, invalidTopic, err)
	}
	n := s.Partitions
	if n == -1 {
		n = c.opts.DefaultPartitions
	}
	if n <= 0 {
		return nil, topicError(op, s.Name, invalidPartitions, fmt.Errorf("%d partitions, want at least 1", n))
	}
	if s.Replication == 0 || s.Replication < -1 {
		return nil, topicError(op, s.Name, invalidReplication, fmt.Errorf("%d replicas, want at least 1, or -1", s.Replication))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Config)) {
		if _, ok := topicDefaults[name]; !ok {
			return nil, topicError(op, s.Name, invalidConfig, fmt.Errorf("unknown setting %s", name))
		}
	}
	t := &topic{name: s.Name, config: maps.Clone(s.Config)}
	for policy := range strings.SplitSeq(c.setting(s.Config, "cleanup.policy"), ",") {
		switch strings.TrimSpace(policy) {
		case "compact":
			t.compact = true
		case "delete", "":
		default:
			return nil, topicError(op, s.Name, invalidConfig, fmt.Errorf("cleanup.policy %s", policy))
		}
	}
	t.appendTime = c.setting(s.Config, "message.timestamp.type") == "LogAppendTime"
	var err error
	if t.maxBytes, err = strconv.Atoi(c.setting(s.Config, "max.message.bytes")); err != nil {
		return nil, topicError(op, s.Name, invalidConfig, err)
	}
	for i := range n {
		t.parts = append(t.parts, &partition{
			TopicPartition: commitlog.TopicPartition{Topic: s.Name, Partition: int32(i)}, topic: t, readers: map[*reader]struct{}{}})
	}
	return t, nil
}

// checkTopicName applies Kafka's rules.
func checkTopicName(name string) error {
	if name == "" || name == "." || name == ".." || len(name) > 249 {
		return fmt.Errorf("name of %d bytes, must be 1 to 249, and neither \".\" nor \"..\" itself", len(name))
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-' {
			return fmt.Errorf("character %q in the name", r)
		}
	}
	return nil
}

// StartOffsets implements [commitlog.Log].
func (l *Log) StartOffsets(ctx context.Context, tps []commitlog.TopicPartition) (map[commitlog.TopicPartition]int64, error) {
	if err := l.adminFault(ctx, "StartOffsets"); err != nil {
		return nil, err
	}
	return l.offsets(ctx, tps, func(p *partition) int64 { return p.start })
}

// EndOffsets implements [commitlog.Log].
func (l *Log) EndOffsets(ctx context.Context, tps []commitlog.TopicPartition, iso commitlog.Isolation) (map[commitlog.TopicPartition]int64, error) {
	if err := l.adminFault(ctx, "EndOffsets"); err != nil {
		return nil, err
	}
	return l.offsets(ctx, tps, func(p *partition) int64 { return p.limit(iso) })
}

func (l *Log) offsets(ctx context.Context, tps []commitlog.TopicPartition, of func(*partition) int64) (map[commitlog.TopicPartition]int64, error) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if err := l.usable(ctx, "list offsets"); err != nil {
		return nil, err
	}
	out := make(map[commitlog.TopicPartition]int64, len(tps))
	for _, tp := range tps {
		p, err := l.c.partition("list offsets", tp)
		if err != nil {
			return nil, err
		}
		out[tp] = of(p)
	}
	return out, nil
}

// DeleteTopics deletes topics with their records and every group's offsets of them. Readers of
// them end with UNKNOWN_TOPIC_OR_PARTITION, or with ErrTopicRecreated once there is another one of the name. Those that do
// not exist are ignored. A topic created later with the same name is another one, and begins at offset 0.
func (l *Log) DeleteTopics(names ...string) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.c.delete(names)
}

// RecreateTopic deletes a topic, if there is one, and creates another one of its name: nobody sees that there was none.
func (l *Log) RecreateTopic(spec commitlog.TopicSpec) error {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.c.delete([]string{spec.Name})
	return l.c.create([]commitlog.TopicSpec{spec})
}

// delete is DeleteTopics. The caller holds mu.
func (c *cluster) delete(names []string) {
	for _, n := range names {
		t := c.topics[n]
		if t == nil {
			continue
		}
		delete(c.topics, n)
		for _, p := range t.parts {
			p.deleted = true
			p.wake(commitlog.ReadCommitted)
			for _, g := range c.groups {
				g.forget(p.TopicPartition)
			}
		}
	}
	c.fire()
}

// DeleteRecords implements [commitlog.Log].
func (l *Log) DeleteRecords(ctx context.Context, below map[commitlog.TopicPartition]int64) error {
	if err := l.adminFault(ctx, "DeleteRecords"); err != nil {
		return err
	}
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if err := l.usable(ctx, "delete records"); err != nil {
		return err
	}
	var errs []error
	for tp, offset := range below {
		if offset > 0 {
			_, err := l.c.truncate(tp, offset)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// OpenTransactions implements [commitlog.Log].
func (l *Log) OpenTransactions(ctx context.Context, tps []commitlog.TopicPartition) ([]commitlog.OpenTransaction, error) {
	if err := l.adminFault(ctx, "OpenTransactions"); err != nil {
		return nil, err
	}
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	const op = "describe producers"
	if err := l.usable(ctx, op); err != nil {
		return nil, err
	}
	var out []commitlog.OpenTransaction
	for _, tp := range tps {
		p, err := l.c.partition(op, tp)
		if err != nil {
			return nil, err
		}
		for _, o := range p.open {
			out = append(out, commitlog.OpenTransaction{TopicPartition: tp, ProducerID: o.t.of.number, TransactionalID: o.t.of.id,
				Start: o.first, Since: time.UnixMilli(o.last)})
		}
	}
	return out, nil
}

// Truncate deletes the records of a partition before an offset, as its retention does; -1 means
// all up to the high watermark. It returns the log's new start.
func (l *Log) Truncate(tp commitlog.TopicPartition, before int64) (start int64, err error) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	return l.c.truncate(tp, before)
}

// truncate is Truncate. The caller holds mu.
func (c *cluster) truncate(tp commitlog.TopicPartition, before int64) (start int64, err error) {
	p, err := c.partition("delete records", tp)
	if err != nil {
		return 0, err
	}
	if before == -1 {
		before = p.end
	}
	if before < 0 || before > p.end {
		return 0, kafkaError("delete records", tp, offsetOutOfRange,
			&commitlog.RangeError{Offset: before, Start: p.start, End: p.end})
	}
	p.start = max(p.start, before)
	p.batches = slices.Clone(p.batches[p.find(p.start):])
	p.wake(commitlog.ReadCommitted)
	c.fire()
	return p.start, nil
}

// millis returns the cluster's time in ms since the epoch.
func (c *cluster) millis() int64 { return c.opts.Now().UnixNano() / int64(time.Millisecond) }
