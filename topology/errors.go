package topology

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/wickerwork/wicker/internal/frames"
	"github.com/wickerwork/wicker/ops"
)

// BuildError is one misuse of a Builder: where it is, and what is wrong. Build returns all of
// them joined; BuildErrors takes them apart again.
type BuildError struct {
	// Op is the operator's kind, "New" for the builder as a whole; Name is its durable name,
	// topic or label, empty if it has none.
	Op, Name string
	// File and Line are the caller's, File without its directory.
	File string
	Line int
	// Err is what is wrong.
	Err error

	order int // of declaration
}

// Error is one line, for example `flights.go:41: Rekey "by-tail": the function is nil`.
func (e *BuildError) Error() string {
	t := ops.Traits{Op: e.Op, Name: e.Name}
	return fmt.Sprintf("%s:%d: %s: %v", e.File, e.Line, t.String(), e.Err)
}

// Unwrap returns what is wrong.
func (e *BuildError) Unwrap() error { return e.Err }

// BuildErrors returns the errors of a Build in the order of declaration. It is empty for any
// other error and for nil.
func BuildErrors(err error) []*BuildError {
	if err == nil {
		return nil
	}
	if e, ok := err.(*BuildError); ok {
		return []*BuildError{e}
	}
	var all []*BuildError
	switch w := err.(type) {
	case interface{ Unwrap() []error }:
		for _, e := range w.Unwrap() {
			all = append(all, BuildErrors(e)...)
		}
	case interface{ Unwrap() error }:
		all = BuildErrors(w.Unwrap())
	}
	return all
}

// join sorts errors by declaration and joins them; nil without any.
func join(all []*BuildError) error {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *BuildError) int { return cmp.Compare(a.order, b.order) })
	errs := make([]error, len(all))
	for i, e := range all {
		errs[i] = e
	}
	return errors.Join(errs...)
}

// callsite is a line of the user's program.
type callsite struct {
	file string
	line int
}

// String returns file and line as errors show them.
func (c callsite) String() string { return fmt.Sprintf("%s:%d", c.file, c.line) }

// here returns the line outside of this module that called into it. In a chain over several
// lines that is the line of the operator.
func here() callsite {
	if user := frames.Users(1, 1); len(user) > 0 {
		return callsite{user[0].File, user[0].Line}
	}
	return callsite{"?", 0}
}
