package exec_test

import (
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/exec/kafkalog"
	"github.com/wickerwork/wicker/kvstore/rocksdb"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/topology"
)

// admin sends requests that kafka.Client has no method for.
func (r *rig) admin(req kmsg.Request) kmsg.Response {
	r.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(r.b.Addr()))
	require.NoError(r.t, err)
	defer c.Close()
	res, err := c.Request(r.t.Context(), req)
	require.NoError(r.t, err)
	return res
}

// cleanup sets a topic's cleanup.policy.
func (r *rig) cleanup(topic, policy string) {
	r.t.Helper()
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "cleanup.policy", &policy
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	resource.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{config}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{resource}
	res := r.admin(req).(*kmsg.IncrementalAlterConfigsResponse)
	require.Zero(r.t, res.Resources[0].ErrorCode)
}

// empty deletes all records of a topic with one partition.
func (r *rig) empty(topic string) {
	r.t.Helper()
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Offset = -1
	in := kmsg.NewDeleteRecordsRequestTopic()
	in.Topic, in.Partitions = topic, []kmsg.DeleteRecordsRequestTopicPartition{part}
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis, req.Topics = 10_000, []kmsg.DeleteRecordsRequestTopic{in}
	res := r.admin(req).(*kmsg.DeleteRecordsResponse)
	require.Zero(r.t, res.Topics[0].Partitions[0].ErrorCode)
}

// A restore ends by position, whatever a real log has at its end, and not below a transaction that somebody has
// open there (E5, ST-06, TX-19, pains 3 and 4).
func TestE5ST06TX19RestoreEndsByPosition(t *testing.T) {
	kafka.EachOwn(t, kafka.Options{Properties: map[string]string{"log.cleaner.backoff.ms": "100"}}, func(t *testing.T, b *kafka.Broker) {
		for _, c := range []struct {
			name   string
			tamper func(t *testing.T, r *rig, changelog kafka.Record)
			want   string // of k after one more; it was counted twice before
			wait   bool   // for a transaction, see below
			only   string // kind of broker
		}{
			{name: "commit marker", want: "k=3"},
			{name: "abort marker", want: "k=3", tamper: func(t *testing.T, r *rig, rec kafka.Record) {
				txn, err := r.c.Begin(t.Context(), "somebody-else-"+r.app)
				require.NoError(t, err)
				require.NoError(t, txn.Produce(t.Context(), rec, rec, rec))
				require.NoError(t, txn.Abort(t.Context()))
			}},
			{name: "own transaction left open", want: "k=3", tamper: func(t *testing.T, r *rig, rec kafka.Record) {
				txn, err := r.c.Begin(t.Context(), r.app+"-"+r.in+"-0")
				require.NoError(t, err)
				require.NoError(t, txn.Produce(t.Context(), rec))
				txn.Abandon()
			}},
			{name: "compacted", want: "k=42", only: kafka.Real, tamper: func(t *testing.T, r *rig, rec kafka.Record) {
				n := 0
				require.Eventually(t, func() bool { // every append rolls the segment, so that the one before can be cleaned
					txn, err := r.c.Begin(t.Context(), "somebody-else-"+r.app)
					require.NoError(t, err)
					require.NoError(t, txn.Produce(t.Context(), rec))
					require.NoError(t, txn.Commit(t.Context()))
					n++
					return len(r.read(rec.Topic)) < n
				}, time.Minute, 100*time.Millisecond, "the log cleaner does not come")
			}},
			{name: "emptied", want: "k=1", tamper: func(t *testing.T, r *rig, rec kafka.Record) {
				r.cleanup(rec.Topic, "compact,delete")
				r.empty(rec.Topic)
				r.cleanup(rec.Topic, "compact")
			}},
			{name: "open transaction of another", want: "k=42", wait: true},
		} {
			t.Run(c.name, func(t *testing.T) {
				if c.only != "" && c.only != b.Kind() {
					return // what is tested is not there
				}
				r := newRig(t, b, 1)
				require.NoError(t, r.c.CreateTopic(t.Context(), r.changelog("n"), 1, map[string]string{"cleanup.policy": "compact",
					"segment.ms": "50", "min.cleanable.dirty.ratio": "0.001"}))
				r.put("k", "v", "k", "v", "l", "v")
				first := launch(t, b, r.counter())
				r.settle(first)
				first.drain()
				rec := kafka.Record{Topic: r.changelog("n"), Key: []byte("k"), Value: []byte("41")}
				if c.tamper != nil {
					c.tamper(t, r, rec)
				}
				var txn *kafka.Txn
				if c.wait {
					var err error
					txn, err = r.c.Begin(t.Context(), "somebody-else-"+r.app)
					require.NoError(t, err)
					require.NoError(t, txn.Produce(t.Context(), rec))
				}
				r.put("k", "v")
				var log lines
				second := launch(t, b, r.counter(), logTo(&log, slog.LevelInfo))
				if c.wait {
					second.await("a line in the log", func() bool {
						return strings.Contains(log.text(), `msg="restore waits for an open transaction of another producer"`)
					})
					require.Contains(t, log.text(), `"transactional id"=somebody-else-`+r.app)
					require.Len(t, second.app.Stats().Restores, 1)
					require.Equal(t, "k=2", lastOf(r, "k"))
					require.NoError(t, txn.Commit(t.Context()))
				}
				r.settle(second)
				second.drain()
				require.Equal(t, c.want, lastOf(r, "k"))
			})
		}
	})
}

