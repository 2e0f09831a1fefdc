package globaltable

import (
	"hash/maphash"
	"iter"
	"runtime"
	"sync/atomic"
)

// Snapshot is a table at a moment. It is immutable and safe for concurrent use. The zero value has no rows. What it sees stays in
// memory, or on disk, for as long as it is held, also when the table goes on without it. One of a table on disk is to be released.
type Snapshot struct {
	e *Entries
	r *root
	// disk is of a table on disk, which has no root.
	disk *held
}

// Release gives a snapshot up, once: it is not to be used any more. One of a table in memory has nothing to give up.
func (s Snapshot) Release() {
	if s.disk != nil {
		s.disk.leave()
	}
}

// root is what a snapshot sees.
type root struct {
	views [shards]view
	// rows is the number of rows, data the bytes of their keys and values, version how many were published.
	rows, data, version int64
}

// view is a shard as a snapshot sees it: how long its log was, with the index and the blocks that it had. Both may lead to rows that came
// later. It is empty if the shard was.
type view struct {
	log    *log
	index  []uint64
	blocks [][]byte
	end    uint32
}

// Version tells snapshots of a table apart: a later one has the same number only if it has the same rows.
func (s Snapshot) Version() int64 {
	switch {
	case s.disk != nil:
		return s.disk.version
	case s.r != nil:
		return s.r.version
	}
	return 0
}

// Get appends a key's value to dst and returns it, false if the table has none. With a nil dst the value is the caller's to keep,
// and not nil. An error is the store's, of a table on disk.
func (s Snapshot) Get(dst, key []byte) ([]byte, bool, error) {
	if s.disk != nil {
		return s.disk.get(dst, key)
	}
	if s.r == nil {
		return dst, false, nil
	}
	h := maphash.Bytes(s.e.seed, key)
	v := &s.r.views[h%shards]
	if v.log == nil {
		return dst, false, nil
	}
	_, addr, r := v.log.find(v.index, v.blocks, uint32(h>>32), key)
	if r, ok := v.seen(addr, r); ok {
		if dst == nil {
			dst = make([]byte, 0, len(r.value))
		}
		dst = append(dst, r.value...)
		runtime.KeepAlive(s.r) // and with it the log's memory
		return dst, true, nil
	}
	runtime.KeepAlive(s.r)
	return dst, false, nil
}

// seen returns the row of a key that the view sees, going back from its last one.
func (v *view) seen(addr uint32, r row) (row, bool) {
	for addr > v.end { // an address plus one
		if addr = r.before; addr != 0 {
			r = parse(v.log.at(v.blocks, addr))
		}
	}
	return r, addr != 0 && !r.deleted
}

// All returns the rows in no order. Keys and values are valid until the next one is asked for, and must not be changed. It ends early, with the store's error in
// err, if err is not nil, of a table on disk.
func (s Snapshot) All(err *error) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		if s.disk != nil {
			if e := s.disk.all(yield); e != nil && err != nil {
				*err = e
			}
			return
		}
		if s.r == nil {
			return
		}
		defer runtime.KeepAlive(s.r)
		var key, value []byte
		for n := range s.r.views {
			v := &s.r.views[n]
			for i := range v.index {
				addr := uint32(atomic.LoadUint64(&v.index[i]))
				if addr == 0 {
					continue
				}
				r, ok := v.seen(addr, parse(v.log.at(v.blocks, addr)))
				if !ok {
					continue
				}
				key, value = append(key[:0], r.key...), append(value[:0], r.value...)
				if !yield(key, value) {
					return
				}
			}
		}
	}
}

// Len is the number of rows, Size the bytes of their keys and values. Of a table on disk both are estimates.
func (s Snapshot) Len() int64 {
	if s.disk != nil {
		return s.disk.stats.Entries
	}
	if s.r == nil {
		return 0
	}
	return s.r.rows
}

// Size is explained at Len.
func (s Snapshot) Size() int64 {
	if s.disk != nil {
		return s.disk.stats.DiskBytes
	}
	if s.r == nil {
		return 0
	}
	return s.r.data
}
