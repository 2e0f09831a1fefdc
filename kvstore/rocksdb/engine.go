//go:build cgo

package rocksdb

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/linxGnu/grocksdb"

	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/kvstore/internal/gate"
)

// Engine keeps each store in a RocksDB of its own below one directory. It is
// safe for concurrent use; make one with New.
type Engine struct {
	opts Options
	// gate is shut by Close and waits for calls in flight on the engine.
	gate  *gate.Gate
	close sync.Once

	// mu guards the following. It is not held during calls of RocksDB that
	// touch files, and may be taken by a store's owner.
	mu     sync.Mutex
	dir    *directory // nil before Open
	shared *shared    // nil before Open
	stores map[string]*store
	watch  *watch // nil before Open
}

var _ kvstore.Engine = (*Engine)(nil)

// New returns an engine with these options. It does nothing yet: Open validates
// them.
func New(opts Options) *Engine {
	return &Engine{opts: opts, gate: gate.New(), stores: map[string]*store{}}
}

var (
	errClosed  = fmt.Errorf("rocksdb: engine: %w", kvstore.ErrClosed)
	errNotOpen = fmt.Errorf("rocksdb: engine not opened: %w", kvstore.ErrClosed)
)

// Open implements kvstore.Engine. Its errors are of the options, of the
// directory, *kvstore.LockedError and *kvstore.FormatError.
func (e *Engine) Open() error {
	if !e.gate.Enter() {
		return errClosed
	}
	defer e.gate.Leave()
	if err := e.opts.Validate(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dir != nil {
		return nil
	}
	shared, err := newShared(e.opts.withDefaults())
	if err != nil {
		return fmt.Errorf("rocksdb: %w", err)
	}
	dir, err := openDirectory(e.opts.Dir)
	if err != nil {
		shared.destroy()
		return fmt.Errorf("rocksdb: %w", err)
	}
	e.dir, e.shared = dir, shared
	e.watch = e.startWatch()
	return nil
}

// enter begins a call on the open engine; nil obliges to call gate.Leave.
func (e *Engine) enter() error {
	if !e.gate.Enter() {
		return errClosed
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dir == nil {
		e.gate.Leave()
		return errNotOpen
	}
	return nil
}

// reserve takes the name for a call, so that mu need not be held while files
// are opened or deleted. The caller puts a store there or forgets the name.
func (e *Engine) reserve(name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, taken := e.stores[name]; taken {
		return storeError(name, kvstore.ErrInUse)
	}
	e.stores[name] = nil
	return nil
}

func (e *Engine) forget(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.stores, name)
}

func storeError(name string, err error) error {
	return fmt.Errorf("rocksdb: store %q: %w", name, err)
}

// fault is storeError for what RocksDB answered: of damage and a full disk it
// tells the remedy.
func (e *Engine) fault(name string, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("%w; make room on the file system of state directory %s and start again, nothing is lost", err, e.opts.Dir)
	}
	if entry, nameErr := dirName(name); nameErr == nil && errors.Is(err, kvstore.ErrCorrupt) {
		err = fmt.Errorf("%w; delete %s to have it rebuilt from its changelog", err, e.dir.store(entry))
	}
	return storeError(name, err)
}

// OpenStore implements kvstore.Engine.
func (e *Engine) OpenStore(name string) (kvstore.Store, error) {
	if err := e.enter(); err != nil {
		return nil, err
	}
	defer e.gate.Leave()
	entry, err := dirName(name)
	if err != nil {
		return nil, fmt.Errorf("rocksdb: %w", err)
	}
	if err := e.reserve(name); err != nil {
		return nil, err
	}
	s, err := e.openStore(name, entry)
	if err != nil {
		e.forget(name)
		return nil, e.fault(name, fmt.Errorf("in state directory %s: %w", e.opts.Dir, err))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stores[name] = s
	return s, nil
}

func (e *Engine) openStore(name, entry string) (*store, error) {
	db, n, err := openDB(e.shared.options, e.dir.store(entry))
	if err != nil {
		return nil, err
	}
	s := newStore(name, e, db, n)
	fresh, err := s.checkMark(e.dir.store(entry))
	if err == nil && fresh {
		// The directory entry of the new database (S4).
		err = syncDir(e.dir.store(""))
	}
	if err != nil {
		s.free()
		return nil, err
	}
	return s, nil
}

// Stores implements kvstore.Engine.
func (e *Engine) Stores() ([]string, error) {
	if err := e.enter(); err != nil {
		return nil, err
	}
	defer e.gate.Leave()
	names, err := e.dir.names()
	if err != nil {
		return nil, fmt.Errorf("rocksdb: %w", err)
	}
	return names, nil
}

// DestroyStore implements kvstore.Engine.
func (e *Engine) DestroyStore(name string) error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	entry, err := dirName(name)
	if err != nil {
		return fmt.Errorf("rocksdb: %w", err)
	}
	if err := e.reserve(name); err != nil {
		return err
	}
	defer e.forget(name)
	if err := e.dir.remove(entry); err != nil {
		return storeError(name, err)
	}
	return nil
}

// open returns the stores that are open.
func (e *Engine) open() []*store {
	e.mu.Lock()
	defer e.mu.Unlock()
	open := make([]*store, 0, len(e.stores))
	for _, s := range e.stores {
		if s != nil {
			open = append(open, s)
		}
	}
	return open
}

// closers is how many stores Close closes at once. Closing is mostly waiting
// for a flush.
const closers = 8

