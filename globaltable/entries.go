package globaltable

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"iter"
	"math"
	"sync/atomic"
)

// Entries are the rows of a table as bytes: few large blocks and an index without pointers, so that a million of them
// cost the garbage collector nothing and little more memory than their keys and values.
//
// One goroutine writes, with Put, Delete and Publish; any number read at the same time, through snapshots, and wait for
// nothing. A snapshot is the rows as they were at one Publish, for as long as it is held.
//
// Rows are divided among shards by a hash of their keys. A shard is a log: a row is appended, with a link to the row of the
// same key before it, and the shard's index leads to the last one. A snapshot knows how long each log was, and follows the links
// of rows that came later. When a part of a log is dead it is written anew, without what no new snapshot can see; snapshots
// that are held keep the old one.
type Entries struct {
	seed   maphash.Seed
	shards [shards]shard
	// rows and data are as in root, but of now.
	rows, data int64
	at         atomic.Pointer[root]
}

const (
	// shards is how many parts a table has: that is how finely it is written anew.
	shards = 32
	// blockSize bounds a block: rows are addressed by block and offset. A row that is larger has a block of its own.
	blockBits = 16
	blockSize = 1 << blockBits
	maxBlocks = 1 << (32 - blockBits)
	// leastBlock is the size of the first block of a shard; later ones are a blockShare-th of what it holds.
	leastBlock, blockShare = 1 << 10, 16
	// A shard is written anew when more than a deadShare-th of its bytes is dead, and at least deadLeast.
	deadShare, deadLeast = 8, 16 << 10
	// An index grows by half when three quarters of its slots are taken.
	leastSlots = 8
)

// root is what a snapshot sees.
type root struct {
	logs [shards]*log
	ends [shards]uint32
	// rows is the number of rows, data the bytes of their keys and values.
	rows, data int64
}

// shard is the writer's side of one.
type shard struct {
	log *log
	// slots is the number of the index's slots that are taken.
	slots int
	// bytes is the size of the log's rows, dead that of rows that were replaced or deleted.
	bytes, dead int64
}

// log is the rows of a shard in the order in which they came. An address is a block's number and an offset in it.
type log struct {
	index  atomic.Pointer[[]uint64]
	blocks atomic.Pointer[[][]byte]
	// fill is how much of the last block is taken, room the size of all blocks. They are the writer's.
	fill int
	room int64
}

// A row in a block is
//
//	before  4 bytes, little-endian: the address of the key's row before it, plus one; 0 if there is none
//	key     uvarint length
//	value   uvarint length plus one; 0 says that the key was deleted
//	key and value
//
// and a slot of the index is 32 bits of the key's hash, by which it has its place in the index too, and the address of the
// key's last row, plus one; 0 is free.
type row struct {
	key, value []byte
	deleted    bool
	before     uint32
	size       int
}

// NewEntries returns an empty table, of which a snapshot can be had.
func NewEntries() *Entries {
	e := &Entries{seed: maphash.MakeSeed()}
	for i := range e.shards {
		e.shards[i].log = newLog(leastSlots)
	}
	e.Publish()
	return e
}

func newLog(slots int) *log {
	l := &log{}
	index, blocks := make([]uint64, slots), [][]byte{}
	l.index.Store(&index)
	l.blocks.Store(&blocks)
	return l
}

// place returns a key's shard and its hash within that.
func (e *Entries) place(key []byte) (int, uint32) {
	h := maphash.Bytes(e.seed, key)
	return int(h % shards), uint32(h >> 32)
}

// find returns the slot of a key and the address of its last row plus one; if there is none, the free slot where it
// belongs and 0.
func (l *log) find(index []uint64, hash uint32, key []byte) (at int, addr uint32) {
	for at = first(hash, len(index)); ; {
		s := atomic.LoadUint64(&index[at])
		if s == 0 {
			return at, 0
		}
		if uint32(s>>32) == hash {
			if k, _, _ := l.key(uint32(s)); string(k) == string(key) {
				return at, uint32(s)
			}
		}
		if at++; at == len(index) {
			at = 0
		}
	}
}

// first is where a hash is looked for first.
func first(hash uint32, slots int) int { return int(uint64(hash) * uint64(slots) >> 32) }

