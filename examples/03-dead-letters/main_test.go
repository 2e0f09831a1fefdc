package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit"
	"github.com/wickerwork/wicker/testkit/kafka"
)

// What the headers of a dead letter say of why, for each kind that there is.
const (
	amountIsText  = `Source "payments", value: codec: json Payment: /cents: byte 26: value does not fit: json string for go int64`
	cutShort      = `Source "payments", value: codec: json Payment: byte 20: invalid json`
	cardIsNoText  = `Source "payments", key: codec: string: byte 5: invalid utf-8`
	amountIsZero  = `TryMapValues "check", function: the amount must be above 0`
	goodPayments  = 7
	badPayments   = 5
	fixedPayments = 2
)

// whys are the kinds of the payments that are loaded, sorted.
var whys = slices.Sorted(slices.Values([]string{amountIsText, amountIsText, cutShort, cardIsNoText, amountIsZero}))

// checkLetters requires that each dead letter has the bytes and the time of the record that its headers tell of, and that no record has two. It returns why
// they are there, sorted, of those from an offset on.
func checkLetters(t *testing.T, c *kafka.Client, from int64) []string {
	t.Helper()
	require.NoError(t, c.AwaitStable(t.Context(), Letters.Name))
	records, err := c.Read(t.Context(), kafka.ReadCommitted, Payments.Name, Letters.Name)
	require.NoError(t, err)
	type place struct {
		topic             string
		partition, offset int64
	}
	sources, letters := map[place]kafka.Record{}, map[place]bool{}
	for _, r := range records {
		if r.Topic == Payments.Name {
			sources[place{r.Topic, int64(r.Partition), r.Offset}] = r
		}
	}
	var found []string
	for _, r := range records {
		if r.Topic != Letters.Name {
			continue
		}
		l, err := readLetter(r)
		require.NoError(t, err)
		at := place{l.topic, l.partition, l.offset}
		require.False(t, letters[at], "%v has two letters", at)
		letters[at] = true
		source, ok := sources[at]
		require.True(t, ok, "nothing is at %v", at)
		require.Equal(t, []any{source.Key, source.Value, source.Timestamp}, []any{r.Key, r.Value, r.Timestamp})
		require.Equal(t, []string{ops.HeaderTopic, ops.HeaderPartition, ops.HeaderOffset, ops.HeaderOperator, ops.HeaderPart, ops.HeaderError}, names(r.Headers))
		if r.Offset >= from {
			found = append(found, fmt.Sprintf("%s, %s: %s", l.operator, l.part, l.cause))
		}
	}
	slices.Sort(found)
	return found
}

func names(headers []kafka.Header) (names []string) {
	for _, h := range headers {
		names = append(names, h.Key)
	}
	return names
}

// checkTotals requires that each card's totals count its payments one by one, and returns how many there are.
func checkTotals(t *testing.T, c *kafka.Client) (n int) {
	t.Helper()
	require.NoError(t, c.AwaitStable(t.Context(), Spent.Name))
	records, err := c.Read(t.Context(), kafka.ReadCommitted, Spent.Name)
	require.NoError(t, err)
	counted := map[string]int{}
	for _, r := range records {
		total, err := Spent.Value.Decode(r.Value)
		require.NoError(t, err)
		counted[string(r.Key)]++
		require.Equal(t, counted[string(r.Key)], total.Payments, "a payment of %s is counted twice, or not", r.Key)
	}
	return len(records)
}

// requireNoContent requires that nothing of a payment is told.
func requireNoContent(t *testing.T, text string) {
	t.Helper()
	for _, content := range []string{"card-1", "card-4", "card-9", "card-\xff", "bakery", "chemist", "cinema", "1250", "365", "shop"} {
		require.NotContains(t, text, content)
	}
}

// program runs the program to its end and returns what it prints.
func program(t *testing.T, b *kafka.Broker, s settings) string {
	t.Helper()
	var out bytes.Buffer
	s.brokers = b.Addr()
	require.NoError(t, run(t.Context(), s, &out))
	return out.String()
}

// In memory: what is good goes on, what is not is a letter, each once, and a crash between the transactions doubles none.
func TestEachPaymentIsCountedOrALetter(t *testing.T) {
	plan, err := newPlan(codec.JSON[Payment]())
	require.NoError(t, err)
	kit := testkit.New(t, plan, testkit.Partitions(Payments.Name, 1))
	in, out, letters := kit.In(Payments), kit.Out(Spent), kit.Out(Letters)
	for i, p := range payments {
		in.PushBytes(0, p.Key, p.Value)
		if i%4 == 3 {
			kit.Crash()
		}
	}
	require.Len(t, out.Read(), goodPayments)
	var found []string
	for _, l := range letters.Read() {
		require.True(t, slices.ContainsFunc(payments, func(p kafka.Record) bool { return bytes.Equal(p.Key, l.Key) && bytes.Equal(p.Value, l.Value) }))
		head := map[string]string{}
		for _, h := range l.Headers {
			head[h.Key] = string(h.Value)
		}
		require.Equal(t, []string{Payments.Name, "0"}, []string{head[ops.HeaderTopic], head[ops.HeaderPartition]})
		require.Equal(t, string(payments[number(t, head[ops.HeaderOffset])].Value), string(l.Value))
		found = append(found, fmt.Sprintf("%s, %s: %s", head[ops.HeaderOperator], head[ops.HeaderPart], head[ops.HeaderError]))
	}
	slices.Sort(found)
	require.Equal(t, whys, found)
	total, ok := kit.State(Cards).Get("card-17")
	require.True(t, ok)
	require.Equal(t, Total{Payments: 3, Cents: 3340}, total)
}

