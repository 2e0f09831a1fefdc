// Command 04-maintained-table converts payments with a table of rates that the same topology keeps. The README says more.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/testkit/kafka"
)

func main() {
	brokers := flag.String("brokers", "", "`host:port` of a Kafka; none starts an embedded one in this process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *brokers, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "04-maintained-table:", err)
		os.Exit(1)
	}
}

// quotes come from an exchange. The third of the dollar is a slip; the crown's leap is real, as four in a row say.
var quotes = []struct {
	currency string
	euros    float64
}{{"USD", 0.92}, {"USD", 0.93}, {"USD", 9.30}, {"USD", 0.94}, {"SEK", 0.087}, {"SEK", 0.060}, {"SEK", 0.060}, {"SEK", 0.060}, {"SEK", 0.061}}

// payments are converted. There is no rate for the third.
var payments = []Payment{{"USD", 100}, {"SEK", 1000}, {"XXX", 5}, {"USD", 10}}

const converted = 3

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
	app, err := exec.New(plan, exec.Config{Brokers: []string{broker.Addr()}})
	if err != nil {
		return err
	}
	rates, err := app.Table(Rates)
	if err != nil {
		return err
	}
	runCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- app.Run(runCtx) }()

	if err := send(ctx, client, quoted()); err != nil {
		return err
	}
	// A payment that comes before its currency's rate is left out: here all rates come first.
	err = await(ctx, ran, func() (bool, error) {
		dollar, _, err := rates.Get("USD")
		crown, _, err2 := rates.Get("SEK")
		return dollar.Euros == 0.94 && crown.Euros == 0.061, errors.Join(err, err2)
	})
	if err != nil {
		return err
	}
	if err := send(ctx, client, paid()); err != nil {
		return err
	}
	var records []kafka.Record
	err = await(ctx, ran, func() (done bool, err error) {
		records, err = client.ReadFrom(ctx, kafka.ReadCommitted, from)
		return len(records) >= converted, err
	})
	if err != nil {
		return err
	}
	for currency, rate := range rates.All(&err) {
		fmt.Fprintf(out, "rate %s %.3f\n", currency, rate.Euros)
	}
	for _, r := range records {
		var c Converted
		if err := json.Unmarshal(r.Value, &c); err != nil {
			return err
		}
		fmt.Fprintf(out, "payment %s: %.2f %s are %.2f euros\n", r.Key, c.Amount, c.Currency, c.Euros)
	}
	cancel()
	return errors.Join(err, <-ran)
}

func openBroker(ctx context.Context, brokers string) (*kafka.Broker, error) {
	if brokers == "" {
		return kafka.OpenEmbedded(ctx, kafka.Options{})
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return kafka.Attach(ctx, brokers)
}

// setUp creates the topics, unless they are there, and returns where what is converted will begin.
func setUp(ctx context.Context, c *kafka.Client) (kafka.Offsets, error) {
	have, err := c.Topics(ctx)
	if err != nil {
		return nil, err
	}
	compacted := map[string]string{"cleanup.policy": "compact"}
	for topic, config := range map[string]map[string]string{Quotes.Name: nil, Payments.Name: nil, Settled.Name: nil, Rates.Name(): compacted} {
		if have[topic] > 0 {
			continue
		}
		if err := c.CreateTopic(ctx, topic, 2, config); err != nil {
			return nil, err
		}
	}
	return c.EndOffsets(ctx, kafka.ReadCommitted, Settled.Name)
}

func quoted() (records []kafka.Record) {
	for _, q := range quotes {
		value, _ := json.Marshal(Quote{q.euros})
		records = append(records, kafka.Record{Topic: Quotes.Name, Key: []byte(q.currency), Value: value})
	}
	return records
}

func paid() (records []kafka.Record) {
	for i, p := range payments {
		value, _ := json.Marshal(p)
		records = append(records, kafka.Record{Topic: Payments.Name, Key: fmt.Append(nil, i+1), Value: value})
	}
	return records
}

func send(ctx context.Context, c *kafka.Client, records []kafka.Record) error {
	return c.Produce(ctx, records...)
}

// await asks every few milliseconds until the answer is yes.
func await(ctx context.Context, ran <-chan error, ask func() (bool, error)) error {
	for {
		if ok, err := ask(); ok || err != nil {
			return err
		}
		select {
		case err := <-ran:
			return errors.Join(errors.New("the run ended early"), err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