// free returns the free slot for a hash that the index does not have.
func free(index []uint64, hash uint32) int {
	at := first(hash, len(index))
	for index[at] != 0 {
		if at++; at == len(index) {
			at = 0
		}
	}
	return at
}

// at returns what lies at an address plus one.
func (l *log) at(addr uint32) []byte {
	addr--
	return (*l.blocks.Load())[addr>>blockBits][addr&(blockSize-1):]
}

// key returns a row's key, the length of its value plus one, and where that begins.
func (l *log) key(addr uint32) (key []byte, vlen, n int) {
	b := l.at(addr)
	k, size := binary.Uvarint(b[4:])
	n = 4 + size
	v, size := binary.Uvarint(b[n:])
	n += size
	end := n + int(k)
	return b[n:end:end], int(v), end
}

func (l *log) row(addr uint32) (r row) {
	b := l.at(addr)
	r.before = binary.LittleEndian.Uint32(b)
	key, vlen, n := l.key(addr)
	r.key, r.size, r.deleted = key, n, vlen == 0
	if !r.deleted {
		r.size += vlen - 1
		r.value = b[n:r.size:r.size]
	}
	return r
}

// append adds a row and returns its address plus one, and its size. bytes is what the log holds.
func (l *log) append(r row, bytes int64) (addr uint32, size int, err error) {
	var head [4 + 2*binary.MaxVarintLen64]byte
	binary.LittleEndian.PutUint32(head[:], r.before)
	n := 4 + binary.PutUvarint(head[4:], uint64(len(r.key)))
	if r.deleted {
		n += binary.PutUvarint(head[n:], 0)
	} else {
		n += binary.PutUvarint(head[n:], uint64(len(r.value))+1)
	}
	size = n + len(r.key) + len(r.value)
	blocks := *l.blocks.Load()
	if len(blocks) == 0 || l.fill+size > len(blocks[len(blocks)-1]) {
		if len(blocks) == maxBlocks {
			return 0, 0, fmt.Errorf("the table has more than %d blocks of %d bytes in a shard", maxBlocks, blockSize)
		}
		room := int(min(blockSize, max(leastBlock, bytes/blockShare)))
		blocks = append(blocks, make([]byte, max(room, size)))
		l.room += int64(max(room, size))
		l.blocks.Store(&blocks) // readers see no more than what was there when they loaded it
		l.fill = 0
	}
	b := blocks[len(blocks)-1][l.fill:]
	addr = uint32(len(blocks)-1)<<blockBits | uint32(l.fill)
	n = copy(b, head[:n])
	n += copy(b[n:], r.key)
	copy(b[n:], r.value)
	l.fill += size
	return addr + 1, size, nil
}

// end is an address above all rows, and not above any that will come.
func (l *log) end() uint64 {
	n := len(*l.blocks.Load())
	if n == 0 {
		return 0
	}
	return uint64(n-1)<<blockBits + uint64(min(l.fill, blockSize))
}

// Put sets a key's value, which may be empty but is never absent. Both are copied. An error says that the table cannot
// hold more.
func (e *Entries) Put(key, value []byte) error { return e.set(key, value, false) }

// Delete takes a key out of the table.
func (e *Entries) Delete(key []byte) error { return e.set(key, nil, true) }

func (e *Entries) set(key, value []byte, deleted bool) error {
	n, hash := e.place(key)
	s := &e.shards[n]
	index := *s.log.index.Load()
	at, addr := s.log.find(index, hash, key)
	var was row
	if addr != 0 {
		was = s.log.row(addr)
	}
	had := addr != 0 && !was.deleted
	if deleted && !had {
		return nil
	}
	if addr == 0 && (s.slots+1)*4 > len(index)*3 {
		index = grown(index)
		s.log.index.Store(&index)
		at = free(index, hash)
	}
	now, size, err := s.log.append(row{key: key, value: value, deleted: deleted, before: addr}, s.bytes)
	if err != nil {
		return err
	}
	if addr == 0 {
		s.slots++
	}
	atomic.StoreUint64(&index[at], uint64(hash)<<32|uint64(now))
	s.bytes += int64(size)
	if had {
		e.rows--
		e.data -= int64(len(was.key) + len(was.value))
		s.dead += int64(was.size)
	}
	if deleted {
		s.dead += int64(size)
	} else {
		e.rows++
		e.data += int64(len(key) + len(value))
	}
	if s.dead > deadLeast && s.dead > s.bytes/deadShare {
		return e.renew(s, nil)
	}
	return nil
}

