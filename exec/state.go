package exec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/topology"
)

// entryOverhead is what an entry costs beside its key and value: struct, map slot, ring slot.
const entryOverhead = 160

// state is the stores of one task: the engine's store below, and above it in memory what the
// engine may not have yet. It belongs to the task's goroutine.
//
// A value travels down in four steps, and the engine is never ahead of the committed changelog (E4):
//
//	open       written by the transaction in process (entry.dirty)
//	in flight  written by the transaction that is being committed (entry.inflight)
//	pending    committed, not in the engine yet (entry.pending)
//	clean      as the engine has it; evicted when memory is short
//
// An entry may be in several steps at once: base then holds the value that the open
// transaction began with, which is the one in flight or pending.
type state struct {
	db     kvstore.Store
	stores []*store
	// limit bounds the bytes of entries, as far as entries that the engine does not have allow.
	limit, used int64
	// sweepAt is the bytes at which lookup evicts again after it could not get below limit: going round for each
	// new key would take as long as there are entries.
	sweepAt int64
	// pendingBytes is the part of used that flush would write.
	pendingBytes int64
	// openBytes is the size of the entries that the open transaction has changed.
	openBytes int64
	// synced is what the engine's label gets with the next batch, see storeLabel.
	synced time.Time
	// durableAt is when the engine's files had that at the latest: what is written later may be in its memory alone.
	durableAt time.Time
	label     []byte
	batch     kvstore.Batch
	ring      []*entry // every entry, in the order the eviction hand visits
	hand      int
}

// store is one named store of a task. It implements ops.Store.
type store struct {
	*state
	spec    topology.StoreSpec
	prefix  []byte
	entries *index
	last    *entry // the entry looked up last
	dirty   []*entry
	// inflight are the entries that the transaction being committed has changed.
	inflight []*entry
	pending  []*entry
	dbKey    []byte
	dbValue  []byte
	// changelog is where sealed values go, nil before the first.
	changelog *output
	// checkpoint is the offset after the last committed changelog record, changelogID the topic's that it is of.
	checkpoint  int64
	changelogID commitlog.TopicID
	// logged says that the changelog holds something.
	logged bool
	// most is the bytes that a record of the changelog may have, bound what sets that; see sizes.go.
	most   int
	bound  string
	sizes  StoreStats
	warned time.Time
}

// entry is one key. Values are immutable: a write replaces the slice.
type entry struct {
	hash      uint64
	key       []byte
	cur, base []byte
	slot      int // in ring
	store     *store
	dirty     bool
	inflight  bool
	pending   bool
	used      bool // since the hand last passed
}

// Parts of a task's share of StateMemory: what the open transaction may change before it closes by itself, what may wait for the
// engine, and how much there is to be above the limit before the eviction hand goes around again.
const (
	openShare  = 2
	flushShare = 4
	sweepShare = 8
)

// inlineKey is the size up to which a key lies within its entry, beside what is read with it.
const inlineKey = 24

// newEntry returns an entry for a copy of the key.
func newEntry(key []byte) *entry {
	if len(key) > inlineKey {
		return &entry{key: append([]byte(nil), key...)}
	}
	e := &struct {
		entry
		buf [inlineKey]byte
	}{}
	e.key = append(e.buf[:0:len(key)], key...)
	return &e.entry
}

func newState(db kvstore.Store, specs []topology.StoreSpec, limit int64) *state {
	s := &state{db: db, limit: limit}
	for _, spec := range specs {
		st := &store{state: s, spec: spec, entries: newIndex()}
		st.prefix = append(binary.AppendUvarint(nil, uint64(len(spec.Name))), spec.Name...)
		s.stores = append(s.stores, st)
	}
	return s
}

// store returns the store of that name, nil if there is none.
func (s *state) store(name string) *store {
	for _, st := range s.stores {
		if st.spec.Name == name {
			return st
		}
	}
	return nil
}

// of returns the store whose changelog the topic is, nil if there is none.
func (s *state) of(changelog string) *store {
	for _, st := range s.stores {
		if st.spec.Changelog == changelog {
			return st
		}
	}
	return nil
}

// Get implements ops.Store.
func (s *store) Get(key []byte) ([]byte, error) {
	e, err := s.lookup(key)
	if err != nil {
		return nil, err
	}
	return e.cur, nil
}

// Put implements ops.Store.
func (s *store) Put(key, value []byte) error {
	if err := s.tooLarge(key, value); err != nil {
		return err
	}
	e, err := s.lookup(key)
	if err != nil {
		return err
	}
	if !e.dirty {
		e.dirty, e.base = true, e.cur
		s.dirty = append(s.dirty, e)
		s.openBytes += int64(len(key) + len(value) + entryOverhead)
	} else {
		s.openBytes += int64(len(value) - len(e.cur))
	}
	s.used += int64(len(value) - len(e.cur))
	if value == nil {
		e.cur = nil
		return nil
	}
	e.cur = append(make([]byte, 0, len(value)), value...)
	return nil
}

