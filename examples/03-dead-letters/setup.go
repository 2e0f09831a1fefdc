package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// partitions is the count of the topics that the demo creates.
const partitions = 2

// payments are what terminals have sent: 12 records, of which 5 are invalid.
var payments = []kafka.Record{
	payment("card-17", `{"shop":"bakery","cents":430}`),
	payment("card-42", `{"shop":"bookshop","cents":2190}`),
	payment("card-17", `{"shop":"chemist","cents":"1250"}`), // the amount is text: a new terminal
	payment("card-99", `{"shop":"bakery","cents":780}`),
	payment("card-42", `{"shop":"cinema","ce`), // cut short
	payment("card-\xff\xfe", `{"shop":"cinema","cents":2400}`),
	payment("card-17", `{"shop":"cinema","cents":2400}`),
	payment("card-99", `{"shop":"chemist","cents":"365"}`),
	payment("card-42", `{"shop":"bakery","cents":0}`), // can be decoded, and makes no sense
	payment("card-42", `{"shop":"market","cents":3185}`),
	payment("card-99", `{"shop":"market","cents":1500}`),
	payment("card-17", `{"shop":"bakery","cents":510}`),
}

func payment(card, value string) kafka.Record {
	return kafka.Record{Topic: Payments.Name, Key: []byte(card), Value: []byte(value)}
}

// setUp creates the topics of payments and totals, and loads the payments in one transaction, unless they are there. The topic of dead letters is the executor's.
func setUp(ctx context.Context, c *kafka.Client, out io.Writer) error {
	have, err := c.Topics(ctx)
	if err != nil {
		return err
	}
	for _, topic := range []string{Payments.Name, Spent.Name} {
		if have[topic] == 0 {
			if err := c.CreateTopic(ctx, topic, partitions, nil); err != nil {
				return err
			}
		}
	}
	// Beginning ends the transaction of a loader that died: what is read then is all that it has left.
	txn, err := c.Begin(ctx, app+"-loader")
	if err != nil {
		return err
	}
	loaded, err := c.Read(ctx, kafka.ReadCommitted, Payments.Name)
	if err == nil && len(loaded) == 0 {
		err = txn.Produce(ctx, payments...)
	}
	if len(loaded) > 0 || err != nil {
		return errors.Join(err, txn.Abort(ctx))
	}
	if err := txn.Commit(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "Loaded %d payments into topic %s.\n", len(payments), Payments.Name)
	return c.AwaitStable(ctx, Payments.Name)
}

// report prints the totals that are committed, and how many dead letters there are.
func report(ctx context.Context, c *kafka.Client, out io.Writer) error {
	if err := c.AwaitStable(ctx, Spent.Name, Letters.Name); err != nil {
		return err
	}
	records, err := c.Read(ctx, kafka.ReadCommitted, Spent.Name)
	if err != nil {
		return err
	}
	totals := map[string]Total{}
	for _, r := range records { // of one card in order
		card, err := Spent.Key.Decode(r.Key)
		if err != nil {
			return err
		}
		if totals[card], err = Spent.Value.Decode(r.Value); err != nil {
			return err
		}
	}
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "card\tpayments\tspent")
	counted := 0
	for _, card := range slices.Sorted(maps.Keys(totals)) {
		total := totals[card]
		counted += total.Payments
		fmt.Fprintf(t, "%s\t%d\t%d.%02d\n", card, total.Payments, total.Cents/100, total.Cents%100)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	letters, err := readLetters(ctx, c)
	if err != nil {
		return err
	}
	resent := 0
	for _, l := range letters {
		if l.resent {
			resent++
		}
	}
	fmt.Fprintf(out, "%d payments are counted. Of %d dead letters %d wait: -letters tells of them.\n", counted, len(letters), len(letters)-resent)
	return nil
}
