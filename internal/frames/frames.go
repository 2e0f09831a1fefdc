// Package frames tells the frames of a stack that are a user's from those of this module.
package frames

import (
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
)

// Frame is a line of a user's program.
type Frame struct {
	// Function is the function's name with its package, File its file without the directory.
	Function, File string
	Line           int
}

type here struct{}

// module is the path of this module with a slash behind it.
var module = strings.TrimSuffix(reflect.TypeFor[here]().PkgPath(), "internal/frames")

// User says whether a frame is neither of this module nor of Go's runtime. Tests of this module count as users, and so do its examples.
func User(f runtime.Frame) bool {
	if f.File == "" || strings.HasPrefix(f.Function, "runtime.") {
		return false
	}
	return strings.HasSuffix(f.File, "_test.go") || !strings.HasPrefix(f.Function, module) || strings.HasPrefix(f.Function, module+"examples/")
}

// Users returns up to most of the user's frames of the calling goroutine, the innermost first. It skips frames above the caller.
func Users(skip, most int) []Frame {
	var pcs [128]uintptr
	all := runtime.CallersFrames(pcs[:runtime.Callers(skip+2, pcs[:])])
	var users []Frame
	for len(users) < most {
		f, more := all.Next()
		if User(f) {
			users = append(users, Frame{f.Function, filepath.Base(f.File), f.Line})
		}
		if !more {
			break
		}
	}
	return users
}
