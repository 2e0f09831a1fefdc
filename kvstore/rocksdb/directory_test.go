//go:build cgo

package rocksdb_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linxGnu/grocksdb"
	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/kvstore/rocksdb"
)

func openEngine(t *testing.T, dir string) *rocksdb.Engine {
	t.Helper()
	e := rocksdb.New(rocksdb.Options{Dir: dir})
	require.NoError(t, e.Open())
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// holdDirectory is a child that opens an engine and waits to be killed.
func holdDirectory(dir string) error {
	if err := rocksdb.New(rocksdb.Options{Dir: dir}).Open(); err != nil {
		return err
	}
	fmt.Println("held")
	select {}
}

// TestLockedByProcess: S10: a second process is refused with the pid of the
// first, and let in once that is dead, however it died.
func TestLockedByProcess(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		c := startChild(t, "hold", dir)
		require.True(t, c.lines.Scan())
		require.Equal(t, "held", c.lines.Text())

		e := rocksdb.New(rocksdb.Options{Dir: dir})
		err := e.Open()
		require.ErrorIs(t, err, kvstore.ErrLocked)
		var locked *kvstore.LockedError
		require.ErrorAs(t, err, &locked)
		require.Equal(t, kvstore.LockedError{Dir: dir, PID: c.Process.Pid}, *locked)
		require.EqualError(t, err, fmt.Sprintf("rocksdb: state directory %s is locked by the process with pid %d: is another instance running on it?", dir, c.Process.Pid))
		_, err = e.OpenStore("x")
		require.ErrorIs(t, err, kvstore.ErrClosed)

		c.kill(t)
		require.NoError(t, e.Open(), "refused once, it may be tried again")
		require.NoError(t, e.Close())
	}
}

// TestStaleLock: S10: what a LOCK file says means nothing unless its lock is held, even
// if the pid in it is again that of a process that lives.
func TestStaleLock(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{fmt.Sprintln(os.Getppid()), "1\n", "", "no number"} {
		stale := filepath.Join(dir, "stale")
		require.NoError(t, os.MkdirAll(stale, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(stale, "LOCK"), []byte(text), 0o644))
		e := rocksdb.New(rocksdb.Options{Dir: stale})
		require.NoError(t, e.Open())
		held, err := os.ReadFile(filepath.Join(stale, "LOCK"))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintln(os.Getpid()), string(held))
		require.NoError(t, e.Close())
	}
}

// TestLockedBySelf: two engines of one process do not share a directory either.
func TestLockedBySelf(t *testing.T) {
	dir := t.TempDir()
	first := openEngine(t, dir)
	second := rocksdb.New(rocksdb.Options{Dir: dir})
	err := second.Open()
	var locked *kvstore.LockedError
	require.ErrorAs(t, err, &locked)
	require.Equal(t, kvstore.LockedError{Dir: dir, PID: os.Getpid(), Self: true}, *locked)
	require.ErrorContains(t, err, "another engine of this process")
	require.NoError(t, first.Close())
	require.NoError(t, second.Open())
	require.NoError(t, second.Close())
}

// TestUnwritable: one sentence that names the directory and the cause.
func TestUnwritable(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	half := filepath.Join(base, "half")
	require.NoError(t, os.MkdirAll(filepath.Join(half, "LOCK"), 0o700))
	stores := filepath.Join(base, "stores-is-a-file")
	require.NoError(t, os.MkdirAll(stores, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(stores, "stores"), nil, 0o600))
	tests := []struct{ name, dir, want string }{
		{"file", file, "cannot be created: mkdir " + file + ": not a directory"},
		{"below-file", filepath.Join(file, "a", "b"), "cannot be created: mkdir " + file + ": not a directory"},
		{"lock", half, "cannot be written: open " + filepath.Join(half, "LOCK") + ": is a directory"},
		{"stores", stores, "cannot be written: mkdir " + filepath.Join(stores, "stores") + ": not a directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := rocksdb.New(rocksdb.Options{Dir: tt.dir})
			err := e.Open()
			require.EqualError(t, err, "rocksdb: state directory "+tt.dir+" "+tt.want)
			require.NoError(t, e.Close())
		})
	}

	// A file where a store is to be.
	dir := filepath.Join(base, "good")
	e := openEngine(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stores", "task"), nil, 0o600))
	_, err := e.OpenStore("task")
	require.ErrorContains(t, err, `rocksdb: store "task": in state directory `+dir+": ")
	require.NotContains(t, err.Error(), "\n")
	names, err := e.Stores()
	require.NoError(t, err)
	require.Empty(t, names)
}

// tree lists a directory with contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		content := "(dir)"
		if !d.IsDir() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = string(text)
		}
		files[path] = content
		return nil
	}))
	return files
}

// TestForeignDirectory: S12: what the engine did not write is not touched.
func TestForeignDirectory(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"other files (such as precious.txt)":                         {"precious.txt": "mine", "stores": "mine too"},
		"wicker state, format 2":                                     {"FORMAT": "wicker state, format 2\n"},
		"something else (its FORMAT file is not one of this engine)": {"FORMAT": "yours", "x": ""},
	} {
		t.Run(name[:5], func(t *testing.T) {
			dir := t.TempDir()
			for f, text := range files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, f), []byte(text), 0o600))
			}
			before := tree(t, dir)
			err := rocksdb.New(rocksdb.Options{Dir: dir}).Open()
			require.ErrorIs(t, err, kvstore.ErrFormat)
			var format *kvstore.FormatError
			require.ErrorAs(t, err, &format)
			require.Equal(t, dir, format.Dir)
			require.Equal(t, name, format.Found)
			require.ErrorContains(t, err, "rocksdb: directory "+dir+" holds "+name+", not wicker state, format 1")
			require.Equal(t, before, tree(t, dir))
		})
	}
}

