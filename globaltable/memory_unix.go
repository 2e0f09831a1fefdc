//go:build unix

package globaltable

import "syscall"

// mapMemory returns memory outside Go's heap, nil if there is none.
func mapMemory(size int) []byte {
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return b
}

// unmapMemory gives it back; where that fails, it is lost.
func unmapMemory(b []byte) { _ = syscall.Munmap(b) }
