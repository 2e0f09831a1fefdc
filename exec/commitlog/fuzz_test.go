package commitlog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// within reports whether part, if it has bytes, lies in whole.
func within(part, whole []byte) bool {
	if len(part) == 0 {
		return true
	}
	p, w := uintptr(unsafe.Pointer(unsafe.SliceData(part))), uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	return p >= w && p+uintptr(len(part)) <= w+uintptr(len(whole)) && cap(part) <= len(whole)
}

// walk reads what there is and checks what every cursor promises, whatever the bytes are.
func walk(t *testing.T, c *commitlog.Cursor, first, last int64, records []byte) (got []commitlog.Record) {
	t.Helper()
	var r commitlog.Record
	for c.Next(&r) {
		require.True(t, within(r.Key, records) && within(r.Value, records) && within(r.Headers, records), "reads beyond the batch")
		require.True(t, r.Offset >= first && r.Offset <= last, "offset %d, the batch has %d to %d", r.Offset, first, last)
		require.LessOrEqual(t, r.HeaderCount, len(records))
		n := 0
		err := r.EachHeader(func(key string, value []byte) bool {
			n++
			require.True(t, within(value, records))
			return true
		})
		if err != nil {
			require.ErrorIs(t, err, commitlog.ErrCorrupt)
		} else {
			require.Equal(t, r.HeaderCount, n)
		}
		got = append(got, r)
		require.LessOrEqual(t, len(got), len(records), "more records than bytes")
	}
	if err := c.Err(); err != nil {
		require.ErrorIs(t, err, commitlog.ErrCorrupt)
		require.Equal(t, commitlog.Fatal, commitlog.ClassOf(err))
		require.Less(t, len(err.Error()), 100, "an error holds no content")
	}
	require.False(t, c.Next(&r), "the end is the end")
	return got
}

func seedRecords() []byte {
	b := commitlog.NewBuilder(commitlog.NewPool(0))
	b.Append(5, []byte("k"), nil, commitlog.AppendHeader(nil, "a", []byte("b")), 1)
	b.Append(4, nil, []byte("v"), nil, 0)
	b.Append(1<<40, []byte{}, bytes.Repeat([]byte("v"), 200), commitlog.AppendHeader(commitlog.AppendHeader(nil, "", nil), "x", []byte{}), 2)
	return b.Take().Buf[commitlog.HeaderSize:]
}

// A cursor over anything ends, with an error or without; it reads nothing beyond the batch, and never panics.
func FuzzCursor(f *testing.F) {
	good := seedRecords()
	f.Add(good, 3, int64(0), int64(2), int64(0))
	f.Add(good, 3, int64(math.MaxInt64-2), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Add(good, 2, int64(7), int64(9), int64(8))
	f.Add(good, 3, int64(7), int64(8), int64(0)) // the third record lies behind the batch
	f.Add(good, -1, int64(0), int64(0), int64(0))
	f.Add(good[:len(good)-1], 3, int64(0), int64(2), int64(0))
	f.Add([]byte{}, 1, int64(0), int64(0), int64(0))
	f.Add([]byte{2, 0}, 1, int64(0), int64(0), int64(0))
	f.Add(binary.AppendVarint(nil, math.MaxInt64), 1, int64(0), int64(0), int64(0))
	f.Add(bytes.Repeat([]byte{0xff}, 20), 1, int64(0), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, records []byte, count int, first, last, base int64) {
		if first < 0 || last < first {
			t.Skip("no header says so: ReadHeader refuses it")
		}
		before := bytes.Clone(records)
		for _, appendTime := range []int64{-1, 77} {
			chunk := commitlog.Chunk{Base: base, Batches: []commitlog.RecordBatch{{BaseOffset: first, LastOffset: last, Count: count, Records: records, AppendTime: appendTime}}}
			var c commitlog.Cursor
			c.Reset(&chunk)
			got := walk(t, &c, first, last, records)
			for _, r := range got {
				require.GreaterOrEqual(t, r.Offset, base)
				require.True(t, appendTime < 0 || r.Timestamp == appendTime)
			}
			if c.Err() == nil && count > 0 && base <= first {
				require.Len(t, got, count)
			}
		}
		require.Equal(t, before, records)
	})
}

