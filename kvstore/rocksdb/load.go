//go:build cgo

package rocksdb

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wickerwork/wicker/kvstore"
)

const (
	defaultLoadMemory = 64 << 20
	// plainBytes is up to where the end of a load goes into the memtable: a table
	// file costs some milliseconds whatever its size.
	plainBytes = 1 << 20
	// compressEvery is how often compression is tried where it was in vain.
	compressEvery = 16
)

// Load implements kvstore.Store. One load at a time: kvstore.ErrInUse.
func (s *store) Load(memory int64) (kvstore.Loader, error) {
	if !s.gate.Enter() {
		return nil, s.closedErr()
	}
	defer s.gate.Leave()
	if memory < 0 {
		return nil, storeError(s.name, fmt.Errorf("memory of a load (%d) must be >= 0", memory))
	}
	if s.loader != nil {
		return nil, storeError(s.name, fmt.Errorf("a load is open: %w", kvstore.ErrInUse))
	}
	if memory == 0 {
		memory = defaultLoadMemory
	}
	s.loader = &loader{store: s, size: int(min(memory/2, maxChunk)), written: make(chan error, 1), unflushed: true}
	return s.loader, nil
}

// loader collects batches in a chunk. A full one is sorted, written as a table
// file and ingested on another goroutine, while the next one is filled; so there
// are two, of half the memory each.
//
// The prefix of S4 rests on order: a chunk is ingested, by one record of the
// manifest, only when all before it is in table files of the database itself.
// So what was written to the memtable before is flushed first, and one chunk is
// ingested at a time.
//
// Whoever works on a chunk is inside the store's gate; so when the gate is shut
// nobody works, and the store's Close can free what is left.
type loader struct {
	store *store
	size  int // of a chunk

	filling *chunk     // what batches go to; nil at first and after a full one
	writing *chunk     // the one being written, until wait
	idle    *chunk     // one that is empty
	written chan error // answers when writing is written
	err     error      // why the load has failed
	closed  bool

	// The following belong to who writes a chunk, of whom there is one.
	unflushed bool   // there may be something in the memtable
	dir       string // for table files, "" before the first
	files     int
	relaxed   bool   // compactions are put off
	plainFor  int    // how many more tables are not compressed
	last      []byte // the last key so far
}

// Write implements kvstore.Loader.
func (l *loader) Write(b *kvstore.Batch) error {
	if !l.store.gate.Enter() {
		return l.store.closedErr()
	}
	defer l.store.gate.Leave()
	if l.closed {
		return storeError(l.store.name, fmt.Errorf("load: %w", kvstore.ErrClosed))
	}
	if l.err == nil {
		l.err = l.write(b)
	}
	return l.err
}

func (l *loader) write(b *kvstore.Batch) error {
	if err := b.Err(); err != nil {
		return err
	}
	if b.Len() == 0 {
		return nil
	}
	if l.filling != nil && l.filling.count > 0 && !l.filling.fits(b) {
		if err := l.seal(); err != nil {
			return err
		}
	}
	if batchHeader+chunkBytes(b)+16 > l.size {
		return l.writeAlone(b)
	}
	if l.filling == nil {
		if l.filling, l.idle = l.idle, nil; l.filling == nil {
			var err error
			if l.filling, err = newChunk(l.size); err != nil {
				return storeError(l.store.name, err)
			}
			l.store.loading.Add(int64(l.size))
		}
	}
	l.filling.add(b)
	return nil
}

// writeAlone writes a batch that is larger than a chunk.
func (l *loader) writeAlone(b *kvstore.Batch) error {
	if err := l.wait(); err != nil {
		return err
	}
	return l.plain(b.Encoding())
}

// plain writes to the memtable.
func (l *loader) plain(encoding []byte) error {
	l.unflushed = true
	return l.store.put(encoding)
}

// seal hands the chunk being filled to a goroutine, after the one before.
func (l *loader) seal() error {
	if err := l.wait(); err != nil {
		return err
	}
	c := l.filling
	l.filling, l.writing = nil, c
	l.store.gate.Hold()
	go func() {
		defer l.store.gate.Leave()
		l.written <- l.ingest(c)
	}()
	return nil
}

// wait waits for the chunk being written.
func (l *loader) wait() error {
	if l.writing == nil {
		return nil
	}
	err := <-l.written
	l.writing.reset()
	l.idle, l.writing = l.writing, nil
	return err
}

