package globaltable

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/wickerwork/wicker/kvstore"
)

// disk keeps a table's rows in a store: what is applied is written in one batch with how far it goes, and seen then. The loader's goroutine writes,
// others take snapshots.
type disk struct {
	store kvstore.Store
	// memory is what a load may take, 0 if there is to be none; load is the one that is open, before Boot.
	memory int64
	load   kvstore.Loader
	batch  kvstore.Batch
	// reached are the positions that the store has not been told of.
	reached map[string]int64
	version int64
	at      atomic.Pointer[held]
}

// held is a snapshot of the store with its users, one of which is the disk while it is the last one.
type held struct {
	snap  kvstore.Snapshot
	stats kvstore.Stats
	// version is how many were taken.
	version int64
	users   atomic.Int32
}

// position returns how far the store's rows go in a partition.
func (d *disk) position(topic string, partition int32) (int64, bool, error) {
	return d.store.Checkpoint(checkpoint(topic, partition))
}

// checkpoint is the name of a partition's.
func checkpoint(topic string, partition int32) string {
	return topic + "-" + strconv.Itoa(int(partition))
}

// write writes what was applied. Before Boot it goes through a load, if it is worth one. Whole says that all has been dealt with that is behind the positions.
func (d *disk) write(booted, whole bool) error {
	if whole {
		for name, next := range d.reached {
			d.batch.SetCheckpoint(name, next)
		}
		clear(d.reached)
	}
	if d.batch.Len() == 0 {
		return nil
	}
	write := d.store.Write
	if !booted && d.memory > 0 {
		if d.load == nil {
			var err error
			if d.load, err = d.store.Load(d.memory); err != nil {
				return err
			}
		}
		write = d.load.Write
	}
	err := write(&d.batch)
	d.batch.Reset()
	return err
}

// boot ends the load, if there is one.
func (d *disk) boot() error {
	if d.load == nil {
		return nil
	}
	l := d.load
	d.load = nil
	if err := l.Close(); err != nil {
		return err
	}
	return d.store.Flush()
}

// publish shows lookups what is in the store.
func (d *disk) publish() error {
	snap, err := d.store.Snapshot()
	if err != nil {
		return err
	}
	d.version++
	h := &held{snap: snap, version: d.version}
	h.users.Store(1)
	if h.stats, err = d.store.Stats(); err != nil {
		return err
	}
	if old := d.at.Swap(h); old != nil {
		old.leave()
	}
	return nil
}

// snapshot returns the last one, the zero one if there is none.
func (d *disk) snapshot() Snapshot {
	for {
		h := d.at.Load()
		if h == nil || h.enter() {
			return Snapshot{disk: h}
		}
	}
}

// enter is false if nobody has it any more.
func (h *held) enter() bool {
	for {
		n := h.users.Load()
		if n == 0 {
			return false
		}
		if h.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (h *held) leave() {
	if h.users.Add(-1) == 0 {
		h.snap.Close()
	}
}

func (h *held) get(dst, key []byte) ([]byte, bool, error) {
	if dst == nil {
		dst = []byte{}
	}
	return h.snap.Get(dst, key)
}

// errEnough ends a scan.
var errEnough = errors.New("enough")

func (h *held) all(yield func(key, value []byte) bool) error {
	err := h.snap.Scan(nil, nil, func(key, value []byte) error {
		if !yield(key, value) {
			return errEnough
		}
		return nil
	})
	if err == errEnough {
		return nil
	}
	return err
}

// Open gives a table on disk its store, before the first record. It stays the caller's, who closes it when the loader is not used any more.
func (l *Loader) Open(store kvstore.Store) { l.disk.store = store }

// Expect says that there is much to read until Boot: it is loaded in bulk, which may take so many bytes of memory.
func (l *Loader) Expect(memory int64) {
	if l.disk != nil {
		l.disk.memory = memory
	}
}

// Position returns how far the rows of an opened store go in a partition: what was read before is in them. False means nothing of it.
func (l *Loader) Position(topic string, partition int32) (offset int64, ok bool, err error) {
	return l.disk.position(topic, partition)
}

// Reached says that all records of a partition before next have been applied, that are to be seen. The store is told with the next Publish, or with Boot.
func (l *Loader) Reached(topic string, partition int32, next int64) {
	if l.disk != nil {
		l.disk.reached[checkpoint(topic, partition)] = next
	}
}

// Note gives the store metadata, with the next Publish or with Boot.
func (l *Loader) Note(name string, data []byte) { l.disk.batch.SetMeta(name, data) }

func (l *Loader) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("table %s: %w", l.spec.Name, err)
}
