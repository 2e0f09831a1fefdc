package globaltable

import (
	"bytes"
	"hash/maphash"
	"math"
	"runtime"
	"sync/atomic"
)

// Entries are the rows of a table in memory, as bytes: few large blocks and an index without pointers, so that a million of them
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
	arena  *arena
	shards [shards]shard
	// rows and data are as in root, but of now.
	rows, data, version int64
	at                  atomic.Pointer[root]
}

const (
	// shards is how many parts a table has: that is how finely it is written anew.
	shards = 32
	// A shard is written anew when more than a deadShare-th of its bytes is dead, and at least deadLeast.
	deadShare, deadLeast = 8, 16 << 10
)

// shard is the writer's side of one.
type shard struct {
	log *log
	// slots is the number of the index's slots that are taken.
	slots int
	// bytes is the size of the log's rows, dead that of rows that were replaced or deleted.
	bytes, dead int64
}

// NewEntries returns an empty table, of which a snapshot can be had.
func NewEntries() *Entries {
	e := &Entries{seed: maphash.MakeSeed(), arena: &arena{}}
	for i := range e.shards {
		e.shards[i].log = newLog(e.arena, leastSlots)
	}
	e.Publish()
	return e
}

// Put sets a key's value, which may be empty but is never absent. Both are copied. An error says that the table cannot
// hold more.
func (e *Entries) Put(key, value []byte) error { return e.set(key, value, false) }

// Delete takes a key out of the table.
func (e *Entries) Delete(key []byte) error { return e.set(key, nil, true) }

func (e *Entries) set(key, value []byte, deleted bool) error {
	h := maphash.Bytes(e.seed, key)
	s, hash := &e.shards[h%shards], uint32(h>>32)
	index := *s.log.index.Load()
	at, addr, was := s.log.find(index, *s.log.blocks.Load(), hash, key)
	had := addr != 0 && !was.deleted
	if deleted && !had {
		return nil
	}
	if addr == 0 && crowded(s.slots, len(index)) {
		more := grown(index)
		s.log.index.Store(&more)
		index, at = more, free(more, hash)
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

// Rewrite replaces each value by what change makes of it, or takes out the row if that is nil. Key and value are change's to keep, its
// result is copied. After an error some rows are changed and others are not.
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
	old, now := s.log, shard{log: newLog(e.arena, slotsFor(s.slots))}
	defer runtime.KeepAlive(old) // its memory is read
	index, blocks := *now.log.index.Load(), *old.blocks.Load()
	for _, slot := range *old.index.Load() {
		if slot == 0 {
			continue
		}
		r := parse(old.at(blocks, uint32(slot)))
		if r.deleted {
			continue
		}
		if r.before = 0; change != nil {
			value, err := change(bytes.Clone(r.key), bytes.Clone(r.value))
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
	e.arena.retire(old.memory)
	return nil
}

// Publish makes what was written visible to snapshots taken from now on.
func (e *Entries) Publish() {
	e.version++
	r := &root{rows: e.rows, data: e.data, version: e.version}
	for i := range e.shards {
		if s := &e.shards[i]; s.slots > 0 {
			r.views[i] = view{s.log, *s.log.index.Load(), *s.log.blocks.Load(), uint32(min(s.log.end(), math.MaxUint32))}
		}
	}
	e.at.Store(r)
}

// Snapshot returns the table as it is. It may be called from any goroutine.
func (e *Entries) Snapshot() Snapshot { return Snapshot{e: e, r: e.at.Load()} }

// Memory returns the bytes that the table occupies: blocks, as far as they are taken, and indices. It is the writer's.
func (e *Entries) Memory() int64 {
	var n int64
	for i := range e.shards {
		l := e.shards[i].log
		n += l.room + int64(len(*l.index.Load()))*8
		if blocks := *l.blocks.Load(); len(blocks) > 0 {
			n -= int64(len(blocks[len(blocks)-1]) - l.fill)
		}
	}
	return n
}
