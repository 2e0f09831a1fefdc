package exec_test

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/topology"
)

// hurried is a clock whose timers fire in a thirtieth of the time, so that what happens every 30 s happens every second.
type hurried struct{}

func (hurried) Now() time.Time { return time.Now() }

func (hurried) NewTimer(d time.Duration) exec.Timer { return &hurriedTimer{time.NewTimer(d / 30)} }

type hurriedTimer struct{ *time.Timer }

func (t *hurriedTimer) C() <-chan time.Time   { return t.Timer.C }
func (t *hurriedTimer) Reset(d time.Duration) { t.Timer.Reset(d / 30) }
func (t *hurriedTimer) Stop()                 { t.Timer.Stop() }

func hurry(c *exec.Config) { c.Clock = hurried{} }

// part is a partition of a rig's topic.
func part(topic string, p int32) kafka.Partition { return kafka.Partition{Topic: topic, Partition: p} }

// concat is a plan that keeps all values of a key.
func (r *rig) concat(policy ops.LostPolicy) *topology.Plan {
	text := codec.String
	plan, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, text, text), ops.OnLost(policy), anywhere)).
		Aggregate(ops.NewState("n", text, text), func(_, v, s string) string { return s + v }).
		To(ops.Sink(ops.NewTopic(r.out, text, text))).Build()
	require.NoError(r.t, err)
	return plan
}

// What retention has deleted before it was processed ends the run with the range, or is passed over and
// counted as the source says.
func TestE7LostInputOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		for _, policy := range []ops.LostPolicy{ops.EndRun, ops.FromEarliest, ops.FromLatest} {
			r := newRig(t, b, 1)
			r.put("k", "1", "k", "2")
			i := launch(t, b, r.concat(policy))
			r.settle(i)
			i.drain()
			r.put("k", "3", "k", "4", "k", "5")
			require.NoError(t, r.c.DeleteRecords(t.Context(), kafka.Offsets{part(r.in, 0): 4}))
			i = launch(t, b, r.concat(policy))
			if policy == ops.EndRun {
				err := <-i.end
				require.ErrorIs(t, err, commitlog.ErrOffsetOutOfRange)
				var le *exec.LostError
				require.ErrorAs(t, err, &le)
				require.Equal(t, []int64{2, 4, 5}, []int64{le.Position, le.Start, le.End})
				require.ErrorContains(t, err, fmt.Sprintf("topic %s partition 0: offsets 2 to 3 (2) are lost", r.in))
				require.ErrorContains(t, err, "kafka-consumer-groups.sh --bootstrap-server "+b.Addr()+" --group "+r.app)
				continue
			}
			r.settle(i)
			r.put("k", "6")
			r.settle(i)
			i.drain()
			lost := i.app.Stats().Counters[`Source "`+r.in+`"`][ops.CountLost]
			if policy == ops.FromEarliest {
				require.Equal(t, []string{"k=1", "k=12", "k=125", "k=1256"}, pairs(r.read(r.out)))
				require.EqualValues(t, 2, lost)
			} else {
				require.Equal(t, []string{"k=1", "k=12", "k=126"}, pairs(r.read(r.out)))
				require.EqualValues(t, 3, lost)
			}
		}
	})
}

// Retention overtakes a task that runs, beyond what its reader has read ahead: what was read is processed and committed, the
// rest is as the policy says.
func TestE7RetentionOvertakesARunningTaskOnKafka(t *testing.T) {
	const records, kept = 40, 3
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		for _, policy := range []ops.LostPolicy{ops.EndRun, ops.FromEarliest} {
			r := newRig(t, b, 1)
			called, call := once()
			release := make(chan struct{})
			text := codec.String
			plan, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, text, text), ops.OnLost(policy))).
				MapValues(func(v string) string {
					call()
					<-release
					return v[:2]
				}).To(ops.Sink(ops.NewTopic(r.out, text, text))).Build()
			require.NoError(t, err)
			half := make([]byte, 450_000) // in hex, so that compression leaves about as much
			for n := range records {      // 18 MB; a task reads ahead 8
				_, _ = rand.Read(half)
				r.put("k", fmt.Sprintf("%02d%x", n, half))
			}
			i := launch(t, b, plan)
			<-called
			require.NoError(t, r.c.DeleteRecords(t.Context(), kafka.Offsets{part(r.in, 0): records - kept}))
			close(release)
			if policy == ops.EndRun {
				err := <-i.end
				var le *exec.LostError
				require.ErrorAs(t, err, &le)
				require.Equal(t, []int64{records - kept, records}, []int64{le.Start, le.End})
				require.Positive(t, le.Position)
				require.Eventually(t, func() bool { // a transaction shows a moment after its end
					have, err := r.c.CommittedOffsets(t.Context(), r.app)
					return err == nil && have[part(r.in, 0)] == le.Position
				}, 30*time.Second, 10*time.Millisecond)
				require.Len(t, r.read(r.out), int(le.Position))
				continue
			}
			r.settle(i)
			i.drain()
			out := r.read(r.out)
			lost := i.app.Stats().Counters[`Source "`+r.in+`"`][ops.CountLost]
			require.Positive(t, lost)
			require.EqualValues(t, records, int64(len(out))+lost)
			for n, rec := range out {
				if n >= len(out)-kept {
					n += int(lost)
				}
				require.Equal(t, fmt.Sprintf("%02d", n), string(rec.Value))
			}
		}
	})
}

