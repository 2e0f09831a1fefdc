package exec_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

// bench is a log in memory with the topics in and out, inside a bubble where time passes only
// when nothing else can happen.
type bench struct {
	t     *testing.T
	log   *memlog.Log
	seats []*seat
}

func onBench(t *testing.T, partitions int, f func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, log: memlog.New(memlog.Options{})}
		defer func() {
			for _, s := range b.seats { // for a test that has failed
				s.cancel()
			}
			b.log.Close()
		}()
		b.create("in", partitions, nil)
		b.create("out", partitions, nil)
		f(t, b)
	})
}

var (
	benchIn  = ops.NewTopic("in", codec.String, codec.String)
	benchOut = ops.NewTopic("out", codec.String, codec.String)
	benchSum = ops.NewState("n", codec.String, codec.String)
)

// anywhere is for sources of tests that choose partitions themselves.
var anywhere = ops.OnMisplaced(ops.CountMisplaced)

const benchLog = "app-n-changelog"

func (b *bench) create(topic string, partitions int, config map[string]string) {
	b.t.Helper()
	require.NoError(b.t, b.log.CreateTopics(b.t.Context(), []commitlog.TopicSpec{{Name: topic, Partitions: partitions, Replication: 1, Config: config}}))
}

// mapping is a plan that passes values through f.
func (b *bench) mapping(f func(string) string) *topology.Plan {
	b.t.Helper()
	plan, err := topology.New("app").From(ops.Source(benchIn, anywhere)).MapValues(f, ops.Name("f")).To(ops.Sink(benchOut)).Build()
	require.NoError(b.t, err)
	return plan
}

// joining is a plan that keeps all values of a key. retired are states that it has had.
func (b *bench) joining(retired ...string) *topology.Plan {
	b.t.Helper()
	plan, err := topology.New("app").Retire(retired...).From(ops.Source(benchIn, anywhere)).
		Aggregate(benchSum, func(_, v, state string) string { return state + v }).To(ops.Sink(benchOut)).Build()
	require.NoError(b.t, err)
	return plan
}

// put appends key, value pairs to a partition of in.
func (b *bench) put(partition int32, pairs ...string) {
	b.t.Helper()
	b.putTo("in", partition, pairs...)
}

// putTo appends key, value pairs to a partition of a topic; the value "null" is none, as in texts.
func (b *bench) putTo(topic string, partition int32, pairs ...string) {
	b.t.Helper()
	var recs []commitlog.Record
	for i := 0; i < len(pairs); i += 2 {
		r := commitlog.Record{Timestamp: 1, Key: []byte(pairs[i])}
		if pairs[i+1] != "null" {
			r.Value = []byte(pairs[i+1])
		}
		recs = append(recs, r)
	}
	_, err := b.log.Append(b.t.Context(), topic, partition, recs)
	require.NoError(b.t, err)
}

// texts returns the committed records of a topic as key=value.
func (b *bench) texts(topic string, partition int32) []string {
	b.t.Helper()
	recs, err := b.log.Records(topic, partition, commitlog.ReadCommitted)
	require.NoError(b.t, err)
	got := []string{}
	for _, r := range recs {
		v := "null"
		if r.Value != nil {
			v = string(r.Value)
		}
		got = append(got, string(r.Key)+"="+v)
	}
	return got
}

func (b *bench) offset(partition int32) int64 {
	b.t.Helper()
	tp := commitlog.TopicPartition{Topic: "in", Partition: partition}
	offsets, err := b.log.CommittedOffsets(b.t.Context(), "app", []commitlog.TopicPartition{tp})
	require.NoError(b.t, err)
	return offsets[tp]
}

// seat is an instance on a bench.
type seat struct {
	b      *bench
	app    *exec.App
	log    *memlog.Log
	cancel context.CancelFunc
	end    chan error
}

// run starts an instance. change may set the Config; faults apply to its connection.
func (b *bench) run(plan *topology.Plan, faults memlog.Faults, change ...func(*exec.Config)) *seat {
	b.t.Helper()
	log := b.log.Session()
	log.SetFaults(faults)
	cfg := exec.Config{Log: log, SessionTimeout: 10 * time.Second}
	for _, c := range change {
		c(&cfg)
	}
	app, err := exec.New(plan, cfg)
	require.NoError(b.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	s := &seat{b, app, log, cancel, make(chan error, 1)}
	b.seats = append(b.seats, s)
	go func() {
		s.end <- app.Run(ctx)
		log.Close()
	}()
	return s
}

// idle waits until the group has processed everything.
func (s *seat) idle() *seat {
	s.b.t.Helper()
	ctx, cancel := context.WithTimeout(s.b.t.Context(), time.Hour)
	defer cancel()
	for {
		err := s.b.log.AwaitIdle(ctx, "app")
		if err == nil {
			return s
		}
		require.ErrorIs(s.b.t, err, memlog.ErrNoMembers) // it has not joined yet
		select {
		case err := <-s.end:
			require.FailNow(s.b.t, "ended early", "%v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// drain ends the instance in order.
func (s *seat) drain() {
	s.b.t.Helper()
	s.cancel()
	require.NoError(s.b.t, <-s.end)
}

// once returns a function that closes the channel with its first call.
func once() (called chan struct{}, call func()) {
	called = make(chan struct{})
	return called, sync.OnceFunc(func() { close(called) })
}

func letters(n int) string {
	s := ""
	for i := range n {
		s += fmt.Sprintf("%c", 'a'+i%26)
	}
	return s
}
