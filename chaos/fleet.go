package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wickerwork/wicker/exec"
)

// respawnDelay is how long the supervisor waits before it starts a worker again that ended by itself.
const respawnDelay = 300 * time.Millisecond

// patience is how long a worker that was asked to end may take beyond its DrainTimeout: two cores may be busy.
const patience = 10 * time.Second

// exit is the end of a worker that nobody asked for, or that was asked for and went wrong.
type exit struct {
	at    time.Time
	slot  int
	cause string
}

func (e exit) String() string {
	return fmt.Sprintf("%s worker %d: %s", e.at.Format("15:04:05.000"), e.slot, e.cause)
}

// fleet is the worker processes of a run, each in a slot with a state directory and a log of its own. It
// supervises them: one that ends by itself is started again, and noted. It is safe for concurrent use; calls for one
// slot come one after the other.
type fleet struct {
	dir   string
	job   func(slot int) job
	wg    sync.WaitGroup
	slots []*slot

	mu    sync.Mutex // guards what follows
	exits []exit
	// short is how many workers were asked to end and said that they could not finish within their DrainTimeout: while
	// brokers are away that is how it is meant to be.
	short int
	// unheard is how many workers ended at their start because no broker answered: whoever starts a program wants to be
	// told that at once.
	unheard int
	over    bool
}

// noBroker is what such a worker says.
const noBroker = "connect: no broker answered"

// slot is the place of a worker.
type slot struct {
	number int

	mu   sync.Mutex // guards what follows
	life *life      // nil: no worker is wanted
}

// life is a worker's process.
type life struct {
	cmd   *osexec.Cmd
	stdin io.Closer
	done  chan struct{} // closed when it is gone; err and asked are not changed any more
	err   error
	asked bool // its end
}

func newFleet(dir string, slots int, job func(slot int) job) (*fleet, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f := &fleet{dir: dir, job: job}
	for i := range slots {
		f.slots = append(f.slots, &slot{number: i})
	}
	return f, nil
}

func (f *fleet) logPath(slot int) string {
	return filepath.Join(f.dir, fmt.Sprintf("worker-%d.log", slot))
}
func (f *fleet) statePath(slot int) string {
	return filepath.Join(f.dir, fmt.Sprintf("state-%d", slot))
}

// start starts the slot's worker, unless one runs.
func (f *fleet) start(slot int) error {
	s := f.slots[slot]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != nil {
		return nil
	}
	return f.launchLocked(s)
}

func (f *fleet) launchLocked(s *slot) error {
	j := f.job(s.number)
	j.Slot, j.State = s.number, f.statePath(s.number)
	description, err := json.Marshal(j)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(f.logPath(s.number), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := osexec.Command(self)
	cmd.Env = append(os.Environ(), workerEnv+"="+string(description))
	cmd.Stdout, cmd.Stderr = log, log
	// A group of its own: the terminal's interrupt is not for it. When this process is killed while the worker is
	// stopped the kernel hangs the group up (it is orphaned), and else its input ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start worker %d: %w", s.number, err)
	}
	l := &life{cmd: cmd, stdin: stdin, done: make(chan struct{})}
	s.life = l
	f.wg.Go(func() { f.watch(s, l) })
	return nil
}

// watch waits for the end of a worker and starts it again if nobody asked for it.
func (f *fleet) watch(s *slot, l *life) {
	err := l.cmd.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	l.err = err
	close(l.done)
	if l.asked {
		return
	}
	if cause := lastLine(f.logPath(s.number)); strings.Contains(cause, noBroker) {
		f.mu.Lock()
		f.unheard++
		f.mu.Unlock()
	} else {
		f.note(s.number, fmt.Sprintf("ended by itself (%v): %s", err, cause))
	}
	s.life = nil
	f.mu.Lock()
	over := f.over
	f.mu.Unlock()
	if over {
		return
	}
	time.Sleep(respawnDelay)
	if err := f.launchLocked(s); err != nil {
		f.note(s.number, err.Error())
	}
}

func (f *fleet) note(slot int, cause string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.exits = append(f.exits, exit{time.Now(), slot, cause})
}