// Of a whole batch: what ReadHeader and CheckCRC accept is one batch, and its header is written as it was read.
func FuzzBatch(f *testing.F) {
	records := seedRecords()
	good := append(make([]byte, commitlog.HeaderSize), records...)
	commitlog.PutHeader(good, &commitlog.Header{BaseOffset: 40, LastOffsetDelta: 2, BaseTimestamp: 5, MaxTimestamp: 1 << 40, ProducerID: 9, ProducerEpoch: 1, Count: 3})
	f.Add(good)
	f.Add(append(bytes.Clone(good), good...))
	for _, n := range []int{0, 16, 17, 60, len(good) - 1} {
		f.Add(bytes.Clone(good[:n]))
	}
	for _, at := range []int{0, 8, 16, 17, 23, 57, 61, 62} {
		damaged := bytes.Clone(good)
		damaged[at] ^= 0x80
		f.Add(damaged)
	}
	f.Fuzz(func(t *testing.T, buf []byte) {
		var h commitlog.Header
		size, err := commitlog.ReadHeader(buf, &h)
		if err != nil {
			require.ErrorIs(t, err, commitlog.ErrCorrupt)
			require.Zero(t, size)
			return
		}
		if size == 0 {
			return
		}
		require.True(t, size >= commitlog.HeaderSize && size <= len(buf))
		require.Greater(t, h.Next(), h.BaseOffset)
		if err := commitlog.CheckCRC(buf[:size]); err != nil {
			require.ErrorIs(t, err, commitlog.ErrCorrupt)
		}
		again := bytes.Clone(buf[:size])
		commitlog.PutHeader(again, &h)
		var back commitlog.Header
		n, err := commitlog.ReadHeader(again, &back)
		require.NoError(t, err)
		require.Equal(t, size, n)
		require.Equal(t, h, back)
		require.NoError(t, commitlog.CheckCRC(again))

		chunk := commitlog.Chunk{Base: h.BaseOffset, Batches: []commitlog.RecordBatch{{BaseOffset: h.BaseOffset, LastOffset: h.Next() - 1,
			BaseTimestamp: h.BaseTimestamp, AppendTime: -1, Count: int(h.Count), Records: buf[commitlog.HeaderSize:size]}}}
		var c commitlog.Cursor
		c.Reset(&chunk)
		walk(t, &c, h.BaseOffset, h.Next()-1, buf[commitlog.HeaderSize:size])
	})
}

// Each way in which a batch can be wrong is an error that says which.
func TestCorrupt(t *testing.T) {
	good := append(make([]byte, commitlog.HeaderSize), seedRecords()...)
	commitlog.PutHeader(good, &commitlog.Header{BaseOffset: 40, LastOffsetDelta: 2, Count: 3})
	for _, c := range []struct {
		at   int
		to   []byte
		want string
	}{
		{16, []byte{1}, "corrupt record batch: magic 1, want 2"},
		{8, []byte{0, 0, 0, 48}, "corrupt record batch: length 48, want at least 49"},
		{8, []byte{0xff, 0xff, 0xff, 0xff}, "corrupt record batch: length -1, want at least 49"},
		{57, []byte{0xff, 0xff, 0xff, 0xff}, "corrupt record batch: -1 records from offset 40 to 2 behind it"},
		{23, []byte{0x80, 0, 0, 0}, "corrupt record batch: 3 records from offset 40 to -2147483648 behind it"},
		{0, bytes.Repeat([]byte{0xff}, 8), "corrupt record batch: 3 records from offset -1 to 2 behind it"},
	} {
		damaged := bytes.Clone(good)
		copy(damaged[c.at:], c.to)
		var h commitlog.Header
		_, err := commitlog.ReadHeader(damaged, &h)
		require.EqualError(t, err, c.want)
	}

	v := func(vs ...int64) (b []byte) {
		for _, x := range vs {
			b = binary.AppendVarint(b, x)
		}
		return b
	}
	record := func(body []byte) []byte { return append(v(int64(len(body)+1)), append([]byte{0}, body...)...) }
	for _, c := range []struct {
		records []byte
		want    string
	}{
		{v(100), "record length"},
		{v(0), "record length"},
		{v(-5), "record length"},
		{bytes.Repeat([]byte{0xff}, 11), "record length"},
		{record(nil), "timestamp"},
		{record(v(0)), "offset"},
		{record(v(0, 1, -1, -1, 0)), "offset"},  // behind the batch
		{record(v(0, -1, -1, -1, 0)), "offset"}, // before it
		{record(v(0, 0)), "key length"},
		{record(v(0, 0, -2)), "key length"},
		{record(v(0, 0, 9)), "key length"},
		{record(v(0, 0, -1)), "value length"},
		{record(v(0, 0, -1, math.MaxInt64)), "value length"},
		{record(v(0, 0, -1, -1)), "header count"},
		{record(v(0, 0, -1, -1, -1)), "header count"},
		{record(v(0, 0, -1, -1, 1)), "header count"},
		{append(record(v(0, 0, -1, -1, 0)), 0), "bytes after the last record"},
	} {
		var cur commitlog.Cursor
		cur.Reset(&commitlog.Chunk{Base: 40, Batches: []commitlog.RecordBatch{{BaseOffset: 40, LastOffset: 40, Count: 1, AppendTime: -1, Records: c.records}}})
		var r commitlog.Record
		for cur.Next(&r) {
		}
		require.EqualError(t, cur.Err(), "corrupt record batch at offset 40: "+c.want, "%x", c.records)
	}

	for _, headers := range [][]byte{nil, v(-1), v(5), v(0), v(0, 7), v(0, -2)} {
		r := commitlog.Record{Offset: 3, Headers: headers, HeaderCount: 1}
		err := r.EachHeader(func(string, []byte) bool { return true })
		require.True(t, errors.Is(err, commitlog.ErrCorrupt), "%x: %v", headers, err)
	}
}
