package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	wicker "github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/testkit/kafka"
)

// childAt and childDoes are variables of the environment that make a process of the test's be the program, to be killed: at that broker, and what.
const (
	childAt   = "DEAD_LETTERS_TEST_BROKER"
	childDoes = "DEAD_LETTERS_TEST_DOES"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(childAt); addr != "" {
		err := run(context.Background(), settings{brokers: addr, resend: os.Getenv(childDoes) == "resend", tune: func(c *wicker.Config) {
			c.MaxBatch, c.CommitInterval, c.IdleCommitInterval = 10, time.Millisecond, -1 // many transactions
		}}, io.Discard)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// The program is killed at random moments while it works, and started again: each good payment is counted once, each bad one is one letter. Then the same
// happens while it sends the letters again.
func TestKilledProgramDoublesNothing(t *testing.T) {
	const all = 12_000
	kafka.EachOwn(t, kafka.Options{}, func(t *testing.T, b *kafka.Broker) {
		c := b.Client(t)
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		records, want := manyPayments(random, all)
		require.NoError(t, c.CreateTopic(t.Context(), Payments.Name, partitions, nil))
		require.NoError(t, c.Produce(t.Context(), records...))

		for range 3 {
			killed(t, b, "work", random.Int64N(1000), Spent.Name, Letters.Name)
		}
		start(t, b, "work").ends(t)
		require.Equal(t, all-len(want), checkTotals(t, c))
		require.Equal(t, want, checkLetters(t, c, 0))

		killed(t, b, "resend", random.Int64N(int64(len(want)/4)), Payments.Name)
		start(t, b, "resend").ends(t)
		payments, err := c.Read(t.Context(), kafka.ReadCommitted, Payments.Name)
		require.NoError(t, err)
		require.Len(t, payments, all+len(want))

		start(t, b, "work").ends(t) // as it was: all of them come back
		require.Equal(t, all-len(want), checkTotals(t, c))
		require.Equal(t, slices.Sorted(slices.Values(append(want, want...))), checkLetters(t, c, 0))
	})
}

// manyPayments returns payments of 20 cards, a tenth of them bad, and why these will be letters, sorted.
func manyPayments(random *rand.Rand, n int) (records []kafka.Record, want []string) {
	bad := []kafka.Record{payments[2], payments[4], payments[5], payments[8]}
	for i := range n {
		if random.IntN(10) > 0 {
			records = append(records, payment(fmt.Sprint("card-", i%20), fmt.Sprintf(`{"shop":"bakery","cents":%d}`, i+1)))
			continue
		}
		kind := random.IntN(len(bad))
		records = append(records, bad[kind])
		want = append(want, []string{amountIsText, cutShort, cardIsNoText, amountIsZero}[kind])
	}
	slices.Sort(want)
	return records, want
}

// child is the program in a process of its own.
type child struct {
	cmd    *exec.Cmd
	output bytes.Buffer
	ended  chan error
}

func start(t *testing.T, b *kafka.Broker, does string) *child {
	t.Helper()
	ch := &child{cmd: exec.Command(os.Args[0]), ended: make(chan error, 1)}
	ch.cmd.Env = append(os.Environ(), childAt+"="+b.Addr(), childDoes+"="+does)
	ch.cmd.Stdout, ch.cmd.Stderr = &ch.output, &ch.output
	require.NoError(t, ch.cmd.Start())
	t.Cleanup(func() { _ = ch.cmd.Process.Kill() })
	go func() { ch.ended <- ch.cmd.Wait() }()
	return ch
}

// ends requires that it ends by itself and in order.
func (ch *child) ends(t *testing.T) {
	t.Helper()
	err := <-ch.ended
	require.NoError(t, err, ch.output.String())
}

// killed runs the program until it has committed more than so many offsets of the topics, and kills it.
func killed(t *testing.T, b *kafka.Broker, does string, more int64, topics ...string) {
	t.Helper()
	c := b.Client(t)
	committed := func() (n int64) {
		have, err := c.Topics(t.Context())
		require.NoError(t, err)
		ends, err := c.EndOffsets(t.Context(), kafka.ReadCommitted, slices.DeleteFunc(slices.Clone(topics), func(topic string) bool { return have[topic] == 0 })...)
		require.NoError(t, err)
		for _, end := range ends {
			n += end
		}
		return n
	}
	more += committed()
	ch := start(t, b, does)
	for committed() <= more {
		select {
		case err := <-ch.ended:
			require.NoError(t, err, ch.output.String())
			t.Logf("%s was done before it could be killed", does) // on a machine that has other things to do
			return
		case <-time.After(time.Millisecond):
		}
	}
	require.NoError(t, ch.cmd.Process.Kill())
	<-ch.ended
	require.Equal(t, -1, ch.cmd.ProcessState.ExitCode(), ch.output.String())
	t.Logf("%s was killed at about %d offsets, beyond %d", does, committed(), more)
}
