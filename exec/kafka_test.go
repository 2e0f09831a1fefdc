package exec_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/kafkalog"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/topology"
)

// instance is one process of a plan, as far as a test can have several.
type instance struct {
	t    testing.TB
	app  *exec.App
	stop context.CancelFunc
	end  chan error
}

func launch(t testing.TB, b *kafka.Broker, plan *topology.Plan, change ...func(*exec.Config)) *instance {
	t.Helper()
	cfg := exec.Config{Brokers: []string{b.Addr()}, TLS: b.TLS(), SessionTimeout: 6 * time.Second}
	if u := b.Users(); len(u) > 0 {
		cfg.SASL = &kafkalog.SASL{Mechanism: kafkalog.ScramSHA512, Username: u[0].Name, Password: u[0].Password}
	}
	for _, c := range change {
		c(&cfg)
	}
	app, err := exec.New(plan, cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	i := &instance{t: t, app: app, stop: cancel, end: make(chan error, 1)}
	go func() { i.end <- app.Run(ctx) }()
	t.Cleanup(cancel)
	return i
}

// drain ends the instance in order.
func (i *instance) drain() {
	i.t.Helper()
	i.stop()
	require.NoError(i.t, <-i.end)
}

// await polls until done, and fails when the instance ends first.
func (i *instance) await(what string, done func() bool) {
	i.t.Helper()
	timeout := time.After(60 * time.Second)
	for tick := time.Tick(20 * time.Millisecond); ; {
		if done() {
			return
		}
		select {
		case <-tick:
		case err := <-i.end:
			require.FailNow(i.t, "ended early", "%s: %v", what, err)
		case <-timeout:
			require.FailNow(i.t, "timeout", "%s: stats %+v", what, i.app.Stats())
		}
	}
}

// rig is a broker with topics of a test's own.
type rig struct {
	t       *testing.T
	b       *kafka.Broker
	c       *kafka.Client
	app     string
	in, out string
}

func newRig(t *testing.T, b *kafka.Broker, partitions int) *rig {
	app := kafka.Name(t)
	r := &rig{t: t, b: b, c: b.Client(t), app: app, in: app + ".in", out: app + ".out"}
	for _, topic := range []string{r.in, r.out} {
		require.NoError(t, r.c.CreateTopic(t.Context(), topic, partitions, nil))
	}
	return r
}

func (r *rig) changelog(state string) string { return r.app + "-" + state + "-changelog" }

// put produces key, value pairs in one batch a partition.
func (r *rig) put(pairs ...string) {
	r.t.Helper()
	var recs []kafka.Record
	for i := 0; i < len(pairs); i += 2 {
		recs = append(recs, kafka.Record{Topic: r.in, Key: []byte(pairs[i]), Value: []byte(pairs[i+1])})
	}
	require.NoError(r.t, r.c.Produce(r.t.Context(), recs...))
}

// settle waits until the group has committed all of the input, and of the repartition topics that it went to.
func (r *rig) settle(i *instance) {
	r.t.Helper()
	ends, err := r.c.EndOffsets(r.t.Context(), kafka.ReadCommitted, r.in)
	require.NoError(r.t, err)
	i.await("committed offsets", func() bool {
		have, err := r.c.CommittedOffsets(r.t.Context(), r.app)
		require.NoError(r.t, err)
		for p, end := range ends {
			if have[p] < end {
				return false
			}
		}
		// What the source's tasks have committed is in the repartition topics by now.
		topics, err := r.c.Topics(r.t.Context())
		require.NoError(r.t, err)
		for name := range topics {
			if !strings.HasPrefix(name, r.app+"-") || !strings.HasSuffix(name, "-repartition") {
				continue
			}
			ends, err := r.c.EndOffsets(r.t.Context(), kafka.ReadUncommitted, name)
			require.NoError(r.t, err)
			for p, end := range ends {
				if have[p] < end {
					return false
				}
			}
		}
		return true
	})
}

// read returns the committed records of a topic, by partition and offset.
func (r *rig) read(topic string) []kafka.Record {
	r.t.Helper()
	recs, err := r.c.Read(r.t.Context(), kafka.ReadCommitted, topic)
	require.NoError(r.t, err)
	return recs
}

func pairs(recs []kafka.Record) []string {
	var all []string
	for _, rec := range recs {
		v := "null"
		if rec.Value != nil {
			v = string(rec.Value)
		}
		all = append(all, string(rec.Key)+"="+v)
	}
	return all
}

// decimal is an int as its text, and zero as null.
var decimal = codec.OmitZero(codec.JSON[int]())

func (r *rig) plan(f func(k, v string, n int) int) *topology.Plan {
	plan, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, codec.String, codec.String), anywhere)).
		Aggregate(ops.NewState("n", codec.String, decimal), f).
		To(ops.Sink(ops.NewTopic(r.out, codec.String, codec.JSON[int]()))).Build()
	require.NoError(r.t, err)
	return plan
}

