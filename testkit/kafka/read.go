package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchBytes is how much a fetch asks for. A larger batch comes all the same.
const fetchBytes = 8 << 20

// retryDelay is how long a call waits before it asks again for what is not ready.
const retryDelay = 10 * time.Millisecond

// Read returns all records that the topics have when it is called, from the log's start to its
// end as the isolation sees it, by topic, partition and offset.
func (c *Client) Read(ctx context.Context, isolation Isolation, topics ...string) ([]Record, error) {
	from, err := c.StartOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	return c.ReadFrom(ctx, isolation, from)
}

// ReadFrom is Read of some partitions, each from an offset on.
func (c *Client) ReadFrom(ctx context.Context, isolation Isolation, from Offsets) ([]Record, error) {
	var topics []string
	for p := range from {
		if !slices.Contains(topics, p.Topic) {
			topics = append(topics, p.Topic)
		}
	}
	ends, err := c.EndOffsets(ctx, isolation, topics...)
	if err != nil {
		return nil, err
	}
	var records []Record
	for _, p := range slices.SortedFunc(maps.Keys(from), comparePartitions) {
		if records, err = c.readPartition(ctx, isolation, p, from[p], ends[p], records); err != nil {
			return nil, fmt.Errorf("testkit/kafka: read %s[%d]: %w", p.Topic, p.Partition, err)
		}
	}
	return records, nil
}

// readPartition appends the records from offset on and before end. It goes by the positions of
// batches, not by records: at the end there may be markers, aborted records and gaps.
func (c *Client) readPartition(ctx context.Context, isolation Isolation, p Partition, offset, end int64, records []Record) ([]Record, error) {
	if offset >= end {
		return records, nil
	}
	level := kgo.ReadUncommitted()
	if isolation == ReadCommitted {
		level = kgo.ReadCommitted()
	}
	leader, id, err := c.leader(ctx, p)
	if err != nil {
		return nil, err
	}
	for offset < end {
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition, part.FetchOffset, part.PartitionMaxBytes = p.Partition, offset, fetchBytes
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic, topic.TopicID, topic.Partitions = p.Topic, id, append(topic.Partitions, part)
		req := kmsg.NewPtrFetchRequest()
		req.MaxBytes, req.MinBytes, req.MaxWaitMillis = fetchBytes, 1, 500
		req.IsolationLevel, req.Topics = int8(isolation), append(req.Topics, topic)
		res, err := req.RequestWith(ctx, c.kgo.Broker(int(leader)))
		if err != nil {
			return nil, err
		}
		if err := kerr.ErrorForCode(res.ErrorCode); err != nil {
			return nil, err
		}
		if len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 {
			return nil, errors.New("the fetch answers for other partitions")
		}
		got := &res.Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
			if !kerr.IsRetriable(err) {
				return nil, fmt.Errorf("offset %d: %w", offset, err)
			}
			if err := pause(ctx, err); err != nil {
				return nil, err
			}
			if leader, id, err = c.leader(ctx, p); err != nil { // it may have moved
				return nil, err
			}
			continue
		}
		parsed, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
			Offset: offset, IsolationLevel: level, Topic: p.Topic, Partition: p.Partition,
		}, got, kgo.DefaultDecompressor(), nil)
		if parsed.Err != nil {
			return nil, fmt.Errorf("offset %d: %w", offset, parsed.Err)
		}
		for _, r := range parsed.Records {
			if r.Offset < end {
				records = append(records, fromKgo(r))
			}
		}
		// Nothing up to an end that the broker has: the rest was compacted away.
		seen := got.HighWatermark
		if isolation == ReadCommitted {
			seen = got.LastStableOffset
		}
		if len(got.RecordBatches) == 0 && seen >= end {
			break
		}
		offset = next
	}
	return records, nil
}

func fromKgo(r *kgo.Record) Record {
	rec := Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
	for _, h := range r.Headers {
		rec.Headers = append(rec.Headers, Header{Key: h.Key, Value: h.Value})
	}
	return rec
}

// leader returns the broker that has the partition, and the topic's id.
func (c *Client) leader(ctx context.Context, p Partition) (int32, [16]byte, error) {
	meta, err := c.metadata(ctx, p.Topic)
	if err != nil {
		return 0, [16]byte{}, err
	}
	for _, part := range meta[0].Partitions {
		if part.Partition == p.Partition {
			return part.Leader, meta[0].TopicID, nil
		}
	}
	return 0, [16]byte{}, fmt.Errorf("the topic has no partition %d", p.Partition)
}

// pause waits a moment before the next try, or says that ctx has ended and what the last try met.
func pause(ctx context.Context, cause error) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	case <-time.After(retryDelay):
		return nil
	}
}
