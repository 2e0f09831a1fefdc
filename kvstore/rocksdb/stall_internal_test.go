//go:build cgo

package rocksdb

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
)

// TestNoFlushUnasked: to end a store's background work and to free it flush nothing, which in a store that is stalled
// would wait for ever.
func TestNoFlushUnasked(t *testing.T) {
	for _, end := range []struct {
		name string
		f    func(*store)
	}{
		{"free", func(s *store) { s.free() }},
		{"end of a stall", func(s *store) { s.db.CancelAllBackgroundWork(false); s.free() }},
	} {
		t.Run(end.name, func(t *testing.T) {
			dir := t.TempDir()
			e := New(Options{Dir: dir})
			require.NoError(t, e.Open())
			open, err := e.OpenStore("store")
			require.NoError(t, err)
			s := open.(*store)
			var b kvstore.Batch
			b.Put([]byte("flushed"), nil)
			require.NoError(t, s.Write(&b))
			require.NoError(t, s.Flush())
			b.Reset()
			b.Put([]byte("not flushed"), nil)
			require.NoError(t, s.Write(&b))
			s.once.Do(func() { // what shut does, but for its flush
				s.gate.Close()
				end.f(s)
				e.released(s)
			})
			open, err = e.OpenStore("store")
			require.NoError(t, err)
			for key, want := range map[string]bool{"flushed": true, "not flushed": false} {
				_, found, err := open.Get(nil, []byte(key))
				require.NoError(t, err)
				require.Equal(t, want, found, key)
			}
			require.NoError(t, e.Close())
		})
	}
}
