package exec

import (
	"cmp"
	"context"
	"slices"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Lag is how far the processing of one input partition, or the reading of a global table's, is behind its log.
type Lag struct {
	commitlog.TopicPartition
	// Table is the global table that the partition is of, empty for a task's input.
	Table string
	// Position is where processing goes on: all before it has been processed, though the last of it may be committed
	// up to CommitInterval later. Markers and aborted records behind the last record count as processed, so that
	// a task with nothing to do does not lag.
	Position int64
	// Stable is the last stable offset, up to which records can be processed, and End the high watermark. What
	// lies between them waits for the transactions in Open.
	Stable, End int64
	// Open are the transactions that are open on the partition, as far as they are known; none unless Stable is below End.
	Open []commitlog.OpenTransaction
}

// Waiting is how many offsets can be processed now and have not been, and Blocked how many more there are that wait
// for the end of open transactions. Not each offset is a record.
func (l Lag) Waiting() int64 { return max(0, l.Stable-l.Position) }

// Blocked is explained at Waiting.
func (l Lag) Blocked() int64 { return max(0, l.End-max(l.Stable, l.Position)) }

// Lag asks the cluster how far the input of this process's tasks, and its global tables, are behind, by topic and partition: two
// requests to each broker, or three if transactions are open, so that it is for metrics every few seconds. It may be called from any
// goroutine, and returns nothing before Run and after it. What it asks for last is not older than the answer.
func (a *App) Lag(ctx context.Context) ([]Lag, error) {
	at := map[commitlog.TopicPartition]int64{}
	a.mu.Lock()
	for t := range a.mu.tasks {
		for _, p := range t.published.positions {
			at[p.TopicPartition] = p.offset
		}
	}
	table := map[commitlog.TopicPartition]string{}
	for _, t := range a.tables {
		for tp, offset := range t.positions {
			if _, two := at[tp]; !two || offset < at[tp] { // of two tables of one topic
				at[tp], table[tp] = offset, t.spec.Name
			}
		}
	}
	a.mu.Unlock()
	if len(at) == 0 {
		return nil, nil
	}
	var tps []commitlog.TopicPartition
	for tp := range at {
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, func(x, y commitlog.TopicPartition) int {
		return cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition))
	})
	stable, err := a.log.EndOffsets(ctx, tps, commitlog.ReadCommitted)
	if err != nil {
		return nil, err
	}
	ends, err := a.log.EndOffsets(ctx, tps, commitlog.ReadUncommitted)
	if err != nil {
		return nil, err
	}
	var all []Lag
	var blocked []commitlog.TopicPartition
	for _, tp := range tps {
		all = append(all, Lag{TopicPartition: tp, Table: table[tp], Position: at[tp], Stable: stable[tp], End: ends[tp]})
		if stable[tp] < ends[tp] {
			blocked = append(blocked, tp)
		}
	}
	if len(blocked) == 0 {
		return all, nil
	}
	open, err := a.log.OpenTransactions(ctx, blocked)
	if err != nil {
		return nil, err
	}
	for _, o := range open {
		for i := range all {
			if all[i].TopicPartition == o.TopicPartition {
				all[i].Open = append(all[i].Open, o)
			}
		}
	}
	return all, nil
}
