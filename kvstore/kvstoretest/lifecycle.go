package kvstoretest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
)

// wantClosed checks every answer of a closed store (S9).
func wantClosed(t *testing.T, st kvstore.Store) {
	t.Helper()
	value, found, err := st.Get([]byte("dst"), []byte("k"))
	require.ErrorIs(t, err, kvstore.ErrClosed)
	require.False(t, found)
	require.Equal(t, "dst", string(value))
	require.ErrorIs(t, st.Scan(nil, nil, func(_, _ []byte) error {
		t.Error("visit called on a closed store")
		return nil
	}), kvstore.ErrClosed)
	var b kvstore.Batch
	require.ErrorIs(t, st.Write(&b), kvstore.ErrClosed)
	b.Put([]byte("late"), nil)
	require.ErrorIs(t, st.Write(&b), kvstore.ErrClosed)
	offset, ok, err := st.Checkpoint("t")
	require.ErrorIs(t, err, kvstore.ErrClosed)
	require.False(t, ok)
	require.Zero(t, offset)
	meta, ok, err := st.Meta("t")
	require.ErrorIs(t, err, kvstore.ErrClosed)
	require.False(t, ok)
	require.Nil(t, meta)
	snap, err := st.Snapshot()
	require.ErrorIs(t, err, kvstore.ErrClosed)
	require.Nil(t, snap)
	require.ErrorIs(t, st.Flush(), kvstore.ErrClosed)
	stats, err := st.Stats()
	require.ErrorIs(t, err, kvstore.ErrClosed)
	require.Zero(t, stats)
	require.NoError(t, st.Close())
}

func testClosedStore(t *testing.T, s *suite) {
	e := s.open(t)
	st := openStore(t, e, "store")
	put(t, st, "k", "v")
	require.NoError(t, st.Close())
	wantClosed(t, st)
	// And while its successor is open, of which it knows nothing.
	next := openStore(t, e, "store")
	wantClosed(t, st)
	wantValue(t, next, "late", nil)
	put(t, next, "k", "v")
	wantValue(t, next, "k", []byte("v"))
	_, err := e.OpenStore("store")
	require.ErrorIs(t, err, kvstore.ErrInUse, "closing the old one again did not free the name")
}

// testCloseDuringScan: S9.
func testCloseDuringScan(t *testing.T, s *suite) {
	st := s.store(t)
	put(t, st, "a", "1", "b", "2")
	n := 0
	require.NoError(t, st.Scan(nil, nil, func(_, _ []byte) error {
		n++
		require.ErrorIs(t, st.Close(), kvstore.ErrInUse)
		return nil
	}))
	require.Equal(t, 2, n, "the scan goes on")
	require.NoError(t, st.Close())
	wantClosed(t, st)
}

// testEngineStates: fresh, open, closed; both Open and Close may come twice.
func testEngineStates(t *testing.T, s *suite) {
	wantShut := func(e kvstore.Engine) {
		_, err := e.OpenStore("x")
		require.ErrorIs(t, err, kvstore.ErrClosed)
		_, err = e.Stores()
		require.ErrorIs(t, err, kvstore.ErrClosed)
		require.ErrorIs(t, e.DestroyStore("x"), kvstore.ErrClosed)
	}
	never := s.newEngine(t, s.dir)
	wantShut(never)
	require.NoError(t, never.Close())
	require.ErrorIs(t, never.Open(), kvstore.ErrClosed)

	e := s.newEngine(t, s.dir)
	require.NoError(t, e.Open())
	require.NoError(t, e.Open())
	var open []kvstore.Store
	for i := range 20 {
		open = append(open, openStore(t, e, fmt.Sprint("s", i)))
		put(t, open[i], "k", "v")
	}
	require.NoError(t, e.Close())
	for _, st := range open {
		wantClosed(t, st)
	}
	require.NoError(t, e.Close())
	wantShut(e)
	require.ErrorIs(t, e.Open(), kvstore.ErrClosed)
}

