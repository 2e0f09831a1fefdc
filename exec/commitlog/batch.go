package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"slices"
	"sync"
)

// HeaderSize is the size in bytes of a record batch's header in format v2 (KIP-98):
//
//	 0 base offset        int64      35 max timestamp     int64
//	 8 batch length       int32      43 producer id       int64
//	12 leader epoch       int32      51 producer epoch    int16
//	16 magic (2)          int8       53 base sequence     int32
//	17 crc32c of 21..end  uint32     57 record count      int32
//	21 attributes         int16      61 records
//	23 last offset delta  int32
//	27 base timestamp     int64
const HeaderSize = 61

// Bits of a batch's attributes.
const (
	CompressionMask   = 0x07
	AppendTimeBit     = 0x08
	TransactionalBit  = 0x10
	ControlBit        = 0x20
	maxRecordOverhead = 5 + 1 + 10 + 5 + 5 + 5 + 5
)

// ErrCorrupt is wrapped by errors about bytes that are no record batch.
var ErrCorrupt = errors.New("corrupt record batch")

// crcTable is read-only after this line (Castagnoli, as Kafka's CRC32C).
var crcTable = crc32.MakeTable(crc32.Castagnoli)

// Batch is a full record batch without its final header: HeaderSize free bytes, then Count
// records. It has one owner at a time.
type Batch struct {
	// Buf holds the free header bytes and the uncompressed records.
	Buf []byte
	// Count is the number of records.
	Count int
	// BaseTimestamp is the first record's, MaxTimestamp the greatest, in ms since the epoch.
	BaseTimestamp, MaxTimestamp int64
	pool                        *Pool
}

// Release gives the batch's memory back to where it came from. The owner calls it once, when
// nothing refers to Buf any more; not calling it leaves the memory to the garbage collector.
func (b *Batch) Release() {
	if b.pool != nil {
		b.pool.put(b)
	}
}

// Header is a batch's header, all of it but the checksum.
type Header struct {
	BaseOffset                  int64
	LeaderEpoch                 int32
	Attributes                  int16
	LastOffsetDelta             int32
	BaseTimestamp, MaxTimestamp int64
	ProducerID                  int64
	ProducerEpoch               int16
	BaseSequence                int32
	Count                       int32
}

// Control says whether the batch holds a transaction's marker.
func (h *Header) Control() bool { return h.Attributes&ControlBit != 0 }

// Transactional says whether the batch is part of a transaction.
func (h *Header) Transactional() bool { return h.Attributes&TransactionalBit != 0 }

// Next returns the offset after the batch.
func (h *Header) Next() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) + 1 }

// PutHeader writes h with length and checksum into the first HeaderSize bytes of buf, whose
// rest holds the records, compressed if h says so.
func PutHeader(buf []byte, h *Header) {
	be := binary.BigEndian
	be.PutUint64(buf[0:], uint64(h.BaseOffset))
	be.PutUint32(buf[8:], uint32(len(buf)-12))
	be.PutUint32(buf[12:], uint32(h.LeaderEpoch))
	buf[16] = 2
	be.PutUint16(buf[21:], uint16(h.Attributes))
	be.PutUint32(buf[23:], uint32(h.LastOffsetDelta))
	be.PutUint64(buf[27:], uint64(h.BaseTimestamp))
	be.PutUint64(buf[35:], uint64(h.MaxTimestamp))
	be.PutUint64(buf[43:], uint64(h.ProducerID))
	be.PutUint16(buf[51:], uint16(h.ProducerEpoch))
	be.PutUint32(buf[53:], uint32(h.BaseSequence))
	be.PutUint32(buf[57:], uint32(h.Count))
	be.PutUint32(buf[17:], crc32.Checksum(buf[21:], crcTable))
}

// ReadHeader reads the header of the batch at the start of buf into h and returns the batch's whole size.
// A size of 0 without an error means that buf ends before the batch does, as the last batch
// of a fetch may. The checksum is verified by CheckCRC.
func ReadHeader(buf []byte, h *Header) (size int, err error) {
	if len(buf) < 17 {
		return 0, nil
	}
	be := binary.BigEndian
	if buf[16] != 2 {
		return 0, fmt.Errorf("%w: magic %d, want 2", ErrCorrupt, buf[16])
	}
	n := int(int32(be.Uint32(buf[8:])))
	if n < HeaderSize-12 {
		return 0, fmt.Errorf("%w: length %d, want at least %d", ErrCorrupt, n, HeaderSize-12)
	}
	if n+12 > len(buf) {
		return 0, nil
	}
	h.BaseOffset = int64(be.Uint64(buf[0:]))
	h.LeaderEpoch = int32(be.Uint32(buf[12:]))
	h.Attributes = int16(be.Uint16(buf[21:]))
	h.LastOffsetDelta = int32(be.Uint32(buf[23:]))
	h.BaseTimestamp = int64(be.Uint64(buf[27:]))
	h.MaxTimestamp = int64(be.Uint64(buf[35:]))
	h.ProducerID = int64(be.Uint64(buf[43:]))
	h.ProducerEpoch = int16(be.Uint16(buf[51:]))
	h.BaseSequence = int32(be.Uint32(buf[53:]))
	h.Count = int32(be.Uint32(buf[57:]))
	if h.Count < 0 || h.LastOffsetDelta < 0 || h.BaseOffset < 0 || h.BaseOffset > math.MaxInt64-1-int64(h.LastOffsetDelta) {
		return 0, fmt.Errorf("%w: %d records from offset %d to %d behind it", ErrCorrupt, h.Count, h.BaseOffset, h.LastOffsetDelta)
	}
	return n + 12, nil
}

