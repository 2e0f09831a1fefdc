//go:build cgo

package rocksdb_test

import (
	"testing"

	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/kvstore/kvstoretest"
	"github.com/wickerwork/wicker/kvstore/rocksdb"
)

func TestConformance(t *testing.T) {
	kvstoretest.Run(t, func(_ *testing.T, dir string) kvstore.Engine {
		return rocksdb.New(rocksdb.Options{Dir: dir})
	}, kvstoretest.Features{Persistent: true})
}

// TestConformanceSmall runs the suite with so little memory that flushes,
// merges and evictions happen all the time.
func TestConformanceSmall(t *testing.T) {
	kvstoretest.Run(t, func(_ *testing.T, dir string) kvstore.Engine {
		return rocksdb.New(rocksdb.Options{Dir: dir, MemoryBytes: 1 << 20, WriteBufferBytes: 64 << 10})
	}, kvstoretest.Features{Persistent: true})
}