// grown returns the index with more slots.
func grown(index []uint64) []uint64 {
	more := make([]uint64, len(index)+len(index)/2)
	for _, s := range index {
		if s != 0 {
			more[free(more, uint32(s>>32))] = s
		}
	}
	return more
}

// Rewrite replaces each value by what change makes of it, or takes out the row if that is nil. change's result is copied.
// After an error some rows are changed and others are not.
func (e *Entries) Rewrite(change func(key, value []byte) ([]byte, error)) error {
	for i := range e.shards {
		if err := e.renew(&e.shards[i], change); err != nil {
			return err
		}
	}
	return nil
}

// renew writes a shard's log anew, with the values that change makes of them unless it is nil.
func (e *Entries) renew(s *shard, change func(key, value []byte) ([]byte, error)) error {
	old, now := s.log, shard{log: newLog(max(leastSlots, s.slots*3/2))}
	index := *now.log.index.Load()
	for _, slot := range *old.index.Load() {
		if slot == 0 {
			continue
		}
		r := old.row(uint32(slot))
		if r.deleted {
			continue
		}
		if r.before = 0; change != nil {
			value, err := change(r.key, r.value)
			if err != nil {
				return err
			}
			e.data += int64(len(value) - len(r.value))
			if r.value = value; value == nil {
				e.data -= int64(len(r.key))
				e.rows--
				continue
			}
		}
		addr, size, err := now.log.append(r, s.bytes-s.dead)
		if err != nil {
			return err
		}
		index[free(index, uint32(slot>>32))] = slot>>32<<32 | uint64(addr)
		now.bytes += int64(size)
		now.slots++
	}
	*s = now
	return nil
}

// Publish makes what was written visible to snapshots taken from now on.
func (e *Entries) Publish() {
	r := &root{rows: e.rows, data: e.data}
	for i := range e.shards {
		r.logs[i] = e.shards[i].log
		r.ends[i] = uint32(min(e.shards[i].log.end(), math.MaxUint32))
	}
	e.at.Store(r)
}

// Snapshot returns the table as it is. It may be called from any goroutine.
func (e *Entries) Snapshot() Snapshot { return Snapshot{e, e.at.Load()} }

// Memory returns the bytes that the table occupies: blocks and indices. It is the writer's.
func (e *Entries) Memory() int64 {
	var n int64
	for i := range e.shards {
		l := e.shards[i].log
		n += l.room + int64(len(*l.index.Load()))*8
	}
	return n
}

// Snapshot is a table at a moment. It is immutable and safe for concurrent use. The zero value has no rows.
type Snapshot struct {
	e *Entries
	r *root
}

// Get returns a key's value, false if the table has none. The value must not be changed; it stays as it is.
func (s Snapshot) Get(key []byte) ([]byte, bool) {
	if s.r == nil {
		return nil, false
	}
	n, hash := s.e.place(key)
	l := s.r.logs[n]
	_, addr := l.find(*l.index.Load(), hash, key)
	r, ok := s.seen(n, addr)
	return r.value, ok
}

// seen returns the row of a key that the snapshot sees, going back from its last one.
func (s Snapshot) seen(n int, addr uint32) (row, bool) {
	l, end := s.r.logs[n], s.r.ends[n]
	for addr != 0 {
		r := l.row(addr)
		if addr <= end { // an address plus one
			return r, !r.deleted
		}
		addr = r.before
	}
	return row{}, false
}

// All returns the rows in no order. Keys and values must not be changed.
func (s Snapshot) All() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		if s.r == nil {
			return
		}
		for n, l := range s.r.logs {
			index := *l.index.Load()
			for i := range index {
				if r, ok := s.seen(n, uint32(atomic.LoadUint64(&index[i]))); ok && !yield(r.key, r.value) {
					return
				}
			}
		}
	}
}

// Len is the number of rows, Size the bytes of their keys and values.
func (s Snapshot) Len() int64 {
	if s.r == nil {
		return 0
	}
	return s.r.rows
}

// Size is explained at Len.
func (s Snapshot) Size() int64 {
	if s.r == nil {
		return 0
	}
	return s.r.data
}
