package exec_test

import (
	"bufio"
	"context"
	"encoding/json/v2"
	"fmt"
	"io"
	"log/slog"
	"os"
	osexec "os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/exec/kafkalog"
	"github.com/wickerwork/wicker/kvstore/rocksdb"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/topology"
)

// childSpec is what a child process is to run: the counter of a rig, as this test's binary started once more.
type childSpec struct {
	Addr, App, In, Out string
	// SessionMS is its session timeout in milliseconds.
	SessionMS int64
	// Dir is the directory of its state; in memory if empty.
	Dir string
	// Hold is where it says "holding" and waits for a line: "function" is the function's call with the value hold, "commit" the
	// first commit, which is then sent whatever the process has learned meanwhile.
	Hold string
	// Table has it look up each record's value in the table of that topic, which is on disk, in place of counting.
	Table string
	// DeadLetter has records that cannot be decoded written to that topic.
	DeadLetter string
}

// childEnv is the variable that makes this test's binary a child.
const childEnv = "WICKER_TEST_CHILD"

// runChild is the main function of a child. It returns its exit code.
func runChild(text string) int {
	fail := func(err error) int {
		fmt.Println("error:", err)
		return 1
	}
	var spec childSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return fail(err)
	}
	stdin := bufio.NewReader(os.Stdin)
	hold := func() {
		fmt.Println("holding")
		_, _ = stdin.ReadString('\n')
	}
	invalid := ops.FailInvalid
	if spec.DeadLetter != "" {
		invalid = ops.DeadLetter(spec.DeadLetter)
	}
	in := topology.New(spec.App).From(ops.Source(ops.NewTopic(spec.In, codec.String, codec.String), anywhere, ops.OnInvalid(invalid)))
	plan, err := in.Aggregate(ops.NewState("n", codec.String, decimal), func(_, v string, n int) int {
		if v == "hold" && spec.Hold == "function" {
			hold()
		}
		return n + 1
	}).
		To(ops.Sink(ops.NewTopic(spec.Out, codec.String, codec.JSON[int]()))).Build()
	if spec.Table != "" {
		plan, err = lookingOnDisk(spec.App, spec.In, onDiskTable(spec.Table), spec.Out)
	}
	if err != nil {
		return fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg := exec.Config{Brokers: []string{spec.Addr}, SessionTimeout: time.Duration(spec.SessionMS) * time.Millisecond, MaxRecordBytes: 1024,
		Logger: slog.New(slog.NewJSONHandler(os.Stderr, nil))}
	if spec.Dir != "" {
		cfg.State = rocksdb.New(rocksdb.Options{Dir: spec.Dir})
	}
	if spec.Hold == "function" {
		cfg.CommitInterval, cfg.IdleCommitInterval = 2*time.Second, 2*time.Second
	}
	if spec.Hold == "commit" {
		l, err := kafkalog.Open(ctx, kafkalog.Config{Brokers: cfg.Brokers})
		if err != nil {
			return fail(err)
		}
		defer l.Close()
		cfg.Log = &stubborn{Log: l, hold: hold}
	}
	if err := exec.Run(ctx, plan, cfg); err != nil {
		return fail(err)
	}
	return 0
}

// stubborn is a log whose first commit is held and then sent as it would have been, whatever the process has learned meanwhile.
type stubborn struct {
	commitlog.Log
	hold  func()
	first sync.Once
}

func (s *stubborn) OpenProducer(ctx context.Context, cfg commitlog.ProducerConfig) (commitlog.Producer, error) {
	p, err := s.Log.OpenProducer(ctx, cfg)
	if err == nil && strings.HasSuffix(cfg.TransactionalID, "-0") {
		s.first.Do(func() { p = &stubbornProducer{p, s.hold} })
	}
	return p, err
}

type stubbornProducer struct {
	commitlog.Producer
	hold func() // nil after the first Commit
}

func (p *stubbornProducer) Commit(ctx context.Context, offsets map[commitlog.TopicPartition]int64, as commitlog.Identity) (map[commitlog.TopicPartition]int64, error) {
	if p.hold == nil {
		return p.Producer.Commit(ctx, offsets, as)
	}
	ctx = context.WithoutCancel(ctx)
	then, err := as.Current(ctx, commitlog.AnyGeneration)
	if err != nil {
		return nil, err
	}
	p.hold()
	p.hold = nil
	ends, err := p.Producer.Commit(ctx, offsets, then)
	fmt.Println("commit:", err)
	return ends, err
}

// child is a child process as its parent has it.
type child struct {
	t     *testing.T
	cmd   *osexec.Cmd
	stdin io.Writer
	said  chan string
	log   journal
	ended chan struct{} // closed when it has ended and all it said has been read
}

func spawn(t *testing.T, spec childSpec) *child {
	t.Helper()
	text, err := json.Marshal(spec)
	require.NoError(t, err)
	c := &child{t: t, cmd: osexec.Command(os.Args[0]), said: make(chan string, 100), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	c.cmd.Stderr = &c.log
	c.stdin, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	go func() {
		for s := bufio.NewScanner(stdout); s.Scan(); {
			c.said <- s.Text()
		}
		_ = c.cmd.Wait() // its code is in ProcessState
		close(c.ended)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // it may have ended
		<-c.ended
		if t.Failed() {
			t.Logf("log of the child:\n%s", c.log.buf.String())
		}
	})
	return c
}

// session is the shortest session timeout that a broker allows, or that is sensible on a busy machine.
func session(b *kafka.Broker) time.Duration {
	if b.Kind() == kafka.Embedded {
		return 3 * time.Second
	}
	return 6 * time.Second
}

func (r *rig) spec() childSpec {
	return childSpec{Addr: r.b.Addr(), App: r.app, In: r.in, Out: r.out, SessionMS: session(r.b).Milliseconds()}
}

// says waits until it says something.
func (c *child) says() string {
	c.t.Helper()
	select {
	case text := <-c.said:
		return text
	case <-c.ended:
		select {
		case text := <-c.said:
			return text
		default:
		}
		require.FailNow(c.t, "the child has ended", "%v", c.cmd.ProcessState)
	case <-time.After(60 * time.Second):
		require.FailNow(c.t, "the child says nothing")
	}
	return ""
}

// code waits until it has ended and returns its exit code.
func (c *child) code() int {
	c.t.Helper()
	select {
	case <-c.ended:
		return c.cmd.ProcessState.ExitCode()
	case <-time.After(60 * time.Second):
		require.FailNow(c.t, "the child does not end")
		return 0
	}
}
