//go:build cgo

package rocksdb

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/linxGnu/grocksdb"

	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/kvstore/internal/gate"
	"github.com/wickerwork/wicker/kvstore/internal/layout"
)

// store is one RocksDB with one column family and no write-ahead log: the
// changelog is that. A batch goes whole into one memtable, memtables are flushed
// in order, and a flush is published by one manifest record; so a crash loses a
// suffix of the batches and never part of one (S3, S4).
type store struct {
	name   string
	engine *Engine
	// gate is shut before the database is closed; who is inside may use it.
	gate *gate.Gate
	once sync.Once // of shut
	// scans is how many Scans are running, nested in each other's visits. The
	// owner writes it; Close reads it.
	scans atomic.Int32
	// calls are those that RocksDB may hold up.
	calls calls
	// freeing guards the database against being freed under a look at it.
	freeing sync.Mutex
	// held is what the write budget last heard of this store, guarded by
	// engine.mu.
	held held

	db     *grocksdb.DB
	native native
	// snapshots are those that are open.
	snapshots snapshots

	// loader is the open load, nil if there is none. Owner, and Close when nobody
	// is inside.
	loader *loader
	// loading is the memory it has.
	loading atomic.Int64

	// Scratch of the owner. buf is nil while a scan uses it.
	key, spare, buf []byte
}

const (
	spareBytes = 1 << 10
	scanBytes  = 32 << 10
)

func newStore(name string, e *Engine, db *grocksdb.DB, n native) *store {
	return &store{name: name, engine: e, gate: gate.New(), calls: calls{seen: -1}, db: db, native: n, spare: make([]byte, 0, spareBytes)}
}

// mark is the value of the format mark: format and name of the store.
func mark(name string) string { return markPrefix + "1\n" + name }

const markPrefix = "wicker store, format "

// checkMark checks that the database is this store, and marks it if it is new
// (S12).
func (s *store) checkMark(path string) (fresh bool, err error) {
	key := layout.AppendSystem(nil, layout.Format, "")
	got, found, err := s.native.get(nil, key, nil)
	if err != nil {
		return false, err
	}
	want := mark(s.name)
	if found && string(got) == want {
		return false, nil
	}
	foreign := &kvstore.FormatError{Dir: path, Want: strings.ReplaceAll(want, "\n", ", name ")}
	if found {
		foreign.Found = "something else"
		if strings.HasPrefix(string(got), markPrefix) {
			foreign.Found = strings.ReplaceAll(string(got), "\n", ", name ")
		}
		return false, foreign
	}
	empty, err := s.native.empty()
	if err != nil {
		return false, err
	}
	if !empty {
		foreign.Found = "a RocksDB of something else"
		return false, foreign
	}
	// No flush: lost in a crash, the mark leaves an empty database, which is
	// marked again.
	return true, s.native.write(putEncoding(key, want))
}

// putEncoding is the encoding of a batch (kvstore.Batch) that puts a key as it
// stands, which no method of Batch does.
func putEncoding(key []byte, value string) []byte {
	b := make([]byte, 12, 64)
	b[8] = 1 // entry
	b = append(b, 0x01)
	b = append(binary.AppendUvarint(b, uint64(len(key))), key...)
	return append(binary.AppendUvarint(b, uint64(len(value))), value...)
}

func (s *store) closedErr() error { return storeError(s.name, kvstore.ErrClosed) }

// wrap adds the store's name to an error of RocksDB.
func (s *store) wrap(err error) error {
	if err == nil {
		return nil
	}
	return s.engine.fault(s.name, err)
}

// Get implements kvstore.Store.
func (s *store) Get(dst, key []byte) ([]byte, bool, error) {
	if !s.gate.Enter() {
		return dst, false, s.closedErr()
	}
	defer s.gate.Leave()
	s.key = layout.AppendData(s.key[:0], key)
	value, found, err := s.native.get(dst, s.key, s.spare)
	return value, found, s.wrap(err)
}

// Scan implements kvstore.Store.
func (s *store) Scan(from, to []byte, visit func(key, value []byte) error) error {
	if !s.gate.Enter() {
		return s.closedErr()
	}
	defer s.gate.Leave()
	s.scans.Add(1)
	defer s.scans.Add(-1)

	buf := s.buf
	s.buf = nil
	if buf == nil {
		buf = make([]byte, scanBytes)
	}
	buf, stop, err := s.native.scanData(from, to, buf, visit)
	if len(buf) <= 4*scanBytes {
		s.buf = buf
	}
	if stop != nil {
		return stop
	}
	return s.wrap(err)
}

// scanData is scan of keys as users know them; a nil to is open.
func (n *native) scanData(from, to, buf []byte, visit func(key, value []byte) error) (scratch []byte, stop, err error) {
	bounds := layout.AppendData(make([]byte, 0, 64), from)
	at := len(bounds)
	if to == nil {
		bounds = append(bounds, layout.DataEnd)
	} else {
		bounds = layout.AppendData(bounds, to)
	}
	return n.scan(bounds[:at:at], bounds[at:], buf, visit)
}

