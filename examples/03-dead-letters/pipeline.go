package main

import (
	"errors"
	"strconv"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

// app names the application; its dead letters go to <app>-dead-letter.
const app = "card-payments"

// Payment is what a terminal reports of a card.
type Payment struct {
	Shop  string `json:"shop"`
	Cents int64  `json:"cents"`
}

// Total is what a card has paid so far.
type Total struct {
	Payments int   `json:"payments"`
	Cents    int64 `json:"cents"`
}

func (t Total) add(p Payment) Total { return Total{t.Payments + 1, t.Cents + p.Cents} }

// The topics, all keyed by card, and the state.
var (
	Spent = ops.NewTopic("spent", codec.String, codec.JSON[Total]())
	Cards = ops.NewState("cards", codec.String, codec.JSON[Total]())

	// Payments as they are sent again: as bytes, whatever these are. newPlan reads the topic with a codec for Payment.
	Payments = ops.NewTopic("payments", codec.Bytes, codec.Bytes)
	Letters  = ops.NewTopic(app+"-dead-letter", codec.Bytes, codec.Bytes)
)

// newPlan is the pipeline: each payment that can be read and makes sense is added to its card's total. The others are dead letters. The policy is each
// operator's own: that of the source is about records that cannot be decoded, that of TryMapValues about those that its function finds invalid.
func newPlan(payment codec.Codec[Payment]) (*topology.Plan, error) {
	payments := ops.NewTopic(Payments.Name, codec.String, payment)
	return topology.New(app).
		From(ops.Source(payments, ops.OnInvalid(ops.DeadLetter("")))).
		TryMapValues(check, ops.Name("check"), ops.OnInvalid(ops.DeadLetter(""))).
		Aggregate(Cards, func(_ string, p Payment, t Total) Total { return t.add(p) }).
		To(ops.Sink(Spent)).
		Build()
}

var errAmount = errors.New("the amount must be above 0")

// check refuses a payment of nothing. The error's text goes into the dead letter's header, so it says what is wrong and not what was paid. An error
// that is not ops.Invalid would end the run.
func check(p Payment) (Payment, error) {
	if p.Cents <= 0 {
		return p, ops.Invalid(errAmount)
	}
	return p, nil
}

// newResend is the way back, a pipeline too: a dead letter's bytes go to the topic that they came from, in one transaction with the position behind the
// letter, so each is sent once however often this is run or killed. Bytes that have to be repaired first would be, by a MapValues in between.
func newResend() (*topology.Plan, error) {
	return topology.New(app + "-resend").
		From(ops.Source(Letters)).
		To(ops.Sink(Payments)).
		Build()
}

// textAmounts is the codec of the release that is fixed: some terminals write {"cents":"1250"}.
type textAmounts struct{ codec.Codec[Payment] }

var withText = codec.JSON[struct {
	Shop  string `json:"shop"`
	Cents string `json:"cents"`
}]()

// Decode reads an amount of either form. What is neither has the error of the first one, which says where the fault is and nothing of the content.
func (c textAmounts) Decode(src []byte) (Payment, error) {
	p, err := c.Codec.Decode(src)
	if err == nil {
		return p, nil
	}
	text, err2 := withText.Decode(src)
	if err2 != nil {
		return Payment{}, err
	}
	cents, err2 := strconv.ParseInt(text.Cents, 10, 64)
	if err2 != nil {
		return Payment{}, err
	}
	return Payment{Shop: text.Shop, Cents: cents}, nil
}