// A topic that was deleted and created again takes its offsets with it: beside state that is refused, not replayed.
// So are offsets that have expired (the group is deleted).
func TestE7ForgottenOffsetsOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		r.put("k", "1")
		i := launch(t, b, r.concat(ops.EndRun))
		r.settle(i)
		i.drain()
		require.NoError(t, r.c.DeleteGroup(t.Context(), r.app))
		err := <-launch(t, b, r.concat(ops.EndRun)).end
		var fe *exec.ForgottenError
		require.ErrorAs(t, err, &fe)
		require.ErrorContains(t, err, "store n was written")
		require.Equal(t, []string{"k=1"}, pairs(r.read(r.out)))
		// Set to where the group was, it goes on.
		require.NoError(t, r.c.SetOffsets(t.Context(), r.app, kafka.Offsets{part(r.in, 0): 1}))
		r.put("k", "2")
		i = launch(t, b, r.concat(ops.EndRun))
		r.settle(i)
		i.drain()
		require.Equal(t, []string{"k=1", "k=12"}, pairs(r.read(r.out)))
		// To begin anew.
		require.NoError(t, r.c.DeleteGroup(t.Context(), r.app))
		require.NoError(t, r.c.DeleteTopics(t.Context(), r.changelog("n")))
		i = launch(t, b, r.concat(ops.EndRun))
		r.settle(i)
		i.drain()
		require.Equal(t, []string{"k=1", "k=12", "k=1", "k=12"}, pairs(r.read(r.out)))
	})
}

// Offsets that are gone in front of a Rekey: the repartition topic would be filled again.
func TestE7ForgottenOffsetsInFrontOfARekeyOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 2)
		plan := r.byValue()
		repartition := r.app + "-by-value-repartition"
		r.put("k", "a", "l", "b")
		i := launch(t, b, plan)
		i.await("outputs", func() bool { return len(r.read(r.out)) == 2 })
		i.drain()
		offsets, err := r.c.CommittedOffsets(t.Context(), r.app)
		require.NoError(t, err)
		ends, err := r.c.EndOffsets(t.Context(), kafka.ReadUncommitted, repartition)
		require.NoError(t, err)
		refused := func(text string) {
			err := <-launch(t, b, plan).end
			var fe *exec.ForgottenError
			require.ErrorAs(t, err, &fe)
			require.ErrorContains(t, err, text)
			now, err := r.c.EndOffsets(t.Context(), kafka.ReadUncommitted, repartition)
			require.NoError(t, err)
			require.Equal(t, ends, now, "nothing was processed")
		}
		behind := kafka.Offsets{}
		for tp, offset := range offsets {
			if tp.Topic == repartition {
				behind[tp] = offset
			}
		}
		require.NoError(t, r.c.DeleteGroup(t.Context(), r.app))
		refused("but store n was written")
		require.NoError(t, r.c.SetOffsets(t.Context(), r.app, behind))
		refused("repartition topic " + repartition + " was written")
		require.NoError(t, r.c.SetOffsets(t.Context(), r.app, offsets))
		r.put("k", "c")
		i = launch(t, b, plan)
		i.await("output", func() bool { return len(r.read(r.out)) == 3 })
		i.drain()
	})
}

