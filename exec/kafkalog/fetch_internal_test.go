package kafkalog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// logBatch is a batch as it lies in a log.
type logBatch struct {
	base     int64
	producer int64 // -1 without a transaction
	marker   string
	values   []string
	codec    codec
	gap      int32 // offsets behind the last record that compaction has emptied
}

// next returns the offset after the batch.
func (b *logBatch) next() int64 {
	return b.base + int64(max(len(b.values), 1)) + int64(b.gap)
}

// bytes lays the batch out.
func (b *logBatch) bytes(t testing.TB) []byte {
	t.Helper()
	h := commitlog.Header{BaseOffset: b.base, ProducerID: b.producer, LastOffsetDelta: int32(b.next() - b.base - 1), Attributes: int16(b.codec)}
	builder := commitlog.NewBuilder(commitlog.NewPool(0))
	if b.producer >= 0 {
		h.Attributes |= commitlog.TransactionalBit
	}
	if b.marker != "" {
		h.Attributes |= commitlog.ControlBit
		key := []byte{0, 0, 0, 0}
		if b.marker == "commit" {
			key[3] = 1
		}
		builder.Append(300, key, []byte{0, 0, 0, 0, 0, 0}, nil, 0)
	}
	for i, v := range b.values {
		builder.Append(int64(1000+i), []byte("key"), []byte(v), nil, 0)
	}
	buf := make([]byte, commitlog.HeaderSize)
	if batch := builder.Take(); batch != nil {
		h.Count = int32(batch.Count)
		h.BaseTimestamp, h.MaxTimestamp = batch.BaseTimestamp, batch.MaxTimestamp
		var err error
		buf, err = b.codec.compress(append([]byte{}, batch.Buf[:commitlog.HeaderSize]...), batch.Buf[commitlog.HeaderSize:])
		require.NoError(t, err)
	}
	commitlog.PutHeader(buf, &h)
	return buf
}

// chunkOf makes what a fetch from base would be of batches.
func chunkOf(t testing.TB, base int64, aborted []abortedTxn, batches ...logBatch) rawChunk {
	c := rawChunk{tp: commitlog.TopicPartition{Topic: "t"}, base: base, aborted: aborted, batches: len(batches), next: base}
	for i := range batches {
		c.records = append(c.records, batches[i].bytes(t)...)
		c.next = batches[i].next()
	}
	return c
}

// valuesOf walks a chunk.
func valuesOf(t testing.TB, c commitlog.Chunk) []string {
	t.Helper()
	var cur commitlog.Cursor
	var r commitlog.Record
	out := []string{}
	for cur.Reset(&c); cur.Next(&r); {
		out = append(out, string(r.Value))
	}
	require.NoError(t, cur.Err())
	return out
}

