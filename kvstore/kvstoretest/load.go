package kvstoretest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
)

// loadMemories are budgets of loads that make one batch, a few, many or all of
// a test be written at once.
var loadMemories = []int64{0, 1, 2000, 10_000, 100_000, 1 << 20}

func openLoad(t *testing.T, st kvstore.Store, memory int64) kvstore.Loader {
	t.Helper()
	l, err := st.Load(memory)
	require.NoError(t, err)
	return l
}

// randomBatch fills b with puts and deletes of at most keys keys, that share
// beginnings of several lengths, and the number n as checkpoint and metadata.
func randomBatch(b *kvstore.Batch, r *rand.Rand, keys, n int) {
	b.Reset()
	for range r.IntN(40) {
		k := r.IntN(keys)
		key := fmt.Appendf(nil, "%.*s%d", 10*(k%4), "a beginning that is long and shared", k)
		if r.IntN(4) == 0 {
			b.Delete(key)
		} else {
			b.Put(key, fmt.Appendf(nil, "%d%0*d", n, r.IntN(100), k))
		}
	}
	b.SetCheckpoint("t", int64(n))
	b.SetMeta("m", fmt.Append(nil, "m", n))
}

// testLoadIsWrites: S3, S7. What is loaded is what the same batches make when they are
// written, whatever is written at once.
func testLoadIsWrites(t *testing.T, s *suite) {
	for i, memory := range loadMemories {
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			own := *s
			own.dir = t.TempDir()
			e := own.open(t)
			written, loaded := openStore(t, e, "written"), openStore(t, e, "loaded")
			r := rand.New(rand.NewPCG(uint64(i), 3))
			var b kvstore.Batch
			n := 0
			for range 3 {
				l := openLoad(t, loaded, memory)
				for range 150 {
					n++
					randomBatch(&b, r, 2000, n)
					require.NoError(t, written.Write(&b))
					require.NoError(t, l.Write(&b))
				}
				require.NoError(t, l.Close())
				require.Equal(t, scan(t, written, nil, nil), scan(t, loaded, nil, nil))
				wantCheckpoint(t, loaded, "t", int64(n))
				wantMeta(t, loaded, "m", fmt.Sprint("m", n))
				// And plain ones go on top.
				n++
				randomBatch(&b, r, 2000, n)
				require.NoError(t, written.Write(&b))
				require.NoError(t, loaded.Write(&b))
			}
			want := scan(t, written, nil, nil)
			require.NotEmpty(t, want)
			require.Equal(t, want, scan(t, loaded, nil, nil))
			if s.Persistent {
				require.NoError(t, loaded.Close())
				loaded = openStore(t, e, "loaded")
				require.Equal(t, want, scan(t, loaded, nil, nil))
				wantCheckpoint(t, loaded, "t", int64(n))
				wantMeta(t, loaded, "m", fmt.Sprint("m", n))
			}
		})
	}
}

// testLoadOverOlder: the last entry of a key wins, over those before it in the
// batch, in the load, and in the store, flushed or not.
func testLoadOverOlder(t *testing.T, s *suite) {
	st := s.store(t)
	filler := make([]byte, 500)
	put(t, st, "flushed-1", "old", "flushed-2", "old", "flushed-3", "old", "flushed-4", "old")
	require.NoError(t, st.Flush())
	put(t, st, "fresh-1", "old", "fresh-2", "old", "fresh-3", "old", "flushed-4", "newer")
	var b kvstore.Batch
	l := openLoad(t, st, 3000)
	write := func(fill func()) {
		b.Reset()
		fill()
		require.NoError(t, l.Write(&b))
	}
	for round := range 4 {
		write(func() {
			b.Put([]byte("flushed-1"), []byte("new"))
			b.Delete([]byte("flushed-2"))
			b.Put([]byte("fresh-1"), []byte("new"))
			b.Delete([]byte("fresh-2"))
			b.Delete([]byte("absent"))
			b.Put([]byte("twice"), []byte("first"))
			b.Delete([]byte("twice"))
			b.Put([]byte("twice"), fmt.Append(nil, round))
			b.Put([]byte("gone"), []byte("v"))
			b.Delete([]byte("gone"))
			b.SetCheckpoint("t", int64(round))
			b.SetCheckpoint("t", int64(round)+1)
		})
		for i := range 20 {
			write(func() {
				b.Put(fmt.Append(nil, "filler-", i), filler)
				b.Put([]byte("across"), fmt.Append(nil, round, i))
				b.Put([]byte("deleted"), filler)
			})
		}
		write(func() {
			b.Delete([]byte("deleted"))
			for i := range 20 {
				b.Delete(fmt.Append(nil, "filler-", i))
			}
		})
	}
	require.NoError(t, l.Close())
	check := func() {
		require.Equal(t, []string{
			"across", "3 19", "flushed-1", "new", "flushed-3", "old", "flushed-4", "newer",
			"fresh-1", "new", "fresh-3", "old", "twice", "3",
		}, scan(t, st, nil, nil))
		for _, k := range []string{"flushed-2", "fresh-2", "absent", "gone", "deleted", "filler-1"} {
			wantValue(t, st, k, nil)
		}
		wantCheckpoint(t, st, "t", 4)
	}
	check()
	require.NoError(t, st.Flush())
	check()
}

