package kvstore

import "github.com/wickerwork/wicker/kvstore/internal/gate"

// memorySnapshot is a store's index as it was.
type memorySnapshot struct {
	store *memoryStore
	at    *ordered
	// gate is shut by Close.
	gate *gate.Gate
}

// Snapshot implements Store.
func (s *memoryStore) Snapshot() (Snapshot, error) {
	if !s.gate.Enter() {
		return nil, s.closedErr()
	}
	defer s.gate.Leave()
	s.snapshots.Add(1)
	return &memorySnapshot{s, s.ordered().snapshot(), gate.New()}, nil
}

// enter reports whether store and snapshot are open; true obliges to leave.
func (s *memorySnapshot) enter() bool {
	if !s.store.gate.Enter() {
		return false
	}
	if s.gate.Enter() {
		return true
	}
	s.store.gate.Leave()
	return false
}

func (s *memorySnapshot) leave() {
	s.gate.Leave()
	s.store.gate.Leave()
}

// Get implements Snapshot.
func (s *memorySnapshot) Get(dst, key []byte) ([]byte, bool, error) {
	if !s.enter() {
		return dst, false, s.store.closedErr()
	}
	defer s.leave()
	it := s.at.find(key)
	if it == nil {
		return dst, false, nil
	}
	return append(dst, it.value...), true, nil
}

// Scan implements Snapshot.
func (s *memorySnapshot) Scan(from, to []byte, visit func(key, value []byte) error) error {
	if !s.enter() {
		return s.store.closedErr()
	}
	defer s.leave()
	return s.at.scan(from, to, visit)
}

// Close implements Snapshot.
func (s *memorySnapshot) Close() {
	if s.gate.Close() {
		s.store.snapshots.Add(-1)
	}
}