// Close implements kvstore.Engine. It must not be called from within a Scan's
// visit function, for which it would wait.
func (e *Engine) Close() error {
	var err error
	e.close.Do(func() { err = e.shut() })
	return err
}

func (e *Engine) shut() error {
	e.gate.Close()
	// No call is in flight and none will be, so every name has its store. Those
	// that their owners close right now are still listed.
	open := e.open()
	e.mu.Lock()
	dir, shared, watch := e.dir, e.shared, e.watch
	e.mu.Unlock()

	errs := make([]error, len(open), len(open)+1)
	var wg sync.WaitGroup
	slots := make(chan struct{}, closers)
	for i, s := range open {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = s.shut()
		})
	}
	wg.Wait()
	if dir == nil {
		return nil
	}
	watch.end()
	shared.destroy()
	if err := dir.close(); err != nil {
		errs = append(errs, fmt.Errorf("rocksdb: state directory %s: %w", e.opts.Dir, err))
	}
	return errors.Join(errs...)
}

// MemoryBytes returns what RocksDB reports to hold for all stores together: the
// block cache and unflushed writes. 0 if the engine is not open.
func (e *Engine) MemoryBytes() int64 {
	if e.enter() != nil {
		return 0
	}
	defer e.gate.Leave()
	e.mu.Lock()
	defer e.mu.Unlock()
	sum := int64(e.shared.cache.GetUsage())
	for _, s := range e.stores {
		if s != nil && s.gate.Enter() {
			_, all := s.native.memory()
			sum += all
			s.gate.Leave()
		}
	}
	return sum
}

// noInfoLog is above all levels of RocksDB's messages.
const noInfoLog grocksdb.InfoLogLevel = 6

// shared is what the stores of an engine have in common, in C memory.
type shared struct {
	options *grocksdb.Options
	plain   *grocksdb.Options      // the same without compression
	wait    *grocksdb.FlushOptions // for a flush that is waited for
	noWait  *grocksdb.FlushOptions // for one that is not
	cache   *grocksdb.Cache
	table   *grocksdb.BlockBasedTableOptions
	budget  budget
}

func newShared(o Options) (*shared, error) {
	// Closing a database and ending its background work would else flush, and wait for it, which in a store that
	// is stalled is for ever. A store that is closed in order has flushed before.
	base := grocksdb.NewDefaultOptions()
	defer base.Destroy()
	options, err := grocksdb.GetOptionsFromString(base, "avoid_flush_during_shutdown=true")
	if err != nil {
		return nil, err
	}
	s := &shared{
		options: options,
		wait:    grocksdb.NewDefaultFlushOptions(),
		noWait:  grocksdb.NewDefaultFlushOptions(),
		cache:   grocksdb.NewLRUCache(uint64(o.MemoryBytes - o.WriteBufferBytes)),
		table:   grocksdb.NewDefaultBlockBasedTableOptions(),
		budget:  budget{limit: o.WriteBufferBytes},
	}
	s.wait.SetWait(true)
	s.noWait.SetWait(false)

	// Indexes and filters are in the cache like blocks, so that they are within
	// the budget however many files there are.
	s.table.SetBlockCache(s.cache)
	s.table.SetCacheIndexAndFilterBlocks(true)
	s.table.SetCacheIndexAndFilterBlocksWithHighPriority(true)
	s.table.SetPinL0FilterAndIndexBlocksInCache(true)
	s.table.SetFilterPolicy(grocksdb.NewBloomFilterFull(10))
	s.table.SetFormatVersion(5)

	buffer := uint64(o.writeBufferBytes())
	s.options.SetCreateIfMissing(true)
	s.options.SetBlockBasedTableFactory(s.table)
	s.options.SetCompression(grocksdb.LZ4Compression)
	s.options.SetLevelCompactionDynamicLevelBytes(true)
	s.options.SetWriteBufferSize(buffer)
	// One being written and one being flushed; then writes wait.
	s.options.SetMaxWriteBufferNumber(2)
	// What a store takes with its first write: small, as there are many stores.
	s.options.SetArenaBlockSize(min(buffer/8, 256<<10))
	s.options.SetAllowConcurrentMemtableWrites(false) // a store has one writer
	s.options.SetMaxBackgroundJobs(2)
	// A load leaves many files of level 0. Later writes need not wait until they
	// are merged.
	s.options.SetMaxBytesForLevelBase(levelBase)
	s.options.SetLevel0FileNumCompactionTrigger(compactAt)
	s.options.SetLevel0SlowdownWritesTrigger(slowAt)
	s.options.SetLevel0StopWritesTrigger(2 * slowAt)
	// Opening a store is mostly overhead: 16 threads to open a few files, and
	// 4 MB reserved for a manifest of some kB.
	s.options.SetMaxFileOpeningThreads(2)
	s.options.SetManifestPreallocationSize(64 << 10)
	// No info log, and nothing that is written by the clock. The log's file writer
	// aborts the process, in a build with assertions like Debian's, on the line
	// after one that a full disk refused. What it would say is in the errors.
	s.options.SetInfoLogLevel(noInfoLog)
	s.options.SetKeepLogFileNum(1)
	s.options.SetStatsDumpPeriodSec(0)
	s.options.SetStatsPersistPeriodSec(0)
	s.plain = s.options.Clone()
	s.plain.SetCompression(grocksdb.NoCompression)
	return s, nil
}

// destroy frees all of it, after the last store is closed.
func (s *shared) destroy() {
	s.options.Destroy()
	s.plain.Destroy()
	s.wait.Destroy()
	s.noWait.Destroy()
	s.table.Destroy()
	s.cache.Destroy()
}
