//go:build cgo

package rocksdb

import "github.com/wickerwork/wicker/kvstore"

// Load implements kvstore.Store.
func (s *store) Load(memory int64) (kvstore.Loader, error) {
	if !s.gate.Enter() {
		return nil, s.closedErr()
	}
	defer s.gate.Leave()
	return loader{s}, nil
}

// loader writes batches as they come.
type loader struct{ *store }

// Close implements kvstore.Loader.
func (loader) Close() error { return nil }
