package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// keys is how many keys the inputs have; some have far more inputs than others.
const keys = 997

// inputsOf draws the keys of the inputs 1, 2, 3 ...: the same for the same seed.
func inputsOf(seed uint64, n int) []string {
	r := rand.New(rand.NewPCG(seed, 2))
	drawn := make([]string, n)
	for i := range drawn {
		k := r.IntN(keys)
		if r.IntN(4) == 0 {
			k = r.IntN(10)
		}
		drawn[i] = "key-" + strconv.Itoa(k)
	}
	return drawn
}

// loader writes the inputs at a steady pace, by an idempotent producer: each is in the topic once, in order by key,
// whatever happens to brokers. Now and then it aborts a transaction, whose records nobody may see.
type loader struct {
	client *kafka.Client
	names  names
	inputs []string
	takes  time.Duration
}

// tick is how often the loader writes, abortEvery how many ticks lie between aborted transactions.
const (
	tick       = 100 * time.Millisecond
	abortEvery = 37
)

func (l *loader) run(ctx context.Context) error {
	start := time.Now()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for n, i := 0, 1; n < len(l.inputs); i++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		// After a stall all that is due is written at once.
		due := min(len(l.inputs), int(float64(len(l.inputs))*float64(time.Since(start))/float64(l.takes)))
		var records []kafka.Record
		for ; n < due; n++ {
			records = append(records, kafka.Record{Topic: l.names.in(), Key: []byte(l.inputs[n]), Value: strconv.AppendInt(nil, int64(n+1), 10)})
		}
		if err := l.client.Produce(ctx, records...); err != nil {
			return fmt.Errorf("write inputs: %w", err)
		}
		if i%abortEvery == 0 {
			if err := l.abort(ctx); err != nil {
				return err
			}
		}
	}
	return l.abort(ctx) // and ends what an earlier one may have left open
}

// abort writes a few inputs that do not count. If a fault hinders it the next one with its id ends the transaction.
func (l *loader) abort(ctx context.Context) error {
	t, err := l.client.Begin(ctx, l.names.App+"-loader")
	if err != nil {
		return err
	}
	var records []kafka.Record
	for k := range 30 {
		records = append(records, kafka.Record{Topic: l.names.in(), Key: []byte("key-" + strconv.Itoa(k)), Value: []byte("0")})
	}
	if err := t.Produce(ctx, records...); err != nil {
		t.Abandon()
		return nil
	}
	if err := t.Abort(ctx); err != nil {
		return nil
	}
	return nil
}
