package memlog

import (
	"context"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Faults make calls of one connection fail. Each hook that is not nil is called on the
// goroutine of the call, without a lock held, before the call has an effect unless its comment
// says otherwise; an error is returned to the caller as it is. A hook may block, to hold the
// call there, and may use the log. Hooks are called by several goroutines at once.
type Faults struct {
	// Admin is called by Topics, TopicConfigs, CreateTopics, StartOffsets, EndOffsets, CommittedOffsets,
	// DeleteRecords and OpenTransactions, with the method's name.
	Admin func(ctx context.Context, method string) error
	// OpenProducer is called before the fencing.
	OpenProducer func(ctx context.Context, cfg commitlog.ProducerConfig) error
	// OpenReader and OpenMember are called before anything.
	OpenReader func(ctx context.Context, cfg commitlog.ReaderConfig) error
	OpenMember func(ctx context.Context, cfg commitlog.MemberConfig) error
	// Fetch is called on the reader's goroutine before each chunk is delivered; an error
	// ends the reader in its place.
	Fetch func(tp commitlog.TopicPartition) error
	// Produce is called with the number of records. An error leaves the transaction such that
	// it can only be aborted.
	Produce func(ctx context.Context, transactionalID string, tp commitlog.TopicPartition, records int) error
	// Commit is called before the offsets are added.
	Commit func(ctx context.Context, transactionalID string, offsets map[commitlog.TopicPartition]int64) error
	// EndTxn is called when the offsets have been added, before the transaction ends.
	// After an error it stays open, and whoever asks for these offsets waits for its end.
	EndTxn func(ctx context.Context, transactionalID string) error
	// Committed is called when the transaction has committed; an error is an answer lost.
	Committed func(ctx context.Context, transactionalID string) error
	// Abort is called before the transaction is aborted.
	Abort func(ctx context.Context, transactionalID string) error
	// Join is called before the member joins.
	Join func(ctx context.Context, cfg commitlog.MemberConfig) error
}

// SetFaults replaces the connection's faults. They apply to calls that begin afterwards.
func (l *Log) SetFaults(f Faults) { l.faults.Store(&f) }

// fault returns the faults in force.
func (l *Log) fault() *Faults {
	if f := l.faults.Load(); f != nil {
		return f
	}
	return &Faults{}
}

func (l *Log) adminFault(ctx context.Context, method string) error {
	if f := l.fault().Admin; f != nil {
		return f(ctx, method)
	}
	return nil
}
