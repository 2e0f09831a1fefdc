package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/kafka"
)

// letter is what the headers of a dead letter tell. None of it is content of the record, which may not be for the eyes of whoever looks after the program.
type letter struct {
	at                    int64 // its own offset, among the letters
	topic                 string
	partition, offset     int64
	operator, part, cause string
	resent                bool
}

// readLetter takes the headers apart. A letter that was sent again and failed again has those of the last failure.
func readLetter(r kafka.Record) (l letter, err error) {
	head := map[string]string{}
	for _, h := range r.Headers {
		head[h.Key] = string(h.Value)
	}
	l = letter{at: r.Offset, topic: head[ops.HeaderTopic], operator: head[ops.HeaderOperator], part: head[ops.HeaderPart], cause: head[ops.HeaderError]}
	if l.partition, err = strconv.ParseInt(head[ops.HeaderPartition], 10, 32); err == nil {
		l.offset, err = strconv.ParseInt(head[ops.HeaderOffset], 10, 64)
	}
	if err != nil {
		return l, fmt.Errorf("topic %s partition %d offset %d is not a dead letter: its headers do not say where it came from", r.Topic, r.Partition, r.Offset)
	}
	return l, nil
}

// readLetters returns the committed dead letters, in the order of where they came from.
func readLetters(ctx context.Context, c *kafka.Client) ([]letter, error) {
	records, err := c.Read(ctx, kafka.ReadCommitted, Letters.Name)
	if err != nil {
		return nil, err
	}
	resent, err := c.CommittedOffsets(ctx, app+"-resend")
	if err != nil {
		return nil, err
	}
	letters := make([]letter, len(records))
	for i, r := range records {
		if letters[i], err = readLetter(r); err != nil {
			return nil, err
		}
		letters[i].resent = r.Offset < resent[kafka.Partition{Topic: r.Topic, Partition: r.Partition}]
	}
	slices.SortFunc(letters, func(a, b letter) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition), cmp.Compare(a.offset, b.offset))
	})
	return letters, nil
}

// list prints where the dead letters came from and why, and what to do about them.
func list(ctx context.Context, c *kafka.Client, out io.Writer) error {
	if have, err := c.Topics(ctx); have[Letters.Name] == 0 || err != nil {
		fmt.Fprintf(out, "There is no topic %s: process payments first.\n", Letters.Name)
		return err
	}
	letters, err := readLetters(ctx, c)
	if err != nil {
		return err
	}
	waiting := 0
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "letter\tfrom\toperator\tpart\tstate\terror")
	for _, l := range letters {
		state := "resent"
		if !l.resent {
			waiting++
			state = "waiting"
		}
		fmt.Fprintf(t, "%d\t%s/%d@%d\t%s\t%s\t%s\t%s\n", l.at, l.topic, l.partition, l.offset, l.operator, l.part, state, l.cause)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d of %d dead letters wait in %s.\n", waiting, len(letters), Letters.Name)
	if waiting > 0 {
		fmt.Fprintf(out, `
Is the record right and the program wrong? Have a release that reads it (here -fixed), and -resend: each letter
goes to %s once, as it was. Is the record wrong? Have it written anew by who wrote it, or repair its bytes
on the way (newResend). Sent as it was to a program that is as it was, it comes back as another letter.
`, Payments.Name)
	}
	return nil
}

// resend sends the dead letters that wait to the payments again. Those that come while it runs are for the next time.
func resend(ctx context.Context, b *kafka.Broker, c *kafka.Client, tune func(*exec.Config), out io.Writer) error {
	if have, err := c.Topics(ctx); have[Letters.Name] == 0 || err != nil {
		fmt.Fprintf(out, "There is no topic %s: nothing to send.\n", Letters.Name)
		return err
	}
	plan, err := newResend()
	if err != nil {
		return err
	}
	ends, err := c.EndOffsets(ctx, kafka.ReadCommitted, Letters.Name)
	if err != nil {
		return err
	}
	left, err := waiting(ctx, c, plan.Name(), Letters.Name, ends)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		if err := work(ctx, b, c, plan, tune); err != nil {
			return err
		}
		// Whoever processes payments next shall see all of them.
		if err := c.AwaitStable(ctx, Payments.Name); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "Sent %d dead letters to %s again.\n", len(left), Payments.Name)
	return nil
}

// waiting returns the committed records of a topic, up to some ends, that the group has not committed yet.
func waiting(ctx context.Context, c *kafka.Client, group, topic string, ends kafka.Offsets) ([]kafka.Record, error) {
	from, err := c.StartOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	committed, err := c.CommittedOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	for p := range from {
		from[p] = max(from[p], committed[p])
	}
	records, err := c.ReadFrom(ctx, kafka.ReadCommitted, from)
	var left []kafka.Record
	for _, r := range records {
		if r.Offset < ends[kafka.Partition{Topic: r.Topic, Partition: r.Partition}] {
			left = append(left, r)
		}
	}
	return left, err
}
