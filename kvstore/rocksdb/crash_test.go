//go:build cgo

package rocksdb_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/kvstore/rocksdb"
)

// crashOptions make memtables so small that some are flushed between kills.
func crashOptions(dir string) rocksdb.Options {
	return rocksdb.Options{Dir: dir, MemoryBytes: 2 << 20, WriteBufferBytes: 256 << 10}
}

// numberedBatch fills b with the n-th batch of an endless series: changes that
// follow from n alone, and n itself as checkpoint and metadata. apply makes the
// same changes to a map.
func numberedBatch(b *kvstore.Batch, n int64, apply map[string]string) {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	b.Reset()
	for range 1 + r.IntN(20) {
		key := fmt.Sprintf("k%03d", r.IntN(500))
		if r.IntN(4) == 0 {
			b.Delete([]byte(key))
			delete(apply, key)
			continue
		}
		value := fmt.Sprintf("%d-%0*d", n, r.IntN(200), r.Uint32())
		b.Put([]byte(key), []byte(value))
		if apply != nil {
			apply[key] = value
		}
	}
	b.SetCheckpoint("changelog", n)
	b.SetMeta("n", fmt.Append(nil, n))
}

// openTask opens the store, and tells what the last batch in it was. The engine
// is closed if that fails.
func openTask(dir string) (e *rocksdb.Engine, s kvstore.Store, n int64, err error) {
	e = rocksdb.New(crashOptions(dir))
	if err = e.Open(); err == nil {
		s, err = e.OpenStore("task")
	}
	if err == nil {
		n, _, err = s.Checkpoint("changelog")
	}
	if err != nil {
		err = errors.Join(err, e.Close())
	}
	return e, s, n, err
}

// writeForever is the child: it goes on from the checkpoint, saying what it did,
// and waits to be killed.
func writeForever(dir string) error {
	_, s, n, err := openTask(dir)
	if err != nil {
		return err
	}
	var b kvstore.Batch
	for {
		n++
		numberedBatch(&b, n, nil)
		if err := s.Write(&b); err != nil {
			return err
		}
		fmt.Println("wrote", n)
		if n%997 == 0 {
			if err := s.Flush(); err != nil {
				return err
			}
			fmt.Println("flushed", n)
		}
	}
}

// loadForever is writeForever with loads, of which one follows the other.
func loadForever(dir string) error {
	_, s, n, err := openTask(dir)
	if err != nil {
		return err
	}
	var b kvstore.Batch
	for {
		l, err := s.Load(64 << 10)
		for range 400 {
			n++
			numberedBatch(&b, n, nil)
			if err == nil {
				err = l.Write(&b)
			}
			fmt.Println("wrote", n)
		}
		if err = errors.Join(err, l.Close(), s.Flush()); err != nil {
			return err
		}
		fmt.Println("flushed", n)
		// Something in the memtable, which the next load is not to overtake.
		for range 5 {
			n++
			numberedBatch(&b, n, nil)
			if err := s.Write(&b); err != nil {
				return err
			}
			fmt.Println("wrote", n)
		}
	}
}

// TestKill: S3, S4, E4. A process is killed while it writes. Each time the store
// opens again, and holds exactly the batches up to its checkpoint; that is no
// older than the last flush, and no newer than what was written.
func TestKill(t *testing.T) { testKill(t, "write", 2500) }

// TestKillInLoad: the same of a process that loads.
func TestKillInLoad(t *testing.T) { testKill(t, "load", 700) }

// testKill kills the child within the next batches, again and again.
func testKill(t *testing.T, role string, batches int64) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 1))
	want := map[string]string{}
	applied := int64(0)
	flushedAll, lost := int64(0), int64(0)
	for kill := range 8 {
		c := startChild(t, role, dir)
		wrote, flushed := applied, applied
		for stopAt := applied + 1 + r.Int64N(batches); wrote < stopAt && c.lines.Scan(); {
			var what string
			var n int64
			_, err := fmt.Sscan(c.lines.Text(), &what, &n)
			require.NoError(t, err, "child said %q", c.lines.Text())
			if wrote = n; what == "flushed" {
				flushed = n
			}
		}
		// Some more lines may be on their way; the kill falls between any two
		// instructions of a writer that does not stop.
		require.NoError(t, c.Process.Kill())
		for c.lines.Scan() {
			var what string
			var n int64
			if _, err := fmt.Sscan(c.lines.Text(), &what, &n); err == nil {
				if wrote = n; what == "flushed" {
					flushed = n
				}
			}
		}
		_ = c.Wait()

		e := rocksdb.New(crashOptions(dir))
		require.NoError(t, e.Open(), "the lock went with the process")
		s, err := e.OpenStore("task")
		require.NoError(t, err)
		checkpoint, _, err := s.Checkpoint("changelog")
		require.NoError(t, err)
		require.GreaterOrEqual(t, checkpoint, flushed, "kill %d: flushed batches are kept", kill)
		require.LessOrEqual(t, checkpoint, wrote+1, "kill %d: no batch from the future", kill)

		var b kvstore.Batch
		for n := applied + 1; n <= checkpoint; n++ {
			numberedBatch(&b, n, want)
		}
		got := map[string]string{}
		require.NoError(t, s.Scan(nil, nil, func(key, value []byte) error {
			got[string(key)] = string(value)
			return nil
		}))
		require.Equal(t, want, got, "kill %d at checkpoint %d", kill, checkpoint)
		left, err := os.ReadDir(filepath.Join(dir, "trash"))
		require.NoError(t, err)
		require.Empty(t, left, "files of a load that was cut short")
		if checkpoint > 0 {
			meta, _, err := s.Meta("n")
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(checkpoint), string(meta))
		}
		t.Logf("kill %d: wrote %d, flushed %d, checkpoint %d", kill, wrote, flushed, checkpoint)
		flushedAll += checkpoint - applied
		lost += wrote - checkpoint
		applied = checkpoint
		require.NoError(t, e.Close())
	}
	require.Positive(t, flushedAll, "no kill came after a flush: the test proved nothing")
	require.Positive(t, lost, "no kill lost anything: the test proved nothing")
}

// TestCleanRestart: S4: what was closed is there to the last batch.
func TestCleanRestart(t *testing.T) {
	dir := t.TempDir()
	want := map[string]string{}
	n := int64(0)
	for range 4 {
		e := rocksdb.New(crashOptions(dir))
		require.NoError(t, e.Open())
		s, err := e.OpenStore("task")
		require.NoError(t, err)
		checkpoint, _, err := s.Checkpoint("changelog")
		require.NoError(t, err)
		require.Equal(t, n, checkpoint)
		got := map[string]string{}
		require.NoError(t, s.Scan(nil, nil, func(key, value []byte) error {
			got[string(key)] = string(value)
			return nil
		}))
		require.Equal(t, want, got)
		var b kvstore.Batch
		for range 500 {
			n++
			numberedBatch(&b, n, want)
			err = errors.Join(err, s.Write(&b))
		}
		require.NoError(t, err)
		require.NoError(t, e.Close())
	}
}
