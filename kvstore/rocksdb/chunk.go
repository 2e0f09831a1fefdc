//go:build cgo

package rocksdb

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"unsafe"

	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/kvstore/internal/layout"
)

// chunk holds the batches that a bulk load writes at once, in one piece of
// memory that is not Go's:
//
//	header of a batch, batch entries ... free ... index
//
// so that the front is the encoding of one large batch (kvstore.Batch). The
// index is made when the chunk is full; its room is kept free from the start.
type chunk struct {
	mem   []byte
	used  int // bytes of the batch at the front
	count int // its entries
}

// entry is one batch entry in the index, as C's wicker_entry.
type entry struct {
	prefix uint64 // of the key, from where the keys that it is sorted with differ
	at     uint32 // where the entry begins in mem; 0 if a later one of its key wins
	klen   uint32
}

const (
	batchHeader = 12
	// indexBytes is what the index takes per entry: the entry, and a second one
	// to sort into.
	indexBytes = 2 * int(unsafe.Sizeof(entry{}))
	maxChunk   = math.MaxUint32
)

func newChunk(size int) (*chunk, error) {
	mem, err := allocate(size)
	if err != nil {
		return nil, err
	}
	c := &chunk{mem: mem}
	c.reset()
	return c, nil
}

func (c *chunk) free() {
	release(c.mem)
	c.mem = nil
}

func (c *chunk) reset() { c.used, c.count = batchHeader, 0 }

// chunkBytes is what a batch takes of a chunk.
func chunkBytes(b *kvstore.Batch) int { return b.Size() + b.Len()*indexBytes }

// fits reports whether add may be called.
func (c *chunk) fits(b *kvstore.Batch) bool {
	// 16 for the alignment of the index.
	return c.used+c.count*indexBytes+chunkBytes(b)+16 <= len(c.mem)
}

// add appends a batch that fits.
func (c *chunk) add(b *kvstore.Batch) {
	c.used += copy(c.mem[c.used:], b.Encoding()[batchHeader:])
	c.count += b.Len()
}

// batch returns all of it as the encoding of one batch.
func (c *chunk) batch() []byte {
	clear(c.mem[:batchHeader])
	binary.LittleEndian.PutUint32(c.mem[8:], uint32(c.count))
	return c.mem[:c.used]
}

// sorted returns the entries in the order of their keys, those of the store's own and
// those of the task apart. Of several of one key all but the last have at=0.
func (c *chunk) sorted() (system, data []entry) {
	end := uintptr(unsafe.Pointer(unsafe.SliceData(c.mem))) + uintptr(len(c.mem))
	start := len(c.mem) - int(end%unsafe.Alignof(entry{})) - c.count*indexBytes
	index := unsafe.Slice((*entry)(unsafe.Pointer(unsafe.SliceData(c.mem[start:]))), 2*c.count)
	all, scratch := index[:c.count], index[c.count:]
	// Data fills all from the front, the store's own from the back.
	n, own := 0, c.count
	for at := batchHeader; at < c.used; {
		klen, w := binary.Uvarint(c.mem[at+1:])
		e := entry{at: uint32(at), klen: uint32(klen)}
		next := at + 1 + w + int(klen)
		if c.mem[at] != tagDelete {
			vlen, w := binary.Uvarint(c.mem[next:])
			next += w + int(vlen)
		}
		if c.mem[at+1+w] == layout.Data {
			all[n] = e
			n++
		} else {
			own--
			all[own] = e
		}
		at = next
	}
	system, data = all[own:], all[:n]
	slices.Reverse(system)
	c.sort(system, scratch)
	c.sort(data, scratch)
	return system, data
}

// tagDelete begins a batch entry without a value.
const tagDelete = 0x00

// key returns an entry's key as it is stored.
func (c *chunk) key(e entry) []byte {
	at := int(e.at) + 2
	for l := e.klen; l >= 0x80; l >>= 7 {
		at++
	}
	return c.mem[at : at+int(e.klen)]
}

// fewEntries are sorted by insertion.
const fewEntries = 16

