package exec

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/topology"
)

// checkLock compares the plan with Config.LockFile (P6). It returns what writes the plan's own lock there once its topics are known to
// be in order.
func (a *App) checkLock() (accept func() error, err error) {
	path := a.cfg.LockFile
	if path == "" {
		return func() error { return nil }, nil
	}
	now := a.plan.Lock().Encode()
	was, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		a.cfg.Logger.Info("there is no plan lock yet", "file", path)
	case err != nil:
		return nil, fmt.Errorf("LockFile: %w", err)
	case bytes.Equal(was, now):
		return func() error { return nil }, nil
	default:
		lock, err := topology.ParseLock(was)
		if err != nil {
			return nil, fmt.Errorf("LockFile %s: %w", path, err)
		}
		changes := a.plan.CheckLock(lock)
		if err := changes.Err(); err != nil {
			return nil, fmt.Errorf("LockFile %s: %w", path, err)
		}
		for _, c := range changes {
			a.cfg.Logger.Info("the plan has changed", "what", c.Name, "text", c.Text, "orphan", c.Orphan)
		}
	}
	return func() error {
		if err := replaceFile(path, now); err != nil {
			return fmt.Errorf("LockFile: %w", err)
		}
		return nil
	}, nil
}

// replaceFile writes a file whole or not at all.
func replaceFile(path string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if _, err = f.Write(content); err != nil {
		return err
	}
	if err = cmp.Or(f.Chmod(0o644), f.Sync()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return f.Close()
}

// checkNames refuses a plan that lacks stores of which the group's notes say that they hold state, without a lock too.
func (a *App) checkNames(notes map[commitlog.TopicPartition]note) error {
	held := map[string]bool{}
	for _, n := range notes {
		for name := range n.stores {
			held[name] = true
		}
	}
	return a.plan.CheckState(slices.Sorted(maps.Keys(held))).Err()
}
