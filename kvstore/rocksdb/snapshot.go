//go:build cgo

package rocksdb

import (
	"sync"

	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/kvstore/internal/gate"
	"github.com/wickerwork/wicker/kvstore/internal/layout"
)

// snapshot is a store as it was. Who is inside its gate is inside the store's too, so the
// database is there.
type snapshot struct {
	store *store
	gate  *gate.Gate
	// at is given up when it leaves the store's snapshots.
	at native
}

// snapshots are the open ones of a store.
type snapshots struct {
	mu   sync.Mutex
	open map[*snapshot]struct{}
}

// scratch is what a read of a snapshot needs for itself.
type scratch struct{ key, spare, buf []byte }

var scratches = sync.Pool{New: func() any { return &scratch{spare: make([]byte, 0, spareBytes)} }}

// Snapshot implements kvstore.Store.
func (s *store) Snapshot() (kvstore.Snapshot, error) {
	if !s.gate.Enter() {
		return nil, s.closedErr()
	}
	defer s.gate.Leave()
	snap := &snapshot{store: s, gate: gate.New(), at: s.native.snapshot()}
	s.snapshots.mu.Lock()
	defer s.snapshots.mu.Unlock()
	if s.snapshots.open == nil {
		s.snapshots.open = map[*snapshot]struct{}{}
	}
	s.snapshots.open[snap] = struct{}{}
	return snap, nil
}

// release gives one up, if nobody has. Nobody is inside it.
func (o *snapshots) release(s *snapshot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, open := o.open[s]; open {
		delete(o.open, s)
		s.at.release()
	}
}

// releaseAll gives up those that their users have not. Nobody is inside the store.
func (o *snapshots) releaseAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s := range o.open {
		s.at.release()
	}
	o.open = nil
}

// enter reports whether store and snapshot are open; true obliges to leave.
func (s *snapshot) enter() bool {
	if !s.store.gate.Enter() {
		return false
	}
	if s.gate.Enter() {
		return true
	}
	s.store.gate.Leave()
	return false
}

func (s *snapshot) leave() {
	s.gate.Leave()
	s.store.gate.Leave()
}

// Get implements kvstore.Snapshot.
func (s *snapshot) Get(dst, key []byte) ([]byte, bool, error) {
	if !s.enter() {
		return dst, false, s.store.closedErr()
	}
	defer s.leave()
	own := scratches.Get().(*scratch)
	defer scratches.Put(own)
	own.key = layout.AppendData(own.key[:0], key)
	value, found, err := s.at.get(dst, own.key, own.spare)
	return value, found, s.store.wrap(err)
}

// Scan implements kvstore.Snapshot.
func (s *snapshot) Scan(from, to []byte, visit func(key, value []byte) error) error {
	if !s.enter() {
		return s.store.closedErr()
	}
	defer s.leave()
	own := scratches.Get().(*scratch)
	defer scratches.Put(own)
	buf := own.buf
	own.buf = nil
	if buf == nil {
		buf = make([]byte, scanBytes)
	}
	buf, stop, err := s.at.scanData(from, to, buf, visit)
	if len(buf) <= 4*scanBytes {
		own.buf = buf
	}
	if stop != nil {
		return stop
	}
	return s.store.wrap(err)
}

// Close implements kvstore.Snapshot.
func (s *snapshot) Close() {
	if !s.store.gate.Enter() {
		return // the store gives it up
	}
	defer s.store.gate.Leave()
	s.gate.Close()
	s.store.snapshots.release(s)
}
