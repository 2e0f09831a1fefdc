package kafkalog

import (
	"encoding/binary"
	"net"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// lane sends a producer's batches to one broker, on a goroutine of its own. Its fields are
// guarded by the producer's mu, except those that only the goroutine uses.
type lane struct {
	p      *producer
	broker int32
	wake   chan struct{} // holds a value when there may be something to send
	flying int           // requests unanswered

	c    *conn  // used by the goroutine only
	head []byte // reused by the goroutine
	bufs net.Buffers
}

// laneLocked returns the lane to a broker.
func (p *producer) laneLocked(broker int32) *lane {
	l := p.lanes[broker]
	if l == nil {
		l = &lane{p: p, broker: broker, wake: make(chan struct{}, 1)}
		p.lanes[broker] = l
		p.wg.Go(l.run)
	}
	return l
}

func (l *lane) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *lane) run() {
	timer := time.NewTimer(nothingDue)
	defer timer.Stop()
	for {
		p := l.p
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return
		}
		picked, wait := l.pickLocked(time.Now())
		p.mu.Unlock()
		if len(picked) > 0 {
			l.send(picked)
			continue
		}
		timer.Reset(wait)
		select {
		case <-l.wake:
		case <-timer.C:
		}
	}
}

// pickLocked takes the batches for one request: of each partition that this broker leads at
// most one. Without any it returns when to look again.
func (l *lane) pickLocked(now time.Time) (picked []*outBatch, wait time.Duration) {
	p := l.p
	wait = nothingDue
	if p.failed != nil || l.flying >= maxInFlight || l.flying > 0 && l.c != nil && l.c.aged() {
		return nil, wait
	}
	size := 0
	for _, part := range p.txn {
		if part.leader != l.broker || !part.added || part.drain || len(part.retry)+len(part.queue) == 0 {
			continue
		}
		// The first batch of a transaction travels alone: a broker that is still verifying the
		// transaction (KIP-890) or does not lead any more would refuse those behind it too.
		if len(part.flight) >= maxInFlight || len(part.flight) > 0 && !part.acked {
			continue
		}
		if d := part.retryAt.Sub(now); d > 0 {
			wait = min(wait, d)
			continue
		}
		ob := part.nextLocked()
		if size > 0 && size+ob.size > maxProduceBytes {
			part.retry = slices.Insert(part.retry, 0, ob) // its sequence is taken: stays in order
			continue
		}
		size += ob.size
		picked = append(picked, ob)
	}
	for _, ob := range picked {
		ob.part.flight = append(ob.part.flight, ob)
		ob.part.asked++
	}
	if len(picked) > 0 {
		l.flying++
	}
	return picked, wait
}

// nextLocked takes the batch to send next, which gets its sequence number.
func (part *partition) nextLocked() *outBatch {
	if len(part.retry) > 0 {
		ob := part.retry[0]
		part.retry = part.retry[1:]
		return ob
	}
	ob := part.queue[0]
	part.queue[0] = nil
	part.queue = part.queue[1:]
	ob.seq = part.seq
	part.seq = int32((uint32(part.seq) + uint32(ob.count)) & 0x7fffffff)
	return ob
}

// send writes one request; the answer comes on the connection's goroutine.
func (l *lane) send(picked []*outBatch) {
	p := l.p
	cn, err := p.data.get(p.ctx, l.broker)
	var version int16
	if err == nil {
		l.c = cn
		version, err = cn.version(protocol.Produce)
	}
	if err == nil {
		for _, ob := range picked {
			if ob.wire == nil {
				if err = p.encode(ob); err != nil {
					break
				}
			}
		}
	}
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		l.flying--
		for _, ob := range picked {
			p.answeredLocked(ob, -1, err)
		}
		return
	}
	timeout := p.log.cfg.RequestTimeout
	cn.send(l.frame(picked, version, brokersShare(timeout)), timeout, func(frame []byte, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		l.flying--
		l.p.producedLocked(picked, version, frame, err)
		l.signal()
	})
}

// encode stamps the header into a batch's free bytes, compressing the records if asked to.
func (p *producer) encode(ob *outBatch) error {
	b := ob.batch
	buf := b.Buf
	if p.codec != none {
		var scratch *[]byte
		if s, ok := p.scratch.Get().(*[]byte); ok {
			scratch = s
		} else {
			scratch = new([]byte)
		}
		out := append((*scratch)[:0], buf[:commitlog.HeaderSize]...)
		out, err := p.codec.compress(out, buf[commitlog.HeaderSize:])
		if err != nil {
			return err
		}
		*scratch, ob.buf, buf = out, scratch, out
	}
	p.mu.Lock()
	id, epoch := p.id, p.epoch
	p.mu.Unlock()
	commitlog.PutHeader(buf, &commitlog.Header{LeaderEpoch: -1, Attributes: p.attrs, LastOffsetDelta: int32(b.Count - 1),
		BaseTimestamp: b.BaseTimestamp, MaxTimestamp: b.MaxTimestamp, ProducerID: id, ProducerEpoch: epoch,
		BaseSequence: ob.seq, Count: int32(b.Count)})
	ob.wire = buf
	if p.codec != none {
		b.Release()
		ob.batch = nil
	}
	return nil
}

