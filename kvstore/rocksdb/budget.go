//go:build cgo

package rocksdb

// The write budget bounds the unflushed writes of all stores together. RocksDB's
// own write buffer manager does that too, but the C API of 7.8 does not have it.
//
// After each write the store's memtables are measured. When those being written
// to pass half of the limit over all stores, the largest is flushed in the
// background; when all of them, with those already being flushed, pass the limit,
// the writer waits for it.
type budget struct {
	limit int64
	// Sums over the stores' held. Guarded, like those, by Engine.mu.
	active, all int64
}

// held is what one store's memtables took when last measured: the one being
// written to, and all.
type held struct{ active, all int64 }

// smallMemtable is not worth a flush: with very many stores the budget is
// passed rather than every write flushed.
const smallMemtable = 32 << 10

func (b *budget) over() bool { return b.active > b.limit/2 || b.all > b.limit }

// measureLocked notes what the store holds now. The caller is inside its gate
// and has Engine.mu.
func (b *budget) measureLocked(s *store) {
	active, all := s.native.memory()
	b.setLocked(s, held{active, all})
}

func (b *budget) setLocked(s *store, h held) {
	b.active += h.active - s.held.active
	b.all += h.all - s.held.all
	s.held = h
}

// wrote keeps to the budget after a write to s. A flush that fails is not an
// error of this write: RocksDB answers the next one to that store with it.
func (e *Engine) wrote(s *store) {
	victim, wait := e.overBudget(s)
	if victim == nil {
		return
	}
	defer victim.gate.Leave()
	options := e.shared.noWait
	if wait {
		options = e.shared.wait
	}
	_ = victim.flush(options)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shared.budget.measureLocked(victim)
}

// overBudget returns the store to flush, entered, or nil; and whether to wait
// for it.
func (e *Engine) overBudget(wrote *store) (victim *store, wait bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := &e.shared.budget
	if b.measureLocked(wrote); !b.over() {
		return nil, false
	}
	// Others were flushed by RocksDB since they were measured.
	for _, s := range e.stores {
		if s == nil || !s.gate.Enter() {
			continue
		}
		b.measureLocked(s)
		if s.held.active > smallMemtable && (victim == nil || s.held.active > victim.held.active) {
			s, victim = victim, s
		}
		if s != nil {
			s.gate.Leave()
		}
	}
	if victim != nil && !b.over() {
		victim.gate.Leave()
		victim = nil
	}
	return victim, b.all > b.limit
}

// released forgets a store that is closed.
func (e *Engine) released(s *store) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shared.budget.setLocked(s, held{})
	delete(e.stores, s.name)
}