// L1, E9, K3: aborted transactions are left out, by producer and from offset to marker.
func TestAbortedAreLeftOut(t *testing.T) {
	a := func(base int64, values ...string) logBatch { return logBatch{base: base, producer: 7, values: values} }
	b := func(base int64, values ...string) logBatch { return logBatch{base: base, producer: 8, values: values} }
	for name, c := range map[string]struct {
		base    int64
		aborted []abortedTxn
		batches []logBatch
		want    []string
	}{
		"none":       {0, nil, []logBatch{a(0, "x", "y"), {base: 2, producer: 7, marker: "commit"}}, []string{"x", "y"}},
		"one":        {0, []abortedTxn{{7, 0}}, []logBatch{a(0, "x"), b(1, "y"), {base: 2, producer: 7, marker: "abort"}, a(3, "z")}, []string{"y", "z"}},
		"from later": {0, []abortedTxn{{7, 2}}, []logBatch{a(0, "x"), {base: 1, producer: 7, marker: "commit"}, a(2, "y"), {base: 3, producer: 7, marker: "abort"}}, []string{"x"}},
		"twice": {0, []abortedTxn{{7, 0}, {7, 3}}, []logBatch{a(0, "x"), {base: 1, producer: 7, marker: "abort"}, a(2, "y"),
			a(3, "z"), {base: 4, producer: 7, marker: "abort"}, a(5, "w")}, []string{"y", "w"}},
		"list out of order": {0, []abortedTxn{{8, 1}, {7, 0}}, []logBatch{a(0, "x"), b(1, "y"), {base: 2, producer: 8, marker: "abort"},
			b(3, "z"), {base: 4, producer: 7, marker: "abort"}}, []string{"z"}},
		"began before the fetch": {5, []abortedTxn{{7, 1}}, []logBatch{a(5, "x"), {base: 6, producer: 7, marker: "abort"}, a(7, "y")}, []string{"y"}},
		"another's commit":       {0, []abortedTxn{{7, 0}}, []logBatch{a(0, "x"), {base: 1, producer: 8, marker: "commit"}, a(2, "y")}, []string{}},
		"without a transaction":  {0, []abortedTxn{{-1, 0}}, []logBatch{{base: 0, producer: -1, values: []string{"x"}}}, []string{"x"}},
		"first within a batch":   {0, []abortedTxn{{7, 1}}, []logBatch{a(0, "x", "y")}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			raw := chunkOf(t, c.base, c.aborted, c.batches...)
			got, err := raw.open(commitlog.ReadCommitted)
			require.NoError(t, err)
			require.Equal(t, c.want, valuesOf(t, got))
			require.Equal(t, c.base, got.Base)
			require.Equal(t, raw.next, got.Next)
		})
	}
	t.Run("read uncommitted", func(t *testing.T) {
		raw := chunkOf(t, 0, []abortedTxn{{7, 0}}, a(0, "x"), logBatch{base: 1, producer: 7, marker: "abort"})
		got, err := raw.open(commitlog.ReadUncommitted)
		require.NoError(t, err)
		require.Equal(t, []string{"x"}, valuesOf(t, got))
	})
}

// Random logs, fetched from any batch on with the list that a broker would send along, show
// what a plain oracle says.
func TestAbortedAgainstOracle(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 9))
		type txn struct {
			producer, first, last int64
			aborted               bool
		}
		var log []logBatch
		var txns []*txn
		open := map[int64]*txn{}
		belongs := map[int]*txn{} // by batch
		next := int64(r.IntN(5))
		for range 40 {
			p := int64(r.IntN(3))
			b := logBatch{base: next, producer: p, codec: codec(r.IntN(5))}
			switch {
			case open[p] != nil && r.IntN(3) == 0:
				x := open[p]
				b.codec, b.marker, x.aborted, x.last = none, "commit", r.IntN(2) == 0, next
				if x.aborted {
					b.marker = "abort"
				}
				delete(open, p)
			default:
				for i := range 1 + r.IntN(4) {
					b.values = append(b.values, fmt.Sprintf("%d-%d", next, i))
				}
				if open[p] == nil {
					open[p] = &txn{producer: p, first: next}
					txns = append(txns, open[p])
				}
				belongs[len(log)] = open[p]
				b.gap = int32(r.IntN(2))
			}
			log = append(log, b)
			next = b.next()
		}
		stable := next
		for _, x := range open {
			stable = min(stable, x.first)
		}
		log = log[:slices.IndexFunc(append(log, logBatch{base: next}), func(b logBatch) bool { return b.base >= stable })]
		encoded := make([][]byte, len(log))
		for i := range log {
			encoded[i] = log[i].bytes(t)
		}
		for i := range log {
			want := []string{}
			for j := i; j < len(log); j++ {
				if x := belongs[j]; x != nil && !x.aborted {
					want = append(want, log[j].values...)
				}
			}
			var aborted []abortedTxn
			for _, x := range txns {
				if x.aborted && x.last >= log[i].base && x.first < stable {
					aborted = append(aborted, abortedTxn{x.producer, x.first})
				}
			}
			r.Shuffle(len(aborted), func(i, j int) { aborted[i], aborted[j] = aborted[j], aborted[i] })
			raw := rawChunk{base: log[i].base, next: log[len(log)-1].next(), aborted: aborted, records: bytes.Join(encoded[i:], nil), batches: len(log) - i}
			got, err := raw.open(commitlog.ReadCommitted)
			require.NoError(t, err)
			require.Equal(t, want, valuesOf(t, got), "seed %d from batch %d", seed, i)
		}
	}
}

