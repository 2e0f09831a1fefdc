//go:build !cgo

package rocksdb_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/kvstore/rocksdb"
)

// TestWithoutCgo: a program built without cgo is told what to do.
func TestWithoutCgo(t *testing.T) {
	e := rocksdb.New(rocksdb.Options{Dir: t.TempDir()})
	err := e.Open()
	require.ErrorIs(t, err, kvstore.ErrUnavailable)
	require.EqualError(t, err, "rocksdb: needs cgo and librocksdb, and this program was built with CGO_ENABLED=0; "+
		"install librocksdb-dev and build with cgo, or use kvstore.NewMemory: not available in this build")
	_, err = e.OpenStore("x")
	require.ErrorIs(t, err, kvstore.ErrClosed)
	_, err = e.Stores()
	require.ErrorIs(t, err, kvstore.ErrClosed)
	require.ErrorIs(t, e.DestroyStore("x"), kvstore.ErrClosed)
	require.NoError(t, e.Close())
}
