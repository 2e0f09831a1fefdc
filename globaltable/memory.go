package globaltable

import (
	"runtime"
	"runtime/metrics"
	"sync/atomic"
)

// Large blocks are memory of their own, outside Go's heap where the platform has it (see mapMemory): a table of gigabytes would otherwise allow
// for as much garbage before it is collected. What lies there must not be seen by anyone who could keep it: a log's blocks are
// given back when the log cannot be reached any more.

// arena counts the mapped memory of a table.
type arena struct {
	// mapped is that of all logs, retired that of logs which were replaced and are not given back yet.
	mapped, retired atomic.Int64
	// collected is what was retired when garbage was collected for it last. It is the writer's.
	collected int64
}

// mappings are the blocks of one log.
type mappings struct {
	arena   *arena
	blocks  [][]byte
	bytes   int64
	retired atomic.Bool
}

// block returns memory for a block, of zeros, mapped or not.
func (m *mappings) block(size int) []byte {
	if size < mapLeast {
		return make([]byte, size)
	}
	b := mapMemory(size)
	if b == nil {
		return make([]byte, size)
	}
	m.blocks = append(m.blocks, b)
	m.bytes += int64(size)
	m.arena.mapped.Add(int64(size))
	return b
}

// free gives the blocks back: their log is gone.
func (m *mappings) free() {
	for _, b := range m.blocks {
		unmapMemory(b)
	}
	m.arena.mapped.Add(-m.bytes)
	if m.retired.Load() {
		m.arena.retired.Add(-m.bytes)
	}
	m.blocks = nil
}

const (
	// mapLeast is the size of blocks from which on they are mapped, in multiples of pageSize.
	mapLeast, pageSize = 16 << 10, 4 << 10
	// A log that was replaced is given back when the collector finds that it is. That has no reason to look for it as long as its
	// own heap does not grow, so that it is asked to when more than a retiredShare-th of all memory is such, and at least retiredLeast.
	retiredShare, retiredLeast = 4, 16 << 20
)

// retire notes that a log was replaced.
func (a *arena) retire(m *mappings) {
	if m.bytes == 0 {
		return
	}
	m.retired.Store(true)
	retired := a.retired.Add(m.bytes)
	a.collected = min(a.collected, retired-m.bytes)
	if grown := retired - a.collected; grown > retiredLeast && grown > (a.mapped.Load()+heapBytes())/retiredShare {
		a.collected = retired
		runtime.GC()
	}
}

// heapBytes is the size of Go's heap.
func heapBytes() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	if metrics.Read(s); s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(s[0].Value.Uint64())
}
