// Command 02-flights is the demo: real flights are read, joined with what a slow registry knows
// of their planes, and summed up by route, exactly once. The README says more.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/kvstore/rocksdb"
	"github.com/wickerwork/wicker/testkit/kafka"
)

type settings struct {
	brokers, dir, instance, askedLog string
	delay                            time.Duration
	setup, exitWhenDone              bool
}

func main() {
	var s settings
	flag.StringVar(&s.brokers, "brokers", "", "`host:port` of a Kafka; none starts an embedded one in this process")
	flag.StringVar(&s.dir, "dir", filepath.Join(".cache", "flights-demo"), "`directory` for state, and for the embedded Kafka; both are kept")
	flag.StringVar(&s.instance, "instance", "a", "`name` of this process among those that share the work")
	flag.DurationVar(&s.delay, "delay", 20*time.Millisecond, "how long the registry takes for an answer")
	flag.BoolVar(&s.setup, "setup", true, "create the topics and load the flights where they are missing")
	flag.BoolVar(&s.exitWhenDone, "exit-when-done", true, "end when all flights are processed; otherwise on an interrupt")
	flag.StringVar(&s.askedLog, "asked-log", "", "`file` to which each call of the registry appends a line")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "02-flights:", strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings, out io.Writer) (err error) {
	registry, err := newRegistry(s.delay)
	if err != nil {
		return err
	}
	if s.askedLog != "" {
		f, err := os.OpenFile(s.askedLog, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		registry.log = f
	}
	plan, err := newPlan(registry.lookup)
	if err != nil {
		return err
	}

	broker, err := openBroker(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	client, err := broker.Dial()
	if err != nil {
		return err
	}
	defer client.Close()
	if s.setup {
		if err := setUp(ctx, client, plan, out); err != nil {
			return err
		}
	}

	stateDir := s.stateDir()
	app, err := exec.New(plan, exec.Config{
		Brokers: []string{broker.Addr()},
		// A restarted process with the same id goes on at once, instead of waiting for its
		// predecessor to be given up.
		InstanceID:     plan.Name() + "-" + s.instance,
		SessionTimeout: 10 * time.Second,
		State:          rocksdb.New(rocksdb.Options{Dir: stateDir}),
		MaxBatch:       100,                    // what a process that is killed has asked in vain is little
		FlushInterval:  100 * time.Millisecond, // the count of entries that is shown is of the last flush
	})
	if err != nil {
		return err
	}
	runCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- app.Run(runCtx) }()

	w := watcher{app: app, plan: plan, client: client, out: out, began: time.Now()}
	err = w.watch(ctx, ran, s.exitWhenDone)
	cancel()
	if !w.ended {
		err = errors.Join(err, <-ran)
	}
	if err != nil || ctx.Err() != nil {
		return err
	}
	if err := report(ctx, client, out); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nThe registry was asked %s times in this run.\n", thousands(registry.asked.Load()))
	return where(out, broker, stateDir)
}

// openBroker starts the embedded Kafka, or looks for the one at s.brokers.
func openBroker(ctx context.Context, s settings) (*kafka.Broker, error) {
	if s.brokers == "" {
		broker, err := kafka.OpenEmbedded(ctx, kafka.Options{Dir: filepath.Join(s.dir, "kafka")})
		if err != nil {
			return nil, fmt.Errorf("start the embedded Kafka: %w", err)
		}
		return broker, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	broker, err := kafka.Attach(ctx, s.brokers)
	if err != nil {
		return nil, fmt.Errorf("no Kafka answers at %s, is the address right? %w", s.brokers, err)
	}
	return broker, nil
}

// stateDir is where this instance keeps its state of this Kafka.
func (s settings) stateDir() string {
	at := "embedded"
	if s.brokers != "" {
		at = strings.NewReplacer(":", "-", "/", "-").Replace(s.brokers)
	}
	return filepath.Join(s.dir, "state", at+"-"+s.instance)
}
