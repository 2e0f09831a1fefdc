package kafkalog

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// DeleteRecords implements commitlog.Log, with one request per broker. It needs the right to delete from the topics, and
// topics whose cleanup.policy has "delete": of others a broker says POLICY_VIOLATION, which is Fatal.
func (l *Log) DeleteRecords(ctx context.Context, below map[commitlog.TopicPartition]int64) error {
	const op = "delete records"
	var tps []commitlog.TopicPartition
	for tp, offset := range below {
		if offset > 0 { // -1 would mean everything
			tps = append(tps, tp)
		}
	}
	if len(tps) == 0 {
		return wrap(op, ctx.Err())
	}
	done, err := perLeader(ctx, l, op, tps, func(ctx context.Context, cn *conn, tps []commitlog.TopicPartition) (map[commitlog.TopicPartition]bool, error) {
		if _, err := cn.version(protocol.DeleteRecords); err != nil {
			return nil, err
		}
		frame, err := cn.exchange(ctx, appendDeleteRecords(nil, cn.clientID, tps, below, int32(brokersShare(l.cfg.RequestTimeout).Milliseconds())), cn.timeout)
		if err != nil {
			return nil, err
		}
		return readDeleteRecords(op, frame[frameHeader:])
	})
	if err != nil {
		return err
	}
	return l.checkRanges(ctx, op, below, slices.DeleteFunc(tps, func(tp commitlog.TopicPartition) bool { return done[tp] }))
}

// checkRanges returns the error of a partition whose offset was out of range: beyond its end. That it lies below the
// start, which some brokers say too, is as good as done.
func (l *Log) checkRanges(ctx context.Context, op string, below map[commitlog.TopicPartition]int64, tps []commitlog.TopicPartition) error {
	if len(tps) == 0 {
		return nil
	}
	start, err := l.StartOffsets(ctx, tps)
	if err != nil {
		return err
	}
	end, err := l.EndOffsets(ctx, tps, commitlog.ReadUncommitted)
	if err != nil {
		return err
	}
	for _, tp := range tps {
		if below[tp] > start[tp] {
			e := at(kafkaErr(op, inCall, codeOffsetOutOfRange), tp)
			e.Err = &commitlog.RangeError{Offset: below[tp], Start: start[tp], End: end[tp]}
			return e
		}
	}
	return nil
}

// appendDeleteRecords encodes DeleteRecords v2, which kafka-go lacks.
func appendDeleteRecords(b []byte, clientID string, tps []commitlog.TopicPartition, below map[commitlog.TopicPartition]int64, timeoutMS int32) []byte {
	be := binary.BigEndian
	b = appendHeader(b, protocol.DeleteRecords, 2, clientID)
	b = append(b, 0) // no tagged fields in the header
	topics := byTopic(tps)
	b = binary.AppendUvarint(b, uint64(len(topics))+1)
	for topic, partitions := range topics {
		b = appendCompactString(b, topic)
		b = binary.AppendUvarint(b, uint64(len(partitions))+1)
		for _, p := range partitions {
			b = be.AppendUint32(b, uint32(p))
			b = be.AppendUint64(b, uint64(below[commitlog.TopicPartition{Topic: topic, Partition: p}]))
			b = append(b, 0)
		}
		b = append(b, 0)
	}
	b = be.AppendUint32(b, uint32(timeoutMS))
	b = append(b, 0)
	finish(b, len(b))
	return b
}

// readDeleteRecords decodes the body of an answer to DeleteRecords v2: the partitions that were answered, false for
// those whose offset is out of range, and the first error of the others, fatal ones first.
func readDeleteRecords(op string, body []byte) (map[commitlog.TopicPartition]bool, error) {
	done := map[commitlog.TopicPartition]bool{}
	var failed *commitlog.Error
	r := wireReader{b: body}
	r.tags()
	r.int32() // throttle time
	for range r.compactArray(3) {
		topic := string(r.compactString())
		for range r.compactArray(15) {
			tp := commitlog.TopicPartition{Topic: topic, Partition: r.int32()}
			r.int64() // the log's new start
			code := r.int16()
			r.tags()
			switch e := kafkaErr(op, inCall, code); {
			case e == nil, code == codeOffsetOutOfRange:
				done[tp] = e == nil
			default:
				failed = graver(failed, at(e, tp))
			}
		}
		r.tags()
	}
	r.tags()
	return answered(&r, op, done, failed)
}
