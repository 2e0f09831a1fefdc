package kafkalog

import (
	"context"
	"errors"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// DeleteRecords implements commitlog.Log.
func (l *Log) DeleteRecords(ctx context.Context, below map[commitlog.TopicPartition]int64) error {
	return wrap("delete records", errors.New("not there yet"))
}

// OpenTransactions implements commitlog.Log.
func (l *Log) OpenTransactions(ctx context.Context, tps []commitlog.TopicPartition) ([]commitlog.OpenTransaction, error) {
	return nil, wrap("describe producers", errors.New("not there yet"))
}
