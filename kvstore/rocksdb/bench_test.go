//go:build cgo

package rocksdb_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/kvstore/rocksdb"
)

// Both engines, side by side: 200,000 entries with keys of 16 bytes and values
// of 100, all of it within the cache.
const benchEntries = 200_000

func benchKey(dst []byte, i uint64) []byte { return fmt.Appendf(dst[:0], "k%015d", i) }

func benchStores(b *testing.B, run func(b *testing.B, s kvstore.Store)) {
	engines := []struct {
		name   string
		engine kvstore.Engine
	}{
		{"memory", kvstore.NewMemory()},
		{"rocksdb", rocksdb.New(rocksdb.Options{Dir: b.TempDir()})},
	}
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			require.NoError(b, e.engine.Open())
			s, err := e.engine.OpenStore(b.Name())
			require.NoError(b, err)
			defer func() { require.NoError(b, s.Close()) }()
			var batch kvstore.Batch
			var key []byte
			for i := range uint64(benchEntries) {
				key = benchKey(key, i)
				batch.Put(key, randomValue())
				if batch.Len() == 1000 {
					require.NoError(b, s.Write(&batch))
					batch.Reset()
				}
			}
			require.NoError(b, s.Flush())
			b.ReportAllocs()
			run(b, s)
		})
		require.NoError(b, e.engine.Close())
	}
}

func randomValue() []byte {
	v := make([]byte, 100)
	for i := range v {
		v[i] = byte('!' + rand.IntN(64))
	}
	return v
}

func BenchmarkGetHit(b *testing.B) {
	benchStores(b, func(b *testing.B, s kvstore.Store) {
		var key, value []byte
		for b.Loop() {
			key = benchKey(key, rand.Uint64N(benchEntries))
			var found bool
			var err error
			if value, found, err = s.Get(value[:0], key); !found || err != nil {
				b.Fatal(found, err)
			}
		}
	})
}

func BenchmarkGetMiss(b *testing.B) {
	benchStores(b, func(b *testing.B, s kvstore.Store) {
		var key []byte
		for b.Loop() {
			key = append(benchKey(key, rand.Uint64N(benchEntries)), 'x')
			if _, found, err := s.Get(nil, key); found || err != nil {
				b.Fatal(found, err)
			}
		}
	})
}

// BenchmarkWrite is one batch of 1000 puts of existing keys and a checkpoint.
func BenchmarkWrite(b *testing.B) {
	benchStores(b, func(b *testing.B, s kvstore.Store) {
		var batch kvstore.Batch
		var key []byte
		value := randomValue()
		for i := int64(0); b.Loop(); i++ {
			batch.Reset()
			for range 1000 {
				key = benchKey(key, rand.Uint64N(benchEntries))
				batch.Put(key, value)
			}
			batch.SetCheckpoint("topic", i)
			if err := s.Write(&batch); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkScan is a scan over n entries from a random key on.
func BenchmarkScan(b *testing.B) {
	for _, n := range []uint64{5, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			benchStores(b, func(b *testing.B, s kvstore.Store) {
				var from, to []byte
				for b.Loop() {
					i := rand.Uint64N(benchEntries - n)
					from, to = benchKey(from, i), benchKey(to, i+n)
					seen := uint64(0)
					err := s.Scan(from, to, func(_, _ []byte) error { seen++; return nil })
					if err != nil || seen != n {
						b.Fatal(seen, err)
					}
				}
			})
		})
	}
}