// lookup returns the key's entry, from the engine if memory does not have it. A key without a value has an
// entry too, so that it is looked for once.
func (s *store) lookup(key []byte) (*entry, error) {
	if e := s.last; e != nil && string(e.key) == string(key) {
		return e, nil
	}
	hash := s.entries.hash(key)
	e := s.entries.find(hash, key)
	if e == nil {
		value, found, err := s.db.Get(s.dbValue[:0], s.toDB(key))
		if err != nil {
			return nil, fmt.Errorf("store %s: %w", s.spec.Name, err)
		}
		e = newEntry(key)
		e.hash, e.store = hash, s
		if found {
			e.cur = append(make([]byte, 0, len(value)), value...)
			s.dbValue = value
		}
		s.entries.add(e)
		e.slot = len(s.ring)
		s.ring = append(s.ring, e)
		s.used += int64(len(e.key) + len(e.cur) + entryOverhead)
		if s.used > max(s.limit, s.sweepAt) {
			s.evict(e)
		}
	}
	e.used = true
	s.last = e
	return e, nil
}

func (s *store) toDB(key []byte) []byte {
	s.dbKey = append(append(s.dbKey[:0], s.prefix...), key...)
	return s.dbKey
}

// evict drops clean entries other than keep, those not used since the hand last passed
// first, until memory is below its limit or the hand has been around twice.
func (s *state) evict(keep *entry) {
	for steps := 2 * len(s.ring); steps > 0 && s.used > s.limit; steps-- {
		if s.hand >= len(s.ring) {
			s.hand = 0
		}
		e := s.ring[s.hand]
		switch {
		case e == keep || e.dirty || e.inflight || e.pending:
			s.hand++
		case e.used:
			e.used = false
			s.hand++
		default:
			last := s.ring[len(s.ring)-1]
			s.ring[e.slot], last.slot = last, e.slot
			s.ring = s.ring[:len(s.ring)-1]
			e.store.entries.remove(e)
			if e.store.last == e {
				e.store.last = nil
			}
			s.used -= int64(len(e.key) + len(e.cur) + entryOverhead)
		}
	}
	s.sweepAt = 0
	if s.used > s.limit {
		s.sweepAt = s.used + s.limit/sweepShare
	}
}

// seal ends the open transaction on the state's side: what it changed, compared with what was
// committed before, is in flight from now on and handed to visit, one final value a key
// (TX-12); a key that came back to its old value is not. Nothing may be in flight already.
func (s *state) seal(visit func(st *store, key, value []byte) error) error {
	for _, st := range s.stores {
		for _, e := range st.dirty {
			changed := !bytes.Equal(e.cur, e.base) || (e.cur == nil) != (e.base == nil)
			e.dirty, e.base = false, nil
			if !changed {
				continue
			}
			e.inflight = true
			st.inflight = append(st.inflight, e)
			if err := visit(st, e.key, e.cur); err != nil {
				return err
			}
		}
		clear(st.dirty)
		st.dirty = st.dirty[:0]
	}
	s.openBytes = 0
	return nil
}

// committed notes that the transaction in flight has committed; ends holds the offset after
// its last record by partition, offsets what it has committed of the input. It was closed at that time, when nobody else can have written to the changelogs
// yet: a process that was paused since may find that others have.
func (s *state) committed(ends, offsets map[commitlog.TopicPartition]int64, partition int32, at time.Time) {
	s.synced = at
	for _, st := range s.stores {
		for _, e := range st.inflight {
			e.inflight = false
			if !e.pending {
				e.pending = true
				st.pending = append(st.pending, e)
				s.pendingBytes += int64(len(e.key) + len(e.cur) + entryOverhead)
			}
		}
		clear(st.inflight)
		st.inflight = st.inflight[:0]
		logged := ends
		if st.spec.Source {
			logged = offsets
		}
		if end, ok := logged[commitlog.TopicPartition{Topic: st.spec.Changelog, Partition: partition}]; ok {
			st.checkpoint = end
		}
	}
}

// flush writes what is committed to the engine, with the checkpoints, in one batch (E4).
// Nothing may be in flight: all that the changelogs had when the last transaction closed is then in the engine.
func (s *state) flush(now time.Time) error {
	s.batch.Reset()
	for _, st := range s.stores {
		for _, e := range st.pending {
			value := e.cur
			if e.dirty {
				value = e.base
			}
			e.pending = false
			if value == nil {
				s.batch.Delete(st.toDB(e.key))
			} else {
				s.batch.Put(st.toDB(e.key), value)
			}
		}
		if len(st.pending) > 0 {
			s.batch.SetCheckpoint(st.spec.Changelog, st.checkpoint)
		}
		clear(st.pending)
		st.pending = st.pending[:0]
	}
	s.pendingBytes = 0
	if s.batch.Len() == 0 {
		return nil
	}
	s.writeLabel(&s.batch)
	if err := s.db.Write(&s.batch); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if now.Sub(s.durableAt) >= durableInterval {
		if err := s.persist(now); err != nil {
			return err
		}
	}
	if s.used > s.limit {
		s.evict(nil)
	}
	return nil
}

// persist makes what the engine has durable. Otherwise a store with little to write might have nothing of it in its
// files for days, and after a crash be too old for the deletions that its changelog still has.
func (s *state) persist(now time.Time) error {
	if err := s.db.Flush(); err != nil {
		return fmt.Errorf("flush state: %w", err)
	}
	s.durableAt = now
	return nil
}

// anyInflight says whether a transaction's state waits for its outcome.
func (s *state) anyInflight() bool {
	for _, st := range s.stores {
		if len(st.inflight) > 0 {
			return true
		}
	}
	return false
}

// crowded says whether the open transaction has changed so much that it has to close.
func (s *state) crowded() bool { return s.openBytes > s.limit/openShare }

// writeLabel adds the engine's label to a batch.
func (s *state) writeLabel(b *kvstore.Batch) {
	s.label = appendLabel(s.label[:0], s.synced, s.stores)
	b.SetMeta(labelName, s.label)
}
