package kafkalog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// errShort is an answer that ends before its fields do, or has a length that cannot be.
var errShort = errors.New("answer is cut short or malformed")

// appendHeader begins a request: a size to be filled in by finish, then the header. The
// correlation id is filled in by conn.send.
func appendHeader(b []byte, key protocol.ApiKey, version int16, clientID string) []byte {
	be := binary.BigEndian
	b = append(b, 0, 0, 0, 0)
	b = be.AppendUint16(b, uint16(key))
	b = be.AppendUint16(b, uint16(version))
	b = append(b, 0, 0, 0, 0)
	return appendString(b, clientID)
}

// finish fills in the size of a request whose pieces have total bytes.
func finish(b []byte, total int) { binary.BigEndian.PutUint32(b, uint32(total-4)) }

func appendString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

func appendCompactString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s))+1)
	return append(b, s...)
}

// appendCompactNullString writes an empty string as null.
func appendCompactNullString(b []byte, s string) []byte {
	if s == "" {
		return append(b, 0)
	}
	return appendCompactString(b, s)
}

func appendCompactBytes(b, v []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(v))+1)
	return append(b, v...)
}

// reader walks an answer. After the first field that is not all there, every field is zero
// and err returns errShort.
type wireReader struct {
	b   []byte
	bad bool
	// flexible: what is read by anyArray and tagsIfAny has the form of a flexible version (KIP-482).
	flexible bool
}

func (r *wireReader) err() error {
	if r.bad {
		return errShort
	}
	return nil
}

// readable returns why nothing of an answer of op can be believed, nil if it was read whole.
func (r *wireReader) readable(op string) error {
	if err := r.err(); err != nil {
		return &commitlog.Error{Op: op, Partition: -1, Class: commitlog.Retriable, Err: fmt.Errorf("decoding: %w", err)}
	}
	return nil
}

// answered returns what was read of an answer of op: all partitions and the error of those that failed, nil if none did, or
// nothing if it cannot be read.
func answered[T any](r *wireReader, op string, all map[commitlog.TopicPartition]T, failed *commitlog.Error) (map[commitlog.TopicPartition]T, error) {
	if err := r.readable(op); err != nil {
		return nil, err
	}
	if failed != nil {
		return all, failed
	}
	return all, nil
}

func (r *wireReader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	f := r.b[:n:n]
	r.b = r.b[n:]
	return f
}

func (r *wireReader) int16() int16 {
	if f := r.take(2); f != nil {
		return int16(binary.BigEndian.Uint16(f))
	}
	return 0
}

func (r *wireReader) int32() int32 {
	if f := r.take(4); f != nil {
		return int32(binary.BigEndian.Uint32(f))
	}
	return 0
}

func (r *wireReader) int64() int64 {
	if f := r.take(8); f != nil {
		return int64(binary.BigEndian.Uint64(f))
	}
	return 0
}

// bytes reads an INT32 length and as many bytes; null is nil.
func (r *wireReader) bytes() []byte {
	n := int(r.int32())
	if n == -1 {
		return nil
	}
	return r.take(n)
}

// string reads an INT16 length and as many bytes; null is nil. It shares the answer's memory.
func (r *wireReader) string() []byte {
	n := int(r.int16())
	if n == -1 {
		return nil
	}
	return r.take(n)
}

// array reads an INT32 length, of elements that take at least size bytes; null is 0.
func (r *wireReader) array(size int) int {
	n := int(r.int32())
	if n == -1 {
		return 0
	}
	if n < 0 || n > len(r.b)/size {
		r.bad, r.b = true, nil
		return 0
	}
	return n
}

func (r *wireReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// compactString reads a varint length plus one and as many bytes; null is nil.
func (r *wireReader) compactString() []byte {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	if n-1 > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	return r.take(int(n - 1))
}

// compactArray reads a varint length plus one, of elements of at least size bytes; null is 0.
func (r *wireReader) compactArray(size int) int {
	n := r.uvarint()
	if n == 0 {
		return 0
	}
	if n-1 > uint64(len(r.b)/size) {
		r.bad, r.b = true, nil
		return 0
	}
	return int(n - 1)
}

// anyArray is compactArray or array.
func (r *wireReader) anyArray(size int) int {
	if r.flexible {
		return r.compactArray(size)
	}
	return r.array(size)
}

// tagsIfAny skips tagged fields where there can be any.
func (r *wireReader) tagsIfAny() {
	if r.flexible {
		r.tags()
	}
}

// tags skips tagged fields.
func (r *wireReader) tags() {
	for range min(r.uvarint(), uint64(len(r.b))) {
		r.uvarint()
		n := r.uvarint()
		if n > uint64(len(r.b)) {
			r.bad, r.b = true, nil
			return
		}
		r.take(int(n))
	}
}
