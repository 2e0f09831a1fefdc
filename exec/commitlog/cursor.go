package commitlog

import (
	"encoding/binary"
	"fmt"
)

// RecordBatch is a data batch as a reader delivers it. Its bytes are immutable.
type RecordBatch struct {
	// BaseOffset and LastOffset are the offsets of the first and last record (before compaction). A record
	// outside of them is corrupt.
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
	size, i := varint(c.buf, 0)
	if i < 0 || size < 1 || size > int64(len(c.buf)-i) {
		return c.fail("record length")
	}
	end := i + int(size)
	b := c.buf[:end:end]
	c.buf = c.buf[end:]
	tsDelta, i := varint(b, i+1) // behind the attributes: none are defined
	if i < 0 {
		return c.fail("timestamp")
	}
	offDelta, i := varint(b, i)
	if i < 0 || uint64(offDelta) > uint64(c.at.LastOffset-c.at.BaseOffset) { // it would move the reader's position
		return c.fail("offset")
	}
	if r.Key, i = field(b, i); i < 0 {
		return c.fail("key length")
	}
	if r.Value, i = field(b, i); i < 0 {
		return c.fail("value length")
	}
	count, i := varint(b, i)
	if i < 0 || count < 0 || count > int64(len(b)-i) {
		return c.fail("header count")
	}
	r.Headers, r.HeaderCount = b[i:], int(count)
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

// field reads a length at b[i:] and as many bytes; -1 is null. It returns where it ends, -1 if b is too short.
func field(b []byte, i int) ([]byte, int) {
	size, i := varint(b, i)
	if i < 0 || size < -1 || size > int64(len(b)-i) {
		return nil, -1
	}
	if size < 0 {
		return nil, i
	}
	end := i + int(size)
	return b[i:end:end], end
}

// varint reads a zigzag varint at b[i:] and returns where it ends, -1 if there is none. It is
// binary.Varint for a position; nearly all that a record has are of one or two bytes.
func varint(b []byte, i int) (int64, int) {
	if i >= len(b) {
		return 0, -1
	}
	u := uint64(b[i])
	if u < 0x80 {
		return int64(u>>1) ^ -int64(u&1), i + 1
	}
	if i+1 < len(b) && b[i+1] < 0x80 {
		u = u&0x7f | uint64(b[i+1])<<7
		return int64(u>>1) ^ -int64(u&1), i + 2
	}
	v, n := binary.Varint(b[i:])
	if n <= 0 {
		return 0, -1
	}
	return v, i + n
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
	b, i := r.Headers, 0
	for range r.HeaderCount {
		var key, value []byte
		if key, i = field(b, i); i < 0 || key == nil {
			return fmt.Errorf("%w at offset %d: header key", ErrCorrupt, r.Offset)
		}
		if value, i = field(b, i); i < 0 {
			return fmt.Errorf("%w at offset %d: header value", ErrCorrupt, r.Offset)
		}
		if !visit(string(key), value) {
			return nil
		}
	}
	return nil
}
