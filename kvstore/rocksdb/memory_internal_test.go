//go:build cgo

package rocksdb

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/linxGnu/grocksdb"
	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
)

func openInternal(t *testing.T, o Options) *Engine {
	t.Helper()
	o.Dir = t.TempDir()
	e := New(o)
	require.NoError(t, e.Open())
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

func openStore(t *testing.T, e *Engine, name string) *store {
	t.Helper()
	s, err := e.OpenStore(name)
	require.NoError(t, err)
	return s.(*store)
}

// TestBatchEncoding compares a kvstore.Batch with the batch that RocksDB makes of
// the same calls, byte for byte.
func TestBatchEncoding(t *testing.T) {
	var b kvstore.Batch
	wb := grocksdb.NewWriteBatch()
	defer wb.Destroy()
	require.Equal(t, wb.Data(), b.Encoding())
	for _, n := range []int{0, 1, 126, 127, 128, 16383, 16384, 70000} {
		key, value := []byte(strings.Repeat("k", n)), []byte(strings.Repeat("v", n))
		b.Put(key, value)
		wb.Put(append([]byte{1}, key...), value)
		b.Delete(key)
		wb.Delete(append([]byte{1}, key...))
		b.SetMeta(string(key), value)
		wb.Put(append([]byte("\x00m"), key...), value)
		b.SetCheckpoint(string(key), int64(n))
		wb.Put(append([]byte("\x00c"), key...), []byte{0, 0, 0, 0, 0, byte(n >> 16), byte(n >> 8), byte(n)})
		require.Equal(t, wb.Count(), b.Len())
		require.Equal(t, wb.Data(), b.Encoding())
		require.Equal(t, len(wb.Data())-12, b.Size())
	}
	key, value := []byte("\x00f"), "mark"
	wb.Clear()
	wb.Put(key, []byte(value))
	require.Equal(t, wb.Data(), putEncoding(key, value))
}

// TestAllocations: reads, batches and scans cost Go nothing.
func TestAllocations(t *testing.T) {
	e := openInternal(t, Options{})
	s := openStore(t, e, "store")
	var b kvstore.Batch
	keys := make([][]byte, 100)
	for i := range keys {
		keys[i] = fmt.Append(nil, "key", i)
		b.Put(keys[i], make([]byte, 100*i))
	}
	require.NoError(t, s.Write(&b))
	buf := make([]byte, 0, 100*len(keys))
	i := 0
	other := openStore(t, e, "loaded")
	l, err := other.Load(0)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	snap, err := s.Snapshot()
	require.NoError(t, err)
	for what, f := range map[string]func() error{
		"get":  func() error { i++; _, _, err := s.Get(buf, keys[i%len(keys)]); return err },
		"miss": func() error { _, _, err := s.Get(buf, buf); return err },
		"write": func() error {
			b.Reset()
			for _, k := range keys {
				b.Put(k, k)
			}
			b.SetCheckpoint("topic", 1)
			return s.Write(&b)
		},
		"load":         func() error { return l.Write(&b) },
		"scan":         func() error { return s.Scan(keys[1], keys[7], func(_, _ []byte) error { return nil }) },
		"snapshot-get": func() error { i++; _, _, err := snap.Get(buf, keys[i%len(keys)]); return err },
	} {
		require.Zero(t, testing.AllocsPerRun(200, func() {
			if err := f(); err != nil {
				t.Error(err)
			}
		}), what)
	}
}

// TestWriteBudget: unflushed writes of all stores stay near the limit, whichever
// are written to, and however many lie idle with full memtables.
func TestWriteBudget(t *testing.T) {
	const limit = 2 << 20
	e := openInternal(t, Options{MemoryBytes: 8 << 20, WriteBufferBytes: limit})
	r := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 1000)
	var stores []*store
	most := int64(0)
	for i := range 12 {
		stores = append(stores, openStore(t, e, fmt.Sprint("s", i)))
		for range 40 {
			// Mostly the newest: the others become idle with what they hold.
			s := stores[len(stores)-1]
			if r.IntN(4) == 0 {
				s = stores[r.IntN(len(stores))]
			}
			var b kvstore.Batch
			for range 50 {
				b.Put(fmt.Append(nil, r.Uint64()), value)
			}
			require.NoError(t, s.Write(&b))
			sum := int64(0)
			for _, s := range stores {
				active, _ := s.native.memory()
				sum += active
			}
			most = max(most, sum)
		}
	}
	t.Logf("wrote %d MB, held at most %d kB", 12*40*50*1000>>20, most>>10)
	require.Less(t, most, int64(limit))
	require.Greater(t, most, int64(limit/4), "the budget is used")
	require.Less(t, e.MemoryBytes(), int64(2*8<<20))

	// A closed store holds nothing.
	for _, s := range stores {
		require.NoError(t, s.Close())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	require.Zero(t, e.shared.budget.active)
	require.Zero(t, e.shared.budget.all)
	require.Empty(t, e.stores)
}

// TestManySmallStores: with more stores than the budget has room for, memtables
// are not flushed at every write.
func TestManySmallStores(t *testing.T) {
	e := openInternal(t, Options{MemoryBytes: 1 << 20, WriteBufferBytes: 64 << 10})
	var stores []*store
	var b kvstore.Batch
	b.Put([]byte("k"), []byte("v"))
	for i := range 24 {
		stores = append(stores, openStore(t, e, fmt.Sprint("s", i)))
	}
	for range 50 {
		for _, s := range stores {
			require.NoError(t, s.Write(&b))
		}
	}
	files := 0
	for _, s := range stores {
		files += len(s.db.GetLiveFilesMetaData())
	}
	require.LessOrEqual(t, files, 24)
}

// residentBytes reads the process's resident set.
func residentBytes(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("needs /proc")
	}
	require.NoError(t, err)
	var size, resident int64
	_, err = fmt.Sscan(string(text), &size, &resident)
	require.NoError(t, err)
	return resident * int64(os.Getpagesize())
}

