package main

import (
	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

// Quote is what an exchange says of a currency: what one unit of it costs, in euros.
type Quote struct {
	Euros float64 `json:"euros"`
}

// Rate is what is converted at: the last quote that was believed, and how many were not since.
type Rate struct {
	Euros   float64 `json:"euros"`
	Refused int     `json:"refused"`
}

// Payment is an amount in some currency; Converted is the same in euros.
type Payment struct {
	Currency string  `json:"currency"`
	Amount   float64 `json:"amount"`
}

type Converted struct {
	Payment
	Euros float64 `json:"euros"`
}

var (
	Quotes   = ops.NewTopic("fx-quotes", codec.String, codec.JSON[Quote]())
	Payments = ops.NewTopic("fx-payments", codec.String, codec.JSON[Payment]())
	Settled  = ops.NewTopic("fx-converted", codec.String, codec.JSON[Converted]())

	// Rates is a global table: every instance has all of it, so that a payment is converted wherever its own key lies. It has a row for each currency, and
	// there are not many of those.
	Rates = globaltable.New("fx-rates", codec.String, codec.JSON[Rate]())
)

const (
	// leap is how much a quote may differ from the rate before it: one that differs more is taken for a slip of a finger, until maxRefused in a row say so.
	leap       = 0.2
	maxRefused = 3
	// bridge is how many rates the task that has written them sees at once: all that there are.
	bridge = 200
)

// newPlan maintains the rates from the quotes, and converts payments with them.
func newPlan() (*topology.Plan, error) {
	b := topology.New("fx")
	b.From(ops.Source(Quotes)).
		LeftLookup(Rates, func(currency string, _ Quote) string { return currency }, judge, ops.Name("judge")).
		ToTable(Rates, ops.Remember(bridge))
	b.From(ops.Source(Payments)).
		Lookup(Rates, func(_ string, p Payment) string { return p.Currency }, convert).
		To(ops.Sink(Settled))
	return b.Build()
}

// judge makes the currency's new rate of a quote and the rate that there is. It must see the one that the quote before it has made, which comes back through
// the topic some milliseconds later: hence the bridge.
func judge(q Quote, now Rate, known bool) Rate {
	if !known || now.Refused == maxRefused || q.Euros > now.Euros*(1-leap) && q.Euros < now.Euros*(1+leap) {
		return Rate{Euros: q.Euros}
	}
	now.Refused++
	return now
}

func convert(p Payment, r Rate) Converted { return Converted{p, p.Amount * r.Euros} }
