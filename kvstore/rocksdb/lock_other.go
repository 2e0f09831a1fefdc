//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package rocksdb

import (
	"fmt"
	"os"
	"runtime"

	"github.com/wickerwork/wicker/kvstore"
)

// takeLock refuses: without a lock two processes could share a directory.
func takeLock(dir string) (*os.File, error) {
	return nil, fmt.Errorf("state directory %s cannot be locked on %s: %w", dir, runtime.GOOS, kvstore.ErrUnavailable)
}

func releaseLock(f *os.File) error { return f.Close() }
