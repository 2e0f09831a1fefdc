// Package layout is how a store's entries share one key space: one byte in
// front of each key tells a record of the task from the store's own bookkeeping.
// With everything in one key space, one write-ahead-free atomic batch and one
// flush order cover both, so a checkpoint can never be newer than its data.
//
//	0x00 'c' name   checkpoint: 8 bytes, the offset, big endian
//	0x00 'f'        format mark, written by engines with files
//	0x00 'm' name   metadata
//	0x01 key        a record of the task
//
// The bytes are on disk: changing them is a new format.
package layout

import (
	"encoding/binary"
	"fmt"
)

const (
	// System begins keys of the store's own; one of the kinds below follows.
	System = 0x00
	// Data begins keys of the task.
	Data = 0x01
	// DataEnd is the first byte after all Data keys.
	DataEnd = 0x02

	// Checkpoint, Format and Meta are the kinds of System keys.
	Checkpoint = 'c'
	Format     = 'f'
	Meta       = 'm'
)

// AppendData appends the stored form of the task's key.
func AppendData(dst, key []byte) []byte {
	return append(append(dst, Data), key...)
}

// AppendSystem appends the stored form of a name of the kind Checkpoint, Format
// or Meta.
func AppendSystem(dst []byte, kind byte, name string) []byte {
	return append(append(dst, System, kind), name...)
}

// AppendOffset appends a checkpoint's value.
func AppendOffset(dst []byte, offset int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(offset))
}

// Offset decodes a checkpoint's value.
func Offset(value []byte) (int64, error) {
	if len(value) != 8 {
		return 0, fmt.Errorf("checkpoint of %d bytes, must be 8", len(value))
	}
	return int64(binary.BigEndian.Uint64(value)), nil
}