// ingest makes a chunk part of the database.
func (l *loader) ingest(c *chunk) error {
	s := l.store
	system, data := c.sorted()
	if l.unflushed {
		if err := s.flush(s.engine.shared.wait); err != nil {
			return s.wrap(err)
		}
		l.unflushed = false
	}
	if !l.relaxed {
		l.relaxed = true
		if err := s.relax(true); err != nil {
			return s.wrap(err)
		}
	}
	paths, err := l.tables(c, system, data)
	if err == nil {
		if err = s.heldUp(func() error { return s.native.ingest(paths) }); err != nil {
			err = fmt.Errorf("ingest: %w", err)
		}
	}
	return s.wrap(err)
}

// tables writes a chunk's table files. The store's own entries are beside the data,
// but for data that comes in the order of its keys: there they would make the
// ranges of all files overlap, and without them each goes to the last level
// at once and is never merged.
func (l *loader) tables(c *chunk, system, data []entry) (paths []string, err error) {
	if l.dir == "" {
		if l.dir, err = l.store.engine.dir.scratch(); err != nil {
			return nil, err
		}
	}
	if len(system) == 0 || len(data) == 0 || !l.follows(c, data) {
		path, err := l.table(c, system, data)
		return []string{path}, err
	}
	own, err := l.table(c, system, nil)
	if err != nil {
		return nil, err
	}
	path, err := l.table(c, nil, data)
	return []string{own, path}, err
}

// follows reports whether all keys of data, sorted, come after those so far.
func (l *loader) follows(c *chunk, data []entry) bool {
	first := 0
	for data[first].at == 0 {
		first++
	}
	follows := bytes.Compare(l.last, c.key(data[first])) < 0
	if last := c.key(data[len(data)-1]); bytes.Compare(l.last, last) < 0 {
		l.last = append(l.last[:0], last...)
	}
	return follows
}

// table writes a table file. One that compression does not make smaller is a sign that
// it would be in vain for the next ones too, and it takes a third of the time.
func (l *loader) table(c *chunk, first, second []entry) (path string, err error) {
	options := l.store.engine.shared.options
	if l.plainFor > 0 {
		options = l.store.engine.shared.plain
	}
	l.files++
	path = filepath.Join(l.dir, fmt.Sprintf("%06d.sst", l.files))
	bytes, size, err := table(options, path, c.mem, first, second)
	switch {
	case err != nil:
		err = fmt.Errorf("write of a table file: %w", err)
	case bytes < plainBytes:
	case l.plainFor > 0:
		l.plainFor--
	case size > bytes/8*7:
		l.plainFor = compressEvery - 1
	}
	return path, err
}

// Close implements kvstore.Loader. After the store's Close it answers
// kvstore.ErrClosed if something was dropped.
func (l *loader) Close() error {
	if !l.store.gate.Enter() {
		if l.closed {
			return nil
		}
		l.closed = true
		_ = l.store.shut() // is under way or done; abandon comes before its end
		return l.err
	}
	defer l.store.gate.Leave()
	if l.closed {
		return nil
	}
	l.closed = true
	err := l.finish()
	if freed := l.free(); freed != nil {
		err = errors.Join(err, freed)
	}
	l.store.loader = nil
	return err
}

// finish writes what is held.
func (l *loader) finish() error {
	err := l.wait()
	if l.err != nil {
		return l.err
	}
	if c := l.filling; err == nil && c != nil && c.count > 0 {
		if int64(c.used) <= min(plainBytes, l.store.engine.shared.budget.limit/4) {
			return l.plain(c.batch())
		}
		err = l.ingest(c)
	}
	return err
}

// free gives back what the loader has; nobody works on a chunk.
func (l *loader) free() error {
	for _, c := range []*chunk{l.filling, l.idle} {
		if c != nil {
			c.free()
			l.store.loading.Add(-int64(l.size))
		}
	}
	l.filling, l.idle = nil, nil
	var errs []error
	if l.relaxed {
		l.relaxed = false
		errs = append(errs, l.store.wrap(l.store.relax(false)))
	}
	if l.dir != "" {
		errs = append(errs, os.RemoveAll(l.dir))
		l.dir = ""
	}
	return errors.Join(errs...)
}

// abandon is for the store's Close, in whose gate nobody is any more.
func (l *loader) abandon() {
	if err := l.wait(); l.err == nil {
		l.err = err
	}
	if l.err == nil && l.filling != nil && l.filling.count > 0 {
		l.err = l.store.closedErr()
	}
	l.relaxed = false // the database is being closed
	_ = l.free()
}
