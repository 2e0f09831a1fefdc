package kvstore_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
)

// TestBatchEach: what went in comes out, in order and apart by kind.
func TestBatchEach(t *testing.T) {
	var b kvstore.Batch
	require.Zero(t, b.Len())
	require.Zero(t, b.Size())
	require.NoError(t, b.Each(func(kvstore.Op, []byte, []byte) error { return errors.New("empty") }))
	var want []string
	for range 2 {
		want = want[:0]
		b.Reset()
		for _, n := range []int{0, 1, 125, 126, 127, 128, 16382, 16383, 16384, 100_000} {
			key, value := make([]byte, n), make([]byte, n/2)
			for i := range key {
				key[i] = byte(i * n)
			}
			b.Put(key, value)
			b.Delete(key)
			b.SetCheckpoint(string(key), int64(n)-1)
			b.SetMeta(string(key), value)
			want = append(want,
				fmt.Sprintf("put %x %x", key, value),
				fmt.Sprintf("delete %x ", key),
				fmt.Sprintf("checkpoint %x %016x", key, uint64(n)-1),
				fmt.Sprintf("meta %x %x", key, value))
		}
		require.Equal(t, 40, b.Len())
		names := map[kvstore.Op]string{kvstore.OpPut: "put", kvstore.OpDelete: "delete", kvstore.OpCheckpoint: "checkpoint", kvstore.OpMeta: "meta"}
		var got []string
		require.NoError(t, b.Each(func(op kvstore.Op, key, value []byte) error {
			got = append(got, fmt.Sprintf("%s %x %x", names[op], key, value))
			return nil
		}))
		require.Equal(t, want, got)
	}
	stop := errors.New("stop")
	n := 0
	require.Equal(t, stop, b.Each(func(kvstore.Op, []byte, []byte) error { n++; return stop }))
	require.Equal(t, 1, n)
	b.Reset()
	require.Zero(t, b.Len())
	require.Zero(t, b.Size())
}

// TestBatchAllocations: a batch in use costs nothing per entry.
func TestBatchAllocations(t *testing.T) {
	var b kvstore.Batch
	key, value := make([]byte, 20), make([]byte, 200)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		b.Reset()
		for range 100 {
			b.Put(key, value)
			b.Delete(key)
		}
		b.SetCheckpoint("topic", 5)
		b.SetMeta("m", value)
		_ = b.Encoding()
	}))
}

// TestMemoryAllocations: reads and overwrites of a memory store allocate nothing.
func TestMemoryAllocations(t *testing.T) {
	e := kvstore.NewMemory()
	require.NoError(t, e.Open())
	s, err := e.OpenStore("s")
	require.NoError(t, err)
	var b kvstore.Batch
	key := []byte("key")
	b.Put(key, []byte("value"))
	b.SetCheckpoint("topic", 5)
	buf := make([]byte, 0, 100)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		err := s.Write(&b)
		_, found, err2 := s.Get(buf, key)
		if err != nil || err2 != nil || !found {
			t.Error(err, err2, found)
		}
	}))
	require.NoError(t, e.Close())
}

func TestErrorTexts(t *testing.T) {
	for want, err := range map[string]error{
		"state directory /d is locked by the process with pid 12: is another instance running on it?": &kvstore.LockedError{Dir: "/d", PID: 12},
		"state directory /d is locked by another process (it left no pid)":                            &kvstore.LockedError{Dir: "/d"},
		"state directory /d is locked by another engine of this process (pid 12)":                     &kvstore.LockedError{Dir: "/d", PID: 12, Self: true},
		"directory /d holds x, not y; it is left as it is":                                            &kvstore.FormatError{Dir: "/d", Found: "x", Want: "y"},
	} {
		require.EqualError(t, err, want)
	}
	require.ErrorIs(t, &kvstore.LockedError{}, kvstore.ErrLocked)
	require.ErrorIs(t, &kvstore.FormatError{}, kvstore.ErrFormat)
}
