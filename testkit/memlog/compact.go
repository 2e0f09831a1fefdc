package memlog

import (
	"encoding/binary"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// CompactOptions say what a compaction drops beside what is superseded.
type CompactOptions struct {
	// Tombstones drops records with a null value, as after delete.retention.ms.
	Tombstones bool
	// Markers drops transactions' markers, as some time after everything of the
	// transaction is gone.
	Markers bool
}

// Compact compacts every partition of a topic as the log cleaner does, up to the last stable
// offset: of the records that can be seen only the last of each key stays, records of aborted
// transactions go. Offsets do not change, so gaps are left, also at the end: there a real broker
// keeps the segment that is being written, but for a reader that makes no difference. The
// topic's cleanup.policy is not asked. Chunks read before stay as they are.
func (l *Log) Compact(topicName string, opts CompactOptions) error {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.topics[topicName]
	if t == nil {
		return topicError("compact", topicName, unknownTopic, nil)
	}
	for _, p := range t.parts {
		if err := p.compact(opts); err != nil {
			return kafkaError("compact", p.TopicPartition, invalidRecord, err)
		}
	}
	c.fire()
	return nil
}

func (p *partition) compact(opts CompactOptions) error {
	limit := p.limit(commitlog.ReadCommitted)
	last := map[string]int64{} // offset of the last record of each key
	err := p.each(limit, func(_ *batch, r *commitlog.Record, _ []byte) {
		if r.Key != nil {
			last[string(r.Key)] = r.Offset
		}
	})
	if err != nil {
		return err
	}
	kept := make([]batch, 0, len(p.batches))
	p.shown = p.start
	var records []byte // what stays of the batch in hand
	flush := func(b *batch, count int, next int64) {
		if count == b.Count {
			kept = append(kept, *b)
		} else if count > 0 {
			c := *b
			c.Count, c.Records, c.next = count, append([]byte(nil), records...), next
			kept = append(kept, c)
		}
		if count > 0 {
			p.shown = next
		}
		records = records[:0]
	}
	i := 0
	for ; i < len(p.batches) && p.batches[i].BaseOffset < limit; i++ {
		b := &p.batches[i]
		if b.control && !opts.Markers {
			kept = append(kept, *b)
		}
		if !b.visible(commitlog.ReadCommitted) {
			continue
		}
		count, next := 0, int64(0)
		err := b.each(func(r *commitlog.Record, raw []byte) {
			if r.Key != nil && last[string(r.Key)] == r.Offset && (r.Value != nil || !opts.Tombstones) {
				records = append(records, raw...)
				count, next = count+1, r.Offset+1
			}
		})
		if err != nil {
			return err
		}
		flush(b, count, next)
	}
	kept = append(kept, p.batches[i:]...)
	for j := range kept {
		if b := &kept[j]; b.BaseOffset >= limit && b.visible(commitlog.ReadCommitted) {
			p.shown = b.next
		}
	}
	p.batches = kept
	return nil
}

// each calls visit for the records below limit that can be seen, with their bytes.
func (p *partition) each(limit int64, visit func(b *batch, r *commitlog.Record, raw []byte)) error {
	for i := range p.batches {
		b := &p.batches[i]
		if b.BaseOffset >= limit {
			break
		}
		if !b.visible(commitlog.ReadCommitted) {
			continue
		}
		if err := b.each(func(r *commitlog.Record, raw []byte) { visit(b, r, raw) }); err != nil {
			return err
		}
	}
	return nil
}

// each calls visit for each record with its bytes.
func (b *batch) each(visit func(r *commitlog.Record, raw []byte)) error {
	rest := b.Records
	var cursor commitlog.Cursor
	var r commitlog.Record
	one := commitlog.Chunk{Batches: []commitlog.RecordBatch{b.RecordBatch}}
	for len(rest) > 0 {
		size, n := binary.Varint(rest)
		if n <= 0 || size < 1 || size > int64(len(rest)-n) {
			return commitlog.ErrCorrupt
		}
		raw := rest[:n+int(size)]
		rest = rest[len(raw):]
		one.Batches[0].Count, one.Batches[0].Records = 1, raw
		if cursor.Reset(&one); !cursor.Next(&r) {
			return cursor.Err()
		}
		visit(&r, raw)
	}
	return nil
}
