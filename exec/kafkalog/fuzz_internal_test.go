package kafkalog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Whatever a broker answers to Fetch, reading it ends, and what is handed out lies within it.
func FuzzFetch(f *testing.F) {
	batch := logBatch{base: 5, producer: 1, values: []string{"a", "b"}}
	packed := logBatch{base: 7, producer: 7, values: []string{"c", "c", "c"}, codec: snappyCodec}
	marker := logBatch{base: 10, producer: 7, marker: "abort"}
	log := append(append(batch.bytes(f), packed.bytes(f)...), marker.bytes(f)...)
	f.Add(answer("topic", log, nil))
	f.Add(answer("topic", log[:90]))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		version := int16(11)
		if len(body) > 0 && body[len(body)-1]&1 != 0 {
			version = fetchByID
		}
		parts := askedFor("topic", 2)
		if _, err := readFetch(body, version, parts); err != nil {
			return
		}
		for i := range parts {
			p := &parts[i]
			if !p.answered {
				continue
			}
			require.LessOrEqual(t, p.size, len(p.records))
			require.GreaterOrEqual(t, p.next, p.at)
			raw := rawChunk{base: p.at, next: p.next, aborted: p.aborted, records: p.records[:p.size:p.size], batches: p.batches}
			c, err := raw.open(commitlog.ReadCommitted)
			if err != nil {
				require.ErrorIs(t, err, commitlog.ErrCorrupt)
				continue
			}
			var cur commitlog.Cursor
			var rec commitlog.Record
			for cur.Reset(&c); cur.Next(&rec); {
				require.GreaterOrEqual(t, rec.Offset, c.Base)
			}
		}
	})
}

// Answers that this package decodes itself never make it panic.
func FuzzAnswers(f *testing.F) {
	tps := []commitlog.TopicPartition{{Topic: "topic", Partition: 2}}
	f.Add(appendSubscription(nil, []string{"topic"}, []byte("x"), tps, 3))
	f.Add(appendAssignment(nil, share{tps, tps}))
	f.Add([]byte{0, 0, 0, 0, 0, 2, 4, 't', 'o', 'p', 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = readSubscription(b)
		_, _ = readAssignment(b)
		_, _, _ = readOffsetFetch("op", b)
		_, _ = readHeartbeat(b)
		_, _ = readJoin(b)
		_, _, _ = readSync(b)
		_, _ = readLeave(b)
		_, _ = readMetadata(b)
		_, _ = readDeleteRecords("op", b)
		_, _ = readDescribeProducers("op", b)
		_, _ = readListTransactions(b)
		abortMarker(b)
		for c := gzipCodec; c < zstdCodec; c++ { // zstd may stand for much in a few bytes, up to a bound
			_, _ = c.decompress(b)
		}
	})
}
