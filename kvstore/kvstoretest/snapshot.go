package kvstoretest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
)

// openSnapshot returns a snapshot, closed at the end of the test.
func openSnapshot(t *testing.T, s kvstore.Store) kvstore.Snapshot {
	t.Helper()
	snap, err := s.Snapshot()
	require.NoError(t, err)
	t.Cleanup(snap.Close)
	return snap
}

// wantSnapshotClosed checks every answer of a snapshot that is closed (S13).
func wantSnapshotClosed(t *testing.T, snap kvstore.Snapshot) {
	t.Helper()
	value, found, err := snap.Get([]byte("dst"), []byte("k"))
	require.ErrorIs(t, err, kvstore.ErrClosed)
	require.False(t, found)
	require.Equal(t, "dst", string(value))
	require.ErrorIs(t, snap.Scan(nil, nil, func(_, _ []byte) error {
		t.Error("visit called on a closed snapshot")
		return nil
	}), kvstore.ErrClosed)
	snap.Close()
}

// testSnapshotStays: S13: overwrites, deletes, flushes and scans of the store do not
// reach a snapshot, nor those of other times.
func testSnapshotStays(t *testing.T, s *suite) {
	st := s.store(t)
	empty := openSnapshot(t, st)
	put(t, st, "a", "1", "b", "2", "gone", "x", "empty", "")
	one := openSnapshot(t, st)
	var b kvstore.Batch
	b.Put([]byte("a"), []byte("3"))
	b.Delete([]byte("gone"))
	b.Put([]byte("c"), []byte("new"))
	require.NoError(t, st.Write(&b))
	two := openSnapshot(t, st)
	require.NoError(t, st.Flush())
	put(t, st, "a", "4", "b", "5", "c", "6", "gone", "back")

	for round := range 2 {
		require.Empty(t, scan(t, empty, nil, nil))
		wantValue(t, empty, "a", nil)
		require.Equal(t, []string{"a", "1", "b", "2", "empty", "", "gone", "x"}, scan(t, one, nil, nil))
		require.Equal(t, []string{"b", "2"}, scan(t, one, []byte("b"), []byte("c")))
		wantValue(t, one, "a", []byte("1"))
		wantValue(t, one, "empty", []byte{})
		wantValue(t, one, "c", nil)
		require.Equal(t, []string{"a", "3", "b", "2", "c", "new", "empty", ""}, scan(t, two, nil, nil))
		wantValue(t, two, "gone", nil)
		// Results are the caller's, appended to what it gave.
		got, found, err := one.Get([]byte("dst+"), []byte("a"))
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, "dst+1", string(got))
		got, found, err = one.Get([]byte("dst+"), []byte("no"))
		require.NoError(t, err)
		require.False(t, found)
		require.Equal(t, "dst+", string(got))
		_ = append(got, "scribble"...)
		// The visitor may ask the snapshot, and stop.
		stop := fmt.Errorf("stop")
		require.ErrorIs(t, one.Scan(nil, nil, func(key, _ []byte) error {
			wantValue(t, one, "gone", []byte("x"))
			require.Len(t, scan(t, one, nil, key), 0)
			return stop
		}), stop)
		if round == 0 {
			// One snapshot's end is not the others', nor the store's.
			snap := openSnapshot(t, st)
			snap.Close()
			wantSnapshotClosed(t, snap)
			put(t, st, "a", "7")
		}
	}
	wantValue(t, st, "a", []byte("7"))
	wantValue(t, st, "gone", []byte("back"))
	for _, snap := range []kvstore.Snapshot{empty, one, two} {
		snap.Close()
	}
	put(t, st, "a", "8") // nobody sees the old one
	require.Equal(t, []string{"a", "8", "b", "5", "c", "6", "empty", "", "gone", "back"}, scan(t, st, nil, nil))
}

// testSnapshotReaders: S13: readers of snapshots see whole batches, each reader ever newer
// ones, while the owner writes, takes snapshots and closes them under the readers.
func testSnapshotReaders(t *testing.T, s *suite) {
	st := s.store(t)
	number := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }
	var b kvstore.Batch
	write := func(i int) {
		b.Reset()
		for _, k := range []string{"a", "b", fmt.Sprint("k", i%17)} {
			b.Put([]byte(k), number(i))
		}
		b.Delete(fmt.Append(nil, "k", (i+5)%17))
		require.NoError(t, st.Write(&b))
	}
	write(1)
	var current atomic.Pointer[kvstore.Snapshot]
	renew := func() {
		snap, err := st.Snapshot()
		require.NoError(t, err)
		if old := current.Swap(&snap); old != nil {
			(*old).Close() // under its readers
		}
	}
	renew()
	done := make(chan struct{})
	var reads atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := uint64(0)
			for {
				select {
				case <-done:
					return
				default:
				}
				snap := *current.Load()
				x, _, err := snap.Get(nil, []byte("a"))
				if errors.Is(err, kvstore.ErrClosed) {
					continue
				}
				var y []byte
				if err == nil {
					y = x
					err = snap.Scan([]byte("b"), []byte("c"), func(_, value []byte) error {
						y = slices.Clone(value)
						return nil
					})
				}
				switch {
				case errors.Is(err, kvstore.ErrClosed):
				case err != nil || len(x) != 8 || string(x) != string(y) || binary.BigEndian.Uint64(x) < last:
					t.Errorf("a is %x and b %x after %x: %v", x, y, last, err)
					return
				default:
					last = binary.BigEndian.Uint64(x)
					reads.Add(1)
				}
			}
		})
	}
	for i := 2; i < 3000 || reads.Load() < 100; i++ {
		write(i)
		if i%10 == 0 {
			renew()
		}
		if t.Failed() {
			break
		}
	}
	close(done)
	wg.Wait()
	(*current.Load()).Close()
}

// testSnapshotMeetsClose: S13: the store's Close and the engine's wait for calls in
// flight; later ones are turned away, and a snapshot may be closed after its store.
func testSnapshotMeetsClose(t *testing.T, s *suite) {
	for _, closer := range []string{"store", "engine"} {
		own := *s
		own.dir = t.TempDir()
		e := own.open(t)
		st := openStore(t, e, "store")
		put(t, st, "k", "v")
		snap, err := st.Snapshot()
		require.NoError(t, err)
		started := make(chan struct{}, 4)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for n := 0; ; n++ {
					value, found, err := snap.Get(nil, []byte("k"))
					if errors.Is(err, kvstore.ErrClosed) {
						return
					}
					if err != nil || !found || string(value) != "v" {
						t.Errorf("%q, %t, %v", value, found, err)
						return
					}
					if n == 0 {
						started <- struct{}{}
					}
				}
			})
		}
		for range 4 {
			<-started
		}
		if closer == "store" {
			require.NoError(t, st.Close())
		} else {
			require.NoError(t, e.Close())
		}
		wg.Wait()
		wantSnapshotClosed(t, snap)
		wantClosed(t, st)
		if closer == "store" {
			// Its successor is not touched.
			next := openStore(t, e, "store")
			put(t, next, "k", "w")
			wantSnapshotClosed(t, snap)
			wantValue(t, openSnapshot(t, next), "k", []byte("w"))
		}
	}
}
