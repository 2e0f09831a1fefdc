package kafkalog

import (
	"context"
	"encoding/binary"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Kafka's timestamps that ask for an end of the log.
const (
	timestampLatest   = -1
	timestampEarliest = -2
)

// StartOffsets implements commitlog.Log.
func (l *Log) StartOffsets(ctx context.Context, tps []commitlog.TopicPartition) (map[commitlog.TopicPartition]int64, error) {
	return l.listOffsets(ctx, "start offsets", tps, timestampEarliest, commitlog.ReadUncommitted)
}

// EndOffsets implements commitlog.Log.
func (l *Log) EndOffsets(ctx context.Context, tps []commitlog.TopicPartition, iso commitlog.Isolation) (map[commitlog.TopicPartition]int64, error) {
	return l.listOffsets(ctx, "end offsets", tps, timestampLatest, iso)
}

func (l *Log) listOffsets(ctx context.Context, op string, tps []commitlog.TopicPartition, timestamp int64, iso commitlog.Isolation) (map[commitlog.TopicPartition]int64, error) {
	offsets, err := perLeader(ctx, l, op, tps, func(ctx context.Context, cn *conn, tps []commitlog.TopicPartition) (map[commitlog.TopicPartition]int64, error) {
		return listOffsetsOf(ctx, cn, op, tps, timestamp, iso)
	})
	if err != nil {
		return nil, err
	}
	return offsets, nil
}

// listOffsetsOf asks one leader. What it returns is good even if there is an error, which is
// then a partition's: one that asking again does not mend, if there is one.
func listOffsetsOf(ctx context.Context, cn *conn, op string, tps []commitlog.TopicPartition, timestamp int64, iso commitlog.Isolation) (map[commitlog.TopicPartition]int64, error) {
	req := &listoffsets.Request{ReplicaID: -1, IsolationLevel: isolationLevel(iso)}
	for topic, partitions := range byTopic(tps) {
		t := listoffsets.RequestTopic{Topic: topic}
		for _, p := range partitions {
			t.Partitions = append(t.Partitions, listoffsets.RequestPartition{Partition: p, CurrentLeaderEpoch: -1, Timestamp: timestamp})
		}
		req.Topics = append(req.Topics, t)
	}
	msg, err := cn.roundTrip(ctx, req)
	if err != nil {
		return nil, err
	}
	got := make(map[commitlog.TopicPartition]int64, len(tps))
	var failed *commitlog.Error
	for _, t := range msg.(*listoffsets.Response).Topics {
		for _, p := range t.Partitions {
			tp := commitlog.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			if e := kafkaErr(op, inCall, p.ErrorCode); e != nil {
				failed = graver(failed, at(e, tp))
				continue
			}
			got[tp] = p.Offset
		}
	}
	if failed != nil {
		return got, failed
	}
	return got, nil
}

// isolationLevel is Kafka's number of an isolation.
func isolationLevel(iso commitlog.Isolation) int8 {
	if iso == commitlog.ReadCommitted {
		return 1
	}
	return 0
}

func byTopic(tps []commitlog.TopicPartition) map[string][]int32 {
	m := make(map[string][]int32)
	for _, tp := range tps {
		m[tp.Topic] = append(m[tp.Topic], tp.Partition)
	}
	return m
}

// CommittedOffsets implements commitlog.Log. It waits for offsets that an open transaction
// has pending (KIP-447): they are committed or gone when it returns.
func (l *Log) CommittedOffsets(ctx context.Context, group string, tps []commitlog.TopicPartition) (map[commitlog.TopicPartition]int64, error) {
	offsets, _, err := l.committed(ctx, group, tps, true)
	return offsets, err
}

// CommittedNotes implements commitlog.Log.
func (l *Log) CommittedNotes(ctx context.Context, group string, tps []commitlog.TopicPartition) (map[commitlog.TopicPartition]string, error) {
	_, notes, err := l.committed(ctx, group, tps, false)
	return notes, err
}

func (l *Log) committed(ctx context.Context, group string, tps []commitlog.TopicPartition, stable bool) (offsets map[commitlog.TopicPartition]int64, notes map[commitlog.TopicPartition]string, err error) {
	if len(tps) == 0 {
		return map[commitlog.TopicPartition]int64{}, map[commitlog.TopicPartition]string{}, nil
	}
	const op = "committed offsets"
	key := coordinatorKey{groupCoordinator, group}
	err = l.retry(ctx, op, func(ctx context.Context) error {
		cn, err := l.coords.conn(ctx, l.cluster.conns, key)
		if err != nil {
			return err
		}
		v, err := cn.version(protocol.OffsetFetch)
		if err != nil {
			return err
		}
		frame, err := cn.exchange(ctx, appendOffsetFetch(nil, v, cn.clientID, group, byTopic(tps), stable), cn.timeout)
		if err == nil {
			offsets, notes, err = readOffsetFetch(op, frame[frameHeader:])
		}
		if err != nil {
			l.coords.lost(key, err)
			if e, ok := err.(*commitlog.Error); ok {
				e.Group = group
			}
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return offsets, notes, nil
}

// appendOffsetFetch encodes OffsetFetch v7, the first that can wait for stable offsets.
// kafka-go's message ends at v5.
func appendOffsetFetch(b []byte, version int16, clientID, group string, topics map[string][]int32, stable bool) []byte {
	b = appendHeader(b, protocol.OffsetFetch, version, clientID)
	b = append(b, 0) // no tagged fields in the header
	b = appendCompactString(b, group)
	b = binary.AppendUvarint(b, uint64(len(topics))+1)
	for topic, partitions := range topics {
		b = appendCompactString(b, topic)
		b = binary.AppendUvarint(b, uint64(len(partitions))+1)
		for _, p := range partitions {
			b = binary.BigEndian.AppendUint32(b, uint32(p))
		}
		b = append(b, 0)
	}
	if stable {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = append(b, 0) // no tagged fields
	finish(b, len(b))
	return b
}

// readOffsetFetch decodes the body of an answer to OffsetFetch v7.
func readOffsetFetch(op string, body []byte) (map[commitlog.TopicPartition]int64, map[commitlog.TopicPartition]string, error) {
	offsets, notes := make(map[commitlog.TopicPartition]int64), make(map[commitlog.TopicPartition]string)
	r := wireReader{b: body}
	r.tags()
	r.int32() // throttle time
	var failed *commitlog.Error
	for range r.compactArray(3) {
		topic := string(r.compactString())
		for range r.compactArray(20) {
			tp := commitlog.TopicPartition{Topic: topic, Partition: r.int32()}
			offset := r.int64()
			r.int32() // leader epoch
			note := string(r.compactString())
			code := r.int16()
			r.tags()
			if e := kafkaErr(op, inCall, code); e != nil {
				failed = graver(failed, at(e, tp))
			}
			if offset >= 0 {
				offsets[tp] = offset
				if note != "" {
					notes[tp] = note
				}
			}
		}
		r.tags()
	}
	code := r.int16()
	if err := r.readable(op); err != nil {
		return nil, nil, err
	}
	if code == codeGroupNotFound {
		return offsets, notes, nil // a group that nobody has committed for yet
	}
	if e := kafkaErr(op, inCall, code); e != nil {
		return nil, nil, e
	}
	if failed != nil {
		return nil, nil, failed
	}
	return offsets, notes, nil
}
