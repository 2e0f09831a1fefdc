package kvstore

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBatchErr: an entry that does not fit spoils the batch until Reset. The
// count stands in for lengths beyond 32 bits, which no test can afford.
func TestBatchErr(t *testing.T) {
	e := NewMemory()
	require.NoError(t, e.Open())
	s, err := e.OpenStore("s")
	require.NoError(t, err)
	var b Batch
	b.Put([]byte("a"), nil)
	b.count = math.MaxUint32
	size := b.Size()
	b.Put([]byte("secret"), []byte("secret"))
	require.EqualError(t, b.Err(), "kvstore: batch entry 4294967295 with a key of 6 bytes and a value of 6 bytes: lengths must be <= 4294967279")
	b.count = 1
	b.Delete([]byte("b"))
	b.SetCheckpoint("c", 1)
	b.SetMeta("m", nil)
	require.Equal(t, size, b.Size(), "nothing is added any more")
	require.Equal(t, b.Err(), s.Write(&b))
	_, found, err := s.Get(nil, []byte("a"))
	require.NoError(t, err)
	require.False(t, found, "refused whole")
	b.Reset()
	require.NoError(t, b.Err())
	b.Put([]byte("a"), nil)
	require.NoError(t, s.Write(&b))
	require.NoError(t, e.Close())
}
