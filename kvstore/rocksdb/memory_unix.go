//go:build cgo && (darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package rocksdb

import (
	"fmt"
	"syscall"
)

// allocate returns memory that is not Go's: the collector neither scans it nor
// counts it, pages are taken when they are first touched, and release gives
// them back at once.
func allocate(size int) ([]byte, error) {
	mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("%d bytes of memory: %w", size, err)
	}
	return mem, nil
}

func release(mem []byte) { _ = syscall.Munmap(mem) }
