//go:build unix

package kafka

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// detach puts the command into a process group of its own, so that the terminal's interrupt
// goes to this process alone, which then ends the broker.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// terminate asks the process to end.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// suspend and resume stop the process in its tracks and let it go on.
func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) error  { return p.Signal(syscall.SIGCONT) }

// killGroup ends the process and what it has started.
func killGroup(p *os.Process) error {
	if err := syscall.Kill(-p.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// watchdog kills a broker that outlives the process that started it.
//
// It is a shell that reads from a pipe whose other end only this process has: the read ends
// when this process is gone, whatever ended it. (The kernel's parent death signal would do
// the same on Linux only, and goes by the thread that forked, not by the process.)
type watchdog struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// watch starts a watchdog for the broker; it also removes dir, unless that is empty.
func watch(broker *os.Process, dir string) (*watchdog, error) {
	const script = `read -r pid || exit 0; read -r _; kill -9 -- "-$pid"; [ -z "$1" ] || rm -rf -- "$1"`
	w := &watchdog{cmd: exec.Command("/bin/sh", "-c", script, "wicker-watchdog", dir)}
	detach(w.cmd)
	var err error
	if w.pipe, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(w.pipe, strconv.Itoa(broker.Pid)+"\n"); err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

// stop ends the watchdog; the broker is gone.
func (w *watchdog) stop() {
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait() // "signal: killed"
	_ = w.pipe.Close()
}

// lock takes the lock of a file. Closing the file gives it back, as does the end of this process
// and of those that have inherited the file.
func lock(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// inherit makes the lock last as long as the command, too.
func inherit(cmd *exec.Cmd, lock *os.File) { cmd.ExtraFiles = append(cmd.ExtraFiles, lock) }
