package lint

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Dependencies returns the lines of deps.txt (L2): the modules that the packages below root
// need on Linux with cgo, and those that only their tests need.
func Dependencies(root string) ([]string, error) {
	needed, err := modulesOf(root)
	if err != nil {
		return nil, err
	}
	tested, err := modulesOf(root, "-test")
	if err != nil {
		return nil, err
	}
	var lines []string
	for m := range tested {
		if !needed[m] {
			m += " (tests)"
		}
		lines = append(lines, m)
	}
	slices.Sort(lines)
	return lines, nil
}

func modulesOf(root string, flags ...string) (map[string]bool, error) {
	args := append([]string{"list", "-deps", "-json=Module"}, flags...)
	cmd := exec.Command("go", append(args, "./...")...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("lint: go list: %w: %s", err, stderr.String())
	}
	found := map[string]bool{}
	for d := jsontext.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Module *struct{ Path, Version string }
		}
		if err := json.UnmarshalDecode(d, &p); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, fmt.Errorf("lint: go list: %w", err)
		}
		if p.Module != nil && p.Module.Path != module {
			found[p.Module.Path+" "+p.Module.Version] = true
		}
	}
}
