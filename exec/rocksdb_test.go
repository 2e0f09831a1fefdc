//go:build cgo

package exec_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/kvstore/rocksdb"
	"github.com/wickerwork/wicker/testkit/memlog"
)

// A store on disk is used again after a restart, and rebuilt from the changelog when its files
// are damaged.
func TestE4ADamagedDirectoryIsRebuilt(t *testing.T) {
	for _, file := range []string{"none", "MANIFEST-", "CURRENT", ".sst"} {
		t.Run(strings.Trim(file, ".-"), func(t *testing.T) {
			dir := t.TempDir()
			onBench(t, 1, func(t *testing.T, b *bench) {
				on := func(c *exec.Config) { c.State = rocksdb.New(rocksdb.Options{Dir: dir}) }
				b.put(0, "k", "1", "l", "2")
				b.run(b.joining(), memlog.Faults{}, on).idle().drain()
				damaged := 0
				require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
					if err == nil && !d.IsDir() && strings.Contains(d.Name(), file) {
						damaged++
						return os.WriteFile(path, []byte("these are no bytes of RocksDB"), 0o600)
					}
					return err
				}))
				b.put(0, "k", "3")
				s := b.run(b.joining(), memlog.Faults{}, on).idle()
				if file == "none" {
					require.Zero(t, damaged)
					require.Zero(t, s.app.Stats().Restored)
				} else {
					require.Positive(t, damaged)
					require.EqualValues(t, 2, s.app.Stats().Restored)
				}
				s.drain()
				require.Equal(t, []string{"k=1", "l=2", "k=13"}, b.texts("out", 0))
			})
		})
	}
}

// A directory that another engine holds, and an engine that another App has closed, are said at once.
func TestADirectoryThatIsTaken(t *testing.T) {
	dir := t.TempDir()
	onBench(t, 1, func(t *testing.T, b *bench) {
		engine := rocksdb.New(rocksdb.Options{Dir: dir})
		first := b.run(b.joining(), memlog.Faults{}, func(c *exec.Config) { c.State = engine }).idle()
		err := <-b.run(b.joining(), memlog.Faults{}, func(c *exec.Config) { c.State = rocksdb.New(rocksdb.Options{Dir: dir}) }).end
		require.ErrorIs(t, err, kvstore.ErrLocked)
		require.ErrorContains(t, err, "state directory "+dir+" is locked")
		second := b.run(b.joining(), memlog.Faults{}, func(c *exec.Config) { c.State = engine })
		synctest.Wait()
		first.drain()
		b.put(0, "k", "1") // the store may have been opened just before the engine was closed
		err = <-second.end
		require.True(t, errors.Is(err, kvstore.ErrInUse) || errors.Is(err, kvstore.ErrClosed), "%v", err)
		require.ErrorContains(t, err, "is Config.State shared by two Apps?")
	})
}
