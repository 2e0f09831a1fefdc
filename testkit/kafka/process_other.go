//go:build !unix

package kafka

import (
	"context"
	"errors"
	"os"
	"os/exec"
)

// Process groups, the watchdog and file locks are for Unix. Elsewhere a broker outlives a
// process that is killed, and two processes may both fetch Kafka, of which one wins.

func detach(*exec.Cmd) {}

func terminate(p *os.Process) error { return p.Kill() }

func suspend(*os.Process) error { return errors.ErrUnsupported }

func resume(*os.Process) error { return errors.ErrUnsupported }

func killGroup(p *os.Process) error { return p.Kill() }

type watchdog struct{}

func watch(*os.Process, string) (*watchdog, error) { return &watchdog{}, nil }

func (*watchdog) stop() {}

func lock(_ context.Context, path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
}

func inherit(*exec.Cmd, *os.File) {}
