package ops

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/wickerwork/wicker/internal/frames"
)

// PanicError is a panic of a user's function.
type PanicError struct {
	// Value describes what was thrown, see PanicText.
	Value string
	// At are the lines of the user's program that were on the stack, as "function file:line", the innermost first, at most 8; none if they were all of
	// this module, or of Go's runtime.
	At []string
	// Stack is the goroutine's whole stack at the panic.
	Stack []byte
}

// maxFrames is how many lines of a user's program a PanicError tells.
const maxFrames = 8

// Panicked returns the error for what recover has returned. It is called by the function that is deferred.
func Panicked(thrown any) *PanicError {
	e := &PanicError{Value: PanicText(thrown), Stack: debug.Stack()}
	for _, f := range frames.Users(1, maxFrames) {
		e.At = append(e.At, fmt.Sprintf("%s %s:%d", f.Function, f.File, f.Line))
	}
	return e
}

// Error says that a function panicked, with what and where, the three innermost lines, in a line.
func (e *PanicError) Error() string {
	text := "panic: " + e.Value
	if len(e.At) > 0 {
		text += " (" + strings.Join(e.At[:min(3, len(e.At))], ", ") + ")"
	}
	return text
}

// PanicText describes what was thrown: an error's text, a runtime error's among them, and for any
// other value its type only, since its text may be a record's content.
func PanicText(thrown any) string {
	if e, ok := thrown.(error); ok {
		return e.Error()
	}
	return fmt.Sprintf("a value of type %T", thrown)
}
