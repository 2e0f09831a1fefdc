package memlog

import (
	"context"
	"fmt"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// appendBytes is about how large a batch is that Append makes.
const appendBytes = 64 << 10

// Append writes records without a transaction, in order and in one step, and returns the offset
// of the first. Their Offset is ignored; their Timestamp is written as it is. Nothing is retained.
func (l *Log) Append(ctx context.Context, topicName string, partition int32, records []commitlog.Record) (first int64, err error) {
	tp := commitlog.TopicPartition{Topic: topicName, Partition: partition}
	b := commitlog.NewBuilder(l.c.pool)
	var batches []commitlog.RecordBatch
	for i := range records {
		r := &records[i]
		b.Append(r.Timestamp, r.Key, r.Value, r.Headers, r.HeaderCount)
		if b.Size() >= appendBytes {
			batches = append(batches, adopt(b.Take()))
		}
	}
	if t := b.Take(); t != nil {
		batches = append(batches, adopt(t))
	}
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, contextError("append", err)
	}
	p, err := c.partition("append", tp)
	if err != nil {
		return 0, err
	}
	var cursor commitlog.Cursor
	for _, rb := range batches {
		if err := p.check(rb, &cursor); err != nil {
			return 0, err
		}
	}
	first = p.end
	for _, rb := range batches {
		p.append(rb, nil, c.millis)
	}
	c.fire()
	return first, nil
}

// Records returns the records of a partition from its start on, as iso sees them. They share the log's
// memory and must not be changed.
func (l *Log) Records(topicName string, partition int32, iso commitlog.Isolation) ([]commitlog.Record, error) {
	tp := commitlog.TopicPartition{Topic: topicName, Partition: partition}
	l.c.mu.Lock()
	p, err := l.c.partition("read", tp)
	if err != nil {
		l.c.mu.Unlock()
		return nil, err
	}
	chunk, _ := p.read(p.start, iso, int(^uint(0)>>1))
	l.c.mu.Unlock()
	n := 0
	for _, b := range chunk.Batches {
		n += b.Count
	}
	out := make([]commitlog.Record, 0, n)
	var cursor commitlog.Cursor
	cursor.Reset(&chunk)
	var r commitlog.Record
	for cursor.Next(&r) {
		out = append(out, r)
	}
	if err := cursor.Err(); err != nil {
		return out, fmt.Errorf("memlog: read %s: %w", tp, err)
	}
	return out, nil
}