// A process that is killed, again and again, has its stores on disk: the next one replays at most what came since they were
// last written, and counts on (E4, pain 19).
func TestE4AKilledProcessLeavesItsStore(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 2)
		spec := r.spec()
		spec.Dir = t.TempDir()
		n := 0
		put := func(more int) {
			r.putTo(0, "k", numbers(n+1, n+more)...)
			r.putTo(1, "l", numbers(n+1, n+more)...)
			n += more
		}
		counted := func() bool { return r.committed(0) == int64(n) && r.committed(1) == int64(n) }
		put(300)
		c := spawn(t, spec)
		require.Eventually(t, counted, 60*time.Second, 20*time.Millisecond)
		require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
		require.Zero(t, c.code())
		clean := len(r.final(r.changelog("n")))
		for range 2 {
			c := spawn(t, spec)
			put(10)
			require.Eventually(t, counted, 60*time.Second, 20*time.Millisecond)
			require.NoError(t, c.cmd.Process.Kill())
			<-c.ended
		}
		since := len(r.final(r.changelog("n"))) - clean
		require.Positive(t, since)
		var log lines
		last := launch(t, b, r.counter(), logTo(&log, slog.LevelInfo), func(c *exec.Config) {
			c.State = rocksdb.New(rocksdb.Options{Dir: spec.Dir})
		})
		put(5)
		r.settle(last)
		last.drain()
		require.LessOrEqual(t, last.app.Stats().Restored, int64(since))
		require.Contains(t, log.text(), `msg="stores on disk" usable=2 found=2`)
		require.NotContains(t, log.text(), "rebuilt")
		require.Equal(t, map[string][]string{"k": numbers(1, n), "l": numbers(1, n)}, r.byKey())
	})
}

// A changelog that was deleted beside committed offsets is told from one that is new, by the note that goes with them.
func TestADeletedChangelogIsRefusedUntilOffsetsAreSet(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		r.put("k", "v", "k", "v")
		first := launch(t, b, r.counter())
		r.settle(first)
		first.drain()
		require.NoError(t, r.c.DeleteTopics(t.Context(), r.changelog("n")))
		r.put("k", "v")
		for range 2 {
			err := <-launch(t, b, r.counter()).end
			var de *exec.DeletedError
			require.ErrorAs(t, err, &de)
			require.Equal(t, r.changelog("n"), de.Changelog)
			require.ErrorContains(t, err, "--group "+r.app+" --topic "+r.in+":0 --reset-offsets --to-earliest --execute")
		}
		log, err := kafkalog.Open(t.Context(), kafkalog.Config{Brokers: []string{b.Addr()}})
		require.NoError(t, err)
		defer log.Close()
		in := commitlog.TopicPartition{Topic: r.in}
		require.Eventually(t, func() bool { // as the tool does, when the group is empty
			p, err := log.OpenProducer(t.Context(), commitlog.ProducerConfig{TransactionalID: "tool-" + r.app, TransactionTimeout: time.Minute})
			require.NoError(t, err)
			defer p.Close()
			_, err = p.Commit(t.Context(), map[commitlog.TopicPartition]int64{in: 2}, commitlog.GroupMetadata{Group: r.app, Generation: -1})
			return err == nil
		}, 30*time.Second, 100*time.Millisecond)
		last := launch(t, b, r.counter())
		r.settle(last)
		last.drain()
		require.Equal(t, map[string][]string{"k": {"1", "2", "1"}}, r.byKey())
	})
}

// Behind a repartition topic nobody is sent to the input that was purged: it would begin with nothing (E12).
func TestADeletedChangelogBehindARepartitionTopicIsNotBuiltFromIt(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		plan := r.byValue()
		r.put("k", "v", "k", "v")
		first := launch(t, b, plan)
		r.settle(first)
		first.drain()
		require.NoError(t, r.c.DeleteTopics(t.Context(), r.changelog("n")))
		err := <-launch(t, b, plan).end
		var de *exec.DeletedError
		require.ErrorAs(t, err, &de)
		require.True(t, de.Internal)
		require.ErrorContains(t, err, "--topic "+r.app+"-by-value-repartition:0 --reset-offsets --to-current --execute")
		require.NotContains(t, err.Error(), "--to-earliest")
	})
}

// byValue counts how often each value comes, behind a repartition topic.
func (r *rig) byValue() *topology.Plan {
	r.t.Helper()
	text := codec.String
	plan, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, text, text))).
		Rekey("by-value", func(_, v string) string { return v }).
		Aggregate(ops.NewState("n", text, decimal), func(_, _ string, n int) int { return n + 1 }).
		To(ops.Sink(ops.NewTopic(r.out, text, codec.JSON[int]()))).Build()
	require.NoError(r.t, err)
	return plan
}

func lastOf(r *rig, key string) string {
	last := ""
	for _, rec := range r.final(r.out) {
		if string(rec.Key) == key {
			last = string(rec.Key) + "=" + string(rec.Value)
		}
	}
	return last
}
