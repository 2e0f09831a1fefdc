package commitlog

import (
	"encoding/binary"
	"fmt"
)

// RecordBatch is a data batch as a reader delivers it. Its bytes are immutable.
type RecordBatch struct {
	// BaseOffset and LastOffset are the offsets of the first and last record (before compaction).
	BaseOffset, LastOffset int64
	// BaseTimestamp is what the records' timestamp deltas add to, in ms since the epoch.
	BaseTimestamp int64
	// AppendTime, if not negative, is the timestamp of every record (message.timestamp.type
	// LogAppendTime). -1 means that each record has its own.
	AppendTime int64
	// Count is the number of records in Records.
	Count int
	// Records holds the uncompressed records.
	Records []byte
}

// Record is one record as it lies in a batch. Its slices share the batch's memory.
type Record struct {
	Offset int64
	// Timestamp is in ms since the epoch, -1 if the producer set none.
	Timestamp int64
	// Key and Value are nil when null, and empty but not nil when zero-length.
	Key, Value []byte
	// Headers are the headers in wire format, HeaderCount how many they are.
	Headers     []byte
	HeaderCount int
}

// Cursor walks the records of a chunk without allocating. The zero value is at the end of an
// empty chunk. It has one owner at a time.
type Cursor struct {
	batches []RecordBatch
	base    int64
	buf     []byte // what is left of the batch in hand
	at      RecordBatch
	left    int
	err     error
}

// Reset puts the cursor before the first record of c at or after c.Base.
func (c *Cursor) Reset(chunk *Chunk) {
	*c = Cursor{batches: chunk.Batches, base: chunk.Base}
}

// Err returns why Next returned false, nil at the end of the chunk.
func (c *Cursor) Err() error { return c.err }

// Next reads the next record into r and reports whether there was one. After false, Err
// tells whether the chunk ended or is corrupt.
func (c *Cursor) Next(r *Record) bool {
	for {
		if c.left == 0 {
			if len(c.buf) != 0 {
				c.fail("bytes after the last record")
				return false
			}
			if c.err != nil || len(c.batches) == 0 {
				return false
			}
			c.at = c.batches[0]
			c.batches = c.batches[1:]
			c.buf, c.left = c.at.Records, c.at.Count
			continue
		}
		if !c.read(r) {
			return false
		}
		c.left--
		if r.Offset >= c.base {
			return true
		}
	}
}

func (c *Cursor) read(r *Record) bool {
	size, n := binary.Varint(c.buf)
	if n <= 0 || size < 1 || size > int64(len(c.buf)-n) {
		return c.fail("record length")
	}
	b := c.buf[n : n+int(size) : n+int(size)]
	c.buf = c.buf[n+int(size):]
	b = b[1:] // attributes: none are defined
	tsDelta, n := varint(b)
	if n <= 0 {
		return c.fail("timestamp")
	}
	b = b[n:]
	offDelta, n := varint(b)
	if n <= 0 {
		return c.fail("offset")
	}
	b = b[n:]
	var ok bool
	if r.Key, b, ok = field(b); !ok {
		return c.fail("key length")
	}
	if r.Value, b, ok = field(b); !ok {
		return c.fail("value length")
	}
	count, n := varint(b)
	if n <= 0 || count < 0 || count > int64(len(b)) {
		return c.fail("header count")
	}
	r.Headers, r.HeaderCount = b[n:], int(count)
	r.Offset = c.at.BaseOffset + offDelta
	r.Timestamp = c.at.BaseTimestamp + tsDelta
	if c.at.AppendTime >= 0 {
		r.Timestamp = c.at.AppendTime
	}
	return true
}

func (c *Cursor) fail(what string) bool {
	c.err = fmt.Errorf("%w at offset %d: %s", ErrCorrupt, c.at.BaseOffset, what)
	c.left, c.buf, c.batches = 0, nil, nil
	return false
}

// field reads a length and as many bytes; -1 is null.
func field(b []byte) (f, rest []byte, ok bool) {
	size, n := varint(b)
	if n <= 0 || size < -1 || size > int64(len(b)-n) {
		return nil, nil, false
	}
	b = b[n:]
	if size < 0 {
		return nil, b, true
	}
	return b[:size:size], b[size:], true
}

// varint is binary.Varint with its one-byte case inlined.
func varint(b []byte) (int64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		u := uint64(b[0])
		return int64(u>>1) ^ -int64(u&1), 1
	}
	return binary.Varint(b)
}

// AppendHeader appends one header in wire format to headers; a nil value is null.
func AppendHeader(headers []byte, key string, value []byte) []byte {
	headers = binary.AppendVarint(headers, int64(len(key)))
	headers = append(headers, key...)
	if value == nil {
		return binary.AppendVarint(headers, -1)
	}
	headers = binary.AppendVarint(headers, int64(len(value)))
	return append(headers, value...)
}

// EachHeader calls visit for every header of r until it returns false. The value shares r's memory.
func (r *Record) EachHeader(visit func(key string, value []byte) bool) error {
	b := r.Headers
	for range r.HeaderCount {
		key, rest, ok := field(b)
		if !ok || key == nil {
			return fmt.Errorf("%w at offset %d: header key", ErrCorrupt, r.Offset)
		}
		value, rest, ok := field(rest)
		if !ok {
			return fmt.Errorf("%w at offset %d: header value", ErrCorrupt, r.Offset)
		}
		if b = rest; !visit(string(key), value) {
			return nil
		}
	}
	return nil
}