// One topic of several that was deleted and created again.
func TestE7OneForgottenOffsetOfSeveralOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		more := r.app + "-more"
		require.NoError(t, r.c.CreateTopic(t.Context(), more, 1, nil))
		text := codec.String
		bld := topology.New(r.app)
		plan, err := bld.From(ops.Source(ops.NewTopic(r.in, text, text))).Merge(bld.From(ops.Source(ops.NewTopic(more, text, text)))).
			Aggregate(ops.NewState("n", text, text), func(_, v, state string) string { return state + v }).
			To(ops.Sink(ops.NewTopic(r.out, text, text))).Build()
		require.NoError(t, err)
		put := func(topic, value string) {
			require.NoError(t, r.c.ProduceTo(t.Context(), kafka.Record{Topic: topic, Key: []byte("k"), Value: []byte(value)}))
		}
		i := launch(t, b, plan)
		put(r.in, "1")
		r.settle(i)
		put(more, "2")
		require.Eventually(t, func() bool { return len(r.read(r.out)) == 2 }, 30*time.Second, 10*time.Millisecond)
		i.drain()
		require.NoError(t, r.c.DeleteTopics(t.Context(), more))
		require.Eventually(t, func() bool { return r.c.CreateTopic(t.Context(), more, 1, nil) == nil }, 30*time.Second, 10*time.Millisecond)
		put(more, "3")
		require.Eventually(t, func() bool {
			have, err := r.c.CommittedOffsets(t.Context(), r.app)
			require.NoError(t, err)
			_, has := have[part(more, 0)]
			return !has
		}, 30*time.Second, 10*time.Millisecond, "Kafka forgets the offsets of topics that are deleted")
		err = <-launch(t, b, plan).end
		var fe *exec.ForgottenError
		require.ErrorAs(t, err, &fe)
		require.ErrorContains(t, err, "its input "+more+"/0, but store n was written")
		require.NoError(t, r.c.SetOffsets(t.Context(), r.app, kafka.Offsets{part(more, 0): 0}))
		i = launch(t, b, plan)
		require.Eventually(t, func() bool { return len(r.read(r.out)) == 3 }, 30*time.Second, 10*time.Millisecond)
		i.drain()
		require.Equal(t, []string{"k=1", "k=12", "k=123"}, pairs(r.read(r.out)))
	})
}

// E8: a static member that comes back to more partitions than the group was assigned gets them all, though a group gives a
// static member that comes back what it had (KIP-345). Partitions are told by their metadata, not by the group.
func TestVA04PartitionsThatComeWhileAStaticMemberIsAway(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 2)
		text := codec.String
		plan, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, text, text))).To(ops.Sink(ops.NewTopic(r.out, text, text))).Build()
		require.NoError(t, err)
		static := func(c *exec.Config) { c.InstanceID, c.SessionTimeout = "i", 30*time.Second }
		r.put("k", "1", "l", "2")
		first := launch(t, b, plan, static)
		r.settle(first)
		first.drain()
		require.NoError(t, r.c.AddPartitions(t.Context(), r.in, 3))
		require.NoError(t, r.c.ProduceTo(t.Context(), kafka.Record{Topic: r.in, Partition: 2, Key: []byte("m"), Value: []byte("3")}))
		second := launch(t, b, plan, static)
		second.await("all tasks", func() bool { return second.app.Stats().Tasks == 3 })
		r.settle(second)
		require.Len(t, r.read(r.out), 3)
		second.drain()
	})
}

// Partitions that come while a plan runs end the run with what to do (VA-04, pain 22).
func TestVA04PartitionsThatComeOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 2)
		r.put("k", "1", "l", "2")
		i := launch(t, b, r.concat(ops.EndRun), hurry)
		r.settle(i)
		require.NoError(t, r.c.AddPartitions(t.Context(), r.in, 3))
		select {
		case err := <-i.end:
			var te *exec.TopicsError
			require.ErrorAs(t, err, &te)
			require.ErrorContains(t, err, "topic "+r.in+" had 2 partitions when this run began and has 3 now: keys now go to other partitions than the one that has their state (n)")
			require.ErrorContains(t, err, "ops.Partitions(2)")
		case <-time.After(30 * time.Second):
			require.FailNow(t, "it goes on")
		}
		// The next start refuses as well, so that nothing is processed into the wrong state.
		err := <-launch(t, b, r.concat(ops.EndRun)).end
		require.ErrorContains(t, err, r.changelog("n")+" has 2 partitions, want 3")
		// As the error says, a Rekey that keeps the key leaves the state where it is.
		text := codec.String
		plan, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, text, text))).
			Rekey("same", func(k, _ string) string { return k }, ops.Partitions(2)).
			Aggregate(ops.NewState("n", text, text), func(_, v, s string) string { return s + v }).
			To(ops.Sink(ops.NewTopic(r.out, text, text))).Build()
		require.NoError(t, err)
		i = launch(t, b, plan)
		i.await("tasks", func() bool { return i.app.Stats().Tasks == 5 })
		r.put("k", "3", "l", "4")
		require.NoError(t, r.c.ProduceTo(t.Context(), kafka.Record{Topic: r.in, Partition: 2, Key: []byte("k"), Value: []byte("5")}))
		i.await("all outputs", func() bool { return len(r.read(r.out)) == 5 })
		i.drain()
		last := map[string]string{}
		for _, rec := range r.read(r.out) {
			if len(rec.Value) > len(last[string(rec.Key)]) {
				last[string(rec.Key)] = string(rec.Value)
			}
		}
		require.Len(t, last["k"], 3)
		require.True(t, strings.HasPrefix(last["k"], "1"), last["k"])
		require.Equal(t, "24", last["l"])
	})
}

