package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// stopTimeout is how long a real broker may take to end in order before it is killed.
const stopTimeout = 30 * time.Second

// fenceSession is how long the controller waits before it fences a broker that was killed.
const fenceSession = 200 * time.Millisecond

// bindTries is how often a broker is started on other ports when one that was free is taken.
const bindTries = 3

// process is the engine of a real broker: a JVM that runs Kafka as broker and controller.
type process struct {
	opts  Options
	certs *certificates
	temp  bool
	// locked is Dir's lock. The JVM has it too: who comes after a process that was killed waits
	// until the JVM is gone as well.
	locked *os.File

	ports [3]int // clients, the broker itself, the controller; kept over restarts
	run   *run

	// cluster is nil for a broker that is alone: what makes it a node of a cluster, which has chosen
	// its ports and formatted its directory.
	cluster *membership
}

// run is one life of the JVM.
type run struct {
	cmd  *exec.Cmd
	dog  *watchdog
	done chan struct{} // closed when the process is gone and waited for
	err  error         // of Wait, after done
}

func (p *process) addr() string { return fmt.Sprintf("127.0.0.1:%d", p.ports[0]) }

// start starts the JVM and returns when it has bound its ports or has ended.
func (p *process) start(ctx context.Context) error {
	if p.cluster != nil {
		return p.launch(ctx) // the others know its ports
	}
	for try := 1; ; try++ {
		err := p.launch(ctx)
		// A port that was free a moment ago may be taken when Kafka gets to it.
		if err == nil || try == bindTries || !strings.Contains(tail(p.logPath()), "Address already in use") {
			return err
		}
		p.ports = [3]int{}
	}
}

func (p *process) launch(ctx context.Context) error {
	if err := p.choosePorts(); err != nil {
		return err
	}
	props, err := p.writeProperties("server.properties", p.serverProperties())
	if err != nil {
		return err
	}
	data := p.dataDir()
	if p.cluster != nil {
		// Formatted, and the other nodes fence it.
	} else if _, err := os.Stat(filepath.Join(data, "meta.properties")); err != nil {
		if err := p.format(ctx, props); err != nil {
			return err
		}
	} else if _, err := os.Stat(filepath.Join(data, ".kafka_cleanshutdown")); err != nil {
		if err := p.fence(ctx); err != nil {
			return err
		}
	}
	if p.run, err = p.spawn(ctx, nil, "kafka.Kafka", props); err != nil {
		return err
	}
	return p.awaitPort(ctx)
}

// spawn starts a JVM, with some flags besides those of the options. It lives until it is ended,
// or this process is; ctx only bounds the search for Java and Kafka.
func (p *process) spawn(ctx context.Context, flags []string, args ...string) (*run, error) {
	javaPath, err := java(ctx)
	if err != nil {
		return nil, err
	}
	lib, err := jars(ctx)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(p.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args = slices.Concat([]string{
		fmt.Sprintf("-Xmx%d", p.opts.HeapBytes),
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		// It complains 20 times a second about a broker that is starting: the one that complains.
		"-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.NetworkClient=error",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-cp", filepath.Join(lib, "*"),
	}, p.opts.JVM, flags, args)
	r := &run{cmd: exec.Command(javaPath, args...), done: make(chan struct{})}
	r.cmd.Dir, r.cmd.Stdout, r.cmd.Stderr = p.opts.Dir, log, log
	detach(r.cmd)
	inherit(r.cmd, p.locked)
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	temp := ""
	if p.temp {
		temp = p.opts.Dir
		if p.cluster != nil {
			temp = p.cluster.dir
		}
	}
	if r.dog, err = watch(r.cmd.Process, temp); err != nil {
		return nil, errors.Join(err, killGroup(r.cmd.Process), r.cmd.Wait())
	}
	go func() {
		r.err = r.cmd.Wait()
		r.dog.stop()
		close(r.done)
	}()
	return r, nil
}

// format makes the directory one of Kafka.
func (p *process) format(ctx context.Context, props string) error {
	r, err := p.spawn(ctx, nil, append([]string{"kafka.tools.StorageTool"}, p.formatArgs(props)...)...)
	if err != nil {
		return err
	}
	select {
	case <-r.done:
		if r.err != nil {
			return fmt.Errorf("kafka.tools.StorageTool: %w: %s", r.err, lastLines(tail(p.logPath()), 20))
		}
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("kafka.tools.StorageTool: %w", ctx.Err()), r.kill())
	}
}

