package globaltable

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
)

// log is the rows of a shard in the order in which they came. An address is a block's number and an offset in it.
type log struct {
	index  atomic.Pointer[[]uint64]
	blocks atomic.Pointer[[][]byte]
	// fill is how much of the last block is taken, room the size of all blocks. They are the writer's, as is memory.
	fill   int
	room   int64
	memory *mappings
}

const (
	// blockSize bounds a block: rows are addressed by block and offset. A row that is larger has a block of its own.
	blockBits = 20
	blockSize = 1 << blockBits
	maxBlocks = 1 << (32 - blockBits)
	// leastBlock is the size of the first block of a shard; later ones are a blockShare-th of what it holds.
	leastBlock, blockShare = 1 << 10, 16
	// An index grows by a slotsGrowth-th when more than slotsFull of slotsOf slots are taken.
	leastSlots, slotsGrowth     = 8, 4
	slotsFull, slotsOf      int = 4, 5
)

// A row in a block is
//
//	key     uvarint: length, shifted by one bit; the lowest bit says that the key had a row before
//	before  4 bytes, little-endian, if it had: the address of that row, plus one
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

func newLog(a *arena, slots int) *log {
	l := &log{memory: &mappings{arena: a}}
	index, blocks := make([]uint64, slots), [][]byte{}
	l.index.Store(&index)
	l.blocks.Store(&blocks)
	runtime.AddCleanup(l, (*mappings).free, l.memory)
	return l
}

// number reads a uvarint of which the first byte is not its last.
func number(b []byte) (uint64, int) {
	if len(b) > 1 && b[1] < 0x80 {
		return uint64(b[0]&0x7f) | uint64(b[1])<<7, 2
	}
	return binary.Uvarint(b)
}

// parse reads the row at the beginning of b.
func parse(b []byte) (r row) {
	k, n := uint64(b[0]), 1
	if k >= 0x80 {
		k, n = number(b)
	}
	if k&1 != 0 {
		r.before = binary.LittleEndian.Uint32(b[n:])
		n += 4
	}
	v, size := uint64(b[n]), 1
	if v >= 0x80 {
		v, size = number(b[n:])
	}
	n += size
	end := n + int(k>>1)
	r.key, r.size = b[n:end:end], end
	if v == 0 {
		r.deleted = true
		return r
	}
	r.size += int(v - 1)
	r.value = b[end:r.size:r.size]
	return r
}

// at returns what lies at an address plus one, given blocks of the log as they were at some time.
func (l *log) at(blocks [][]byte, addr uint32) []byte {
	addr--
	n := int(addr >> blockBits)
	if n >= len(blocks) {
		blocks = *l.blocks.Load()
	}
	return blocks[n][addr&(blockSize-1):]
}

// find returns the slot of a key in an index of the log, and its last row with the address of that plus one; if there is none, the free
// slot where the key belongs, and 0.
func (l *log) find(index []uint64, blocks [][]byte, hash uint32, key []byte) (at int, addr uint32, r row) {
	for at = first(hash, len(index)); ; {
		s := atomic.LoadUint64(&index[at])
		if s == 0 {
			return at, 0, row{}
		}
		if uint32(s>>32) == hash {
			addr = uint32(s)
			if r = parse(l.at(blocks, addr)); string(r.key) == string(key) {
				return at, addr, r
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

// slotsFor is the size of an index for so many keys, and for some more.
func slotsFor(keys int) int {
	slots := keys * slotsOf / slotsFull
	return max(leastSlots, slots+slots/slotsGrowth/2)
}

// crowded says whether an index of so many slots must grow for one more key.
func crowded(keys, slots int) bool { return (keys+1)*slotsOf > slots*slotsFull }

// grown returns the index with more slots. The index itself stays as it is, for those who hold it.
func grown(index []uint64) []uint64 {
	more := make([]uint64, len(index)+max(leastSlots, len(index)/slotsGrowth))
	for _, s := range index {
		if s != 0 {
			more[free(more, uint32(s>>32))] = s
		}
	}
	return more
}

// append adds a row and returns its address plus one, and its size. bytes is what the log holds.
func (l *log) append(r row, bytes int64) (addr uint32, size int, err error) {
	var head [4 + 2*binary.MaxVarintLen64]byte
	k := uint64(len(r.key)) << 1
	if r.before != 0 {
		k |= 1
	}
	n := binary.PutUvarint(head[:], k)
	if r.before != 0 {
		binary.LittleEndian.PutUint32(head[n:], r.before)
		n += 4
	}
	v := uint64(0)
	if !r.deleted {
		v = uint64(len(r.value)) + 1
	}
	n += binary.PutUvarint(head[n:], v)
	size = n + len(r.key) + len(r.value)
	blocks := *l.blocks.Load()
	if len(blocks) == 0 || l.fill+size > len(blocks[len(blocks)-1]) {
		if len(blocks) == maxBlocks {
			return 0, 0, fmt.Errorf("the table has more than %d blocks of %d bytes in a shard", maxBlocks, blockSize)
		}
		room := max(size, int(min(blockSize, max(leastBlock, bytes/blockShare))))
		if room >= mapLeast && room < blockSize { // above, nothing can be addressed behind the row
			room = (room + pageSize - 1) / pageSize * pageSize
		}
		more := append(blocks, l.memory.block(room))
		l.blocks.Store(&more) // readers see no more than what was there when they loaded it
		blocks, l.fill = more, 0
		l.room += int64(room)
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
