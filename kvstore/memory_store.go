package kvstore

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/wickerwork/wicker/kvstore/internal/gate"
	"github.com/wickerwork/wicker/kvstore/internal/layout"
)

// memoryStore is a map for Get and Put and, from the first Scan on, an ordered
// index of the same items. A task that never scans pays nothing for order.
//
// Snapshots (S6, S13): while a scan runs or a snapshot is open, an item is never
// changed, only replaced, in the map and, copy on write, in the index; the scan
// holds the index as it was. While there is none, items are changed in place and
// their buffers reused.
type memoryStore struct {
	name   string
	gate   *gate.Gate
	once   sync.Once // of shut
	forget func(*memoryStore)

	// Counters for Stats, written by the owner.
	entries, bytes atomic.Int64
	// scans is how many Scans are running, nested in each other's visits. The
	// owner writes it; Close reads it.
	scans atomic.Int32
	// snapshots is how many are open. Whoever closes one writes it too.
	snapshots atomic.Int32

	// The rest is touched inside the gate only, by the owner.
	items       map[string]*item
	index       *ordered // nil until the first Scan
	checkpoints map[string]*int64
	meta        map[string][]byte
}

// item is one entry. key never changes.
type item struct {
	key   string
	value []byte
}

// itemOverhead estimates the bytes of an entry beside key and value: the item,
// its slot in the map, and allocation rounding.
const itemOverhead = 96

func newMemoryStore(name string, forget func(*memoryStore)) *memoryStore {
	return &memoryStore{
		name:        name,
		gate:        gate.New(),
		forget:      forget,
		items:       map[string]*item{},
		checkpoints: map[string]*int64{},
		meta:        map[string][]byte{},
	}
}

func (s *memoryStore) closedErr() error {
	return fmt.Errorf("kvstore: store %q: %w", s.name, ErrClosed)
}

// Get implements Store.
func (s *memoryStore) Get(dst, key []byte) ([]byte, bool, error) {
	if !s.gate.Enter() {
		return dst, false, s.closedErr()
	}
	defer s.gate.Leave()
	it := s.items[string(key)]
	if it == nil {
		return dst, false, nil
	}
	return append(dst, it.value...), true, nil
}

// Scan implements Store.
func (s *memoryStore) Scan(from, to []byte, visit func(key, value []byte) error) error {
	if !s.gate.Enter() {
		return s.closedErr()
	}
	defer s.gate.Leave()
	s.scans.Add(1)
	defer s.scans.Add(-1)
	return s.ordered().snapshot().scan(from, to, visit)
}

// ordered returns the index, which is made when it is first needed.
func (s *memoryStore) ordered() *ordered {
	if s.index == nil {
		s.index = newOrdered(s.items)
	}
	return s.index
}

// Write implements Store. It cannot fail halfway: the only error is the batch's.
func (s *memoryStore) Write(b *Batch) error {
	if !s.gate.Enter() {
		return s.closedErr()
	}
	defer s.gate.Leave()
	if err := b.Err(); err != nil {
		return err
	}
	return b.Each(func(op Op, key, value []byte) error {
		switch op {
		case OpPut:
			s.put(key, value)
		case OpDelete:
			s.remove(key)
		case OpCheckpoint:
			offset, err := layout.Offset(value)
			if err != nil {
				return err
			}
			if at := s.checkpoints[string(key)]; at != nil {
				*at = offset
			} else {
				first := offset
				s.checkpoints[string(key)] = &first
			}
		case OpMeta:
			s.meta[string(key)] = append([]byte{}, value...)
		}
		return nil
	})
}

func (s *memoryStore) put(key, value []byte) {
	old := s.items[string(key)]
	if old != nil && s.scans.Load() == 0 && s.snapshots.Load() == 0 {
		s.bytes.Add(int64(len(value) - len(old.value)))
		if c := cap(old.value); c > 64 && 2*len(value) < c {
			old.value = nil // do not hold much more than the data
		}
		old.value = append(old.value[:0], value...)
		return
	}
	it := &item{value: append([]byte(nil), value...)}
	if old != nil {
		it.key = old.key
		s.bytes.Add(int64(len(value) - len(old.value)))
		s.index.replace(it) // somebody sees the old one, through the index
	} else {
		it.key = string(key)
		s.entries.Add(1)
		s.bytes.Add(int64(len(key) + len(value) + itemOverhead))
		if s.index != nil {
			s.index.insert(it)
		}
	}
	s.items[it.key] = it
}

func (s *memoryStore) remove(key []byte) {
	old := s.items[string(key)]
	if old == nil {
		return
	}
	delete(s.items, old.key)
	s.entries.Add(-1)
	s.bytes.Add(-int64(len(old.key) + len(old.value) + itemOverhead))
	if s.index != nil {
		s.index.remove(old.key)
	}
}

// Checkpoint implements Store.
func (s *memoryStore) Checkpoint(name string) (int64, bool, error) {
	if !s.gate.Enter() {
		return 0, false, s.closedErr()
	}
	defer s.gate.Leave()
	at := s.checkpoints[name]
	if at == nil {
		return 0, false, nil
	}
	return *at, true, nil
}

// Meta implements Store.
func (s *memoryStore) Meta(name string) ([]byte, bool, error) {
	if !s.gate.Enter() {
		return nil, false, s.closedErr()
	}
	defer s.gate.Leave()
	value, ok := s.meta[name]
	if !ok {
		return nil, false, nil
	}
	return append([]byte{}, value...), true, nil
}

// Flush implements Store. There is nothing to flush to.
func (s *memoryStore) Flush() error {
	if !s.gate.Enter() {
		return s.closedErr()
	}
	s.gate.Leave()
	return nil
}

// Stats implements Store. Entries is exact.
func (s *memoryStore) Stats() (Stats, error) {
	if !s.gate.Enter() {
		return Stats{}, s.closedErr()
	}
	defer s.gate.Leave()
	return Stats{Entries: s.entries.Load(), MemoryBytes: s.bytes.Load()}, nil
}

// Close implements Store.
func (s *memoryStore) Close() error {
	if s.scans.Load() > 0 {
		return fmt.Errorf("kvstore: store %q: close during a scan: %w", s.name, ErrInUse)
	}
	err := s.shut()
	s.forget(s)
	return err
}

// shut closes without telling the engine.
func (s *memoryStore) shut() error {
	s.once.Do(func() {
		s.gate.Close()
		// Nobody is inside any more, and nobody will be.
		s.items, s.index, s.checkpoints, s.meta = nil, nil, nil, nil
	})
	return nil
}

// Load implements Store. There is nothing to gain here by waiting.
func (s *memoryStore) Load(int64) (Loader, error) {
	if !s.gate.Enter() {
		return nil, s.closedErr()
	}
	defer s.gate.Leave()
	return &memoryLoader{store: s}, nil
}

// memoryLoader writes batches as they come.
type memoryLoader struct {
	store  *memoryStore
	closed bool
}

// Write implements Loader.
func (l *memoryLoader) Write(b *Batch) error {
	if l.closed {
		return l.store.closedErr()
	}
	return l.store.Write(b)
}

// Close implements Loader.
func (l *memoryLoader) Close() error {
	l.closed = true
	return nil
}
