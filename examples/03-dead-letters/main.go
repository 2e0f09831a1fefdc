// Command 03-dead-letters sums up card payments, of which some cannot be read: those are set aside as dead letters, looked at, and sent again once
// the program can read them, all of it exactly once. The README says more.
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

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/topology"
)

type settings struct {
	brokers, dir           string
	letters, resend, fixed bool
	tune                   func(*exec.Config) // nil for none; tests have small transactions
}

func main() {
	var s settings
	flag.StringVar(&s.brokers, "brokers", "", "`host:port` of a Kafka; none starts an embedded one in this process")
	flag.StringVar(&s.dir, "dir", filepath.Join(".cache", "dead-letters"), "`directory` of the embedded Kafka; it is kept")
	flag.BoolVar(&s.letters, "letters", false, "list the dead letters, in place of processing payments")
	flag.BoolVar(&s.resend, "resend", false, "send the dead letters to the payments again, in place of processing them")
	flag.BoolVar(&s.fixed, "fixed", false, "be the release that reads amounts written as text too")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "03-dead-letters:", strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings, out io.Writer) (err error) {
	if s.letters && (s.resend || s.fixed) || s.resend && s.fixed {
		return errors.New("-letters, -resend and -fixed are different things to do: one at a time")
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

	switch {
	case s.letters:
		return list(ctx, client, out)
	case s.resend:
		return resend(ctx, broker, client, s.tune, out)
	}
	var payment codec.Codec[Payment] = codec.JSON[Payment]()
	if s.fixed {
		payment = textAmounts{payment}
	}
	plan, err := newPlan(payment)
	if err != nil {
		return err
	}
	if err := setUp(ctx, client, out); err != nil {
		return err
	}
	if err := work(ctx, broker, client, plan, s.tune); err != nil {
		return err
	}
	return report(ctx, client, out)
}

// openBroker starts the embedded Kafka, or looks for the one at s.brokers.
func openBroker(ctx context.Context, s settings) (*kafka.Broker, error) {
	if s.brokers == "" {
		return kafka.OpenEmbedded(ctx, kafka.Options{Dir: filepath.Join(s.dir, "kafka")})
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return kafka.Attach(ctx, s.brokers)
}

// work runs the plan until it has processed what its source holds now. A program that is not a demo calls exec.Run and stays there.
func work(ctx context.Context, b *kafka.Broker, c *kafka.Client, plan *topology.Plan, tune func(*exec.Config)) error {
	source := plan.Subtopologies()[0].Sources[0]
	ends, err := c.EndOffsets(ctx, kafka.ReadCommitted, source)
	if err != nil {
		return err
	}
	config := exec.Config{
		Brokers: []string{b.Addr()},
		// A restarted process with the same id goes on at once, instead of waiting for its predecessor to be given up.
		InstanceID:     plan.Name() + "-a",
		SessionTimeout: 10 * time.Second,
	}
	if tune != nil {
		tune(&config)
	}
	runCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- exec.Run(runCtx, plan, config) }()
	for {
		left, err := waiting(ctx, c, plan.Name(), source, ends)
		if len(left) == 0 || err != nil {
			cancel()
			return errors.Join(err, <-ran)
		}
		select {
		case err := <-ran:
			if err == nil {
				err = ctx.Err()
			}
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}