// Write implements kvstore.Store.
func (s *store) Write(b *kvstore.Batch) error {
	if !s.gate.Enter() {
		return s.closedErr()
	}
	defer s.gate.Leave()
	if err := b.Err(); err != nil {
		return err
	}
	if b.Len() == 0 {
		return nil
	}
	return s.put(b.Encoding())
}

// put writes an encoded batch.
func (s *store) put(encoding []byte) error {
	if err := s.heldUp(func() error { return s.native.write(encoding) }); err != nil {
		return s.wrap(err)
	}
	s.engine.wrote(s)
	return nil
}

// system reads a value of the store's own.
func (s *store) system(kind byte, name string) ([]byte, bool, error) {
	if !s.gate.Enter() {
		return nil, false, s.closedErr()
	}
	defer s.gate.Leave()
	s.key = layout.AppendSystem(s.key[:0], kind, name)
	value, found, err := s.native.get([]byte{}, s.key, s.spare)
	if !found {
		value = nil
	}
	return value, found, s.wrap(err)
}

// Checkpoint implements kvstore.Store.
func (s *store) Checkpoint(name string) (int64, bool, error) {
	value, found, err := s.system(layout.Checkpoint, name)
	if err != nil || !found {
		return 0, false, err
	}
	offset, err := layout.Offset(value)
	if err != nil {
		return 0, false, s.wrap(fmt.Errorf("checkpoint %q: %w: %w", name, err, kvstore.ErrCorrupt))
	}
	return offset, true, nil
}

// Meta implements kvstore.Store.
func (s *store) Meta(name string) ([]byte, bool, error) { return s.system(layout.Meta, name) }

// Flush implements kvstore.Store.
func (s *store) Flush() error {
	if !s.gate.Enter() {
		return s.closedErr()
	}
	defer s.gate.Leave()
	return s.wrap(s.flush(s.engine.shared.wait))
}

func (s *store) flush(options *grocksdb.FlushOptions) error {
	return s.heldUp(func() error {
		if err := s.db.Flush(options); err != nil {
			return fmt.Errorf("flush: %w", statusError(err.Error()))
		}
		return nil
	})
}

// relax puts off compactions during a load, or ends that. It is not kept: a
// database that is opened has the options it is opened with.
func (s *store) relax(on bool) error {
	trigger, base := compactAt, levelBase
	if on {
		// Level 0 is also merged when it is larger than the level below may be.
		trigger, base = compactAtInLoad, math.MaxInt64/4
	}
	err := s.db.SetOptions(
		[]string{"level0_file_num_compaction_trigger", "max_bytes_for_level_base"},
		[]string{strconv.Itoa(trigger), strconv.Itoa(base)})
	if err != nil {
		return fmt.Errorf("set options: %w", statusError(err.Error()))
	}
	return nil
}

const (
	// compactAt is how many files of level 0, which overlap, are merged into the
	// levels below; levelBase what the level below may hold. Both are RocksDB's
	// defaults.
	compactAt = 4
	levelBase = 256 << 20
	// compactAtInLoad is the same during a load.
	compactAtInLoad = 64
	// slowAt is when writes are slowed down, lest files become more and more.
	slowAt = 4 * compactAtInLoad
)

// Stats implements kvstore.Store. Entries is RocksDB's estimate, which counts an
// overwritten key more than once until files are merged, and DiskBytes lags
// behind by what is not flushed.
func (s *store) Stats() (kvstore.Stats, error) {
	if !s.gate.Enter() {
		return kvstore.Stats{}, s.closedErr()
	}
	defer s.gate.Leave()
	_, all := s.native.memory()
	keys, _ := s.db.GetIntProperty("rocksdb.estimate-num-keys")
	disk, _ := s.db.GetIntProperty("rocksdb.live-sst-files-size")
	return kvstore.Stats{
		Entries:     max(0, int64(keys)-1), // the format mark
		MemoryBytes: all + s.loading.Load(),
		DiskBytes:   int64(disk),
	}, nil
}

// Close implements kvstore.Store.
func (s *store) Close() error {
	if s.scans.Load() > 0 {
		return storeError(s.name, fmt.Errorf("close during a scan: %w", kvstore.ErrInUse))
	}
	return s.shut()
}

// shut closes the database once; others wait for that.
func (s *store) shut() error {
	var err error
	s.once.Do(func() {
		s.gate.Close()
		if s.loader != nil {
			s.loader.abandon()
		}
		s.snapshots.releaseAll()
		err = s.wrap(s.flush(s.engine.shared.wait))
		s.free()
		s.engine.released(s)
	})
	return err
}

// free gives up the database without a flush of ours.
func (s *store) free() {
	s.freeing.Lock()
	defer s.freeing.Unlock()
	s.native.destroy()
	s.db.Close()
}
