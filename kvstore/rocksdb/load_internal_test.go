//go:build cgo

package rocksdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
)

// loadBatch fills b with about bytes of puts of random keys.
func loadBatch(b *kvstore.Batch, r *rand.Rand, bytes int) {
	b.Reset()
	var value [200]byte
	for b.Size() < bytes {
		for i := 0; i < len(value); i += 8 {
			binary.LittleEndian.PutUint64(value[i:], r.Uint64())
		}
		b.Put(fmt.Appendf(nil, "k%015d", r.IntN(1e9)), value[:])
	}
}

// TestLoadMemory: a load takes what it was given, the index to sort by included, says so,
// and gives it back.
func TestLoadMemory(t *testing.T) {
	const memory = 1 << 20
	e := openInternal(t, Options{MemoryBytes: 1 << 20})
	s := openStore(t, e, "store")
	r := rand.New(rand.NewPCG(1, 1))
	var b kvstore.Batch
	l, err := s.Load(memory)
	require.NoError(t, err)
	require.Zero(t, s.loading.Load(), "nothing for a load of nothing")
	for range 100 {
		loadBatch(&b, r, 1+r.IntN(200<<10))
		require.NoError(t, l.Write(&b))
		held := 0
		for _, c := range []*chunk{l.(*loader).filling, l.(*loader).writing, l.(*loader).idle} {
			if c != nil {
				held += len(c.mem)
			}
		}
		require.LessOrEqual(t, held, memory)
		require.EqualValues(t, held, s.loading.Load())
	}
	require.EqualValues(t, memory, s.loading.Load(), "it has two chunks")
	stats, err := s.Stats()
	require.NoError(t, err)
	require.GreaterOrEqual(t, stats.MemoryBytes, int64(memory))
	require.NoError(t, l.Close())
	require.Zero(t, s.loading.Load())
}

// keysAfterCrash returns the keys of the store in a copy of the engine's files as they are.
func keysAfterCrash(t *testing.T, e *Engine) (keys []string) {
	copied := t.TempDir()
	require.NoError(t, os.CopyFS(copied, os.DirFS(e.opts.Dir)))
	crashed := New(Options{Dir: copied})
	require.NoError(t, crashed.Open())
	defer func() { require.NoError(t, crashed.Close()) }()
	require.NoError(t, openStore(t, crashed, "store").Scan(nil, nil, func(key, _ []byte) error {
		keys = append(keys, string(key))
		return nil
	}))
	return keys
}

// TestLoadKeepsOrder: S4. What a load has ingested survives a crash, so what was written
// before must too.
func TestLoadKeepsOrder(t *testing.T) {
	e := openInternal(t, Options{})
	s := openStore(t, e, "store")
	var b, large kvstore.Batch
	put := func(b *kvstore.Batch, key string, bytes int) {
		b.Reset()
		b.Put([]byte(key), make([]byte, bytes))
	}
	put(&b, "zz written before", 1)
	require.NoError(t, s.Write(&b))
	l, err := s.Load(20_000)
	require.NoError(t, err)
	for i := range 2 {
		put(&b, fmt.Sprint("a", i), 8000)
		require.NoError(t, l.Write(&b))
	}
	// a0 is written; a1 waits.
	require.NoError(t, l.(*loader).wait())
	require.Equal(t, []string{"a0", "zz written before"}, keysAfterCrash(t, e))

	put(&large, "zz larger than a chunk", 50_000)
	require.NoError(t, l.Write(&large))
	for i := range 3 {
		put(&b, fmt.Sprint("b", i), 8000)
		require.NoError(t, l.Write(&b))
	}
	require.NoError(t, l.(*loader).wait())
	require.Equal(t, []string{"a0", "a1", "b0", "b1", "zz larger than a chunk", "zz written before"}, keysAfterCrash(t, e))

	require.NoError(t, l.Close())
	_, found, err := s.Get(nil, []byte("b2"))
	require.NoError(t, err)
	require.True(t, found)
}

// TestLoadInOrder: data that comes in the order of its keys goes to the last level at
// once and is never merged, though each chunk brings a checkpoint.
func TestLoadInOrder(t *testing.T) {
	e := openInternal(t, Options{})
	s := openStore(t, e, "store")
	l, err := s.Load(1 << 20)
	require.NoError(t, err)
	var b kvstore.Batch
	for i := range 100 {
		b.Reset()
		for j := range 100 {
			b.Put(fmt.Appendf(nil, "k%015d", i*100+j), make([]byte, 500))
		}
		b.SetCheckpoint("t", int64(i))
		require.NoError(t, l.Write(&b))
	}
	require.NoError(t, l.(*loader).wait())
	last := 0
	for _, f := range s.db.GetLiveFilesMetaData() {
		if f.SmallestKey[0] == 0x01 {
			require.Equal(t, 6, f.Level)
			last++
		}
	}
	require.Greater(t, last, 5)
	require.NoError(t, l.Close())
}