func (r *rig) counter() *topology.Plan {
	return r.plan(func(_, _ string, n int) int { return n + 1 })
}

// Outputs, changelog and offsets of a batch are one transaction.
func TestTX02OneTransactionHoldsOutputsChangelogAndOffsets(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		r.put("k", "a", "k", "b", "k", "c")
		i := launch(t, b, r.counter())
		r.settle(i)
		i.drain()
		require.Equal(t, []string{"k=1", "k=2", "k=3"}, pairs(r.read(r.out)))
		log := r.read(r.changelog("n"))
		require.Equal(t, "k=3", pairs(log)[len(log)-1])
		offsets, err := r.c.CommittedOffsets(t.Context(), r.app)
		require.NoError(t, err)
		require.Equal(t, kafka.Offsets{{Topic: r.in}: 3}, offsets)
		ends, err := r.c.EndOffsets(t.Context(), kafka.ReadCommitted, r.out, r.changelog("n"))
		require.NoError(t, err)
		require.EqualValues(t, 3+i.app.Stats().Commits, ends[kafka.Partition{Topic: r.out}], "a marker a transaction")
		require.EqualValues(t, int64(len(log))+i.app.Stats().Commits, ends[kafka.Partition{Topic: r.changelog("n")}])
	})
}

// A key's state is written once a transaction, and not if it is as before.
func TestTX12ChangelogHasTheLastValueOfABatchIfItDiffers(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		plan := r.plan(func(_, v string, _ int) int { n, _ := strconv.Atoi(v); return n })
		batch := func(values ...string) {
			for _, v := range values {
				r.put("k", v)
			}
			i := launch(t, b, plan, func(c *exec.Config) { c.CommitInterval, c.IdleCommitInterval = time.Second, time.Second })
			r.settle(i)
			i.drain()
			require.EqualValues(t, 1, i.app.Stats().Commits)
		}
		batch("1")
		require.Equal(t, []string{"k=1"}, pairs(r.read(r.changelog("n"))))
		batch("5", "1")
		require.Equal(t, []string{"k=1"}, pairs(r.read(r.changelog("n"))))
		batch("5", "6")
		require.Equal(t, []string{"k=1", "k=6"}, pairs(r.read(r.changelog("n"))))
		require.Equal(t, []string{"k=1", "k=5", "k=1", "k=5", "k=6"}, pairs(r.read(r.out)))
	})
}

// An empty state is a tombstone, and nothing if there was no state.
func TestTX13EmptyStateDeletes(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		saw := make(chan int, 10)
		plan := r.plan(func(_, v string, n int) int { saw <- n; return len(v) })
		put := func(v string) int {
			r.put("k", v)
			i := launch(t, b, plan)
			r.settle(i)
			i.drain()
			return <-saw
		}
		require.Equal(t, 0, put("xx"))
		require.Equal(t, 2, put(""))
		require.Equal(t, []string{"k=2", "k=null"}, pairs(r.read(r.changelog("n"))))
		require.Equal(t, 0, put(""), "after a restart")
		require.Equal(t, []string{"k=2", "k=null"}, pairs(r.read(r.changelog("n"))))
		require.Equal(t, []string{"k=2", "k=0", "k=0"}, pairs(r.read(r.out)))
	})
}

// State lies where the record lay, whatever the key hashes to.
func TestTX15StateIsOfThePartitionAndKey(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 2)
		for p := range int32(2) {
			require.NoError(t, r.c.ProduceTo(t.Context(), kafka.Record{Topic: r.in, Partition: p, Key: []byte("k"), Value: []byte("v")}))
		}
		i := launch(t, b, r.counter())
		r.settle(i)
		i.drain()
		require.Equal(t, []string{"k=1", "k=1"}, pairs(r.read(r.out)))
		log := r.read(r.changelog("n"))
		require.Equal(t, []string{"k=1", "k=1"}, pairs(log))
		require.Equal(t, []int32{0, 1}, []int32{log[0].Partition, log[1].Partition})
	})
}

// Counters go on without gap or repeat when instances join and leave.
func TestTX25CountsGoOnAcrossJoinAndLeave(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 2)
		plan := r.counter()
		phase := func(i *instance) {
			for k := range 8 {
				r.put(fmt.Sprint("key", k), "v")
			}
			r.settle(i)
		}
		first := launch(t, b, plan)
		phase(first)
		second := launch(t, b, plan)
		second.await("a task each", func() bool { return first.app.Stats().Tasks == 1 && second.app.Stats().Tasks == 1 })
		phase(second)
		first.drain()
		second.await("all tasks", func() bool { return second.app.Stats().Tasks == 2 })
		phase(second)
		second.drain()
		got := map[string][]string{}
		for _, rec := range r.read(r.out) {
			got[string(rec.Key)] = append(got[string(rec.Key)], string(rec.Value))
		}
		require.Len(t, got, 8)
		for k, counts := range got {
			require.Equal(t, []string{"1", "2", "3"}, counts, k)
		}
	})
}