// The start of a repartition topic follows what was committed.
func TestE12RepartitionTopicsArePurgedOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 2)
		plan := r.byValue()
		topic := r.app + "-by-value-repartition"
		i := launch(t, b, plan, hurry)
		for n := range 50 {
			r.put("k", fmt.Sprint("a", n), "l", fmt.Sprint("b", n))
		}
		r.settle(i)
		purged := func() bool {
			starts, err := r.c.StartOffsets(t.Context(), topic)
			require.NoError(t, err)
			committed, err := r.c.CommittedOffsets(t.Context(), r.app)
			require.NoError(t, err)
			ends, err := r.c.EndOffsets(t.Context(), kafka.ReadUncommitted, topic)
			require.NoError(t, err)
			all := true
			for p, start := range starts {
				require.LessOrEqual(t, start, committed[p])
				all = all && start == ends[p] && start > 0
			}
			return all
		}
		i.await("purge", purged)
		i.drain()
		require.Len(t, r.read(r.out), 100)
		i = launch(t, b, plan)
		r.put("k", "a0")
		i.await("output", func() bool { return len(r.read(r.out)) == 101 })
		i.drain()
	})
}

// Calls longer than the transaction's timeout, on a broker that means it (TX-28, pain 8).
func TestTX28SlowFunctionsOnKafka(t *testing.T) {
	options := kafka.Options{Properties: map[string]string{"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}}
	kafka.EachOwn(t, options, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		text := codec.String
		plan, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, text, text))).
			Aggregate(ops.NewState("n", text, decimal), func(k, v string, n int) int {
				if strings.HasSuffix(k, "7") {
					time.Sleep(2500 * time.Millisecond)
				}
				return n + 1
			}).
			MapValues(func(n int) string { return fmt.Sprint(n, "-", strings.Repeat("x", 600)) }).
			To(ops.Sink(ops.NewTopic(r.out, text, text))).Build()
		require.NoError(t, err)
		var want []string
		for round := range 2 {
			for n := range 10 {
				r.put(fmt.Sprint("k", n), "v")
				want = append(want, fmt.Sprint("k", n, "=", round+1))
			}
		}
		var log lines
		i := launch(t, b, plan, logTo(&log, slog.LevelWarn), func(c *exec.Config) {
			c.TransactionTimeout, c.MaxRecordBytes = time.Second, 1024
		})
		r.settle(i)
		i.drain()
		var got []string
		for _, p := range pairs(r.read(r.out)) {
			text, _, _ := strings.Cut(p, "-")
			got = append(got, text)
		}
		require.Equal(t, want, got)
		require.Contains(t, log.text(), "a transaction has expired")
		require.Contains(t, log.text(), "transaction timed out")
	})
}

// Bounds that the broker has come back with the field's name.
func TestTX28BoundsOfARealBrokerNameTheField(t *testing.T) {
	b := kafka.Shared(t)
	r := newRig(t, b, 1)
	err := <-launch(t, b, r.counter(), func(c *exec.Config) { c.TransactionTimeout = 20 * time.Minute }).end
	require.ErrorContains(t, err, "TransactionTimeout (20m0s) must be <= the brokers' transaction.max.timeout.ms")
	err = <-launch(t, b, r.counter(), func(c *exec.Config) { c.SessionTimeout = 40 * time.Minute }).end
	require.ErrorContains(t, err, "SessionTimeout (40m0s) must be from the brokers' group.min.session.timeout.ms")
}