// TestLoadFails: after an error a load does nothing more, the store is as after some batch,
// and the next load is not concerned.
func TestLoadFails(t *testing.T) {
	e := openInternal(t, Options{})
	s := openStore(t, e, "store")
	_, err := s.Load(-1)
	require.ErrorContains(t, err, `rocksdb: store "store": memory of a load (-1) must be >= 0`)

	trash := filepath.Join(e.opts.Dir, trashDir)
	l, err := s.Load(20_000)
	require.NoError(t, err)
	_, err = s.Load(0)
	require.ErrorIs(t, err, kvstore.ErrInUse)
	var b kvstore.Batch
	write := func(i int) error {
		b.Reset()
		b.Put(fmt.Append(nil, i), make([]byte, 3000))
		b.SetCheckpoint("t", int64(i))
		return l.Write(&b)
	}
	require.NoError(t, os.Remove(trash))
	n := 0
	for ; err == nil || errors.Is(err, kvstore.ErrInUse); n++ {
		err = write(n)
	}
	require.ErrorContains(t, err, `rocksdb: store "store": state directory `+e.opts.Dir+` cannot be written`)
	require.Less(t, n, 20)
	require.Equal(t, err, write(n), "it stays")
	require.Equal(t, err, l.Close())
	require.NoError(t, l.Close())
	require.Zero(t, s.loading.Load())
	_, ok, err := s.Checkpoint("t")
	require.NoError(t, err)
	require.False(t, ok)

	// A path that RocksDB cannot write to is its own error.
	require.NoError(t, os.Mkdir(trash, 0o755))
	l, err = s.Load(20_000)
	require.NoError(t, err)
	l.(*loader).dir = filepath.Join(trash, "absent")
	for n = 0; err == nil; n++ {
		err = write(n)
	}
	require.ErrorContains(t, err, `rocksdb: store "store": write of a table file: IO error: No such file or directory`)
	require.Equal(t, err, l.Close())

	l, err = s.Load(20_000)
	require.NoError(t, err)
	for n = range 20 {
		require.NoError(t, write(n))
	}
	require.NoError(t, l.Close())
	offset, _, err := s.Checkpoint("t")
	require.NoError(t, err)
	require.EqualValues(t, n, offset)
	left, err := os.ReadDir(trash)
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestLoadThenCompaction: compactions that a load puts off come after it.
func TestLoadThenCompaction(t *testing.T) {
	e := openInternal(t, Options{})
	s := openStore(t, e, "store")
	l, err := s.Load(256 << 10)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 1))
	var b kvstore.Batch
	for range 30 {
		loadBatch(&b, r, 60<<10)
		require.NoError(t, l.Write(&b))
	}
	require.NoError(t, l.(*loader).wait())
	level0 := s.db.GetProperty("rocksdb.num-files-at-level0")
	require.NotContains(t, []string{"0", "1", "2", "3", "4", "5", "6"}, level0, "files before Close")
	require.NoError(t, l.Close())
	require.Eventually(t, func() bool {
		pending, _ := s.db.GetIntProperty("rocksdb.compaction-pending")
		running, _ := s.db.GetIntProperty("rocksdb.num-running-compactions")
		return pending == 0 && running == 0 && len(s.db.GetProperty("rocksdb.num-files-at-level0")) == 1
	}, time.Minute, 5*time.Millisecond)
}

// TestLoadCompression: tables are compressed where that makes them smaller; where it does
// not, it is tried now and then.
func TestLoadCompression(t *testing.T) {
	e := openInternal(t, Options{})
	for _, compressible := range []bool{true, false} {
		s := openStore(t, e, fmt.Sprint("store-", compressible))
		l, err := s.Load(5 << 20)
		require.NoError(t, err)
		r := rand.New(rand.NewPCG(1, 1))
		var b kvstore.Batch
		for range 14 {
			loadBatch(&b, r, 2<<20)
			if compressible {
				b.Reset()
				for i := range 1000 {
					b.Put(fmt.Append(nil, r.Uint64()), bytes.Repeat(fmt.Append(nil, i), 300))
				}
			}
			require.NoError(t, l.Write(&b))
		}
		require.NoError(t, l.(*loader).wait())
		require.Equal(t, compressible, l.(*loader).plainFor == 0)
		require.NoError(t, l.Close())
	}
}
