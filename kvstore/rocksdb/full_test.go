//go:build cgo && linux

package rocksdb_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
)

// growingBatch is numberedBatch and an entry that is there once and does not
// compress, so that the store grows.
func growingBatch(b *kvstore.Batch, n int64, apply map[string]string) {
	numberedBatch(b, n, apply)
	key, value := fmt.Sprintf("once%d", n), make([]byte, 2000)
	_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}).Read(value)
	b.Put([]byte(key), value)
	if apply != nil {
		apply[key] = string(value)
	}
}

// fillDisk is the child: it fills a file system of its own again and again, each
// time a larger one, and checks what is left of the store.
func fillDisk(dir string) error {
	// What is mounted here is not to be seen outside.
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	state := filepath.Join(dir, "state")
	want := map[string]string{}
	var applied int64
	for round := range 4 {
		size := fmt.Sprintf("size=%dm", 2+round)
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, size); err != nil {
			return fmt.Errorf("remount: %w", err)
		}
		from := applied
		if err := checkPrefix(state, want, &applied); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		wrote, err := writeUntilFull(state, applied, round%2 == 1)
		if !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("round %d: after %d batches: %w", round, wrote, err)
		}
		fmt.Printf("round %d: kept %d, then wrote %d: %v\n", round, applied-from, wrote-applied, err)
	}
	return nil
}

// checkPrefix opens the store on a disk with room: it is as after its
// checkpoint's batch.
func checkPrefix(dir string, want map[string]string, applied *int64) (err error) {
	e, s, checkpoint, err := openTask(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if checkpoint < *applied {
		return fmt.Errorf("checkpoint %d, after %d was seen on disk", checkpoint, *applied)
	}
	var b kvstore.Batch
	for n := *applied + 1; n <= checkpoint; n++ {
		growingBatch(&b, n, want)
	}
	*applied = checkpoint
	entries := 0
	if err := s.Scan(nil, nil, func(key, value []byte) error {
		entries++
		if want[string(key)] != string(value) {
			return fmt.Errorf("%s is not what batch %d left", key, checkpoint)
		}
		return nil
	}); err != nil {
		return err
	}
	if entries != len(want) {
		return fmt.Errorf("%d entries at batch %d instead of %d", entries, checkpoint, len(want))
	}
	return nil
}

// writeUntilFull returns the first error, and checks that all calls after it
// return.
func writeUntilFull(dir string, n int64, load bool) (wrote int64, err error) {
	e, s, _, err := openTask(dir)
	if err != nil {
		return n, err
	}
	var w interface {
		Write(b *kvstore.Batch) error
	} = s
	var l kvstore.Loader
	if load {
		if l, err = s.Load(256 << 10); err != nil {
			return n, err
		}
		w = l
	}
	var b kvstore.Batch
	for err == nil {
		n++
		growingBatch(&b, n, nil)
		err = w.Write(&b)
	}
	for range 3 {
		_ = w.Write(&b)
		_ = s.Flush()
	}
	if l != nil {
		_ = l.Close()
	}
	_ = s.Close()
	_ = e.Close()
	// A process that starts again on the full disk.
	again, _, _, openErr := openTask(dir)
	switch {
	case openErr == nil:
		_ = again.Close()
	case !errors.Is(openErr, syscall.ENOSPC):
		err = openErr
	}
	return n, err
}

// TestFullDisk: E4, S3, S4. A disk that is full in the middle of writes, loads,
// flushes, merges and opens is an error that says so, not the end of the process;
// with room the store opens again and holds exactly the batches up to its
// checkpoint.
func TestFullDisk(t *testing.T) {
	c := newChild(t, "full", t.TempDir())
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
	}
	if err := c.Start(); errors.Is(err, syscall.EPERM) {
		t.Skipf("no mount namespace for a small file system: %v", err)
	} else {
		require.NoError(t, err)
	}
	rounds := 0
	for c.lines.Scan() {
		t.Log(c.lines.Text())
		rounds++
	}
	require.NoError(t, c.Wait())
	require.Equal(t, 4, rounds)
}
