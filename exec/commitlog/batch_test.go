package commitlog_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

func randomBytes(r *rand.Rand) []byte {
	switch r.IntN(5) {
	case 0:
		return nil
	case 1:
		return []byte{}
	}
	b := make([]byte, r.IntN(300))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// What a builder laid out, a cursor reads back: nulls, empties, headers, timestamps either way.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pool := commitlog.NewPool(4096)
	for range 200 {
		b := commitlog.NewBuilder(pool)
		var want []commitlog.Record
		base := r.Int64N(1 << 40)
		for i := range 1 + r.IntN(50) {
			rec := commitlog.Record{Offset: base + int64(i), Timestamp: r.Int64N(1<<41) - 1, Key: randomBytes(r), Value: randomBytes(r), Headers: []byte{}}
			for range r.IntN(3) {
				rec.Headers = commitlog.AppendHeader(rec.Headers, "h", randomBytes(r))
				rec.HeaderCount++
			}
			b.Append(rec.Timestamp, rec.Key, rec.Value, rec.Headers, rec.HeaderCount)
			want = append(want, rec)
		}
		batch := b.Take()
		require.Zero(t, b.Len())
		require.Equal(t, len(want), batch.Count)
		h := commitlog.Header{BaseOffset: base, Attributes: commitlog.TransactionalBit, LastOffsetDelta: int32(batch.Count - 1),
			BaseTimestamp: batch.BaseTimestamp, MaxTimestamp: batch.MaxTimestamp, ProducerID: 7, ProducerEpoch: 3, BaseSequence: 11, Count: int32(batch.Count)}
		commitlog.PutHeader(batch.Buf, &h)
		var got commitlog.Header
		size, err := commitlog.ReadHeader(batch.Buf, &got)
		require.NoError(t, err)
		require.Equal(t, len(batch.Buf), size)
		require.Equal(t, h, got)
		require.NoError(t, commitlog.CheckCRC(batch.Buf))

		skip := int64(r.IntN(len(want)))
		chunk := commitlog.Chunk{Base: base + skip, Batches: []commitlog.RecordBatch{{BaseOffset: base, LastOffset: got.Next() - 1,
			BaseTimestamp: got.BaseTimestamp, AppendTime: -1, Count: batch.Count, Records: batch.Buf[commitlog.HeaderSize:]}}}
		var c commitlog.Cursor
		c.Reset(&chunk)
		var rec commitlog.Record
		for i := skip; i < int64(len(want)); i++ {
			require.True(t, c.Next(&rec))
			require.Equal(t, want[i], rec)
		}
		require.False(t, c.Next(&rec))
		require.NoError(t, c.Err())
		batch.Buf[commitlog.HeaderSize] ^= 0x40
		require.ErrorIs(t, commitlog.CheckCRC(batch.Buf), commitlog.ErrCorrupt)
		batch.Release()
	}
}

func TestNoAllocationPerRecord(t *testing.T) {
	b := commitlog.NewBuilder(commitlog.NewPool(1 << 20))
	key, value := make([]byte, 16), make([]byte, 100)
	b.Append(1, key, value, nil, 0)
	require.Zero(t, testing.AllocsPerRun(1000, func() { b.Append(1, key, value, nil, 0) }))
	batch := b.Take()
	chunk := &commitlog.Chunk{Batches: []commitlog.RecordBatch{{LastOffset: int64(batch.Count - 1), Count: batch.Count, Records: batch.Buf[commitlog.HeaderSize:], AppendTime: -1}}}
	var c commitlog.Cursor
	var rec commitlog.Record
	require.Zero(t, testing.AllocsPerRun(10, func() {
		c.Reset(chunk)
		for c.Next(&rec) {
		}
	}))
}

func BenchmarkAppend(b *testing.B) {
	bl := commitlog.NewBuilder(commitlog.NewPool(1 << 20))
	key, value := make([]byte, 16), make([]byte, 100)
	b.ReportAllocs()
	b.SetBytes(116)
	for b.Loop() {
		bl.Append(1, key, value, nil, 0)
		if bl.Size() > 900_000 {
			bl.Take().Release()
		}
	}
}

func BenchmarkCursor(b *testing.B) {
	bl := commitlog.NewBuilder(commitlog.NewPool(1 << 20))
	key, value := make([]byte, 16), make([]byte, 100)
	for range 5000 {
		bl.Append(1, key, value, nil, 0)
	}
	batch := bl.Take()
	chunk := &commitlog.Chunk{Batches: []commitlog.RecordBatch{{LastOffset: int64(batch.Count - 1), Count: batch.Count, Records: batch.Buf[commitlog.HeaderSize:], AppendTime: -1}}}
	var c commitlog.Cursor
	var rec commitlog.Record
	b.ReportAllocs()
	b.SetBytes(116)
	for b.Loop() {
		if !c.Next(&rec) {
			c.Reset(chunk)
		}
	}
}