// testLoadNothing: loads of nothing, of empty batches and of a checkpoint alone.
func testLoadNothing(t *testing.T, s *suite) {
	st := s.store(t)
	put(t, st, "k", "v")
	for _, memory := range loadMemories {
		require.NoError(t, openLoad(t, st, memory).Close())
		l := openLoad(t, st, memory)
		var b kvstore.Batch
		require.NoError(t, l.Write(&b))
		b.SetCheckpoint("t", memory)
		require.NoError(t, l.Write(&b))
		b.Reset()
		require.NoError(t, l.Write(&b))
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		require.Equal(t, []string{"k", "v"}, scan(t, st, nil, nil))
		wantCheckpoint(t, st, "t", memory)
	}
}

// testLoadLargeBatch: a batch that is larger than the memory, among small ones.
func testLoadLargeBatch(t *testing.T, s *suite) {
	st := s.store(t)
	l := openLoad(t, st, 10_000)
	want := []string{}
	big := string(make([]byte, 1000))
	var b kvstore.Batch
	for i := range 60 {
		b.Reset()
		b.Put([]byte("k"), fmt.Append(nil, i))
		b.SetCheckpoint("t", int64(i))
		if i%20 == 10 {
			for j := range 50 {
				key := fmt.Sprintf("big-%02d-%02d", i, j)
				b.Put([]byte(key), []byte(big))
				want = append(want, key, big)
			}
		}
		require.NoError(t, l.Write(&b))
	}
	require.NoError(t, l.Close())
	require.Equal(t, append(want, "k", "59"), scan(t, st, nil, nil))
	wantCheckpoint(t, st, "t", 59)
}

// testLoadClosed: S9.
func testLoadClosed(t *testing.T, s *suite) {
	st := s.store(t)
	var b, empty kvstore.Batch
	b.Put([]byte("k"), []byte("v"))
	l := openLoad(t, st, 0)
	require.NoError(t, l.Write(&b))
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Write(&b), kvstore.ErrClosed)
	require.ErrorIs(t, l.Write(&empty), kvstore.ErrClosed)
	require.NoError(t, l.Close())
	// A closed one is none of its successor's business.
	next := openLoad(t, st, 0)
	require.ErrorIs(t, l.Write(&b), kvstore.ErrClosed)
	require.NoError(t, l.Close())
	b.Put([]byte("k"), []byte("w"))
	require.NoError(t, next.Write(&b))
	require.NoError(t, next.Close())
	wantValue(t, st, "k", []byte("w"))
	require.NoError(t, st.Close())
	_, err := st.Load(0)
	require.ErrorIs(t, err, kvstore.ErrClosed)
}

// testLoadLeftOpen: S4. A store that is closed during a load is as after one of the
// load's batches, and can be opened again.
func testLoadLeftOpen(t *testing.T, s *suite) {
	e := s.open(t)
	var b kvstore.Batch
	for i, memory := range loadMemories {
		name := fmt.Sprint("s", memory)
		st := openStore(t, e, name)
		l := openLoad(t, st, memory)
		r := rand.New(rand.NewPCG(uint64(i), 9))
		for n := range 100 {
			randomBatch(&b, r, 300, n+1)
			require.NoError(t, l.Write(&b))
		}
		require.NoError(t, st.Close())
		require.ErrorIs(t, l.Write(&b), kvstore.ErrClosed)
		if err := l.Close(); err != nil {
			require.ErrorIs(t, err, kvstore.ErrClosed)
		}
		require.NoError(t, l.Close())
		st = openStore(t, e, name)
		n, _, err := st.Checkpoint("t")
		require.NoError(t, err)
		wanted := openStore(t, e, name+"-wanted")
		r = rand.New(rand.NewPCG(uint64(i), 9))
		for i := range n {
			randomBatch(&b, r, 300, int(i)+1)
			require.NoError(t, wanted.Write(&b))
		}
		require.Equal(t, scan(t, wanted, nil, nil), scan(t, st, nil, nil), "memory %d, at checkpoint %d", memory, n)
		if n > 0 {
			wantMeta(t, st, "m", fmt.Sprint("m", n))
		}
	}
}

// testLoadMeetsEngineClose: an engine is closed under its loads.
func testLoadMeetsEngineClose(t *testing.T, s *suite) {
	e := s.newEngine(t, s.dir)
	require.NoError(t, e.Open())
	var wg sync.WaitGroup
	started := make(chan struct{}, 3)
	for i := range 3 {
		st := openStore(t, e, fmt.Sprint("s", i))
		wg.Go(func() {
			var b kvstore.Batch
			r := rand.New(rand.NewPCG(uint64(i), 11))
			l, err := st.Load(20_000)
			for n := 1; err == nil; n++ {
				randomBatch(&b, r, 300, n)
				if err = l.Write(&b); n == 100 {
					started <- struct{}{}
				}
			}
			closeErr := l.Close()
			if !errors.Is(err, kvstore.ErrClosed) || closeErr != nil && !errors.Is(closeErr, kvstore.ErrClosed) {
				t.Errorf("store %d: %v, %v", i, err, closeErr)
			}
		})
	}
	for range 3 {
		<-started
	}
	require.NoError(t, e.Close())
	wg.Wait()
}