// Bytes and text go out as they are, with the source's timestamp, where Java's partitioner puts them.
func TestAT03TX31WireFormatAndPartition(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 7)
		plan, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, codec.Bytes, codec.Bytes))).
			To(ops.Sink(ops.NewTopic(r.out, codec.Bytes, codec.Bytes))).Build()
		require.NoError(t, err)
		reference := kafka.Name(t)
		require.NoError(t, r.c.CreateTopic(t.Context(), reference, 7, nil))
		at := time.Date(2024, 1, 1, 0, 0, 0, 1_900_000, time.UTC)
		values := map[string][]byte{"k": []byte("hi"), "bin": {0x00, 0xff}, "": []byte("empty key"), "null": nil, "K\u00e4se": {}}
		for i := range 50 {
			values[fmt.Sprint("key-", i)] = []byte("v")
		}
		var in []kafka.Record
		for k, v := range values {
			in = append(in, kafka.Record{Topic: reference, Key: []byte(k), Value: v, Timestamp: at, Headers: []kafka.Header{{Key: "h", Value: []byte(k)}, {Key: "h"}}})
		}
		require.NoError(t, r.c.Produce(t.Context(), in...))
		for n := range in {
			in[n].Topic, in[n].Partition = r.in, int32(n%7)
		}
		require.NoError(t, r.c.ProduceTo(t.Context(), in...))
		i := launch(t, b, plan)
		r.settle(i)
		i.drain()
		type placed struct {
			partition int32
			value     []byte
			headers   string
			ms        int64
		}
		index := func(recs []kafka.Record) map[string]placed {
			m := map[string]placed{}
			for _, rec := range recs {
				m[string(rec.Key)] = placed{rec.Partition, rec.Value, fmt.Sprint(rec.Headers), rec.Timestamp.UnixMilli()}
			}
			return m
		}
		got := index(r.read(r.out))
		require.Equal(t, index(r.read(reference)), got)
		require.Equal(t, "hi", string(got["k"].value))
		require.Equal(t, int64(1704067200001), got["k"].ms)
		require.Nil(t, got["null"].value)
		require.NotNil(t, got["K\u00e4se"].value)
	})
}

// A record that cannot be decoded ends Run with its coordinates, commits nothing, and does so again.
func TestUndecodableRecordEndsRunAndCommitsNothing(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		plan, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, codec.String, codec.JSON[map[string]int]()))).
			To(ops.Sink(ops.NewTopic(r.out, codec.String, codec.JSON[map[string]int]()))).Build()
		require.NoError(t, err)
		r.put("a", `{"n":1}`, "b", `{"n":2}`, "c", `{"n":secret}`)
		for range 2 {
			i := launch(t, b, plan)
			err := <-i.end
			var re *exec.RecordError
			require.ErrorAs(t, err, &re)
			require.Equal(t, r.in, re.Topic)
			require.EqualValues(t, 0, re.Partition)
			require.EqualValues(t, 2, re.Offset)
			require.Equal(t, `Source "`+r.in+`"`, re.Operator)
			require.ErrorContains(t, err, fmt.Sprintf("topic %s partition 0 offset 2", r.in))
			require.NotContains(t, err.Error(), "secret")
			require.Empty(t, r.read(r.out))
			offsets, err := r.c.CommittedOffsets(t.Context(), r.app)
			require.NoError(t, err)
			require.Empty(t, offsets)
		}
	})
}

// A broker that is killed and comes back costs nothing but time.
func TestCountsSurviveABrokersDeath(t *testing.T) {
	b := kafka.StartReal(t, kafka.Options{})
	r := newRig(t, b, 2)
	plan := r.counter()
	i := launch(t, b, plan)
	const rounds, keys = 40, 10
	for n := range rounds {
		for k := range keys {
			r.put(fmt.Sprint("key", k), "v")
		}
		if n%15 == 14 {
			require.NoError(t, b.Kill())
			require.NoError(t, b.Restart(t.Context()))
		}
	}
	r.settle(i)
	i.drain()
	got := map[string]int{}
	for _, rec := range r.read(r.out) {
		got[string(rec.Key)]++
		require.Equal(t, fmt.Sprint(got[string(rec.Key)]), string(rec.Value))
	}
	ends, err := r.c.EndOffsets(t.Context(), kafka.ReadCommitted, r.in)
	require.NoError(t, err)
	var in, out int64
	for _, end := range ends {
		in += end
	}
	for _, n := range got {
		out += int64(n)
	}
	require.Equal(t, in, out)
	require.GreaterOrEqual(t, in, int64(rounds*keys))
}