// CheckCRC verifies the checksum of one whole batch.
func CheckCRC(batch []byte) error {
	want := binary.BigEndian.Uint32(batch[17:])
	if got := crc32.Checksum(batch[21:], crcTable); got != want {
		return fmt.Errorf("%w: checksum %08x, want %08x", ErrCorrupt, got, want)
	}
	return nil
}

// Builder lays records out as a batch. The zero value is not ready: see NewBuilder. It has
// one owner at a time and does not allocate per record.
type Builder struct {
	pool  *Pool
	batch *Batch
}

// NewBuilder returns an empty builder whose batches come from pool.
func NewBuilder(pool *Pool) *Builder { return &Builder{pool: pool} }

// Len returns the number of records since the last Take.
func (b *Builder) Len() int {
	if b.batch == nil {
		return 0
	}
	return b.batch.Count
}

// Size returns the bytes that the batch takes so far, header included.
func (b *Builder) Size() int {
	if b.batch == nil {
		return 0
	}
	return len(b.batch.Buf)
}

// MaxRecordSize returns an upper bound of what a record with these parts adds to a batch.
func MaxRecordSize(key, value, headers []byte) int {
	return maxRecordOverhead + len(key) + len(value) + len(headers)
}

// Append adds a record. A nil key or value is null, an empty one is not. headers are the
// record's headers in wire format and headerCount how many they are. Nothing is retained.
func (b *Builder) Append(timestamp int64, key, value, headers []byte, headerCount int) {
	t := b.batch
	if t == nil {
		t = b.pool.get()
		t.BaseTimestamp, t.MaxTimestamp = timestamp, timestamp
		b.batch = t
	}
	if timestamp > t.MaxTimestamp {
		t.MaxTimestamp = timestamp
	}
	tsDelta, offDelta := timestamp-t.BaseTimestamp, int64(t.Count)
	klen, vlen := int64(len(key)), int64(len(value))
	if key == nil {
		klen = -1
	}
	if value == nil {
		vlen = -1
	}
	size := 1 + varintLen(tsDelta) + varintLen(offDelta) + varintLen(klen) + len(key) +
		varintLen(vlen) + len(value) + varintLen(int64(headerCount)) + len(headers)
	// Room for all of it at once: what follows writes to positions.
	buf := slices.Grow(t.Buf, size+binary.MaxVarintLen64)
	i := len(buf)
	buf = buf[:i+size+binary.MaxVarintLen64]
	i = putVarint(buf, i, int64(size))
	buf[i] = 0
	i = putVarint(buf, i+1, tsDelta)
	i = putVarint(buf, i, offDelta)
	i = putVarint(buf, i, klen)
	i += copy(buf[i:], key)
	i = putVarint(buf, i, vlen)
	i += copy(buf[i:], value)
	i = putVarint(buf, i, int64(headerCount))
	i += copy(buf[i:], headers)
	t.Buf = buf[:i]
	t.Count++
}

// Take returns the batch built so far, nil if it is empty, and starts a new one.
func (b *Builder) Take() *Batch {
	t := b.batch
	b.batch = nil
	return t
}

// Discard drops what was built since the last Take.
func (b *Builder) Discard() {
	if b.batch != nil {
		b.batch.Release()
		b.batch = nil
	}
}

// varintLen is the size of v as a zigzag varint.
func varintLen(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	return (bits.Len64(u|1) + 6) / 7
}

// putVarint writes v as a zigzag varint at buf[i:] and returns where it ends.
func putVarint(buf []byte, i int, v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	for u >= 0x80 {
		buf[i] = byte(u) | 0x80
		u >>= 7
		i++
	}
	buf[i] = byte(u)
	return i + 1
}

// Pool keeps batches' memory for reuse. It is safe for concurrent use.
type Pool struct {
	size int
	p    sync.Pool
}

// NewPool returns a pool whose new batches have room for size bytes before they grow.
func NewPool(size int) *Pool { return &Pool{size: max(size, HeaderSize+512)} }

func (p *Pool) get() *Batch {
	if b, ok := p.p.Get().(*Batch); ok {
		return b
	}
	return &Batch{Buf: make([]byte, HeaderSize, p.size), pool: p}
}

func (p *Pool) put(b *Batch) {
	if cap(b.Buf) > 4*p.size {
		return // grown by an unusually large record: not worth keeping
	}
	b.Buf, b.Count = b.Buf[:HeaderSize], 0
	p.p.Put(b)
}