// recycle keeps the memory of a compressed batch that is in the log.
func (p *producer) recycle(ob *outBatch) {
	if ob.buf != nil {
		p.scratch.Put(ob.buf)
		ob.buf = nil
	}
}

// frame lays out a Produce request of version 3 to 8: heads in one reused buffer, batches
// where they are.
func (l *lane) frame(picked []*outBatch, version int16, timeout time.Duration) net.Buffers {
	be := binary.BigEndian
	slices.SortStableFunc(picked, func(a, b *outBatch) int {
		switch {
		case a.part.tp.Topic < b.part.tp.Topic:
			return -1
		case a.part.tp.Topic > b.part.tp.Topic:
			return 1
		}
		return 0
	})
	topics := 0
	size := 0
	for i, ob := range picked {
		if i == 0 || ob.part.tp.Topic != picked[i-1].part.tp.Topic {
			topics++
		}
		size += 64 + len(ob.part.tp.Topic)
	}
	// Room for all of it first, since pieces of it are referred to.
	b := l.head[:0]
	if need := size + 64 + len(l.p.log.cfg.ClientID) + len(l.p.cfg.TransactionalID); cap(b) < need {
		b = make([]byte, 0, 2*need)
	}
	bufs := l.bufs[:0]
	b = appendHeader(b, protocol.Produce, version, l.p.log.cfg.ClientID)
	b = appendString(b, l.p.cfg.TransactionalID)
	b = be.AppendUint16(b, 0xffff) // acks: all
	b = be.AppendUint32(b, uint32(timeout.Milliseconds()))
	b = be.AppendUint32(b, uint32(topics))
	from, total := 0, 0
	for i, ob := range picked {
		if i == 0 || ob.part.tp.Topic != picked[i-1].part.tp.Topic {
			n := 1
			for n < len(picked)-i && picked[i+n].part.tp.Topic == ob.part.tp.Topic {
				n++
			}
			b = appendString(b, ob.part.tp.Topic)
			b = be.AppendUint32(b, uint32(n))
		}
		b = be.AppendUint32(b, uint32(ob.part.tp.Partition))
		b = be.AppendUint32(b, uint32(len(ob.wire)))
		bufs = append(bufs, b[from:len(b):len(b)], ob.wire)
		total += len(b) - from + len(ob.wire)
		from = len(b)
	}
	finish(b, total)
	l.head, l.bufs = b, bufs
	return bufs
}

// producedLocked hands the parts of an answer, or the lack of one, to the batches asked about.
func (p *producer) producedLocked(picked []*outBatch, version int16, frame []byte, err error) {
	if err == nil {
		r := wireReader{b: frame[frameHeader:]}
		for range r.array(6) {
			topic := r.string()
			for range r.array(22) {
				partition := r.int32()
				code := r.int16()
				base := r.int64()
				r.int64() // log append time
				var text []byte
				if version >= 5 {
					r.int64() // log start offset
				}
				if version >= 8 {
					for range r.array(6) {
						r.int32()
						r.string()
					}
					text = r.string()
				}
				if r.bad {
					break
				}
				for i, ob := range picked {
					if ob != nil && ob.part.tp.Partition == partition && ob.part.tp.Topic == string(topic) {
						picked[i] = nil
						p.answerLocked(ob, code, base, string(text))
						break
					}
				}
			}
		}
		if err = r.err(); err == nil {
			err = errShort // for partitions that were not answered
		}
		err = &commitlog.Error{Op: "produce", Partition: -1, Class: commitlog.Retriable, Err: err}
	}
	for _, ob := range picked {
		if ob != nil {
			p.answeredLocked(ob, -1, err)
		}
	}
}

func (p *producer) answerLocked(ob *outBatch, code int16, base int64, text string) {
	if code == codeDuplicateSequence {
		code, base = 0, -1 // in the log since an earlier try
	}
	if e := kafkaErr("produce", inProduce, code); e != nil {
		p.answeredLocked(ob, -1, message(e, text))
		return
	}
	p.answeredLocked(ob, base, nil)
}
