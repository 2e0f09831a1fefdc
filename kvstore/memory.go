package kvstore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Memory is the engine without files: a store lives from OpenStore to Close and
// takes the memory of its content. It is safe for concurrent use; make one with
// NewMemory.
type Memory struct {
	// mu guards the following.
	mu     sync.Mutex
	state  engineState
	stores map[string]*memoryStore // those open, by name
}

// engineState goes one way: fresh, open, closed.
type engineState uint8

const (
	engineFresh engineState = iota
	engineOpen
	engineClosed
)

var _ Engine = (*Memory)(nil)

// NewMemory returns an engine that keeps stores in memory.
func NewMemory() *Memory {
	return &Memory{stores: map[string]*memoryStore{}}
}

// Open implements Engine. There is nothing to lock.
func (m *Memory) Open() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == engineClosed {
		return m.closedErr()
	}
	m.state = engineOpen
	return nil
}

func (m *Memory) closedErr() error { return fmt.Errorf("kvstore: memory engine: %w", ErrClosed) }

// OpenStore implements Engine. The store is always empty: nothing outlives Close.
func (m *Memory) OpenStore(name string) (Store, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("kvstore: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != engineOpen {
		return nil, m.closedErr()
	}
	if m.stores[name] != nil {
		return nil, fmt.Errorf("kvstore: store %q: %w", name, ErrInUse)
	}
	s := newMemoryStore(name, m.forget)
	m.stores[name] = s
	return s, nil
}

// forget frees the name of a store that closes itself.
func (m *Memory) forget(s *memoryStore) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stores[s.name] == s {
		delete(m.stores, s.name)
	}
}

// Stores implements Engine; only open stores have content.
func (m *Memory) Stores() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != engineOpen {
		return nil, m.closedErr()
	}
	return slices.Sorted(maps.Keys(m.stores)), nil
}

// DestroyStore implements Engine. A closed store has no data to delete.
func (m *Memory) DestroyStore(name string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("kvstore: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.state != engineOpen:
		return m.closedErr()
	case m.stores[name] != nil:
		return fmt.Errorf("kvstore: store %q: %w", name, ErrInUse)
	}
	return nil
}

// Close implements Engine.
func (m *Memory) Close() error {
	m.mu.Lock()
	m.state = engineClosed
	open := m.stores
	m.stores = map[string]*memoryStore{}
	m.mu.Unlock()
	// Without mu: closing waits for calls in flight, and those may want it.
	var errs []error
	for _, s := range open {
		errs = append(errs, s.shut())
	}
	return errors.Join(errs...)
}

// maxName is the longest store name in bytes.
const maxName = 255

func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("store name of %d bytes, must be 1 to %d: %w", len(name), maxName, ErrName)
	}
	return nil
}
