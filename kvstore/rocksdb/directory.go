package rocksdb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wickerwork/wicker/kvstore"
)

// The engine's directory:
//
//	LOCK            flock by the process that has it open, with its pid
//	FORMAT          formatText
//	stores/<name>/  one RocksDB each, name by dirName
//	trash/          stores on their way out, files on their way in
//
// The text of FORMAT names the format of the whole tree. Changing anything that
// an older program would misread is a new number.
const (
	lockFile   = "LOCK"
	formatFile = "FORMAT"
	formatTemp = "FORMAT.new"
	storesDir  = "stores"
	trashDir   = "trash"

	formatText = "wicker state, format 1\n"
)

// directory is an engine's directory, locked.
type directory struct {
	path string
	lock *os.File
}

// openDirectory creates or checks the directory and locks it (S10, S12). Its
// errors name the directory.
func openDirectory(path string) (*directory, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("state directory %s cannot be created: %w", path, err)
	}
	// Before the lock: a foreign directory gets not even a LOCK file.
	if _, err := checkFormat(path); err != nil {
		return nil, err
	}
	lock, err := takeLock(path)
	if err != nil {
		return nil, err
	}
	d := &directory{path: path, lock: lock}
	if err := d.prepare(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// prepare runs under the lock.
func (d *directory) prepare() error {
	fresh, err := checkFormat(d.path)
	if err != nil {
		return err
	}
	if err := d.writable(fresh); err != nil {
		return fmt.Errorf("state directory %s cannot be written: %w", d.path, err)
	}
	return nil
}

func (d *directory) writable(fresh bool) error {
	for _, name := range []string{storesDir, trashDir} {
		if err := os.MkdirAll(filepath.Join(d.path, name), 0o755); err != nil {
			return err
		}
	}
	if fresh {
		// Last, and whole or not at all: it stands for a complete set-up.
		temp := filepath.Join(d.path, formatTemp)
		if err := os.WriteFile(temp, []byte(formatText), 0o644); err != nil {
			return err
		}
		if err := os.Rename(temp, filepath.Join(d.path, formatFile)); err != nil {
			return err
		}
		if err := syncDir(d.path); err != nil {
			return err
		}
	}
	return d.emptyTrash()
}

// checkFormat reports whether the directory is fresh; it is an error if it is
// neither fresh nor ours.
func checkFormat(path string) (fresh bool, err error) {
	text, err := os.ReadFile(filepath.Join(path, formatFile))
	if err == nil {
		if string(text) == formatText {
			return false, nil
		}
		found := "something else (its FORMAT file is not one of this engine)"
		if strings.HasPrefix(string(text), "wicker state, format ") && len(text) < 40 {
			found = strings.TrimSpace(string(text))
		}
		return false, &kvstore.FormatError{Dir: path, Found: found, Want: strings.TrimSpace(formatText)}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("state directory %s cannot be read: %w", path, err)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return false, fmt.Errorf("state directory %s cannot be read: %w", path, err)
	}
	for _, e := range entries {
		switch e.Name() {
		case lockFile, formatTemp, storesDir, trashDir, "lost+found":
			// Ours, from a set-up cut short: nothing is in stores before
			// FORMAT is there. Or the root of a volume.
		default:
			return false, &kvstore.FormatError{
				Dir:   path,
				Found: fmt.Sprintf("other files (such as %s)", e.Name()),
				Want:  strings.TrimSpace(formatText) + " or nothing",
			}
		}
	}
	return true, nil
}

// store returns the path of a store's directory.
func (d *directory) store(entry string) string { return filepath.Join(d.path, storesDir, entry) }

// names returns the names of the stores there, sorted.
func (d *directory) names() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(d.path, storesDir))
	if err != nil {
		return nil, fmt.Errorf("state directory %s cannot be read: %w", d.path, err)
	}
	var names []string
	for _, e := range entries {
		if name, ok := storeName(e.Name()); ok && e.IsDir() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// remove deletes a store. The rename decides: a crash leaves the store whole, or
// absent with something in the trash.
func (d *directory) remove(entry string) error {
	bin, err := os.MkdirTemp(filepath.Join(d.path, trashDir), "")
	if err == nil {
		err = os.Rename(d.store(entry), filepath.Join(bin, "store"))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		err = errors.Join(err, os.RemoveAll(bin))
	}
	if err != nil {
		return fmt.Errorf("destroy in state directory %s: %w", d.path, err)
	}
	return nil
}

// scratch makes a directory for files on their way into stores, in the trash: what a crash
// leaves there is deleted by the next Open.
func (d *directory) scratch() (string, error) {
	dir, err := os.MkdirTemp(filepath.Join(d.path, trashDir), "load-")
	if err != nil {
		return "", fmt.Errorf("state directory %s cannot be written: %w", d.path, err)
	}
	return dir, nil
}

func (d *directory) emptyTrash() error {
	trash := filepath.Join(d.path, trashDir)
	entries, err := os.ReadDir(trash)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(trash, e.Name())))
	}
	return err
}

// close gives up the lock.
func (d *directory) close() error { return releaseLock(d.lock) }

// syncDir makes the entries of a directory durable.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