func number(t *testing.T, text string) (n int) {
	t.Helper()
	_, err := fmt.Sscan(text, &n)
	require.NoError(t, err)
	return n
}

// The program on brokers, as the README tells it: run, run again, look, fix, send again, and look again.
func TestLettersAreSentAgainOnceTheyCanBeRead(t *testing.T) {
	kafka.EachOwn(t, kafka.Options{}, func(t *testing.T, b *kafka.Broker) {
		c := b.Client(t)
		require.Contains(t, program(t, b, settings{letters: true}), "There is no topic card-payments-dead-letter")
		require.Contains(t, program(t, b, settings{resend: true}), "nothing to send")

		for range 3 { // the first one has all the work
			text := program(t, b, settings{})
			require.Contains(t, text, "7 payments are counted. Of 5 dead letters 5 wait: ")
			require.Equal(t, []string{"card-17 3 33.40", "card-42 2 53.75", "card-99 2 22.80"}, rows(text, "card-"))
			require.Equal(t, goodPayments, checkTotals(t, c))
			require.Equal(t, whys, checkLetters(t, c, 0))
		}
		text := program(t, b, settings{letters: true})
		require.Contains(t, text, "5 of 5 dead letters wait")
		requireNoContent(t, text)
		require.Len(t, rows(text, "payments/"), badPayments)
		for _, row := range rows(text, "payments/") {
			require.Contains(t, row, " waiting ")
		}

		require.Contains(t, program(t, b, settings{fixed: true}), "7 payments are counted. Of 5 dead letters 5 wait: ")
		ends, err := c.EndOffsets(t.Context(), kafka.ReadCommitted, Letters.Name)
		require.NoError(t, err)
		require.Equal(t, "Sent 5 dead letters to payments again.\n", program(t, b, settings{resend: true}))
		require.Equal(t, "Sent 0 dead letters to payments again.\n", program(t, b, settings{resend: true}))
		for range 2 {
			text = program(t, b, settings{fixed: true})
			require.Contains(t, text, "9 payments are counted. Of 8 dead letters 3 wait: ")
			require.Equal(t, []string{"card-17 4 45.90", "card-42 2 53.75", "card-99 3 26.45"}, rows(text, "card-"))
			require.Equal(t, goodPayments+fixedPayments, checkTotals(t, c))
			still := slices.DeleteFunc(slices.Clone(whys), func(why string) bool { return why == amountIsText })
			require.Equal(t, still, checkLetters(t, c, ends[kafka.Partition{Topic: Letters.Name}]))
		}
		text = program(t, b, settings{letters: true})
		require.Contains(t, text, "3 of 8 dead letters wait")
		requireNoContent(t, text)
	})
}

// rows returns the lines that have the text, with single spaces.
func rows(text, with string) (found []string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, with) {
			found = append(found, strings.Join(strings.Fields(line), " "))
		}
	}
	return found
}

// Sent again to a program that is as it was, a letter comes back as another one, with headers of the last time.
func TestALetterThatIsSentTooEarlyComesBack(t *testing.T) {
	b := kafka.StartEmbedded(t, kafka.Options{})
	c := b.Client(t)
	for round := range 3 {
		require.Contains(t, program(t, b, settings{}), fmt.Sprintf("7 payments are counted. Of %d dead letters 5 wait: ", badPayments*(round+1)))
		require.Len(t, checkLetters(t, c, 0), badPayments*(round+1))
		require.Equal(t, "Sent 5 dead letters to payments again.\n", program(t, b, settings{resend: true}))
	}
	require.Contains(t, program(t, b, settings{fixed: true}), "9 payments are counted. Of 18 dead letters 3 wait: ")
	require.Equal(t, goodPayments+fixedPayments, checkTotals(t, c))
	records, err := c.Read(t.Context(), kafka.ReadCommitted, Spent.Name)
	require.NoError(t, err)
	headers := 0
	for _, r := range records {
		headers = max(headers, len(r.Headers))
	}
	require.Equal(t, 6, headers, "headers go along to what is made of the record")
}

func TestOneThingAtATime(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), settings{resend: true, fixed: true}, nil), "one at a time")
}
