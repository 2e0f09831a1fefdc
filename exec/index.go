package exec

import (
	"bytes"
	"hash/maphash"
)

// index finds the entries of a store by key. It is a hash table with linear probing that keeps
// the hash beside each pointer, so that a lookup touches one line of the table and the entry,
// whose key lies within it. A Go map of strings touches about twice as many, and waiting for
// memory is most of what reading state costs. It belongs to the task's goroutine.
type index struct {
	seed  maphash.Seed
	slots []indexSlot // a power of two of them, at most three quarters used
	n     int
}

type indexSlot struct {
	hash uint64
	e    *entry // nil if the slot is free
}

const minIndexSlots = 16

func newIndex() *index {
	return &index{seed: maphash.MakeSeed(), slots: make([]indexSlot, minIndexSlots)}
}

// hash is what an entry with this key has as its hash.
func (x *index) hash(key []byte) uint64 { return maphash.Bytes(x.seed, key) }

// find returns the entry of the key with this hash, nil if there is none.
func (x *index) find(hash uint64, key []byte) *entry {
	mask := uint64(len(x.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &x.slots[i]
		if s.e == nil {
			return nil
		}
		if s.hash == hash && bytes.Equal(s.e.key, key) {
			return s.e
		}
	}
}

// add adds an entry whose key is not there yet.
func (x *index) add(e *entry) {
	if x.n++; x.n > len(x.slots)/4*3 {
		old := x.slots
		x.slots = make([]indexSlot, 2*len(old))
		for _, s := range old {
			if s.e != nil {
				x.put(s)
			}
		}
	}
	x.put(indexSlot{e.hash, e})
}

func (x *index) put(s indexSlot) {
	mask := uint64(len(x.slots) - 1)
	i := s.hash & mask
	for x.slots[i].e != nil {
		i = (i + 1) & mask
	}
	x.slots[i] = s
}

// remove takes out an entry that is there. Those behind it that did not get the slot they
// wanted move up, so that a free slot always ends a search.
func (x *index) remove(e *entry) {
	mask := uint64(len(x.slots) - 1)
	free := e.hash & mask
	for x.slots[free].e != e {
		free = (free + 1) & mask
	}
	for i := (free + 1) & mask; x.slots[i].e != nil; i = (i + 1) & mask {
		home := x.slots[i].hash & mask
		if (i-home)&mask >= (i-free)&mask { // its search passes the free slot
			x.slots[free] = x.slots[i]
			free = i
		}
	}
	x.slots[free] = indexSlot{}
	x.n--
}
