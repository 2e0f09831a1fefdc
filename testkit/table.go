package testkit

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/globaltable"
)

// Rows is the way into a global table.
type Rows[K, V any] struct {
	k     *Kit
	table globaltable.Table[K, V]
	topic string
}

// Table returns the way into a global table that the plan looks up in, by the first of its topics.
func (k *Kit) Table[K, V any](t globaltable.Table[K, V]) *Rows[K, V] {
	k.tb.Helper()
	spec, err := t.Spec()
	if err != nil {
		k.tb.Fatalf("testkit: %v", err)
		return nil
	}
	if !slices.ContainsFunc(k.plan.Tables(), spec.Same) {
		k.tb.Fatalf("testkit: table %s is not one of the plan, or another value of that name\n%s", t.Name(), k.plan.Describe())
	}
	return &Rows[K, V]{k, t, spec.Topics[0]}
}

// Put writes a row, when what was pushed before has been processed, and waits until the executor sees it, if it runs.
func (r *Rows[K, V]) Put(key K, value V) {
	r.k.tb.Helper()
	_, codec := r.table.Codecs()
	vb, err := codec.Append([]byte{}, value)
	if err != nil {
		r.k.tb.Fatalf("testkit: table %s: encode value: %v", r.table.Name(), err)
	}
	r.write(key, vb)
}

// Delete writes a tombstone, and waits as Put does.
func (r *Rows[K, V]) Delete(key K) {
	r.k.tb.Helper()
	r.write(key, nil)
}

// Get waits until everything pushed has been processed, and the rows that came of it are read, and returns the row of a key. The executor must run.
func (r *Rows[K, V]) Get(key K) (row V, ok bool) {
	r.k.tb.Helper()
	r.k.Settle()
	if err := r.k.settleTables(); err != nil {
		r.k.fail(err)
		return row, false
	}
	view, err := r.k.run.app.Table(r.table)
	if err == nil {
		row, ok, err = view.Get(key)
	}
	if err != nil {
		r.k.tb.Fatalf("testkit: table %s: %v", r.table.Name(), err)
	}
	return row, ok
}

func (r *Rows[K, V]) write(key K, value []byte) {
	r.k.tb.Helper()
	codec, _ := r.table.Codecs()
	kb, err := codec.Append([]byte{}, key)
	if err != nil {
		r.k.tb.Fatalf("testkit: table %s: encode key: %v", r.table.Name(), err)
	}
	running := r.k.run != nil
	if running {
		r.k.Settle()
	}
	if _, err := r.k.log.Append(context.Background(), r.topic, 0, []commitlog.Record{{Key: kb, Value: value, Timestamp: r.k.stamp(time.Time{})}}); err != nil {
		r.k.tb.Fatalf("testkit: %v", err)
	}
	if running {
		if err := r.k.settleTables(); err != nil {
			r.k.fail(err)
		}
	}
}

// settleTables waits until the executor has read all rows.
func (k *Kit) settleTables() error {
	if len(k.plan.Tables()) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(k.run.ctx, settleTimeout)
	defer cancel()
	for {
		all, err := k.run.app.Lag(ctx)
		if err != nil {
			return err
		}
		tables := 0
		for _, l := range all {
			if l.Table != "" && l.Waiting() == 0 {
				tables++
			}
		}
		if tables == k.tablePartitions() {
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return errors.Join(errors.New("the tables are not read"), context.Cause(ctx))
		}
	}
}

// tablePartitions is the number of partitions of all tables.
func (k *Kit) tablePartitions() int {
	topics := map[string]bool{}
	n := 0
	for _, t := range k.plan.Tables() {
		for _, topic := range t.Topics {
			if !topics[topic] {
				topics[topic] = true
				n += k.partitions[topic]
			}
		}
	}
	return n
}