// fence runs Kafka as the controller alone until it has written down that the broker, which was
// killed, is gone.
//
// Without it a restart can leave a transaction open for ever. The broker reads in the metadata
// that it leads its partitions still, loads the transactions, and tries to write the markers of
// those that were ended but not completed: to itself, where nobody listens yet. Seconds later
// the session that it had before the kill expires; its partitions have no leader until it is
// registered anew, and the coordinator takes that to mean that they were deleted: it skips the
// markers and completes the transaction.
func (p *process) fence(ctx context.Context) error {
	props := p.serverProperties()
	props["process.roles"] = "controller"
	props["listeners"] = fmt.Sprintf("CONTROLLER://127.0.0.1:%d", p.ports[2])
	props["broker.session.timeout.ms"] = strconv.FormatInt(fenceSession.Milliseconds(), 10)
	props["broker.heartbeat.interval.ms"] = strconv.FormatInt(fenceSession.Milliseconds()/2, 10)
	delete(props, "advertised.listeners")
	delete(props, "inter.broker.listener.name")
	path, err := p.writeProperties("controller.properties", props)
	if err != nil {
		return err
	}
	info, err := os.Stat(p.logPath())
	if err != nil {
		return err
	}
	r, err := p.spawn(ctx, []string{"-Dorg.slf4j.simpleLogger.log.org.apache.kafka.controller=info"}, "kafka.Kafka", path)
	if err != nil {
		return err
	}
	// If the broker was killed while it was fenced there is nothing to wait for, and nobody says so.
	var nothing <-chan time.Time
	for {
		log, err := logFrom(p.logPath(), info.Size())
		if err != nil {
			return errors.Join(err, r.kill())
		}
		if strings.Contains(log, "Fencing broker") {
			return r.stop()
		}
		if nothing == nil && strings.Contains(log, "Performing controller activation") {
			nothing = time.After(10 * fenceSession)
		}
		select {
		case <-nothing:
			return r.stop()
		case <-r.done:
			return fmt.Errorf("it ended as controller (%v); its log ends:\n%s", r.err, lastLines(tail(p.logPath()), 30))
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("as controller: %w; its log ends:\n%s", ctx.Err(), lastLines(tail(p.logPath()), 30)), r.kill())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// awaitPort returns when the broker listens, or has ended.
func (p *process) awaitPort(ctx context.Context) error {
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "tcp", p.addr())
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.run.done:
			return fmt.Errorf("it ended before it listened on %s (%v); its log ends:\n%s", p.addr(), p.run.err, lastLines(tail(p.logPath()), 30))
		case <-ctx.Done():
			err := fmt.Errorf("it does not listen on %s yet: %w; its log ends:\n%s", p.addr(), ctx.Err(), lastLines(tail(p.logPath()), 30))
			return errors.Join(err, p.kill())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (p *process) stop() error { return p.end((*run).stop) }

func (p *process) kill() error { return p.end((*run).kill) }

func (p *process) end(how func(*run) error) error {
	if p.run == nil {
		return nil
	}
	err := how(p.run)
	if err == nil {
		p.run = nil
	}
	return err
}

// stop ends the JVM in order and waits until it is gone.
func (r *run) stop() error {
	if err := terminate(r.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-r.done:
		return nil
	case <-time.After(stopTimeout):
		return r.kill()
	}
}

// kill ends the JVM at once and waits until it is gone.
func (r *run) kill() error {
	select {
	case <-r.done: // the process group may be another's by now
		return nil
	default:
	}
	if err := killGroup(r.cmd.Process); err != nil {
		return err
	}
	<-r.done
	return nil
}

func (p *process) logPath() string { return filepath.Join(p.opts.Dir, logName) }

func (p *process) dataDir() string { return filepath.Join(p.opts.Dir, "data") }
