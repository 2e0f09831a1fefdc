package logtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// env is what one case works with. Its methods fail the case rather than return errors.
type env struct {
	*testing.T
	Target
	ctx  context.Context
	pool *commitlog.Pool
}

// noMember is a commit's metadata where there are no offsets.
var noMember = commitlog.GroupMetadata{Generation: -1}

// name returns a name that nothing else has.
func (e *env) name(what string) string {
	short := e.Name()[strings.LastIndexByte(e.Name(), '/')+1:]
	return fmt.Sprintf("logtest-%s-%s-%012x", short, what, rand.Uint64()&0xffffffffffff)
}

// topic creates a topic; config holds setting names and values in turn.
func (e *env) topic(partitions int, config ...string) string {
	e.Helper()
	spec := commitlog.TopicSpec{Name: e.name("topic"), Partitions: partitions, Replication: -1, Config: map[string]string{}}
	for i := 0; i+1 < len(config); i += 2 {
		spec.Config[config[i]] = config[i+1]
	}
	if e.CreateTopic != nil {
		e.CreateTopic(e.T, spec)
	} else {
		require.NoError(e, e.Log.CreateTopics(e.ctx, []commitlog.TopicSpec{spec}))
	}
	return spec.Name
}

// deleteTopic deletes a topic and waits until it is gone.
func (e *env) deleteTopic(topic string) {
	e.Helper()
	e.need(e.DeleteTopic != nil, "DeleteTopic")
	e.DeleteTopic(e.T, topic)
	e.eventually("the topic to go", func() bool {
		topics, err := e.Log.Topics(e.ctx, topic)
		require.NoError(e, err)
		return len(topics) == 0
	})
}

// partitions returns the first n partitions of a topic.
func partitions(topic string, n int) []commitlog.TopicPartition {
	var out []commitlog.TopicPartition
	for i := range n {
		out = append(out, commitlog.TopicPartition{Topic: topic, Partition: int32(i)})
	}
	return out
}

// one creates a topic with one partition and returns that.
func (e *env) one(config ...string) commitlog.TopicPartition {
	e.Helper()
	return commitlog.TopicPartition{Topic: e.topic(1, config...)}
}

// recordsOf makes a record of each value, with the same key.
func recordsOf(values ...string) []commitlog.Record {
	var out []commitlog.Record
	for i, v := range values {
		out = append(out, commitlog.Record{Timestamp: time.Now().UnixMilli() + int64(i), Key: []byte(v), Value: []byte(v)})
	}
	return out
}

// append writes values without a transaction.
func (e *env) append(tp commitlog.TopicPartition, values ...string) int64 {
	e.Helper()
	return e.Append(e.T, tp, recordsOf(values...))
}

// batch makes one batch of records.
func (e *env) batch(records ...commitlog.Record) *commitlog.Batch {
	b := commitlog.NewBuilder(e.pool)
	for _, r := range records {
		b.Append(r.Timestamp, r.Key, r.Value, r.Headers, r.HeaderCount)
	}
	return b.Take()
}

// producer opens one on the shared connection and closes it with the case.
func (e *env) producer(id string) commitlog.Producer {
	e.Helper()
	return e.producerOn(e.Log, commitlog.ProducerConfig{TransactionalID: id})
}

func (e *env) producerOn(l commitlog.Log, cfg commitlog.ProducerConfig) commitlog.Producer {
	e.Helper()
	cfg.TransactionTimeout = time.Minute
	p, err := l.OpenProducer(e.ctx, cfg)
	require.NoError(e, err)
	e.Cleanup(func() { p.Close() })
	return p
}

// produce hands over one batch of values.
func (e *env) produce(p commitlog.Producer, tp commitlog.TopicPartition, values ...string) {
	e.Helper()
	require.NoError(e, p.Produce(e.ctx, tp, e.batch(recordsOf(values...)...)))
}

// commit commits without offsets and returns the ends.
func (e *env) commit(p commitlog.Producer) map[commitlog.TopicPartition]int64 {
	e.Helper()
	ends, err := p.Commit(e.ctx, nil, noMember)
	require.NoError(e, err)
	return ends
}

func (e *env) abort(p commitlog.Producer) {
	e.Helper()
	require.NoError(e, p.Abort(e.ctx))
}

// ends returns end offsets.
func (e *env) ends(iso commitlog.Isolation, tps ...commitlog.TopicPartition) map[commitlog.TopicPartition]int64 {
	e.Helper()
	out, err := e.Log.EndOffsets(e.ctx, tps, iso)
	require.NoError(e, err)
	require.Len(e, out, len(tps))
	return out
}

// eventually asks until ok; what is in the message of the failure.
func (e *env) eventually(what string, ok func() bool) {
	e.Helper()
	for deadline := time.Now().Add(e.Patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			require.FailNow(e, "waited in vain", "%s, for %v", what, e.Patience)
		}
	}
}

// written waits until a partition's high watermark has reached end.
func (e *env) written(tp commitlog.TopicPartition, end int64) {
	e.Helper()
	e.eventually(fmt.Sprintf("%s to reach %d", tp, end), func() bool { return e.ends(commitlog.ReadUncommitted, tp)[tp] >= end })
}

// settled waits until no transaction is open in the partitions and returns their ends.
func (e *env) settled(tps ...commitlog.TopicPartition) map[commitlog.TopicPartition]int64 {
	e.Helper()
	var stable map[commitlog.TopicPartition]int64
	e.eventually("the last stable offset to reach the end", func() bool {
		stable = e.ends(commitlog.ReadCommitted, tps...)
		end := e.ends(commitlog.ReadUncommitted, tps...)
		for _, tp := range tps {
			if stable[tp] != end[tp] {
				return false
			}
		}
		return true
	})
	return stable
}

// need skips the case if the target lacks a feature.
func (e *env) need(has bool, field string) {
	e.Helper()
	if !has {
		e.Skipf("SKIP: Target.%s is not set: this cluster is not tried for it", field)
	}
}

// requireClass requires an error of a class.
func (e *env) requireClass(want commitlog.Class, err error) {
	e.Helper()
	require.Error(e, err)
	var ce *commitlog.Error
	require.ErrorAs(e, err, &ce, "L7: every error is a *commitlog.Error")
	require.Equal(e, want, commitlog.ClassOf(err), "class of: %v", err)
}
