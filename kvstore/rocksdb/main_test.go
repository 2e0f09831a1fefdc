//go:build cgo

package rocksdb_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Tests that need another process run this test binary again, with the name of
// a role in this variable.
const roleVariable = "KVSTORE_ROCKSDB_TEST_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := roles()[role](os.Getenv("DIR")); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

// roles are what a child process may do in a directory.
func roles() map[string]func(dir string) error {
	return map[string]func(dir string) error{
		"full":  fillDisk,
		"hold":  holdDirectory,
		"write": writeForever,
		"load":  loadForever,
	}
}

// child is a child process; its lines are read as they come.
type child struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func startChild(t *testing.T, role, dir string) *child {
	t.Helper()
	c := newChild(t, role, dir)
	require.NoError(t, c.Start())
	return c
}

// newChild is a child that is not started.
func newChild(t *testing.T, role, dir string) *child {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := &child{Cmd: exec.Command(self)}
	c.Env = append(os.Environ(), roleVariable+"="+role, "DIR="+dir)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	c.lines = bufio.NewScanner(out)
	t.Cleanup(func() {
		if c.Process != nil {
			_ = c.Process.Kill()
		}
	})
	return c
}

// kill is kill -9, and waits until it is dead.
func (c *child) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, c.Process.Kill())
	for c.lines.Scan() {
	}
	_ = c.Wait() // says that it was killed
}