// testEngineCloseMeetsUse: closing the engine under its users waits for calls in
// flight and turns later ones away.
func testEngineCloseMeetsUse(t *testing.T, s *suite) {
	e := s.newEngine(t, s.dir)
	require.NoError(t, e.Open())
	var wg sync.WaitGroup
	started := make(chan struct{}, 4)
	for i := range 4 {
		st := openStore(t, e, fmt.Sprint("s", i))
		wg.Go(func() {
			started <- struct{}{}
			var b kvstore.Batch
			for n := 0; ; n++ {
				b.Reset()
				b.Put(fmt.Appendf(nil, "%d", n%100), []byte("v"))
				err := st.Write(&b)
				if err == nil {
					_, _, err = st.Get(nil, []byte("1"))
				}
				if err == nil {
					err = st.Scan(nil, nil, func(_, _ []byte) error { return nil })
				}
				if err == nil && n%10 == 0 {
					_, err = st.Stats()
				}
				if errors.Is(err, kvstore.ErrClosed) {
					return
				}
				if err != nil {
					t.Errorf("store %d: %v", i, err)
					return
				}
			}
		})
	}
	for range 4 {
		<-started
	}
	wg.Go(func() { _ = e.Close() })
	require.NoError(t, e.Close())
	wg.Wait()
}

// testInUse: S10.
func testInUse(t *testing.T, s *suite) {
	e := s.open(t)
	st := openStore(t, e, "one")
	_, err := e.OpenStore("one")
	require.ErrorIs(t, err, kvstore.ErrInUse)
	require.ErrorContains(t, err, `"one"`)
	require.ErrorIs(t, e.DestroyStore("one"), kvstore.ErrInUse)
	put(t, st, "k", "v")
	wantValue(t, st, "k", []byte("v"))
	require.NoError(t, st.Close())
	st = openStore(t, e, "one")
	require.NoError(t, st.Close())
}

// oddNames are store names that a file system may trip over.
var oddNames = []string{
	"orders-0", "app.sub_1-12", ".", "..", "...", ".hidden", "a/b", "/", "../up", `a\b`, "a b", " ", "%", "%41", "A", "%2E",
	"tab\tnewline\n", "\x00", "\xff\xfe", "gr\u00fc\u00df", "CON", "a:b", "a*?\"<>|", "~", "-rf", "name.", "LOCK", "stores",
	strings.Repeat("t", 249), strings.Repeat(".", 249), strings.Repeat("9", 255),
}

// testStoreNames: S11: odd names are names, and different.
func testStoreNames(t *testing.T, s *suite) {
	e := s.open(t)
	names, err := e.Stores()
	require.NoError(t, err)
	require.Empty(t, names)
	for _, n := range oddNames {
		st := openStore(t, e, n)
		require.Empty(t, scan(t, st, nil, nil), "store %q is new", n)
		put(t, st, "name", n)
		if !s.Persistent {
			continue
		}
		require.NoError(t, st.Close())
	}
	want := slices.Clone(oddNames)
	slices.Sort(want)
	names, err = e.Stores()
	require.NoError(t, err)
	require.Equal(t, want, names)
	if s.Persistent {
		for _, n := range oddNames {
			st := openStore(t, e, n)
			wantValue(t, st, "name", []byte(n))
			require.NoError(t, st.Close())
		}
	}
}

func testBadNames(t *testing.T, s *suite) {
	e := s.open(t)
	for _, n := range []string{"", strings.Repeat("x", 256), strings.Repeat("/", 1000)} {
		_, err := e.OpenStore(n)
		require.ErrorIs(t, err, kvstore.ErrName)
		require.ErrorIs(t, e.DestroyStore(n), kvstore.ErrName)
	}
	names, err := e.Stores()
	require.NoError(t, err)
	require.Empty(t, names)
}

