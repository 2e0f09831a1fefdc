package kvstore

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/wickerwork/wicker/kvstore/internal/layout"
)

// Batch collects changes that Store.Write applies together. The zero value is
// an empty batch. It keeps its entries in one buffer that Reset keeps, so a
// batch that is reused allocates nothing. One goroutine at a time.
//
// Entries take effect in the order they were added: of several for one key or
// name the last wins (S3).
//
// The buffer is in the layout of RocksDB's WriteBatch, which costs nothing here
// and lets that engine take a batch as it is:
//
//	sequence  8 bytes, zero
//	count     4 bytes, little endian
//	entries   0x01 length key length value    put
//	          0x00 length key                 delete
//
// with lengths as unsigned varints and keys in the form of package layout:
// checkpoints and metadata are puts of a reserved prefix.
type Batch struct {
	buf   []byte
	count uint32
	err   error
}

const (
	batchHeader = 12
	tagDelete   = 0x00
	tagPut      = 0x01
	// maxLength leaves room for the prefix in the 32 bits of a length.
	maxLength = math.MaxUint32 - 16
)

// Put sets key to value. Both are copied. A value of length zero is a value
// (S2).
func (b *Batch) Put(key, value []byte) {
	if !b.begin(tagPut, len(key), len(value)) {
		return
	}
	b.buf = binary.AppendUvarint(b.buf, uint64(len(key)+1))
	b.buf = layout.AppendData(b.buf, key)
	b.buf = binary.AppendUvarint(b.buf, uint64(len(value)))
	b.buf = append(b.buf, value...)
}

// Delete removes key; an absent key is no error. key is copied.
func (b *Batch) Delete(key []byte) {
	if !b.begin(tagDelete, len(key), 0) {
		return
	}
	b.buf = binary.AppendUvarint(b.buf, uint64(len(key)+1))
	b.buf = layout.AppendData(b.buf, key)
}

// SetCheckpoint records the offset for name, usually a changelog topic, with
// the next offset to read. Names of checkpoints, metadata and keys are apart.
func (b *Batch) SetCheckpoint(name string, offset int64) {
	if !b.begin(tagPut, len(name), 8) {
		return
	}
	b.buf = binary.AppendUvarint(b.buf, uint64(len(name)+2))
	b.buf = layout.AppendSystem(b.buf, layout.Checkpoint, name)
	b.buf = append(b.buf, 8)
	b.buf = layout.AppendOffset(b.buf, offset)
}

// SetMeta records a small value for name beside the checkpoints. value is
// copied.
func (b *Batch) SetMeta(name string, value []byte) {
	if !b.begin(tagPut, len(name), len(value)) {
		return
	}
	b.buf = binary.AppendUvarint(b.buf, uint64(len(name)+2))
	b.buf = layout.AppendSystem(b.buf, layout.Meta, name)
	b.buf = binary.AppendUvarint(b.buf, uint64(len(value)))
	b.buf = append(b.buf, value...)
}

// begin opens an entry; false leaves the batch with an error.
func (b *Batch) begin(tag byte, key, value int) bool {
	if b.err != nil {
		return false
	}
	if uint64(key) > maxLength || uint64(value) > maxLength || b.count == math.MaxUint32 {
		b.err = fmt.Errorf("kvstore: batch entry %d with a key of %d bytes and a value of %d bytes: lengths must be <= %d",
			b.count, key, value, uint64(maxLength))
		return false
	}
	if len(b.buf) == 0 {
		b.buf = append(b.buf, make([]byte, batchHeader)...)
	}
	b.buf = append(b.buf, tag)
	b.count++
	return true
}

// Len returns the number of entries: puts, deletes, checkpoints and metadata.
func (b *Batch) Len() int { return int(b.count) }

// Size returns the bytes the entries take in the buffer, 0 for an empty batch.
func (b *Batch) Size() int { return max(0, len(b.buf)-batchHeader) }

// Err returns why an entry could not be added: a length beyond 32 bits. The
// batch takes no further entries, Write refuses it whole, and Reset clears it.
func (b *Batch) Err() error { return b.err }

// Reset empties the batch and keeps its buffer.
func (b *Batch) Reset() {
	b.buf, b.count, b.err = b.buf[:0], 0, nil
}

// Encoding returns the batch in the layout above, for an engine. The slice is
// the batch's: valid until its next change, and not to be changed.
func (b *Batch) Encoding() []byte {
	if len(b.buf) == 0 {
		b.buf = append(b.buf, make([]byte, batchHeader)...)
	}
	binary.LittleEndian.PutUint32(b.buf[batchHeader-4:], b.count)
	return b.buf
}

// Op is what a batch entry does.
type Op uint8

// The operations of a batch.
const (
	OpPut Op = iota + 1
	OpDelete
	OpCheckpoint
	OpMeta
)

// Each calls visit for each entry in order, for an engine that cannot take the
// encoding. key is the key or name; value is nil for OpDelete and the offset in
// 8 bytes, big endian, for OpCheckpoint. Both are the batch's: valid, and not
// to be changed, during the call. An error of visit ends it and is returned.
func (b *Batch) Each(visit func(op Op, key, value []byte) error) error {
	rest := b.buf
	if len(rest) > 0 {
		rest = rest[batchHeader:]
	}
	for len(rest) > 0 {
		var key, value []byte
		tag := rest[0]
		key, rest = cut(rest[1:])
		op := OpDelete
		if tag == tagPut {
			op = OpPut
			value, rest = cut(rest)
		}
		if key[0] == layout.Data {
			key = key[1:]
		} else {
			if op = OpMeta; key[1] == layout.Checkpoint {
				op = OpCheckpoint
			}
			key = key[2:]
		}
		if err := visit(op, key, value); err != nil {
			return err
		}
	}
	return nil
}

// cut takes a length and as many bytes off the front. The input is the batch's
// own encoding, so it is well formed.
func cut(b []byte) (head, rest []byte) {
	n, w := binary.Uvarint(b)
	end := w + int(n)
	return b[w:end:end], b[end:]
}
