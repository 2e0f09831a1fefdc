package kvstore

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is what a closed store or engine answers, and an engine that
	// was not opened (S9).
	ErrClosed = errors.New("closed")

	// ErrInUse says that a store of this name is open in this engine, or that a
	// store is to be closed from within its own Scan (S9, S10).
	ErrInUse = errors.New("in use")

	// ErrLocked says that another process, or another engine of this one, holds
	// the directory (S10). The error is a *LockedError.
	ErrLocked = errors.New("locked")

	// ErrFormat says that a directory or store was written by something else,
	// or by a version with another format (S12). The error is a *FormatError.
	ErrFormat = errors.New("foreign format")

	// ErrName says that a store's name is empty or too long (S11).
	ErrName = errors.New("bad store name")

	// ErrCorrupt says that the files of a store are damaged. The remedy is
	// Engine.DestroyStore and a rebuild from the changelog.
	ErrCorrupt = errors.New("corrupt")

	// ErrUnavailable says that this program was built without what the engine
	// needs.
	ErrUnavailable = errors.New("not available in this build")
)

// LockedError says who holds an engine's directory. It wraps ErrLocked.
type LockedError struct {
	// Dir is the directory as the engine was given it.
	Dir string
	// PID is the holder's process id, 0 if it could not be read.
	PID int
	// Self says that the holder is another engine of this process.
	Self bool
}

// Error implements error.
func (e *LockedError) Error() string {
	switch {
	case e.Self:
		return fmt.Sprintf("state directory %s is locked by another engine of this process (pid %d)", e.Dir, e.PID)
	case e.PID == 0:
		return fmt.Sprintf("state directory %s is locked by another process (it left no pid)", e.Dir)
	default:
		return fmt.Sprintf("state directory %s is locked by the process with pid %d: is another instance running on it?", e.Dir, e.PID)
	}
}

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// FormatError says what was found where this engine's own format was wanted. It
// wraps ErrFormat.
type FormatError struct {
	// Dir is the directory, of an engine or of one store.
	Dir string
	// Found describes what is there, Want the format this engine reads.
	Found, Want string
}

// Error implements error.
func (e *FormatError) Error() string {
	return fmt.Sprintf("directory %s holds %s, not %s; it is left as it is", e.Dir, e.Found, e.Want)
}

// Unwrap returns ErrFormat.
func (e *FormatError) Unwrap() error { return ErrFormat }
