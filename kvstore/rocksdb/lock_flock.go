//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package rocksdb

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/wickerwork/wicker/kvstore"
)

// takeLock takes the lock of the directory without waiting, or returns a
// *kvstore.LockedError. The kernel gives the lock up when the process ends,
// however it ends, so there is nothing stale to clean: the file stays, and its
// pid means something only while the lock is held.
func takeLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("state directory %s cannot be written: %w", dir, err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		pid := holder(f)
		return nil, errors.Join(&kvstore.LockedError{Dir: dir, PID: pid, Self: pid == os.Getpid()}, f.Close())
	}
	if err == nil {
		err = writePID(f, strconv.Itoa(os.Getpid())+"\n")
	}
	if err != nil {
		return nil, fmt.Errorf("state directory %s cannot be locked: %w", dir, errors.Join(err, f.Close()))
	}
	return f, nil
}

// holder reads the pid of who has the lock. Between taking the lock and
// writing the pid there is a moment in which the file is empty.
func holder(f *os.File) int {
	var text [32]byte
	for range 20 {
		n, _ := f.ReadAt(text[:], 0)
		if pid, err := strconv.Atoi(string(bytes.TrimSpace(text[:n]))); err == nil {
			return pid
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0
}

func writePID(f *os.File, text string) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// releaseLock empties the file, lest the next holder be taken for this process
// in the moment before it writes its own pid, and gives the lock up.
func releaseLock(f *os.File) error {
	return errors.Join(f.Truncate(0), f.Close())
}
