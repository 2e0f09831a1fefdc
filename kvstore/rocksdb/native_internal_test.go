//go:build cgo

package rocksdb

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/linxGnu/grocksdb"
	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
)

// BenchmarkCalls compares the calls of this package with those of grocksdb on
// the same database.
func BenchmarkCalls(b *testing.B) {
	e := New(Options{Dir: b.TempDir()})
	require.NoError(b, e.Open())
	defer func() { require.NoError(b, e.Close()) }()
	open, err := e.OpenStore("store")
	require.NoError(b, err)
	s := open.(*store)
	var batch kvstore.Batch
	const n = 100_000
	for i := range n {
		batch.Put(fmt.Appendf(nil, "k%015d", i), make([]byte, 100))
	}
	require.NoError(b, s.Write(&batch))
	require.NoError(b, s.Flush())
	key := func() []byte { return fmt.Appendf(nil, "\x01k%015d", rand.IntN(n)) }
	keys := make([][]byte, 1<<12)
	for i := range keys {
		keys[i] = key()
	}
	ro := grocksdb.NewDefaultReadOptions()
	defer ro.Destroy()
	wo := grocksdb.NewDefaultWriteOptions()
	defer wo.Destroy()
	wo.DisableWAL(true)

	b.Run("get/own", func(b *testing.B) {
		b.ReportAllocs()
		var dst []byte
		for i := 0; b.Loop(); i++ {
			dst, _, _ = s.native.get(dst[:0], keys[i%len(keys)], s.spare)
		}
	})
	b.Run("get/grocksdb-pinned", func(b *testing.B) {
		b.ReportAllocs()
		var dst []byte
		for i := 0; b.Loop(); i++ {
			h, err := s.db.GetPinned(ro, keys[i%len(keys)])
			if err != nil {
				b.Fatal(err)
			}
			dst = append(dst[:0], h.Data()...)
			h.Destroy()
		}
	})
	batch.Reset()
	for i := range 1000 {
		batch.Put(keys[i][1:], make([]byte, 100))
	}
	b.Run("write1000/own", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := s.native.write(batch.Encoding()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write1000/grocksdb-from", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			wb := grocksdb.WriteBatchFrom(batch.Encoding())
			if err := s.db.Write(wo, wb); err != nil {
				b.Fatal(err)
			}
			wb.Destroy()
		}
	})
	b.Run("write1000/grocksdb-put", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			wb := grocksdb.NewWriteBatch()
			for i := range 1000 {
				wb.Put(keys[i], keys[i])
			}
			if err := s.db.Write(wo, wb); err != nil {
				b.Fatal(err)
			}
			wb.Destroy()
		}
	})
	b.Run("scan1000/own", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, scanBytes)
		for b.Loop() {
			seen := 0
			if buf, _, err = s.native.scan([]byte("\x01k000000000050000"), []byte("\x01k000000000051000"), buf, func(_, _ []byte) error { seen++; return nil }); seen != 1000 || err != nil {
				b.Fatal(seen, err)
			}
		}
	})
	b.Run("scan1000/grocksdb", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			seen := 0
			ro := grocksdb.NewDefaultReadOptions()
			ro.SetIterateUpperBound([]byte("\x01k000000000051000"))
			it := s.db.NewIterator(ro)
			for it.Seek([]byte("\x01k000000000050000")); it.Valid(); it.Next() {
				_, _ = it.Key().Data(), it.Value().Data()
				seen++
			}
			it.Close()
			ro.Destroy()
			if seen != 1000 {
				b.Fatal(seen)
			}
		}
	})
}
