package rocksdb

import (
	"errors"
	"fmt"
)

const (
	defaultMemoryBytes = 256 << 20
	minMemoryBytes     = 1 << 20
	minWriteBuffer     = 64 << 10 // RocksDB's own least
	maxWriteBuffer     = 64 << 20
)

// Options configure an Engine. The zero value of a field is its default.
type Options struct {
	// Dir is the directory for all stores of the process. Required. It is
	// created, with its parents, if it is absent; one with other content is
	// refused. One process at a time may have it.
	Dir string

	// MemoryBytes is what RocksDB may take for all stores of the engine
	// together: cached blocks with their indexes and filters, and writes not
	// yet flushed. It is a target that is passed for short times, and does not
	// count what RocksDB needs per open file (some tens of kB). Default 256 MiB,
	// at least 1 MiB.
	MemoryBytes int64

	// WriteBufferBytes is the part of MemoryBytes for writes not yet flushed,
	// of all stores together. When it is used up, the store that holds most is
	// flushed. More means fewer, larger files and more to replay after a crash.
	// Default a quarter of MemoryBytes, at least 64 KiB, at most three quarters
	// of MemoryBytes.
	WriteBufferBytes int64
}

// Validate returns all problems of the options joined, nil if there are none.
func (o Options) Validate() error {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("rocksdb: Dir must not be empty"))
	}
	memory := o.MemoryBytes
	if memory != 0 && memory < minMemoryBytes {
		errs = append(errs, fmt.Errorf("rocksdb: MemoryBytes (%d) must be >= %d, or 0 for %d", memory, minMemoryBytes, defaultMemoryBytes))
		memory = minMemoryBytes
	}
	if memory == 0 {
		memory = defaultMemoryBytes
	}
	if w := o.WriteBufferBytes; w != 0 && (w < minWriteBuffer || w > memory/4*3) {
		errs = append(errs, fmt.Errorf("rocksdb: WriteBufferBytes (%d) must be from %d to %d, or 0 for a quarter of MemoryBytes", w, minWriteBuffer, memory/4*3))
	}
	return errors.Join(errs...)
}

// withDefaults fills in what is zero.
func (o Options) withDefaults() Options {
	if o.MemoryBytes == 0 {
		o.MemoryBytes = defaultMemoryBytes
	}
	if o.WriteBufferBytes == 0 {
		o.WriteBufferBytes = max(o.MemoryBytes/4, minWriteBuffer)
	}
	return o
}

// writeBufferBytes is the most one store holds before it is flushed on its own
// account: half the budget, so that one store being flushed and written at once
// stays within it.
func (o Options) writeBufferBytes() int64 {
	return min(max(o.WriteBufferBytes/2, minWriteBuffer), maxWriteBuffer)
}
