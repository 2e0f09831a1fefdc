package kvstoretest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
)

// testGetAppends: Get appends to what dst holds, in place where there is room,
// and touches nothing else.
func testGetAppends(t *testing.T, s *suite) {
	st := s.store(t)
	put(t, st, "k", "value", "empty", "")
	value, found, err := st.Get([]byte("dst-"), []byte("k"))
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "dst-value", string(value))

	for _, size := range []int{0, 3, 4, 8, 9, 10, 64, 4096} {
		dst := bytes.Repeat([]byte("#"), size)[:min(size, 4)]
		before := string(dst)
		value, found, err = st.Get(dst, []byte("k"))
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, before+"value", string(value))
		require.Equal(t, before, string(dst))
		if size >= 9 {
			require.Same(t, &dst[0], &value[0], "there was room")
			rest := value[len(value):cap(value)]
			require.Equal(t, len(rest), bytes.Count(rest, []byte("#")), "nothing behind the value is written")
		}
	}

	dst := []byte("dst")
	for _, key := range []string{"empty", "absent"} {
		value, found, err = st.Get(dst, []byte(key))
		require.NoError(t, err)
		require.Equal(t, key == "empty", found)
		require.Equal(t, "dst", string(value))
	}
}

// testArguments: S7: what a call was given may be changed after it, and is not
// changed by it.
func testArguments(t *testing.T, s *suite) {
	st := s.store(t)
	key, value := []byte("key"), []byte("value")
	from, to := []byte("k"), []byte("l")
	wipe := func(bs ...[]byte) {
		for _, b := range bs {
			clear(b)
		}
	}
	var b kvstore.Batch
	b.Put(key, value)
	b.SetMeta("m", value)
	require.Equal(t, "keyvalue", string(key)+string(value))
	wipe(key, value)
	require.NoError(t, st.Write(&b))
	b.Reset()
	b.Put([]byte("XXX"), []byte("XXXXX")) // over the bytes of the first use
	wantValue(t, st, "key", []byte("value"))
	wantMeta(t, st, "m", "value")

	copy(key, "key")
	_, found, err := st.Get(nil, key)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "key", string(key))
	wipe(key)
	n := 0
	require.NoError(t, st.Scan(from, to, func(k, v []byte) error {
		wipe(from, to) // even while it runs
		n++
		put(t, st, "key2", "v")
		return nil
	}))
	require.Equal(t, 1, n)
	require.Equal(t, []string{"key", "value", "key2", "v"}, scan(t, st, nil, nil))
}

// testResults: S8: results stay as they are whatever happens to the store, and
// changing them changes nothing in it.
func testResults(t *testing.T, s *suite) {
	st := s.store(t)
	put(t, st, "a", "one", "b", "two")
	var b kvstore.Batch
	b.SetMeta("m", []byte("meta"))
	require.NoError(t, st.Write(&b))

	a, _, err := st.Get(nil, []byte("a"))
	require.NoError(t, err)
	again, _, err := st.Get(nil, []byte("a"))
	require.NoError(t, err)
	two, _, err := st.Get(nil, []byte("b"))
	require.NoError(t, err)
	meta, _, err := st.Meta("m")
	require.NoError(t, err)
	put(t, st, "a", "ONE", "b", "TWO")
	b.Reset()
	b.SetMeta("m", []byte("META"))
	require.NoError(t, st.Write(&b))
	_ = scan(t, st, nil, nil)
	require.Equal(t, "one one two meta", fmt.Sprintf("%s %s %s %s", a, again, two, meta))

	clear(a)
	got, _, err := st.Get(nil, []byte("a"))
	require.NoError(t, err)
	clear(got)
	_ = append(got, "spill"...)
	m, _, err := st.Meta("m")
	require.NoError(t, err)
	clear(m)
	wantValue(t, st, "a", []byte("ONE"))
	wantMeta(t, st, "m", "META")
	require.Equal(t, "one", string(again))

	// An append to what a visitor sees must not reach the neighbour.
	require.NoError(t, st.Scan(nil, nil, func(key, value []byte) error {
		_ = append(key, "###########"...)
		_ = append(value, "###########"...)
		return nil
	}))
	require.Equal(t, []string{"a", "ONE", "b", "TWO"}, scan(t, st, nil, nil))
	require.NoError(t, st.Close())
	require.Equal(t, "one two meta", fmt.Sprintf("%s %s %s", again, two, meta))
}
