//go:build !unix

package globaltable

// mapMemory returns memory outside Go's heap, nil if there is none.
func mapMemory(int) []byte { return nil }

func unmapMemory([]byte) {}
