// Command 01-hello greets whoever is named in a topic, exactly once. The README says more.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/topology"
)

// One value for each topic says its name and what it holds.
var (
	Names     = ops.NewTopic("hello-names", codec.String, codec.String)
	Greetings = ops.NewTopic("hello-greetings", codec.String, codec.String)
)

func newPlan() (*topology.Plan, error) {
	return topology.New("hello").
		From(ops.Source(Names)).
		Filter(func(_, name string) bool { return name != "" }).
		MapValues(func(name string) string { return "Hello, " + name + "!" }).
		To(ops.Sink(Greetings)).
		Build()
}

func main() {
	brokers := flag.String("brokers", "", "`host:port` of a Kafka; none starts an embedded one in this process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *brokers, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "01-hello:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, brokers string, out io.Writer) error {
	broker, err := openBroker(ctx, brokers)
	if err != nil {
		return err
	}
	defer broker.Close()
	client, err := broker.Dial()
	if err != nil {
		return err
	}
	defer client.Close()
	from, err := setUp(ctx, client)
	if err != nil {
		return err
	}

	plan, err := newPlan()
	if err != nil {
		return err
	}
	runCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- exec.Run(runCtx, plan, exec.Config{Brokers: []string{broker.Addr()}}) }()

	greetings, err := await(ctx, client, from, len(people)-1, ran)
	cancel()
	if err != nil {
		return err
	}
	for _, r := range greetings {
		fmt.Fprintf(out, "%s: %s\n", r.Key, r.Value)
	}
	return <-ran
}

func openBroker(ctx context.Context, brokers string) (*kafka.Broker, error) {
	if brokers == "" {
		return kafka.OpenEmbedded(ctx, kafka.Options{})
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return kafka.Attach(ctx, brokers)
}

// people are the records that go in. The second has no name.
var people = []kafka.Record{
	{Key: []byte("1"), Value: []byte("Ada")},
	{Key: []byte("2"), Value: []byte("")},
	{Key: []byte("3"), Value: []byte("Grace")},
	{Key: []byte("4"), Value: []byte("Barbara")},
}

// setUp creates the topics, unless they are there, and writes the names. It returns where the
// greetings will begin.
func setUp(ctx context.Context, c *kafka.Client) (kafka.Offsets, error) {
	have, err := c.Topics(ctx)
	if err != nil {
		return nil, err
	}
	for _, topic := range []string{Names.Name, Greetings.Name} {
		if have[topic] == 0 {
			if err := c.CreateTopic(ctx, topic, 2, nil); err != nil {
				return nil, err
			}
		}
	}
	from, err := c.EndOffsets(ctx, kafka.ReadCommitted, Greetings.Name)
	if err != nil {
		return nil, err
	}
	var records []kafka.Record
	for _, p := range people {
		p.Topic = Names.Name
		records = append(records, p)
	}
	return from, c.Produce(ctx, records...)
}

// await returns the committed greetings as soon as there are n.
func await(ctx context.Context, c *kafka.Client, from kafka.Offsets, n int, ran <-chan error) ([]kafka.Record, error) {
	for {
		records, err := c.ReadFrom(ctx, kafka.ReadCommitted, from)
		if len(records) >= n || err != nil {
			return records, err
		}
		select {
		case err := <-ran:
			return nil, errors.Join(errors.New("the run ended early"), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
