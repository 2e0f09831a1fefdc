package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/testkit"
	"github.com/wickerwork/wicker/testkit/kafka"
)

// Each quote is judged by the rate that the one before it has made, in one go and over a crash.
func TestRatesAreKeptQuoteByQuote(t *testing.T) {
	plan, err := newPlan()
	require.NoError(t, err)
	kit := testkit.New(t, plan)
	in, rates := kit.In(Quotes), kit.Table(Rates)
	for _, q := range quotes[:7] {
		in.Push(q.currency, Quote{q.euros})
	}
	rate := func(currency string) Rate {
		r, ok := rates.Get(currency)
		require.True(t, ok)
		return r
	}
	require.Equal(t, Rate{Euros: 0.94}, rate("USD"), "one slip is passed over")
	require.Equal(t, Rate{Euros: 0.087, Refused: 2}, rate("SEK"))
	kit.Crash()
	for _, q := range quotes[7:] {
		in.Push(q.currency, Quote{q.euros})
	}
	require.Equal(t, Rate{Euros: 0.061}, rate("SEK"), "what is said four times is believed")
}

// A payment is converted by the table, and one without a rate is left out.
func TestPaymentsAreConverted(t *testing.T) {
	plan, err := newPlan()
	require.NoError(t, err)
	kit := testkit.New(t, plan)
	kit.Table(Rates).Put("USD", Rate{Euros: 0.5})
	in, out := kit.In(Payments), kit.Out(Settled)
	in.Push("1", Payment{"USD", 3})
	in.Push("2", Payment{"XXX", 3})
	got := out.Read()
	require.Len(t, got, 1)
	require.Equal(t, Converted{Payment{"USD", 3}, 1.5}, got[0].Value)
}

func TestProgramPrintsRatesAndPayments(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), b.Addr(), &out))
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		slices.Sort(lines) // of several partitions
		require.Equal(t, []string{
			"payment 1: 100.00 USD are 94.00 euros",
			"payment 2: 1000.00 SEK are 61.00 euros",
			"payment 4: 10.00 USD are 9.40 euros",
			"rate SEK 0.061",
			"rate USD 0.940",
		}, lines)
	})
}

// The plan says that it fills the table itself: whether its keys are few is for its author to know.
func TestPlanNamesTheTableThatItFills(t *testing.T) {
	plan, err := newPlan()
	require.NoError(t, err)
	require.Contains(t, plan.Describe(), "fx-rates (string -> json Rate): all of fx-rates, filled by sub-topology fx-quotes of this plan")
}
