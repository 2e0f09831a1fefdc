package exec

import (
	"github.com/wickerwork/wicker/exec/commitlog"
)

// bridge holds the rows that a task has written to a global table's topic, until the table has read them there (ops.Remember): the task's own lookups
// see them at once, in the transaction in which they were written as behind it. They go with the task, so that what was aborted is never seen. The latest
// ones are kept, a bounded number. It belongs to the task's goroutine.
type bridge struct {
	table *table
	most  int
	rows  map[string]remembered
	// order are the keys in the order in which they were written, some of which have been written again, or are gone.
	order []written
	// changes counts what has come and gone.
	changes int64
	// next numbers the writes, open is the first of the open transaction's.
	next, open int64
	// committed are transactions that the table may not have read, the oldest first.
	committed []bridged
}

// remembered is a row; nil is one that was deleted.
type remembered struct {
	row []byte
	at  int64
}

type written struct {
	key string
	at  int64
}

// bridged is a transaction: all writes before until are in the topic before ends.
type bridged struct {
	until int64
	ends  map[commitlog.TopicPartition]int64
}

// write remembers a row.
func (b *bridge) write(key string, row []byte) {
	b.changes++
	b.rows[key] = remembered{row, b.next}
	b.order = append(b.order, written{key, b.next})
	b.next++
	for len(b.rows) > b.most || len(b.order) > 2*b.most {
		b.forget()
	}
}

// forget drops the oldest row.
func (b *bridge) forget() {
	b.changes++
	w := b.order[0]
	b.order[0] = written{}
	b.order = b.order[1:]
	if b.rows[w.key].at == w.at {
		delete(b.rows, w.key)
	}
}

// seal notes that the open transaction closes, commit that one has committed; ends holds where the partitions written to end.
func (b *bridge) seal() { b.open = b.next }

func (b *bridge) commit(ends map[commitlog.TopicPartition]int64) {
	own := map[commitlog.TopicPartition]int64{}
	for tp, end := range ends {
		if tp.Topic == b.table.spec.Topics[0] {
			own[tp] = end
		}
	}
	if len(own) > 0 {
		b.committed = append(b.committed, bridged{b.open, own})
	}
}

// arrived drops what the table has read.
func (b *bridge) arrived() {
	for len(b.committed) > 0 && b.table.hasRead(b.committed[0].ends) {
		for len(b.order) > 0 && b.order[0].at < b.committed[0].until {
			b.forget()
		}
		b.committed = b.committed[1:]
	}
}

// hasRead says whether the table shows what lies before the ends.
func (t *table) hasRead(ends map[commitlog.TopicPartition]int64) bool {
	t.app.mu.Lock()
	defer t.app.mu.Unlock()
	for tp, end := range ends {
		if t.positions[tp] < end {
			return false
		}
	}
	return true
}
