package kvstoretest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
)

// oddKeys are in ascending order: prefixes of each other, the bytes that an
// encoding may trip over, and the empty key.
var oddKeys = []string{
	"", "\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "\x01\x00", "\x02", "0", "a", "a\x00", "a\x00b", "aa", "b",
	"\x7f", "\x80", "\xfe\xff", "\xff", "\xff\x00", "\xff\xff", "\xff\xff\xff\xff\xff\xff\xff\xff\xff",
}

// testOrder: S1.
func testOrder(t *testing.T, s *suite) {
	require.True(t, slices.IsSorted(oddKeys))
	st := s.store(t)
	var want, written []string
	for i, k := range oddKeys {
		want = append(want, k, fmt.Sprint(i))
		written = append(written, oddKeys[len(oddKeys)-1-i], fmt.Sprint(len(oddKeys)-1-i))
	}
	put(t, st, written...)
	require.Equal(t, want, scan(t, st, nil, nil))
	require.NoError(t, st.Flush())
	require.Equal(t, want, scan(t, st, nil, nil), "after a flush")
	for i, k := range oddKeys {
		wantValue(t, st, k, []byte(fmt.Sprint(i)))
	}
	wantValue(t, st, "c", nil)
}

// testBounds: every pair of bounds, in order or not, against a plain filter.
func testBounds(t *testing.T, s *suite) {
	st := s.store(t)
	for i, k := range oddKeys {
		if i%2 == 0 {
			put(t, st, k, "v")
		}
	}
	bounds := [][]byte{nil, []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")}
	for _, k := range oddKeys {
		bounds = append(bounds, []byte(k))
	}
	for _, from := range bounds {
		for _, to := range bounds {
			want := []string{}
			for i, k := range oddKeys {
				if i%2 == 0 && k >= string(from) && (to == nil || k < string(to)) {
					want = append(want, k, "v")
				}
			}
			require.Equal(t, want, scan(t, st, from, to), "from %q to %q (nil: %v)", from, to, to == nil)
		}
	}
}

// testPresence: S2.
func testPresence(t *testing.T, s *suite) {
	st := s.store(t)
	put(t, st, "empty", "")
	var b kvstore.Batch
	b.Put([]byte("nil"), nil)
	b.Delete([]byte("never there"))
	require.NoError(t, st.Write(&b))
	wantValue(t, st, "empty", []byte{})
	wantValue(t, st, "nil", []byte{})
	wantValue(t, st, "absent", nil)
	require.Equal(t, []string{"empty", "", "nil", ""}, scan(t, st, nil, nil))

	b.Reset()
	b.Delete([]byte("empty"))
	require.NoError(t, st.Write(&b))
	wantValue(t, st, "empty", nil)
	require.Equal(t, []string{"nil", ""}, scan(t, st, nil, nil))
}

// testLargeEntries: sizes around those of buffers, and beyond.
func testLargeEntries(t *testing.T, s *suite) {
	st := s.store(t)
	want := map[string]string{}
	for i, n := range []int{1, 127, 128, 255, 256, 1000, 1023, 1024, 1025, 2030, 2048, 16383, 16384, 32 << 10, 33 << 10, 200 << 10, 1 << 20} {
		want[fmt.Sprintf("%03d", i)] = string(bytes.Repeat([]byte{byte(i)}, n))
	}
	want[string(bytes.Repeat([]byte("k"), 40<<10))] = "long key"
	for k, v := range want {
		put(t, st, k, v)
	}
	check := func() {
		for k, v := range want {
			wantValue(t, st, k, []byte(v))
			value, found, err := st.Get(make([]byte, 0, 300), []byte(k))
			require.NoError(t, err)
			require.True(t, found && string(value) == v, "value of %d bytes", len(v))
		}
		n := 0
		require.NoError(t, st.Scan(nil, nil, func(key, value []byte) error {
			n++
			require.True(t, want[string(key)] == string(value), "value of %d bytes", len(value))
			return nil
		}))
		require.Len(t, want, n)
	}
	check()
	require.NoError(t, st.Flush())
	check()
}

// testVisitError: the visitor's error ends the scan and comes back itself.
func testVisitError(t *testing.T, s *suite) {
	st := s.store(t)
	put(t, st, "a", "1", "b", "2", "c", "3")
	stop := errors.New("stop")
	var keys []string
	err := st.Scan(nil, nil, func(key, _ []byte) error {
		keys = append(keys, string(key))
		if len(keys) == 2 {
			return stop
		}
		return nil
	})
	require.True(t, err == stop, "not wrapped: %v", err)
	require.Equal(t, []string{"a", "b"}, keys)
	require.Panics(t, func() {
		_ = st.Scan(nil, nil, func(_, _ []byte) error { panic("visitor") })
	})
	require.Len(t, scan(t, st, nil, nil), 6, "the store works after both")
}

// testSnapshot: S5, S6: a scan sees nothing of what its visitor writes, Get all.
func testSnapshot(t *testing.T, s *suite) {
	st := s.store(t)
	want := []string{}
	for i := range 500 {
		// Values large enough that no engine reads all of it ahead.
		want = append(want, fmt.Sprintf("%03d", i), fmt.Sprintf("%0400d", i))
	}
	put(t, st, want...)
	for round := range 3 {
		var got []string
		i := 0
		require.NoError(t, st.Scan(nil, nil, func(key, value []byte) error {
			got = append(got, string(key), string(value))
			// Behind and before the scan: change, delete, add.
			var b kvstore.Batch
			for _, n := range []int{i / 2, i + 1, i + 2, i + 100} {
				k := fmt.Appendf(nil, "%03d", n)
				switch (n + round) % 3 {
				case 0:
					b.Delete(k)
				case 1:
					b.Put(k, []byte("changed"))
				default:
					b.Put(fmt.Appendf(k, "new%d", round), []byte("new"))
				}
			}
			fresh := fmt.Appendf(nil, "%03dx", i)
			b.Put(fresh, []byte("fresh"))
			require.NoError(t, st.Write(&b))
			wantValue(t, st, string(fresh), []byte("fresh"))
			b.Reset()
			b.Delete(fresh)
			require.NoError(t, st.Write(&b))
			wantValue(t, st, string(fresh), nil)
			i++
			return nil
		}))
		require.Equal(t, want, got)
		want = scan(t, st, nil, nil)
	}
}

// testNestedScan: scans within visitors keep apart.
func testNestedScan(t *testing.T, s *suite) {
	st := s.store(t)
	put(t, st, "a", "1", "b", "2", "c", "3")
	var got []string
	require.NoError(t, st.Scan(nil, nil, func(key, value []byte) error {
		outer := string(key) + string(value)
		put(t, st, string(key)+"+", "n")
		err := st.Scan(key, nil, func(k, v []byte) error {
			got = append(got, outer+">"+string(k)+string(v))
			return nil
		})
		require.Equal(t, outer, string(key)+string(value))
		return err
	}))
	require.Equal(t, []string{
		"a1>a1", "a1>a+n", "a1>b2", "a1>c3",
		"b2>b2", "b2>b+n", "b2>c3",
		"c3>c3", "c3>c+n",
	}, got)
}

// testLastWins: S3, order within a batch.
func testLastWins(t *testing.T, s *suite) {
	st := s.store(t)
	put(t, st, "kept", "0")
	var b kvstore.Batch
	b.Put([]byte("a"), []byte("1"))
	b.Put([]byte("a"), []byte("2"))
	b.Put([]byte("b"), []byte("1"))
	b.Delete([]byte("b"))
	b.Delete([]byte("c"))
	b.Put([]byte("c"), []byte("1"))
	b.Delete([]byte("kept"))
	b.Put([]byte("kept"), []byte("1"))
	b.SetCheckpoint("t", 1)
	b.SetCheckpoint("t", 2)
	b.SetMeta("t", []byte("x"))
	b.SetMeta("t", []byte("y"))
	require.Equal(t, 12, b.Len())
	require.NoError(t, st.Write(&b))
	require.Equal(t, []string{"a", "2", "c", "1", "kept", "1"}, scan(t, st, nil, nil))
	wantCheckpoint(t, st, "t", 2)
	wantMeta(t, st, "t", "y")
}

// testBatchReuse: a batch is unchanged by Write and empty after Reset.
func testBatchReuse(t *testing.T, s *suite) {
	e := s.open(t)
	one, two := openStore(t, e, "one"), openStore(t, e, "two")
	var b kvstore.Batch
	require.NoError(t, one.Write(&b), "empty")
	b.Put([]byte("a"), []byte("1"))
	require.NoError(t, one.Write(&b))
	require.NoError(t, two.Write(&b))
	b.Put([]byte("b"), []byte("2"))
	require.NoError(t, two.Write(&b))
	b.Reset()
	require.NoError(t, one.Write(&b))
	b.Put([]byte("c"), []byte("3"))
	require.NoError(t, one.Write(&b))
	require.Equal(t, []string{"a", "1", "c", "3"}, scan(t, one, nil, nil))
	require.Equal(t, []string{"a", "1", "b", "2"}, scan(t, two, nil, nil))
}

func wantCheckpoint(t *testing.T, s kvstore.Store, name string, want int64) {
	t.Helper()
	offset, ok, err := s.Checkpoint(name)
	require.NoError(t, err)
	require.True(t, ok, "checkpoint %q is there", name)
	require.Equal(t, want, offset)
}

func wantMeta(t *testing.T, s kvstore.Store, name, want string) {
	t.Helper()
	value, ok, err := s.Meta(name)
	require.NoError(t, err)
	require.True(t, ok, "metadata %q is there", name)
	require.NotNil(t, value)
	require.Equal(t, want, string(value))
}

// testCheckpoint: every offset, several names, never one that was not set.
func testCheckpoint(t *testing.T, s *suite) {
	st := s.store(t)
	offset, ok, err := st.Checkpoint("topic")
	require.NoError(t, err)
	require.False(t, ok)
	require.Zero(t, offset)
	for _, want := range []int64{0, 1, 255, 256, math.MaxInt64, -1, math.MinInt64, 7} {
		var b kvstore.Batch
		b.SetCheckpoint("topic", want)
		b.SetCheckpoint("topic-2", want/2)
		require.NoError(t, st.Write(&b))
		wantCheckpoint(t, st, "topic", want)
		wantCheckpoint(t, st, "topic-2", want/2)
	}
	_, ok, err = st.Checkpoint("topic-")
	require.NoError(t, err)
	require.False(t, ok)
}

// testMeta: metadata is kept as it is, the empty value too.
func testMeta(t *testing.T, s *suite) {
	st := s.store(t)
	_, ok, err := st.Meta("id")
	require.NoError(t, err)
	require.False(t, ok)
	for _, want := range []string{"x", "", "\x00\xff", string(bytes.Repeat([]byte("m"), 5000))} {
		var b kvstore.Batch
		b.SetMeta("id", []byte(want))
		require.NoError(t, st.Write(&b))
		wantMeta(t, st, "id", want)
	}
}

// testNamesApart: keys, checkpoints and metadata of one name do not meet, and
// scans see keys only.
func testNamesApart(t *testing.T, s *suite) {
	st := s.store(t)
	names := append(slices.Clone(oddKeys), "c", "m", "f", "\x00c", "\x00m", "\x00f", "\x00cc", "\x01c")
	var b kvstore.Batch
	for i, n := range names {
		b.SetMeta(n, []byte("meta"+n))
		b.SetCheckpoint(n, int64(i))
	}
	require.NoError(t, st.Write(&b))
	require.Empty(t, scan(t, st, nil, nil))
	for _, n := range names {
		wantValue(t, st, n, nil)
		put(t, st, n, "data"+n)
	}
	b.Reset()
	for _, n := range names {
		b.Delete([]byte(n))
	}
	for i, n := range names {
		wantValue(t, st, n, []byte("data"+n))
		wantMeta(t, st, n, "meta"+n)
		wantCheckpoint(t, st, n, int64(i))
	}
	require.NoError(t, st.Write(&b))
	require.Empty(t, scan(t, st, nil, nil))
	for i, n := range names {
		wantMeta(t, st, n, "meta"+n)
		wantCheckpoint(t, st, n, int64(i))
	}
}
