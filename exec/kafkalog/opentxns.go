package kafkalog

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// activeTxn is an open transaction as a partition's leader knows it.
type activeTxn struct{ producer, start, lastTimestamp int64 }

// OpenTransactions implements commitlog.Log, by DescribeProducers of the partitions' leaders and ListTransactions of
// every broker (KIP-664). The first needs the right to read the topics; where a broker refuses it, or is too old (before 3.0),
// a partition whose last stable offset is below its end has a transaction of which only Start is known.
// Names need the right to describe the transactional ids; those that it is not had for stay empty, as do those
// that a broker that cannot be asked would tell.
func (l *Log) OpenTransactions(ctx context.Context, tps []commitlog.TopicPartition) ([]commitlog.OpenTransaction, error) {
	const op = "describe producers"
	if len(tps) == 0 {
		return nil, wrap(op, ctx.Err())
	}
	active, err := perLeader(ctx, l, op, tps, func(ctx context.Context, cn *conn, tps []commitlog.TopicPartition) (map[commitlog.TopicPartition][]activeTxn, error) {
		if _, err := cn.version(describeProducers); err != nil {
			return unknownProducers(tps), nil
		}
		frame, err := cn.exchange(ctx, appendDescribeProducers(nil, cn.clientID, tps), cn.timeout)
		if err != nil {
			return nil, err
		}
		return readDescribeProducers(op, frame[frameHeader:])
	})
	if err != nil {
		return nil, err
	}
	var out []commitlog.OpenTransaction
	var unknown []commitlog.TopicPartition
	ids := map[int64]string{}
	for tp, txns := range active {
		for _, t := range txns {
			if t.producer < 0 {
				unknown = append(unknown, tp)
				continue
			}
			o := commitlog.OpenTransaction{TopicPartition: tp, ProducerID: t.producer, Start: t.start}
			if t.lastTimestamp > 0 {
				o.Since = time.UnixMilli(t.lastTimestamp)
			}
			out = append(out, o)
			ids[t.producer] = ""
		}
	}
	if len(unknown) > 0 {
		stable, err := l.EndOffsets(ctx, unknown, commitlog.ReadCommitted)
		if err != nil {
			return nil, err
		}
		end, err := l.EndOffsets(ctx, unknown, commitlog.ReadUncommitted)
		if err != nil {
			return nil, err
		}
		for _, tp := range unknown {
			if stable[tp] < end[tp] {
				out = append(out, commitlog.OpenTransaction{TopicPartition: tp, ProducerID: -1, Start: stable[tp]})
			}
		}
	}
	if len(ids) > 0 {
		l.nameProducers(ctx, ids)
	}
	for i := range out {
		out[i].TransactionalID = ids[out[i].ProducerID]
	}
	return out, wrap(op, ctx.Err())
}

// unknownProducers stands for transactions that no broker tells of.
func unknownProducers(tps []commitlog.TopicPartition) map[commitlog.TopicPartition][]activeTxn {
	m := make(map[commitlog.TopicPartition][]activeTxn, len(tps))
	for _, tp := range tps {
		m[tp] = []activeTxn{{producer: -1}}
	}
	return m
}

// nameProducers looks the transactional ids of producers up: each broker knows those that it coordinates. It is asked
// once; what it does not tell stays empty.
func (l *Log) nameProducers(ctx context.Context, ids map[int64]string) {
	want := make([]int64, 0, len(ids))
	for id := range ids {
		want = append(want, id)
	}
	var mu sync.Mutex // guards ids
	var wg sync.WaitGroup
	for _, broker := range l.cluster.ids() {
		wg.Go(func() {
			cn, err := l.cluster.conns.get(ctx, broker)
			if err == nil {
				_, err = cn.version(listTransactions)
			}
			var frame []byte
			if err == nil {
				frame, err = cn.exchange(ctx, appendListTransactions(nil, cn.clientID, want), cn.timeout)
			}
			var names map[int64]string
			if err == nil {
				names, err = readListTransactions(frame[frameHeader:])
			}
			if err != nil {
				l.cfg.Logger.Debug("transactional ids are not told", "broker", broker, "error", err.Error())
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for id, name := range names {
				if _, ok := ids[id]; ok {
					ids[id] = name
				}
			}
		})
	}
	wg.Wait()
}

// appendDescribeProducers encodes DescribeProducers v0, which kafka-go lacks.
func appendDescribeProducers(b []byte, clientID string, tps []commitlog.TopicPartition) []byte {
	b = appendHeader(b, describeProducers, 0, clientID)
	b = append(b, 0) // no tagged fields in the header
	topics := byTopic(tps)
	b = binary.AppendUvarint(b, uint64(len(topics))+1)
	for topic, partitions := range topics {
		b = appendCompactString(b, topic)
		b = binary.AppendUvarint(b, uint64(len(partitions))+1)
		for _, p := range partitions {
			b = binary.BigEndian.AppendUint32(b, uint32(p))
		}
		b = append(b, 0)
	}
	b = append(b, 0)
	finish(b, len(b))
	return b
}

// readDescribeProducers decodes the body of an answer to DescribeProducers v0.
func readDescribeProducers(op string, body []byte) (map[commitlog.TopicPartition][]activeTxn, error) {
	all := map[commitlog.TopicPartition][]activeTxn{}
	var failed *commitlog.Error
	r := wireReader{b: body}
	r.tags()
	r.int32() // throttle time
	for range r.compactArray(3) {
		topic := string(r.compactString())
		for range r.compactArray(9) {
			tp := commitlog.TopicPartition{Topic: topic, Partition: r.int32()}
			code := r.int16()
			text := string(r.compactString())
			var open []activeTxn
			for range r.compactArray(37) {
				var t activeTxn
				t.producer = r.int64()
				r.int32() // epoch
				r.int32() // last sequence
				t.lastTimestamp = r.int64()
				r.int32() // coordinator's epoch
				t.start = r.int64()
				r.tags()
				if t.start >= 0 {
					open = append(open, t)
				}
			}
			r.tags()
			switch e := kafkaErr(op, inCall, code); {
			case e == nil:
				all[tp] = open
			case unauthorized(code):
				all[tp] = []activeTxn{{producer: -1}}
			default:
				failed = graver(failed, at(message(e, text), tp))
			}
		}
		r.tags()
	}
	r.tags()
	return answered(&r, op, all, failed)
}

// appendListTransactions encodes ListTransactions v0, which kafka-go lacks.
func appendListTransactions(b []byte, clientID string, producers []int64) []byte {
	b = appendHeader(b, listTransactions, 0, clientID)
	b = append(b, 0, 1) // no tagged fields in the header; in whatever state
	b = binary.AppendUvarint(b, uint64(len(producers))+1)
	for _, id := range producers {
		b = binary.BigEndian.AppendUint64(b, uint64(id))
	}
	b = append(b, 0)
	finish(b, len(b))
	return b
}

// readListTransactions decodes the body of an answer to ListTransactions v0: transactional ids by producer id.
func readListTransactions(body []byte) (map[int64]string, error) {
	names := map[int64]string{}
	r := wireReader{b: body}
	r.tags()
	r.int32() // throttle time
	code := r.int16()
	for range r.compactArray(1) {
		r.compactString() // states that the broker does not know
	}
	for range r.compactArray(11) {
		name := string(r.compactString())
		names[r.int64()] = name
		r.compactString() // state
		r.tags()
	}
	r.tags()
	if err := r.err(); err != nil {
		return nil, err
	}
	if e := kafkaErr("list transactions", inCall, code); e != nil {
		return nil, e
	}
	return names, nil
}