// testReopen: what a closed store keeps, in the same engine and in the next.
func testReopen(t *testing.T, s *suite) {
	e := s.newEngine(t, s.dir)
	require.NoError(t, e.Open())
	fill := func(st kvstore.Store, round int) {
		var b kvstore.Batch
		b.Put([]byte("k"), fmt.Append(nil, round))
		b.Put(fmt.Append(nil, "k", round), nil)
		b.Delete(fmt.Append(nil, "k", round-1))
		b.SetCheckpoint("t", int64(round))
		b.SetMeta("m", fmt.Append(nil, "m", round))
		require.NoError(t, st.Write(&b))
	}
	check := func(st kvstore.Store, round int) {
		if !s.Persistent {
			require.Empty(t, scan(t, st, nil, nil))
			_, ok, err := st.Checkpoint("t")
			require.NoError(t, err)
			require.False(t, ok)
			_, ok, err = st.Meta("m")
			require.NoError(t, err)
			require.False(t, ok)
			return
		}
		require.Equal(t, []string{"k", fmt.Sprint(round), fmt.Sprint("k", round), ""}, scan(t, st, nil, nil))
		wantCheckpoint(t, st, "t", int64(round))
		wantMeta(t, st, "m", fmt.Sprint("m", round))
	}
	st := openStore(t, e, "store")
	fill(st, 1)
	for round := 1; round < 6; round++ {
		if round%2 == 0 {
			require.NoError(t, st.Close())
			names, err := e.Stores()
			require.NoError(t, err)
			require.Equal(t, s.Persistent, slices.Contains(names, "store"))
		} else {
			require.NoError(t, e.Close())
			e = s.newEngine(t, s.dir)
			require.NoError(t, e.Open())
		}
		st = openStore(t, e, "store")
		check(st, round)
		fill(st, round+1)
	}
	require.NoError(t, e.Close())
}

// testDestroy: a destroyed store is absent, then empty; others are not touched.
func testDestroy(t *testing.T, s *suite) {
	e := s.open(t)
	require.NoError(t, e.DestroyStore("absent"))
	other := openStore(t, e, "other")
	put(t, other, "k", "v")
	for range 3 {
		st := openStore(t, e, "store")
		require.Empty(t, scan(t, st, nil, nil))
		var b kvstore.Batch
		b.Put([]byte("k"), []byte("v"))
		b.SetCheckpoint("t", 5)
		b.SetMeta("m", nil)
		require.NoError(t, st.Write(&b))
		require.NoError(t, st.Flush())
		require.NoError(t, st.Close())
		require.NoError(t, e.DestroyStore("store"))
		names, err := e.Stores()
		require.NoError(t, err)
		require.Equal(t, []string{"other"}, names)
	}
	st := openStore(t, e, "store")
	_, ok, err := st.Checkpoint("t")
	require.NoError(t, err)
	require.False(t, ok)
	wantValue(t, other, "k", []byte("v"))
}

// testConcurrent: stores of several goroutines, opened, used and closed at once,
// do not meet.
func testConcurrent(t *testing.T, s *suite) {
	e := s.open(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			name := fmt.Sprint("store-", g)
			for round := range 3 {
				st, err := e.OpenStore(name)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				var b kvstore.Batch
				for n := range 200 {
					b.Reset()
					b.Put(fmt.Append(nil, "k", n%50), fmt.Append(nil, name, n))
					b.SetCheckpoint("t", int64(n))
					err = errors.Join(err, st.Write(&b))
				}
				n := 0
				err = errors.Join(err, st.Scan(nil, nil, func(_, value []byte) error {
					n++
					if !strings.HasPrefix(string(value), name) {
						return fmt.Errorf("%s in %s", value, name)
					}
					return nil
				}))
				_, e2 := e.Stores()
				err = errors.Join(err, e2, st.Close())
				if round == 1 {
					err = errors.Join(err, e.DestroyStore(name))
				}
				if err != nil || n != 50 {
					t.Errorf("%s: %d entries, %v", name, n, err)
				}
			}
		})
	}
	wg.Wait()
}

// testStats: the figures move with the content, and may be read from elsewhere.
func testStats(t *testing.T, s *suite) {
	st := s.store(t)
	stats, err := st.Stats()
	require.NoError(t, err)
	require.Zero(t, stats.Entries)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 100 {
			if _, err := st.Stats(); err != nil {
				t.Error(err)
			}
		}
	})
	var b kvstore.Batch
	noise := rand.NewChaCha8([32]byte{}) // files may be compressed
	for n := range 1000 {
		value := make([]byte, 1000)
		_, _ = noise.Read(value)
		b.Put(fmt.Append(nil, n), value)
	}
	require.NoError(t, st.Write(&b))
	wg.Wait()
	stats, err = st.Stats()
	require.NoError(t, err)
	require.EqualValues(t, 1000, stats.Entries)
	require.Greater(t, stats.MemoryBytes+stats.DiskBytes, int64(1000*1000/2))
	if s.Persistent {
		require.NoError(t, st.Flush())
		stats, err = st.Stats()
		require.NoError(t, err)
		require.Positive(t, stats.DiskBytes)
	}
}