// TestNoLeak: what a call takes from C it gives back. Each kind of call is
// repeated often enough that a leak of what it takes would show.
func TestNoLeak(t *testing.T) {
	e := openInternal(t, Options{MemoryBytes: 4 << 20})
	s := openStore(t, e, "store")
	var b kvstore.Batch
	big := make([]byte, 64<<10)
	for i := range 64 {
		b.Put(fmt.Append(nil, i), big)
	}
	require.NoError(t, s.Write(&b))
	require.NoError(t, s.Flush())
	stop := errors.New("stop")
	upper := []byte(strings.Repeat("9", 4000))
	calls := map[string]struct {
		times int
		call  func() error
	}{
		"get":      {3000, func() error { _, _, err := s.Get(nil, []byte("1")); return err }},
		"scan-all": {100, func() error { return s.Scan(nil, upper, func(_, _ []byte) error { return nil }) }},
		"scan-stop": {3000, func() error {
			if err := s.Scan(nil, upper, func(_, _ []byte) error { return stop }); err != stop {
				return fmt.Errorf("not stopped: %w", err)
			}
			return nil
		}},
		"scan-panic": {3000, func() (err error) {
			defer func() { recover() }()
			return s.Scan(nil, upper, func(_, _ []byte) error { panic(stop) })
		}},
		"write": {1000, func() error {
			var b kvstore.Batch
			b.Put([]byte("same"), big[:20<<10])
			return s.Write(&b)
		}},
		"load": {10, func() error {
			var small kvstore.Batch
			small.Put([]byte("same"), big[:10<<10])
			l, err := s.Load(64 << 10)
			for range 20 {
				err = errors.Join(err, l.Write(&small))
			}
			return errors.Join(err, l.Close())
		}},
		"load-left-open": {10, func() error {
			o, err := e.OpenStore("other")
			if err != nil {
				return err
			}
			l, err := o.Load(0)
			return errors.Join(err, l.Write(&b), o.Close())
		}},
		"snapshot": {3000, func() error {
			snap, err := s.Snapshot()
			if err != nil {
				return err
			}
			defer snap.Close()
			_, _, err = snap.Get(nil, []byte("1"))
			if err := snap.Scan(nil, upper, func(_, _ []byte) error { return stop }); err != stop {
				return fmt.Errorf("not stopped: %w", err)
			}
			return err
		}},
		"snapshot-left-open": {60, func() error {
			o, err := e.OpenStore("other")
			if err != nil {
				return err
			}
			for range 100 {
				_, e := o.Snapshot()
				err = errors.Join(err, e)
			}
			return errors.Join(err, o.Close())
		}},
		"open-close": {60, func() error {
			o, err := e.OpenStore("other")
			if err != nil {
				return err
			}
			return o.Close()
		}},
		"engine": {20, func() error {
			e := New(Options{Dir: t.TempDir(), MemoryBytes: 64 << 20})
			if err := e.Open(); err != nil {
				return err
			}
			s, err := e.OpenStore("x")
			if err != nil {
				return err
			}
			// Something in the cache, or the loss of an empty one would not show.
			err = errors.Join(s.Write(&b), s.Flush(), s.Scan(nil, nil, func(_, _ []byte) error { return nil }))
			return errors.Join(err, e.Close())
		}},
	}
	for name, c := range calls {
		t.Run(name, func(t *testing.T) {
			pinned := e.shared.cache.GetPinnedUsage()
			round := func() int64 {
				for range c.times {
					require.NoError(t, c.call())
				}
				return residentBytes(t)
			}
			// Allocators and the runtime, the race detector's above all, settle in
			// the first rounds; a leak grows in every one, and what could leak here
			// is of kilobytes a call.
			least := int64(1 << 62)
			before := round()
			for range 4 {
				now := round()
				least = min(least, now-before)
				before = now
			}
			// A value held on to is a block of 64 kB; indexes and filters of new
			// files are less. A compaction that is still running has blocks of its
			// own, which it gives back; a leak does not.
			require.Eventually(t, func() bool { return e.shared.cache.GetPinnedUsage() < pinned+32<<10 },
				time.Minute, 5*time.Millisecond, "blocks are held on to")
			require.Less(t, least, int64(c.times)<<10+(1<<20), "grew in each of four rounds of %d", c.times)
		})
	}
}
