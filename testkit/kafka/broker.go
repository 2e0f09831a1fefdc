package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// ErrUnavailable says that this machine cannot run a real broker: Java or Kafka's jars are
// missing and cannot be had.
var ErrUnavailable = errors.New("a real Kafka cannot be run here")

// errAttached is answered by what only whoever started a broker can do.
var errAttached = errors.New("the broker was not started here")

// errClosed is answered by a broker after Close.
var errClosed = errors.New("the broker is closed")

// engine is a kind of broker: a process of the real one, or a fake in this process.
// Broker calls it one call at a time.
type engine interface {
	// start starts it on the files in its directory and returns when it serves.
	start(ctx context.Context) error
	// stop ends it in order; kill does not let it write another byte. Both return when it is
	// gone, and do nothing if it is not running.
	stop() error
	kill() error
	addr() string
}

// Broker is a Kafka of one node. It is safe for concurrent use.
type Broker struct {
	kind  string
	opts  Options
	certs *certificates // nil without TLS

	mu     sync.Mutex
	engine engine // nil if it was started elsewhere
	at     string
	temp   bool
	locked *os.File // in Dir
	closed bool
}

// The kinds of brokers, see [Broker.Kind].
const (
	Embedded = "embedded"
	Real     = "real"
	Attached = "attached"
)

// OpenEmbedded starts a fake Kafka in this process. ctx bounds the start only. The caller has
// to call Close.
func OpenEmbedded(ctx context.Context, o Options) (*Broker, error) { return open(ctx, Embedded, o) }

// OpenReal starts Apache Kafka, of the version [Version], in a process of its own that ends with
// this one, however that ends. The first time on a machine it fetches Kafka, which takes a
// minute. ctx bounds the start only. The caller has to call Close. The error is
// [ErrUnavailable] if Java or Maven is missing.
func OpenReal(ctx context.Context, o Options) (*Broker, error) { return open(ctx, Real, o) }

func open(ctx context.Context, kind string, o Options) (*Broker, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("testkit/kafka: %w", err)
	}
	b, err := newBroker(ctx, kind, o.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("testkit/kafka: %w", err)
	}
	if err := b.Restart(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func newBroker(ctx context.Context, kind string, o Options) (_ *Broker, err error) {
	b := &Broker{kind: kind}
	if kind == Real {
		// Before anything is made: this is what may be missing.
		if err := lookForKafka(ctx); err != nil {
			return nil, err
		}
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "wicker-kafka-"); err != nil {
			return nil, err
		}
		b.temp = true
	} else if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	// Two brokers on the same files would destroy them, and Kafka finds out too late.
	lockCtx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if b.locked, err = lock(lockCtx, filepath.Join(o.Dir, "lock")); err != nil {
		return nil, fmt.Errorf("Dir (%s) is in use: %w", o.Dir, err)
	}
	if o.TLS {
		if b.certs, err = newCertificates(); err != nil {
			return nil, err
		}
	}
	b.opts = o
	if kind == Real {
		b.engine = &process{opts: o, certs: b.certs, temp: b.temp, locked: b.locked}
	} else {
		b.engine = &fake{opts: o, certs: b.certs, kept: !b.temp}
	}
	return b, nil
}

// Attach returns a broker that was started elsewhere, without TLS and users. It cannot be
// killed or restarted here, and Close leaves it alone. The error says that it does not answer.
func Attach(ctx context.Context, addr string) (*Broker, error) {
	b := &Broker{kind: Attached, at: addr, opts: Options{}.withDefaults()}
	if err := b.awaitReady(ctx, nil); err != nil {
		return nil, fmt.Errorf("testkit/kafka: %w", err)
	}
	return b, nil
}

// Kind is [Embedded], [Real] or [Attached].
func (b *Broker) Kind() string { return b.kind }

// Addr is the broker's address, host:port. It stays the same over restarts.
func (b *Broker) Addr() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
}

// TLS returns what a client needs to connect, or nil if the broker has no TLS. It is the
// caller's own.
func (b *Broker) TLS() *tls.Config {
	if b.certs == nil {
		return nil
	}
	return b.certs.client()
}

// Users returns those that may connect; none means that everybody may.
func (b *Broker) Users() []User { return b.opts.Users }

// Dir is where the broker keeps its data and log; it is empty if the broker was not started
// here.
func (b *Broker) Dir() string { return b.opts.Dir }

// Kill ends the broker as kill -9 does: what it had not written is lost, connections break.
// It returns when the broker is gone. [Broker.Restart] starts it again. The embedded broker then
// aborts what transactions were open, and has forgotten the sequence numbers of producers: one
// that goes on writing over the kill may write records twice, which on Kafka it does not.
func (b *Broker) Kill() error { return b.end("kill", engine.kill) }

// Stop ends the broker in order and returns when it is gone. [Broker.Restart] starts it again.
func (b *Broker) Stop() error { return b.end("stop", engine.stop) }

func (b *Broker) end(what string, how func(engine) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := errAttached
	if b.engine != nil {
		err = how(b.engine)
	}
	if err != nil {
		return fmt.Errorf("testkit/kafka: %s broker: %w", what, err)
	}
	return nil
}

// Restart starts a broker that was killed or stopped, on its address and data; one that runs is
// stopped first. It returns when the broker serves: when it takes connections and the
// coordinators of groups and transactions answer.
func (b *Broker) Restart(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.restartLocked(ctx); err != nil {
		return fmt.Errorf("testkit/kafka: start %s broker: %w", b.kind, err)
	}
	return nil
}

func (b *Broker) restartLocked(ctx context.Context) error {
	if b.engine == nil {
		return errAttached
	}
	if b.closed {
		return errClosed
	}
	if err := b.engine.stop(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.opts.StartTimeout)
	defer cancel()
	if err := b.engine.start(ctx); err != nil {
		return err
	}
	b.at = b.engine.addr()
	died := make(<-chan struct{})
	if p, ok := b.engine.(*process); ok {
		died = p.run.done
	}
	if err := b.awaitReady(ctx, died); err != nil {
		return errors.Join(fmt.Errorf("%w; its log ends:\n%s", err, tail(b.logPath())), b.engine.kill())
	}
	return nil
}

// Close ends the broker in order and, if its directory is a temporary one, removes it. It may
// be called again.
func (b *Broker) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.engine == nil {
		return nil
	}
	b.closed = true
	err := b.engine.stop()
	if b.temp {
		err = errors.Join(err, os.RemoveAll(b.opts.Dir))
	}
	err = errors.Join(err, b.locked.Close())
	if err != nil {
		return fmt.Errorf("testkit/kafka: close broker: %w", err)
	}
	return nil
}

// Log returns the last lines of the broker's log, at most 16 KiB.
func (b *Broker) Log() string {
	if b.opts.Dir == "" {
		return ""
	}
	return tail(b.logPath())
}

func (b *Broker) logPath() string { return filepath.Join(b.opts.Dir, logName) }
