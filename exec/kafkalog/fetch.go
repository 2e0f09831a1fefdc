package kafkalog

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// fetchPart is what one partition has in a Fetch request and in its answer.
type fetchPart struct {
	part *readPart
	id   commitlog.TopicID // the topic's, zero if it is not known
	at   int64             // the offset asked for

	answered                            bool
	code                                int16
	highWatermark, lastStable, logStart int64
	aborted                             []abortedTxn
	records                             []byte // the record set, as it was sent
	// next is the offset after the last whole batch of records, at if there is none. batches is
	// how many there are, and size the bytes they take.
	next    int64
	batches int
	size    int
	// first says that no partition before this one in the answer has a record: a broker returns
	// a batch for it if there is one, however large.
	first bool
}

// abortedTxn is an entry of a fetch's list of aborted transactions: the records of the
// producer from the offset on, to its next marker, are to be left out.
type abortedTxn struct{ producer, first int64 }

// fetchByID is the version of Fetch that goes by topic id (KIP-516, from Kafka 3.1 on), so that a topic which was deleted
// and created again is not taken for the one whose offset is asked for. Others go by name.
const fetchByID = 13

// fetchVersion is the version to ask with of a broker that speaks version most: one that goes by name unless the ids
// of all topics are known.
func fetchVersion(most int16, parts []fetchPart) int16 {
	if most < fetchByID || slices.ContainsFunc(parts, func(p fetchPart) bool { return p.id.IsZero() }) {
		return 11
	}
	return fetchByID
}

// appendFetch encodes Fetch v11 or v13 without a session. kafka-go's message decodes records one by
// one on the way in.
func appendFetch(b []byte, version int16, clientID string, parts []fetchPart, isolation int8, maxWait, maxBytes, partitionBytes int32) []byte {
	be, byID := binary.BigEndian, version >= fetchByID
	b = appendHeader(b, protocol.Fetch, version, clientID)
	array := func(n int) {
		if byID {
			b = binary.AppendUvarint(b, uint64(n)+1)
		} else {
			b = be.AppendUint32(b, uint32(n))
		}
	}
	tags := func() {
		if byID {
			b = append(b, 0)
		}
	}
	tags()                             // of the header
	b = be.AppendUint32(b, 0xffffffff) // replica id: a consumer
	b = be.AppendUint32(b, uint32(maxWait))
	b = be.AppendUint32(b, 1) // min bytes
	b = be.AppendUint32(b, uint32(maxBytes))
	b = append(b, byte(isolation))
	b = be.AppendUint32(b, 0)          // session id
	b = be.AppendUint32(b, 0xffffffff) // session epoch: none
	topics := 0
	for i := range parts {
		if i == 0 || parts[i].part.tp.Topic != parts[i-1].part.tp.Topic {
			topics++
		}
	}
	array(topics)
	for i := 0; i < len(parts); {
		topic := parts[i].part.tp.Topic
		n := 1
		for i+n < len(parts) && parts[i+n].part.tp.Topic == topic {
			n++
		}
		if byID {
			b = append(b, parts[i].id[:]...)
		} else {
			b = appendString(b, topic)
		}
		array(n)
		for _, p := range parts[i : i+n] {
			b = be.AppendUint32(b, uint32(p.part.tp.Partition))
			b = be.AppendUint32(b, 0xffffffff) // current leader epoch: unknown
			b = be.AppendUint64(b, uint64(p.at))
			if byID {
				b = be.AppendUint32(b, 0xffffffff) // epoch of the last record fetched: unknown
			}
			b = be.AppendUint64(b, 0xffffffffffffffff) // log start offset: for followers
			b = be.AppendUint32(b, uint32(partitionBytes))
			tags()
		}
		tags()
		i += n
	}
	array(0) // forgotten topics
	if byID {
		b = appendCompactString(b, "") // rack
	} else {
		b = appendString(b, "")
	}
	tags()
	finish(b, len(b))
	return b
}

// readFetch reads the body of an answer to appendFetch into parts, which are those asked for. It
// looks at the batches' headers only. Records share body's memory. It returns the code of the
// whole answer.
func readFetch(body []byte, version int16, parts []fetchPart) (code int16, err error) {
	r := wireReader{b: body, flexible: version >= fetchByID}
	r.tagsIfAny() // of the header
	r.int32()     // throttle time
	code = r.int16()
	r.int32() // session id
	empty, from := true, 0
	for range r.anyArray(6) {
		var topic []byte
		var id commitlog.TopicID
		if r.flexible {
			copy(id[:], r.take(len(id)))
		} else {
			topic = r.string()
		}
		for range r.anyArray(37) {
			partition := r.int32()
			var p *fetchPart
			for i := range parts { // answers come in the order of the request
				c := &parts[(from+i)%len(parts)]
				if c.answered || c.part.tp.Partition != partition {
					continue
				}
				if r.flexible && c.id == id || !r.flexible && c.part.tp.Topic == string(topic) {
					p, from = c, from+i+1
					break
				}
			}
			if p == nil {
				p = &fetchPart{} // not asked for
			}
			p.answered = true
			p.code = r.int16()
			p.highWatermark = r.int64()
			p.lastStable = r.int64()
			p.logStart = r.int64()
			if n := r.anyArray(16); n > 0 {
				p.aborted = make([]abortedTxn, n)
				for i := range p.aborted {
					p.aborted[i] = abortedTxn{producer: r.int64(), first: r.int64()}
					r.tagsIfAny()
				}
			}
			r.int32() // preferred read replica
			if r.flexible {
				p.records = r.compactString()
			} else {
				p.records = r.bytes()
			}
			r.tagsIfAny()
			if r.bad {
				return code, r.err()
			}
			p.first = empty
			if len(p.records) > 0 {
				empty = false
			}
			if err := p.scan(); err != nil && p.part != nil {
				return code, at(&commitlog.Error{Op: "fetch", Class: commitlog.Fatal, Err: err}, p.part.tp)
			}
		}
		r.tagsIfAny()
	}
	r.tagsIfAny()
	return code, r.err()
}

