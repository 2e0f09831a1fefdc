package kafkalog

import (
	"context"
	"errors"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// OpenMember implements [commitlog.Log].
func (l *Log) OpenMember(ctx context.Context, cfg commitlog.MemberConfig) (commitlog.Member, error) {
	return nil, errors.New("kafkalog: no member yet")
}

// OpenReader implements [commitlog.Log].
func (l *Log) OpenReader(ctx context.Context, cfg commitlog.ReaderConfig) (commitlog.Reader, error) {
	return nil, errors.New("kafkalog: no reader yet")
}
