//go:build !cgo

package rocksdb

import (
	"fmt"

	"github.com/wickerwork/wicker/kvstore"
)

// Engine stands in for the RocksDB engine in a program built without cgo: Open
// refuses with kvstore.ErrUnavailable.
type Engine struct{ opts Options }

var _ kvstore.Engine = (*Engine)(nil)

// New returns an engine that cannot be opened in this build.
func New(opts Options) *Engine { return &Engine{opts: opts} }

var errNoCgo = fmt.Errorf("rocksdb: needs cgo and librocksdb, and this program was built with CGO_ENABLED=0; "+
	"install librocksdb-dev and build with cgo, or use kvstore.NewMemory: %w", kvstore.ErrUnavailable)

var errNotOpen = fmt.Errorf("rocksdb: %w", kvstore.ErrClosed)

// Open implements kvstore.Engine.
func (e *Engine) Open() error {
	if err := e.opts.Validate(); err != nil {
		return err
	}
	return errNoCgo
}

// OpenStore implements kvstore.Engine.
func (e *Engine) OpenStore(string) (kvstore.Store, error) { return nil, errNotOpen }

// Stores implements kvstore.Engine.
func (e *Engine) Stores() ([]string, error) { return nil, errNotOpen }

// DestroyStore implements kvstore.Engine.
func (e *Engine) DestroyStore(string) error { return errNotOpen }

// MemoryBytes returns 0.
func (e *Engine) MemoryBytes() int64 { return 0 }

// Close implements kvstore.Engine.
func (e *Engine) Close() error { return nil }