// scan finds the end of the record set's whole batches.
func (p *fetchPart) scan() error {
	p.next = p.at
	var h commitlog.Header
	for p.size < len(p.records) {
		n, err := commitlog.ReadHeader(p.records[p.size:], &h)
		if err != nil {
			return fmt.Errorf("after offset %d: %w", p.next, err)
		}
		if n == 0 {
			return nil // cut off by the fetch's size
		}
		if h.LastOffsetDelta < 0 {
			return fmt.Errorf("%w at offset %d: last offset delta %d", commitlog.ErrCorrupt, h.BaseOffset, h.LastOffsetDelta)
		}
		p.size += n
		p.batches++
		p.next = max(p.next, h.Next())
	}
	return nil
}

// rawChunk is a piece of a partition as it was fetched, before its batches were looked into.
type rawChunk struct {
	tp                                  commitlog.TopicPartition
	base, next                          int64
	logStart, lastStable, highWatermark int64
	aborted                             []abortedTxn
	records                             []byte
	batches                             int
	held                                int      // bytes that count as read ahead
	by                                  *fetcher // whose budget they are
}

// open checks and decompresses a chunk's batches and leaves out those that nobody may see
// (L1, E9). The data batches of a producer are left out from its entry in the list of aborted
// transactions on, to its next abort marker.
func (c *rawChunk) open(iso commitlog.Isolation) (commitlog.Chunk, error) {
	out := commitlog.Chunk{TopicPartition: c.tp, Base: c.base, Next: c.next, LogStart: c.logStart, LastStable: c.lastStable, HighWatermark: c.highWatermark}
	if c.batches > 0 {
		out.Batches = make([]commitlog.RecordBatch, 0, c.batches)
	}
	aborted := c.aborted
	if iso != commitlog.ReadCommitted {
		aborted = nil
	}
	slices.SortFunc(aborted, func(a, b abortedTxn) int {
		switch {
		case a.first < b.first:
			return -1
		case a.first > b.first:
			return 1
		}
		return 0
	})
	var hidden []int64 // producers whose records are aborted here: few
	var h commitlog.Header
	for rest := c.records; len(rest) > 0; {
		n, err := commitlog.ReadHeader(rest, &h)
		if err == nil && n == 0 {
			err = fmt.Errorf("%w: cut short", commitlog.ErrCorrupt)
		}
		if err != nil {
			return out, err
		}
		batch := rest[:n:n]
		rest = rest[n:]
		if err := commitlog.CheckCRC(batch); err != nil {
			return out, fmt.Errorf("batch at offset %d: %w", h.BaseOffset, err)
		}
		for len(aborted) > 0 && aborted[0].first < h.Next() {
			if !slices.Contains(hidden, aborted[0].producer) {
				hidden = append(hidden, aborted[0].producer)
			}
			aborted = aborted[1:]
		}
		if h.Control() {
			if i := slices.Index(hidden, h.ProducerID); i >= 0 && abortMarker(batch[commitlog.HeaderSize:]) {
				hidden = slices.Delete(hidden, i, i+1)
			}
			continue
		}
		if h.Count == 0 || h.Next() <= c.base || h.Transactional() && slices.Contains(hidden, h.ProducerID) {
			continue
		}
		if h.Count < 0 {
			return out, fmt.Errorf("batch at offset %d: %w: %d records", h.BaseOffset, commitlog.ErrCorrupt, h.Count)
		}
		records, err := codec(h.Attributes & commitlog.CompressionMask).decompress(batch[commitlog.HeaderSize:])
		if err != nil {
			return out, fmt.Errorf("batch at offset %d: %w", h.BaseOffset, err)
		}
		rb := commitlog.RecordBatch{BaseOffset: h.BaseOffset, LastOffset: h.Next() - 1, BaseTimestamp: h.BaseTimestamp,
			AppendTime: -1, Count: int(h.Count), Records: records}
		if h.Attributes&commitlog.AppendTimeBit != 0 {
			rb.AppendTime = h.MaxTimestamp
		}
		out.Size += commitlog.HeaderSize + len(records)
		out.Batches = append(out.Batches, rb)
	}
	return out, nil
}

// abortMarker reports whether the records of a control batch are an abort marker: one record
// whose key is version and type, both INT16, of which type 0 is abort and 1 commit.
func abortMarker(records []byte) bool {
	b := records
	for field := range 5 { // length, attributes, timestamp delta, offset delta, key length
		n := 1
		if field != 1 { // attributes are a byte
			_, n = binary.Varint(b)
		}
		if n <= 0 || n > len(b) {
			return false
		}
		b = b[n:]
	}
	return len(b) >= 4 && binary.BigEndian.Uint16(b[2:]) == 0
}
