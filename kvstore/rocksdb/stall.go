//go:build cgo

package rocksdb

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// RocksDB holds writes and flushes up while too many files wait to be merged.
// Merges that find no room on the disk it tries again for ever, and the calls
// that wait for them would wait as long. So an engine looks after its stores'
// calls: one that has not moved between two looks, in a store of which a
// flush or merge has failed meanwhile, is ended, and that store is of no use until it is opened
// again.
//
// A failure alone does not end anything: RocksDB may make room by the next merge.
const lookEvery = time.Second

// calls count a store's calls that may be held up.
type calls struct {
	begun, ended atomic.Int64
	// stopped says that the held up ones were ended.
	stopped atomic.Bool
	// seen is ended at the last look, -1 if no call was under way, and failures
	// the failed flushes and merges when a call was first seen. Of the watch.
	seen, failures int64
}

// stuck is a look: whether calls are under way of which none has ended since
// the last look.
func (c *calls) stuck() bool {
	ended := c.ended.Load()
	if c.begun.Load() == ended {
		ended = -1
	}
	stuck := ended >= 0 && ended == c.seen
	c.seen = ended
	return stuck
}

// heldUp makes a call that RocksDB may hold up. Of a store that was stopped the
// error tells the cause.
func (s *store) heldUp(call func() error) error {
	s.calls.begun.Add(1)
	err := call()
	s.calls.ended.Add(1)
	if err == nil || !s.calls.stopped.Load() || errors.Is(err, syscall.ENOSPC) {
		return err
	}
	// What RocksDB tells of another cause it tells the call itself.
	return fmt.Errorf("%w: files could not be merged: %w", err, syscall.ENOSPC)
}

// watch looks after the calls of an engine's stores.
type watch struct {
	stop chan struct{}
	done sync.WaitGroup
}

func (e *Engine) startWatch() *watch {
	w := &watch{stop: make(chan struct{})}
	w.done.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-tick.C:
				for _, s := range e.open() {
					s.look()
				}
			}
		}
	})
	return w
}

func (w *watch) end() {
	close(w.stop)
	w.done.Wait()
}

// look ends the store's calls if they are held up for good.
func (s *store) look() {
	stuck := s.calls.stuck()
	if s.calls.seen < 0 || s.calls.stopped.Load() {
		return
	}
	// Not by the gate, which a Close whose flush is held up has shut already.
	s.freeing.Lock()
	defer s.freeing.Unlock()
	if s.native.db == nil {
		return // freed
	}
	// A count since the store was opened.
	failures, _ := s.db.GetIntProperty("rocksdb.background-errors")
	switch {
	case !stuck:
		s.calls.failures = int64(failures)
	case int64(failures) > s.calls.failures:
		s.calls.stopped.Store(true)
		s.db.CancelAllBackgroundWork(false)
	}
}