// TLS and SASL pass through the Config.
func TestTLSAndSASL(t *testing.T) {
	kafka.EachOwn(t, kafka.Options{TLS: true, Users: []kafka.User{{Name: "app", Password: "s3cret-word"}}}, func(t *testing.T, b *kafka.Broker) {
		for _, mechanism := range []string{kafkalog.Plain, kafkalog.ScramSHA256, kafkalog.ScramSHA512} {
			r := newRig(t, b, 1)
			r.put("k", "v")
			sasl := kafkalog.SASL{Mechanism: mechanism, Username: "app", Password: "s3cret-word"}
			i := launch(t, b, r.counter(), func(c *exec.Config) { c.SASL = &sasl })
			r.settle(i)
			i.drain()
			require.Len(t, r.read(r.out), 1)
			sasl.Password = "wrong-word"
			err := <-launch(t, b, r.counter(), func(c *exec.Config) { c.SASL = &sasl }).end
			require.Error(t, err)
			if b.Kind() == kafka.Real { // the embedded one just closes the connection
				require.ErrorContains(t, err, mechanism)
			}
			require.NotContains(t, err.Error(), "wrong-word")
		}
		err := <-launch(t, b, newRig(t, b, 1).counter(), func(c *exec.Config) { c.TLS = nil }).end
		require.Error(t, err)
	})
}

// What cannot work is said at once, in one sentence.
func TestStartupErrors(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 2)
		begin := time.Now()
		err := <-launch(t, b, r.counter(), func(c *exec.Config) { c.Brokers = []string{"127.0.0.1:1"} }).end
		require.ErrorContains(t, err, "127.0.0.1:1")

		require.NoError(t, r.c.DeleteTopics(t.Context(), r.out))
		err = <-launch(t, b, r.counter()).end
		var te *exec.TopicsError
		require.ErrorAs(t, err, &te)
		require.ErrorContains(t, err, "topic "+r.out+" does not exist: create it with kafka-topics.sh --bootstrap-server "+b.Addr()+" --create --topic "+r.out)

		require.NoError(t, r.c.CreateTopic(t.Context(), r.out, 2, nil))
		require.NoError(t, r.c.CreateTopic(t.Context(), r.changelog("n"), 3, map[string]string{"cleanup.policy": "compact"}))
		err = <-launch(t, b, r.counter()).end
		require.ErrorAs(t, err, &te)
		require.ErrorContains(t, err, r.changelog("n")+" has 3 partitions, want 2")

		rekeyed, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, codec.String, codec.String))).
			Rekey("by", func(_, v string) string { return v }).
			Aggregate(ops.NewState("r", codec.String, decimal), func(_, _ string, n int) int { return n + 1 }).
			To(ops.Sink(ops.NewTopic(r.out, codec.String, codec.JSON[int]()))).Build()
		require.NoError(t, err)
		require.NoError(t, r.c.CreateTopic(t.Context(), r.app+"-by-repartition", 2, map[string]string{"cleanup.policy": "delete", "retention.ms": "60000"}))
		require.NoError(t, r.c.CreateTopic(t.Context(), r.changelog("r"), 2, map[string]string{"cleanup.policy": "delete"}))
		err = <-launch(t, b, rekeyed).end
		require.ErrorAs(t, err, &te)
		require.Len(t, te.Problems, 2, err)
		require.ErrorContains(t, err, r.app+"-by-repartition has retention.ms=60000, want -1: kafka-configs.sh --bootstrap-server "+b.Addr())
		require.ErrorContains(t, err, r.changelog("r")+" has cleanup.policy=delete, want compact: kafka-configs.sh")

		other := kafka.Name(t)
		require.NoError(t, r.c.CreateTopic(t.Context(), other, 3, nil))
		bld := topology.New(r.app)
		x := bld.From(ops.Source(ops.NewTopic(r.in, codec.String, codec.String)))
		y := bld.From(ops.Source(ops.NewTopic(other, codec.String, codec.String)))
		plan, err := x.Merge(y).Aggregate(ops.NewState("m", codec.String, decimal), func(_, _ string, n int) int { return n + 1 }).
			To(ops.Sink(ops.NewTopic(r.out, codec.String, codec.JSON[int]()))).Build()
		require.NoError(t, err)
		err = <-launch(t, b, plan).end
		var ce *topology.CopartitionError
		require.True(t, errors.As(err, &ce), err)
		require.ErrorContains(t, err, b.Addr())
		require.Less(t, time.Since(begin), 60*time.Second)
	})
}
