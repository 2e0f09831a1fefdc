package memlog

import (
	"sort"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// outcome is how a transaction stands.
type outcome int8

const (
	open outcome = iota
	committed
	aborted
)

// txn is one transaction. Its batches point to it: its outcome is theirs.
type txn struct {
	of      *transactional
	outcome outcome
	spans   []span // in the order of the first write; nil once it has ended
	offsets map[commitlog.TopicPartition]int64
	note    string // goes with offsets
	group   *group // whose pending offsets they are, nil without
}

// span is what a transaction wrote to one partition.
type span struct {
	p           *partition
	first, next int64
}

// batch is a record batch in the log. Batches never change; compaction replaces them.
type batch struct {
	commitlog.RecordBatch
	txn     *txn // nil if it is not transactional
	control bool
	next    int64 // offset after the last record that is there, for compacted batches
}

// visible says whether a reader with iso sees b's records. Below the last stable offset no
// transaction is open.
func (b *batch) visible(iso commitlog.Isolation) bool {
	return !b.control && (iso == commitlog.ReadUncommitted || b.txn == nil || b.txn.outcome == committed)
}

func (b *batch) size() int { return commitlog.HeaderSize + len(b.Records) }

// partition is one log. The cluster's mu guards it.
type partition struct {
	commitlog.TopicPartition
	topic *topic
	// start is the first offset not deleted, end the high watermark.
	start, end int64
	// shown is the offset after the last record that a read_committed reader will see.
	shown   int64
	batches []batch
	open    []openTxn // transactions without an end here, by first offset
	readers map[*reader]struct{}
	deleted bool
}

type openTxn struct {
	t     *txn
	first int64
	last  int64 // when it wrote last, in ms since the epoch
}

// limit returns the offset up to which iso reads.
func (p *partition) limit(iso commitlog.Isolation) int64 {
	if iso == commitlog.ReadCommitted && len(p.open) > 0 {
		return max(p.start, p.open[0].first)
	}
	return p.end
}

// find returns the index of the first batch that ends at or after offset.
func (p *partition) find(offset int64) int {
	return sort.Search(len(p.batches), func(i int) bool { return p.batches[i].LastOffset >= offset })
}

// append adds a data batch and returns its first offset. t is nil without a transaction.
func (p *partition) append(b commitlog.RecordBatch, t *txn, now func() int64) int64 {
	b.BaseOffset, b.LastOffset = p.end, p.end+int64(b.Count)-1
	b.AppendTime = -1
	if p.topic.appendTime {
		b.AppendTime = now()
	}
	p.end = b.LastOffset + 1
	p.batches = append(p.batches, batch{RecordBatch: b, txn: t, next: p.end})
	if t != nil {
		t.wrote(p, b.BaseOffset, now())
		p.wake(commitlog.ReadUncommitted)
		return b.BaseOffset
	}
	p.shown = p.end
	p.wake(commitlog.ReadCommitted)
	return b.BaseOffset
}

// wrote notes that the transaction wrote to p from first to p's end.
func (t *txn) wrote(p *partition, first, now int64) {
	for i := range t.spans {
		if t.spans[i].p == p {
			t.spans[i].next = p.end
			for j := range p.open {
				if p.open[j].t == t {
					p.open[j].last = now
				}
			}
			return
		}
	}
	t.spans = append(t.spans, span{p: p, first: first, next: p.end})
	p.open = append(p.open, openTxn{t: t, first: first, last: now})
}

// finish ends t here with a marker. t's outcome is set.
func (p *partition) finish(t *txn, s span) {
	if p.deleted {
		return
	}
	for i := range p.open {
		if p.open[i].t == t {
			p.open = append(p.open[:i], p.open[i+1:]...)
			break
		}
	}
	p.batches = append(p.batches, batch{
		RecordBatch: commitlog.RecordBatch{BaseOffset: p.end, LastOffset: p.end, AppendTime: -1}, txn: t, control: true, next: p.end + 1})
	p.end++
	if t.outcome == committed {
		p.shown = max(p.shown, s.next)
	}
	p.wake(commitlog.ReadCommitted)
}

// wake tells readers that there may be more: those of iso ReadUncommitted only, or all.
func (p *partition) wake(iso commitlog.Isolation) {
	for r := range p.readers {
		if iso == commitlog.ReadCommitted || r.cfg.Isolation == iso {
			r.wake()
		}
	}
}

// read returns the chunk at offset, of at most size bytes but for its first batch, and false
// if there is nothing yet. The caller has checked that offset is in range.
func (p *partition) read(offset int64, iso commitlog.Isolation, size int) (commitlog.Chunk, bool) {
	limit := p.limit(iso)
	if offset >= limit {
		return commitlog.Chunk{}, false
	}
	c := commitlog.Chunk{TopicPartition: p.TopicPartition, Base: offset, LogStart: p.start,
		LastStable: p.limit(commitlog.ReadCommitted), HighWatermark: p.end}
	from := p.find(offset)
	to, n, full := from, 0, false
	for ; to < len(p.batches) && p.batches[to].BaseOffset < limit; to++ {
		b := &p.batches[to]
		if !b.visible(iso) {
			continue
		}
		if c.Size > 0 && c.Size+b.size() > size {
			full = true
			break
		}
		c.Size += b.size()
		n++
	}
	c.Next = limit
	if full {
		c.Next = p.batches[to-1].LastOffset + 1
	}
	if n > 0 {
		c.Batches = make([]commitlog.RecordBatch, 0, n)
		for i := from; i < to; i++ {
			if p.batches[i].visible(iso) {
				c.Batches = append(c.Batches, p.batches[i].RecordBatch)
			}
		}
	}
	return c, true
}