// TestSetupCutShort: a crash in Open leaves what the next Open accepts.
func TestSetupCutShort(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"stores", "trash", "trash/123/store"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o700))
	}
	for _, f := range []string{"LOCK", "FORMAT.new", "trash/123/store/CURRENT"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, f), []byte("1"), 0o600))
	}
	e := openEngine(t, dir)
	left, err := os.ReadDir(filepath.Join(dir, "trash"))
	require.NoError(t, err)
	require.Empty(t, left, "the trash is emptied")
	s, err := e.OpenStore("task")
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// TestForeignStore: S12 for one store: a RocksDB of someone else's, and a store
// under another's name.
func TestForeignStore(t *testing.T) {
	dir := t.TempDir()
	e := openEngine(t, dir)
	path := filepath.Join(dir, "stores", "foreign")
	opts := grocksdb.NewDefaultOptions()
	defer opts.Destroy()
	opts.SetCreateIfMissing(true)
	wo := grocksdb.NewDefaultWriteOptions()
	defer wo.Destroy()
	db, err := grocksdb.OpenDb(opts, path)
	require.NoError(t, err)
	require.NoError(t, db.Put(wo, []byte("a"), []byte("theirs")))
	db.Close()

	for range 2 {
		_, err = e.OpenStore("foreign")
		require.ErrorIs(t, err, kvstore.ErrFormat)
		require.ErrorContains(t, err, "holds a RocksDB of something else, not wicker store, format 1, name foreign; it is left as it is")
	}
	db, err = grocksdb.OpenDb(opts, path)
	require.NoError(t, err)
	ro := grocksdb.NewDefaultReadOptions()
	defer ro.Destroy()
	got, err := db.GetBytes(ro, []byte("a"))
	require.NoError(t, err)
	require.Equal(t, "theirs", string(got))
	db.Close()

	s, err := e.OpenStore("one")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, os.Rename(filepath.Join(dir, "stores", "one"), filepath.Join(dir, "stores", "two")))
	_, err = e.OpenStore("two")
	require.ErrorIs(t, err, kvstore.ErrFormat)
	require.ErrorContains(t, err, "holds wicker store, format 1, name one, not wicker store, format 1, name two")
}

// TestCorrupt: damage is ErrCorrupt, and the remedy works.
func TestCorrupt(t *testing.T) {
	damage := map[string]func(t *testing.T, store string){
		"manifest": func(t *testing.T, store string) {
			files, err := filepath.Glob(filepath.Join(store, "MANIFEST-*"))
			require.NoError(t, err)
			for _, f := range files {
				overwrite(t, f)
			}
		},
		"table": func(t *testing.T, store string) {
			files, err := filepath.Glob(filepath.Join(store, "*.sst"))
			require.NoError(t, err)
			require.NotEmpty(t, files)
			for _, f := range files {
				overwrite(t, f)
			}
		},
		"missing-table": func(t *testing.T, store string) {
			files, err := filepath.Glob(filepath.Join(store, "*.sst"))
			require.NoError(t, err)
			for _, f := range files {
				require.NoError(t, os.Remove(f))
			}
		},
	}
	for name, harm := range damage {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			e := openEngine(t, dir)
			s, err := e.OpenStore("task")
			require.NoError(t, err)
			var b kvstore.Batch
			for i := range 1000 {
				b.Put(fmt.Append(nil, "secretkey", i), fmt.Append(nil, "secretvalue", i))
			}
			require.NoError(t, s.Write(&b))
			require.NoError(t, s.Close())
			harm(t, filepath.Join(dir, "stores", "task"))

			s, err = e.OpenStore("task")
			if err == nil {
				err = s.Scan(nil, nil, func(_, _ []byte) error { return nil })
				require.NoError(t, s.Close())
			}
			require.ErrorIs(t, err, kvstore.ErrCorrupt)
			require.NotContains(t, err.Error(), "secret")
			require.True(t, strings.HasPrefix(err.Error(), `rocksdb: store "task": `), err)
			remedy := "; delete " + filepath.Join(dir, "stores", "task") + " to have it rebuilt from its changelog"
			require.True(t, strings.HasSuffix(err.Error(), remedy), err)
			require.NotContains(t, err.Error(), "\n")

			require.NoError(t, e.DestroyStore("task"))
			s, err = e.OpenStore("task")
			require.NoError(t, err)
			_, found, err := s.Get(nil, []byte("secretkey1"))
			require.NoError(t, err)
			require.False(t, found)
			require.NoError(t, s.Close())
		})
	}
}

// overwrite damages the middle of a file.
func overwrite(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := len(text) / 4; i < len(text)/4*3; i++ {
		text[i] ^= 0x5a
	}
	require.NoError(t, os.WriteFile(path, text, 0o600))
}
