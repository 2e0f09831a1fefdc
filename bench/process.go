package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a running instance of either side.
type process struct {
	cmd     *exec.Cmd
	started time.Time
	stdin   io.Closer
	// lines are what it prints, a JSON object each; closed at its end.
	lines chan []byte
	text  lastText
	// exited has cmd.Wait's result once it is closed.
	exited chan struct{}
	err    error
}

// spawn starts an instance. The caller has to call kill or stop.
func (d *driver) spawn(ctx context.Context, row row, j job) (*process, error) {
	cmd, err := d.command(ctx, row, j)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, lines: make(chan []byte, 16), exited: make(chan struct{})}
	cmd.Stderr = &p.text
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.started = time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		for in := bufio.NewScanner(out); in.Scan(); {
			select {
			case p.lines <- bytes.Clone(in.Bytes()):
			default: // more than anybody asks for
			}
		}
		close(p.lines)
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// next reads the next object that the instance prints.
func (p *process) next(v any) error {
	line, ok := <-p.lines
	if !ok {
		<-p.exited
		return fmt.Errorf("the instance ended (%v): %s", p.err, p.text.String())
	}
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("the instance printed %q: %w", line, err)
	}
	return nil
}

// stop ends the instance in order, by SIGTERM, and returns what it says at its end.
func (p *process) stop() (e ending, err error) {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return e, err
	}
	if err := p.next(&e); err != nil {
		return e, err
	}
	<-p.exited
	return e, nil
}

// kill ends the instance at once. It may be called after it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.stdin.Close()
	<-p.exited
}

// lastText keeps the last of what is written. It is safe for concurrent use.
type lastText struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const lastTextSize = 4000

func (t *lastText) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(b)
	if n := t.buf.Len() - lastTextSize; n > 0 {
		t.buf.Next(n)
	}
	return len(b), nil
}

func (t *lastText) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(t.buf.String())
}