// sort sorts by key, by radix on 8 bytes of the keys at a time, stably; so of one
// key the last entry is the newest.
func (c *chunk) sort(a, scratch []entry) {
	if len(a) < 2 {
		return
	}
	if len(a) <= fewEntries {
		c.insertion(a)
		return
	}
	from, same := c.common(a)
	if same {
		drop(a)
		return
	}
	ordered := true
	last := uint64(0)
	for i := range a {
		a[i].prefix = word(c.key(a[i])[from:])
		ordered = ordered && last <= a[i].prefix
		last = a[i].prefix
	}
	if !ordered {
		radix(a, scratch)
	}
	for i := 0; i < len(a); {
		end := i + 1
		for end < len(a) && a[end].prefix == a[i].prefix {
			end++
		}
		if end > i+1 {
			c.tied(a[i:end], scratch, from+8)
		}
		i = end
	}
}

// tied sorts entries whose keys are equal up to depth, where a key that ends
// before counts as if zeros followed.
func (c *chunk) tied(a, scratch []entry, depth int) {
	if len(a) <= fewEntries {
		c.insertion(a)
		return
	}
	// Keys that ended are prefixes of those that did not, and go first.
	longer := scratch[:0]
	ended := a[:0]
	for _, e := range a {
		if int(e.klen) <= depth {
			ended = append(ended, e)
		} else {
			longer = append(longer, e)
		}
	}
	rest := a[len(ended):]
	copy(rest, longer)
	c.sort(rest, scratch)
	// They differ in length only, in zeros at the end.
	slices.SortStableFunc(ended, func(a, b entry) int { return int(int64(a.klen) - int64(b.klen)) })
	for i := 0; i < len(ended); {
		end := i + 1
		for end < len(ended) && ended[end].klen == ended[i].klen {
			end++
		}
		drop(ended[i:end])
		i = end
	}
}

// drop keeps the last of entries with the same key.
func drop(a []entry) {
	for i := range len(a) - 1 {
		a[i].at = 0
	}
}

// common returns how many bytes all keys begin with, and whether all are the same.
func (c *chunk) common(a []entry) (n int, same bool) {
	first := c.key(a[0])
	n, same = len(first), true
	for _, e := range a[1:] {
		k := c.key(e)
		same = same && len(k) == len(first)
		if len(k) >= n && bytes.Equal(k[:n], first[:n]) {
			continue
		}
		same = false
		n = min(n, len(k))
		i := 0
		for i < n && k[i] == first[i] {
			i++
		}
		n = i
	}
	return n, same
}

func (c *chunk) insertion(a []entry) {
	for i := 1; i < len(a); i++ {
		e := a[i]
		k := c.key(e)
		j := i
		for ; j > 0 && bytes.Compare(c.key(a[j-1]), k) > 0; j-- {
			a[j] = a[j-1]
		}
		a[j] = e
	}
	for i := range len(a) - 1 {
		if a[i].klen == a[i+1].klen && bytes.Equal(c.key(a[i]), c.key(a[i+1])) {
			a[i].at = 0
		}
	}
}

// word returns the first 8 bytes, big endian, with zeros behind the end.
func word(k []byte) uint64 {
	if len(k) >= 8 {
		return binary.BigEndian.Uint64(k)
	}
	w := uint64(0)
	for i, b := range k {
		w |= uint64(b) << (56 - 8*i)
	}
	return w
}

// radix sorts by prefix, stably.
func radix(a, scratch []entry) {
	var counts [8][256]uint32
	for i := range a {
		p := a[i].prefix
		for d := range 8 {
			counts[d][byte(p>>(8*d))]++
		}
	}
	from, to := a, scratch[:len(a)]
	for d := range 8 {
		c := &counts[d]
		if c[byte(a[0].prefix>>(8*d))] == uint32(len(a)) {
			continue
		}
		sum := uint32(0)
		for i := range c {
			sum, c[i] = sum+c[i], sum
		}
		for _, e := range from {
			b := byte(e.prefix >> (8 * d))
			to[c[b]] = e
			c[b]++
		}
		from, to = to, from
	}
	if &from[0] != &a[0] {
		copy(a, from)
	}
}