// unplanned returns the ends that nobody asked for, so far.
func (f *fleet) unplanned() []exit {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]exit(nil), f.exits...)
}

// cutShort is how many workers could not finish in time when they were asked to end.
func (f *fleet) cutShort() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.short
}

// startsInVain is how many workers found no broker at their start.
func (f *fleet) startsInVain() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unheard
}

// take marks the worker's end as asked for and returns it; nil if there is none.
func (s *slot) take() *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.life
	if l != nil {
		l.asked = true
		s.life = nil
	}
	return l
}

// kill ends the slot's worker as kill -9 does.
func (f *fleet) kill(slot int) error {
	l := f.slots[slot].take()
	if l == nil {
		return nil
	}
	err := l.cmd.Process.Signal(syscall.SIGKILL)
	<-l.done
	_ = l.stdin.Close()
	return err
}

// stop asks the slot's worker to end and waits for it. One that takes too long is a finding: its
// goroutines go to its log, and it is killed.
func (f *fleet) stop(slot int) error {
	l := f.slots[slot].take()
	if l == nil {
		return nil
	}
	defer l.stdin.Close()
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_ = l.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-l.done:
		if l.early() {
			return nil
		}
		if cause := lastLine(f.logPath(slot)); l.err != nil && strings.Contains(cause, exec.ErrDrainTimeout.Error()) {
			f.mu.Lock()
			f.short++
			f.mu.Unlock()
		} else if l.err != nil {
			f.note(slot, fmt.Sprintf("was asked to end and failed (%v): %s", l.err, cause))
		}
		return nil
	case <-time.After(drainTimeout + patience):
	}
	f.note(slot, fmt.Sprintf("was asked to end and did not within %v", drainTimeout+patience))
	_ = l.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-l.done:
	case <-time.After(patience):
		_ = l.cmd.Process.Signal(syscall.SIGKILL)
		<-l.done
	}
	return nil
}

// signal sends a signal to the slot's worker, if there is one.
func (f *fleet) signal(slot int, sig syscall.Signal) error {
	s := f.slots[slot]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == nil {
		return nil
	}
	return s.life.cmd.Process.Signal(sig)
}

// early says that the worker was asked to end before it had begun to listen to that.
func (l *life) early() bool {
	exit, ok := errors.AsType[*osexec.ExitError](l.err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGTERM
}

// pid is the process of the slot's worker, 0 if there is none.
func (f *fleet) pid(slot int) int {
	s := f.slots[slot]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == nil {
		return 0
	}
	return s.life.cmd.Process.Pid
}

// dump writes the goroutines of all workers to their logs, which ends them.
func (f *fleet) dump() {
	for i := range f.slots {
		if l := f.slots[i].take(); l != nil {
			_ = l.cmd.Process.Signal(syscall.SIGCONT)
			_ = l.cmd.Process.Signal(syscall.SIGQUIT)
			select {
			case <-l.done:
			case <-time.After(patience):
				_ = l.cmd.Process.Signal(syscall.SIGKILL)
				<-l.done
			}
			_ = l.stdin.Close()
		}
	}
}

// stopAll asks all workers to end, at once.
func (f *fleet) stopAll() {
	var wg sync.WaitGroup
	for i := range f.slots {
		wg.Go(func() { _ = f.stop(i) })
	}
	wg.Wait()
}

// close ends what is left at once and returns when no process and no goroutine is.
func (f *fleet) close() {
	f.mu.Lock()
	f.over = true
	f.mu.Unlock()
	for i := range f.slots {
		_ = f.kill(i)
	}
	f.wg.Wait()
}

// lastLine is the last line of a log that says something.
func lastLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		// A panic's first line tells more than the last of its stack.
		if strings.HasPrefix(lines[i], "panic:") || strings.HasPrefix(lines[i], "fatal error:") || strings.HasPrefix(lines[i], "chaos:") ||
			strings.HasPrefix(lines[i], "SIG") || strings.Contains(lines[i], "worker ends") {
			return lines[i]
		}
		if len(lines)-i > 2000 {
			break
		}
	}
	return lines[len(lines)-1]
}