// Batches of every codec are handed out uncompressed.
func TestCodecs(t *testing.T) {
	for c := none; c <= zstdCodec; c++ {
		t.Run(fmt.Sprint(int(c)), func(t *testing.T) {
			var want []string
			for i := range 500 {
				want = append(want, strings.Repeat(fmt.Sprint(i), 20))
			}
			raw := chunkOf(t, 0, nil, logBatch{producer: -1, values: want, codec: c})
			got, err := raw.open(commitlog.ReadCommitted)
			require.NoError(t, err)
			require.Equal(t, want, valuesOf(t, got))
			require.Greater(t, got.Size, 20000)
		})
	}
}

// Java's snappy streams have a framing of their own.
func TestSnappyFraming(t *testing.T) {
	framed := append([]byte(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	for _, part := range []string{"hello ", strings.Repeat("world ", 100)} {
		block, err := snappyCodec.compress(nil, []byte(part))
		require.NoError(t, err)
		framed = append(binary.BigEndian.AppendUint32(framed, uint32(len(block))), block...)
	}
	got, err := snappyCodec.decompress(framed)
	require.NoError(t, err)
	require.Equal(t, "hello "+strings.Repeat("world ", 100), string(got))
	_, err = snappyCodec.decompress(framed[:len(framed)-3])
	require.ErrorIs(t, err, commitlog.ErrCorrupt)
}

// K4: a changed byte anywhere in a batch is found; none makes the decoder panic or pass.
func TestCorruptBatches(t *testing.T) {
	for c := none; c <= zstdCodec; c++ {
		good := chunkOf(t, 0, nil, logBatch{producer: 3, values: []string{"aaaa", "bbbb", "cccc"}, codec: c})
		for i := 17; i < len(good.records); i++ { // before: base offset, length, epoch and magic are not under the checksum
			bad := good
			bad.records = slices.Clone(good.records)
			bad.records[i] ^= 0x41
			_, err := bad.open(commitlog.ReadCommitted)
			require.ErrorIs(t, err, commitlog.ErrCorrupt, "codec %d byte %d", c, i)
		}
	}
	old := chunkOf(t, 0, nil, logBatch{producer: 3, values: []string{"x"}})
	old.records[16] = 1
	p := fetchPart{records: old.records}
	require.ErrorIs(t, p.scan(), commitlog.ErrCorrupt)
}

// Garbage behind a right checksum is refused, not believed: also an unknown codec.
func TestUncompressableBatch(t *testing.T) {
	for c := gzipCodec; c <= 7; c++ {
		buf := append(make([]byte, commitlog.HeaderSize), "this is no compressed data"...)
		commitlog.PutHeader(buf, &commitlog.Header{Attributes: int16(c), Count: 3, LastOffsetDelta: 2, ProducerID: -1})
		_, err := (&rawChunk{records: buf, batches: 1, next: 3}).open(commitlog.ReadCommitted)
		require.ErrorIs(t, err, commitlog.ErrCorrupt, "codec %d", c)
	}
}

// answer lays out an answer to Fetch v11.
func answer(topic string, parts ...[]byte) []byte {
	be := binary.BigEndian
	b := be.AppendUint32(nil, 0)
	b = be.AppendUint16(b, 0)
	b = be.AppendUint32(b, 0)
	b = be.AppendUint32(b, 1)
	b = appendString(b, topic)
	b = be.AppendUint32(b, uint32(len(parts)))
	for i, records := range parts {
		b = be.AppendUint32(b, uint32(i))
		b = be.AppendUint16(b, 0)
		b = be.AppendUint64(b, 100) // high watermark
		b = be.AppendUint64(b, 90)  // last stable
		b = be.AppendUint64(b, 1)   // log start
		b = be.AppendUint32(b, 1)
		b = be.AppendUint64(b, 7)
		b = be.AppendUint64(b, uint64(i))
		b = be.AppendUint32(b, 0xffffffff)
		b = appendBytes(b, records)
	}
	return b
}

func askedFor(topic string, n int) []fetchPart {
	var parts []fetchPart
	for i := range n {
		parts = append(parts, fetchPart{part: &readPart{tp: commitlog.TopicPartition{Topic: topic, Partition: int32(i)}}, at: 5})
	}
	return parts
}

// L2: the position goes behind the last whole batch; what is cut off is fetched again.
func TestReadFetch(t *testing.T) {
	first, second := logBatch{base: 3, producer: -1, values: []string{"a", "b", "c", "d"}}, logBatch{base: 7, producer: -1, values: []string{"e"}}
	whole := append(first.bytes(t), second.bytes(t)...)
	parts := askedFor("t", 4)
	code, err := readFetch(answer("t", nil, whole, whole[:len(whole)-1], whole[:20]), 11, parts)
	require.NoError(t, err)
	require.Zero(t, code)
	for i, want := range []struct {
		next    int64
		batches int
		first   bool
	}{{5, 0, true}, {8, 2, true}, {7, 1, false}, {5, 0, false}} {
		p := parts[i]
		require.True(t, p.answered)
		require.Equal(t, want.next, p.next, "partition %d", i)
		require.Equal(t, want.batches, p.batches, "partition %d", i)
		require.Equal(t, want.first, p.first, "partition %d", i)
		require.Equal(t, []abortedTxn{{7, int64(i)}}, p.aborted)
		require.Equal(t, []int64{100, 90, 1}, []int64{p.highWatermark, p.lastStable, p.logStart})
	}
}

// An answer that ends anywhere is an error or leaves partitions unanswered, and never a panic.
func TestReadFetchCutShort(t *testing.T) {
	batch := logBatch{base: 5, producer: -1, values: []string{"a", "b"}}
	whole := answer("topic", batch.bytes(t), batch.bytes(t))
	for n := range whole {
		parts := askedFor("topic", 2)
		_, err := readFetch(whole[:n], 11, parts)
		require.Error(t, err, "%d bytes of %d", n, len(whole))
	}
	for i := range whole {
		for _, x := range []byte{0x01, 0x80, 0xff} {
			bad := slices.Clone(whole)
			bad[i] ^= x
			parts := askedFor("topic", 2)
			_, _ = readFetch(bad, 11, parts) // errors or not: batches are verified later
		}
	}
}

// A request has the fields of Fetch v11, topics grouped where they follow each other.
func TestAppendFetch(t *testing.T) {
	parts := append(askedFor("a", 2), askedFor("b", 1)...)
	b := appendFetch(nil, 11, "me", append(parts, askedFor("a", 1)...), 1, 250, 1000, 500)
	require.Equal(t, len(b)-4, int(binary.BigEndian.Uint32(b)))
	r := wireReader{b: b[4:]}
	require.Equal(t, []int16{1, 11}, []int16{r.int16(), r.int16()})
	r.int32()
	require.Equal(t, "me", string(r.string()))
	require.Equal(t, []int32{-1, 250, 1, 1000}, []int32{r.int32(), r.int32(), r.int32(), r.int32()})
	require.Equal(t, []byte{1}, r.take(1))
	require.Equal(t, []int32{0, -1}, []int32{r.int32(), r.int32()})
	var got []string
	for range r.array(6) {
		topic := string(r.string())
		for range r.array(28) {
			p := r.int32()
			require.Equal(t, int32(-1), r.int32())
			require.Equal(t, []int64{5, -1}, []int64{r.int64(), r.int64()})
			require.Equal(t, int32(500), r.int32())
			got = append(got, fmt.Sprint(topic, p))
		}
	}
	require.Equal(t, []string{"a0", "a1", "b0", "a0"}, got)
	require.Zero(t, r.array(1))
	require.Empty(t, r.string())
	require.NoError(t, r.err())
	require.Empty(t, r.b)
}

// Both versions are as another client reads and writes them, the later one by topic id.
func TestFetchMessages(t *testing.T) {
	batch := logBatch{base: 5, producer: -1, values: []string{"a", "b"}}
	for _, version := range []int16{11, fetchByID} {
		parts := append(askedFor("a", 2), askedFor("b", 1)...)
		for i := range parts {
			parts[i].id = commitlog.TopicID{parts[i].part.tp.Topic[0], 1}
		}
		require.Equal(t, version, fetchVersion(version, parts))
		req := kmsg.NewPtrFetchRequest()
		req.SetVersion(version)
		whole := appendFetch(nil, version, "me", parts, 1, 250, 1000, 500)
		body := whole[14+len("me"):]
		if req.IsFlexible() {
			require.Zero(t, body[0], "tagged fields of the header")
			body = body[1:]
		}
		require.NoError(t, req.ReadFrom(body))
		require.Equal(t, []int32{-1, 250, 1, 1000, 0, -1}, []int32{req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionID, req.SessionEpoch})
		require.Len(t, req.Topics, 2)
		require.Len(t, req.Topics[0].Partitions, 2)
		asked := req.Topics[0].Partitions[1]
		require.Equal(t, []int64{1, -1, 5, -1, -1, 500}, []int64{int64(asked.Partition), int64(asked.CurrentLeaderEpoch), asked.FetchOffset,
			int64(asked.LastFetchedEpoch), asked.LogStartOffset, int64(asked.PartitionMaxBytes)})

		res := kmsg.NewPtrFetchResponse()
		res.Version, res.ErrorCode = version, 70
		for i, rt := range req.Topics {
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic, topic.TopicID = rt.Topic, rt.TopicID
			require.Equal(t, version >= fetchByID, topic.TopicID == parts[2*i].id)
			require.Equal(t, version < fetchByID, topic.Topic == parts[2*i].part.tp.Topic)
			for _, rp := range rt.Partitions {
				p := kmsg.NewFetchResponseTopicPartition()
				p.Partition, p.ErrorCode, p.HighWatermark, p.LastStableOffset, p.LogStartOffset = rp.Partition, int16(i), 100, 90, 1
				p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 7, FirstOffset: 8}, {ProducerID: 9, FirstOffset: 10}}
				p.RecordBatches = batch.bytes(t)
				topic.Partitions = append(topic.Partitions, p)
			}
			res.Topics = append(res.Topics, topic)
		}
		var b []byte
		if req.IsFlexible() {
			b = answerHeader()
		}
		b = res.AppendTo(b)
		code, err := readFetch(b, version, parts)
		require.NoError(t, err)
		require.EqualValues(t, 70, code)
		for i, p := range parts {
			require.True(t, p.answered)
			require.EqualValues(t, i/2, p.code)
			require.Equal(t, []int64{100, 90, 1, 7}, []int64{p.highWatermark, p.lastStable, p.logStart, p.next})
			require.Equal(t, []abortedTxn{{7, 8}, {9, 10}}, p.aborted)
		}
		for n := range b {
			for i := range parts {
				parts[i].answered, parts[i].size = false, 0
			}
			_, err := readFetch(b[:n], version, parts)
			require.ErrorIs(t, err, errShort, "%d bytes of %d", n, len(b))
		}
		parts[1].id = commitlog.TopicID{}
		require.EqualValues(t, 11, fetchVersion(17, parts), "without all ids it goes by name")
	}
	require.EqualValues(t, 11, fetchVersion(12, nil))
}

// A chunk costs allocations by batches, never by records.
func TestOpenDoesNotAllocatePerRecord(t *testing.T) {
	raw := chunkOf(t, 0, nil, logBatch{producer: -1, values: slices.Repeat([]string{"value"}, 5000)})
	n := testing.AllocsPerRun(20, func() {
		if _, err := raw.open(commitlog.ReadCommitted); err != nil {
			t.Fatal(err)
		}
	})
	require.LessOrEqual(t, n, 2.0)
}
