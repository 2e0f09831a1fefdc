package exec_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

// recreate deletes a topic and makes another one of that name, which no task can look between.
func (b *bench) recreate(topic string, config map[string]string) {
	b.t.Helper()
	require.NoError(b.t, b.log.RecreateTopic(commitlog.TopicSpec{Name: topic, Partitions: 1, Replication: 1, Config: config}))
}

// refused runs a plan that must end with an error of a type, and returns that.
func refused[E error](b *bench, plan *topology.Plan, change ...func(*exec.Config)) E {
	b.t.Helper()
	var want E
	require.ErrorAs(b.t, <-b.run(plan, memlog.Faults{}, change...).end, &want)
	return want
}

// A source's topic that is created again under a task is not read on in, also if it has grown beyond the task's position when
// that is looked at. What was read of the one before is processed and committed; and since that is an offset of the one
// before, the next run does not go on there either, but by the source's policy (E7).
func TestE7ATopicThatIsCreatedAgainIsNotReadOnIn(t *testing.T) {
	for _, policy := range []ops.LostPolicy{ops.EndRun, ops.FromEarliest, ops.FromLatest} {
		t.Run(policy.String(), func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				s, release := b.busy(policy)
				b.recreate("in", nil)
				b.put(0, "k", "a", "k", "b", "k", "c", "k", "d")
				release()
				err := <-s.end
				var te *exec.TopicsError
				require.ErrorAs(t, err, &te)
				require.ErrorContains(t, err, "topic in was deleted and created again while the plan runs")
				require.Equal(t, []string{"k=1", "k=12"}, b.texts("out", 0))
				require.EqualValues(t, 2, b.offset(0), "of the topic before")
				if policy == ops.EndRun {
					le := refused[*exec.LostError](b, b.lossy(policy, same))
					require.Equal(t, []int64{2, 0, 4}, []int64{le.Position, le.Start, le.End})
					require.NotEqual(t, le.Was, le.Is)
					require.NotZero(t, le.Was)
					require.Contains(t, le.Error(), "topic in partition 0: the topic was deleted and created again (its id was "+le.Was.String()+" and is "+le.Is.String()+
						"): group app had come to offset 2 of the one before, and this one holds 0 to 4. To go on with what is there, give the source ops.OnLost(ops.FromEarliest), or stop all")
					b.log.SetCommitted("app", map[commitlog.TopicPartition]int64{inPart(0): 0})
					b.run(b.lossy(policy, same), memlog.Faults{}).idle().drain()
				} else {
					s := b.run(b.lossy(policy, same), memlog.Faults{}).idle()
					b.put(0, "k", "e")
					s.idle().drain()
				}
				require.Equal(t, map[ops.LostPolicy][]string{
					ops.EndRun:       {"k=12a", "k=12ab", "k=12abc", "k=12abcd"},
					ops.FromEarliest: {"k=12a", "k=12ab", "k=12abc", "k=12abcd", "k=12abcde"},
					ops.FromLatest:   {"k=12e"},
				}[policy], b.texts("out", 0)[2:])
			})
		})
	}
}

// A task with nothing to do notices too, and has processed nothing of the other topic. Without state there is nothing to
// count twice: the next run begins with it.
func TestE7ATopicThatIsCreatedAgainUnderAnIdleTask(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.put(0, "k", "1", "k", "2")
		s := b.run(b.mapping(same), memlog.Faults{}).idle()
		b.recreate("in", nil)
		b.put(0, "k", "a", "k", "b", "k", "c")
		require.ErrorContains(t, <-s.end, "topic in was deleted and created again")
		require.Equal(t, []string{"k=1", "k=2"}, b.texts("out", 0))
		b.run(b.mapping(same), memlog.Faults{}).idle().drain()
		require.Equal(t, []string{"k=1", "k=2", "k=a", "k=b", "k=c"}, b.texts("out", 0))
	})
}

// A changelog that is created again under a task is noticed with the next commit, and what that has left in the other topic
// is not taken for the state by the next run: neither is the store on disk given up for it.
func TestAChangelogThatIsCreatedAgainUnderATaskIsRefused(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		d := newDisk(t)
		b.put(0, "k", "1", "k", "2", "k", "3")
		s := b.run(b.joining(), memlog.Faults{}, onDisk(d)).idle()
		time.Sleep(5 * time.Second) // the engine has it
		b.recreate(benchLog, map[string]string{"cleanup.policy": "compact"})
		b.put(0, "j", "4")
		begin := time.Now()
		require.ErrorContains(t, <-s.end, "topic "+benchLog+" was deleted and created again while the plan runs")
		require.Less(t, time.Since(begin), 2*time.Second, "not only when topics are looked at")
		recs, err := b.log.Records(benchLog, 0, commitlog.ReadCommitted)
		require.NoError(t, err)
		require.NotEmpty(t, recs)
		for _, change := range []func(*exec.Config){onDisk(d), func(*exec.Config) {}} {
			de := refused[*exec.DeletedError](b, b.joining(), change)
			require.NotEqual(t, de.Was, de.Is)
			require.NotZero(t, de.Is)
			require.Equal(t, []commitlog.TopicPartition{inPart(0)}, de.Inputs)
		}
		value, found, err := d.stores["app-in-0"].Get(nil, []byte("\x01nk"))
		require.NoError(t, err)
		require.True(t, found, "the store is as it was")
		require.Equal(t, "123", string(value))
	})
}

// Offsets that an administrator has set have a note again as soon as a task has begun with them, so that what is deleted
// after that is missed, also if nothing was processed in between.
func TestNotesAreWrittenWithoutInput(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		d := newDisk(t)
		b.put(0, "k", "1", "k", "2")
		b.run(b.joining(), memlog.Faults{}, onDisk(d)).idle().drain()
		b.log.SetCommitted("app", map[commitlog.TopicPartition]int64{inPart(0): 2})
		s := b.run(b.joining(), memlog.Faults{}, onDisk(d)).idle()
		b.until("a commit", time.Minute, func() bool { return s.app.Stats().Commits == 1 })
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, s.app.Stats().Commits, "and no more")
		s.drain()
		s = b.run(b.joining(), memlog.Faults{}, onDisk(d)).idle()
		time.Sleep(time.Hour)
		require.Zero(t, s.app.Stats().Commits, "the note is there")
		s.drain()
		b.log.DeleteTopics(benchLog)
		de := refused[*exec.DeletedError](b, b.joining(), onDisk(d))
		require.Zero(t, de.Is)
		require.ErrorContains(t, de, "and there is no topic of that name. To go on without that state, or with a copy that you have filled the topic with, stop all instances (one that has an "+
			"InstanceID stays in the group for SessionTimeout, and the tool refuses until then) and run "+
			"kafka-consumer-groups.sh --bootstrap-server BROKERS --group app --topic in:0 --reset-offsets --to-current --execute; to build the state again")
		topics, err := b.log.Topics(t.Context(), benchLog)
		require.NoError(t, err)
		require.Empty(t, topics, "nothing was created")
	})
}

// A repartition topic that was deleted took its records with it and the group's offsets of it, and with its changelog
// the state behind it could seem never to have been. The offsets of what was written to it tell (E12).
func TestE12ARepartitionTopicThatWasDeletedIsRefused(t *testing.T) {
	for _, c := range []struct {
		topics []string
		want   []string // afterwards
	}{
		{[]string{benchRepartition}, []string{"v=3"}},
		{[]string{benchRepartition, "app-counts-changelog"}, []string{"v=1"}},
	} {
		t.Run(fmt.Sprint(len(c.topics)), func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				b.put(0, "k", "v", "k", "v")
				b.run(b.rekeyed(), memlog.Faults{}).idle().drain()
				b.log.DeleteTopics(c.topics...)
				for range 2 {
					te := refused[*exec.TopicsError](b, b.rekeyed())
					require.ErrorContains(t, te, "repartition topic "+benchRepartition+" was deleted (topic id ")
					require.ErrorContains(t, te, "and there is no topic of that name: what it held and was not processed is lost. To go on without it, "+
						"and without state whose changelogs were deleted too, stop all instances (one that has an InstanceID stays in the group for SessionTimeout, "+
						"and the tool refuses until then) and run kafka-consumer-groups.sh --bootstrap-server BROKERS --group app --topic in:0 --reset-offsets --to-current --execute; "+
						"or begin anew, by deleting the group and the plan's internal topics (app-by-value-repartition, app-counts-changelog)")
				}
				b.log.SetCommitted("app", map[commitlog.TopicPartition]int64{inPart(0): 2}) // --to-current
				s := b.run(b.rekeyed(), memlog.Faults{}).idle()
				time.Sleep(time.Second)
				b.put(0, "k", "v")
				s.idle().drain()
				require.Equal(t, append([]string{"v=1", "v=2"}, c.want...), b.texts("out", 0))
			})
		})
	}
}

// On real topics: what a task that runs makes of a source, and a changelog, that are created again under it.
func TestE7TopicsThatAreCreatedAgainUnderATaskOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		recreate := func(t *testing.T, r *rig, topic string, config map[string]string) {
			require.NoError(t, r.c.DeleteTopics(t.Context(), topic))
			require.Eventually(t, func() bool { return r.c.CreateTopic(t.Context(), topic, 1, config) == nil }, 30*time.Second, 20*time.Millisecond)
		}
		t.Run("source", func(t *testing.T) {
			r := newRig(t, b, 1)
			text := codec.String
			plan, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, text, text))).To(ops.Sink(ops.NewTopic(r.out, text, text))).Build()
			require.NoError(t, err)
			i := launch(t, b, plan)
			r.put("k", "1", "k", "2")
			r.settle(i)
			recreate(t, r, r.in, nil)
			r.putTo(0, "k", "a", "b", "c", "d")
			select {
			case err := <-i.end:
				require.ErrorContains(t, err, "topic "+r.in+" was deleted and created again while the plan runs")
			case <-time.After(90 * time.Second):
				require.FailNow(t, "the run did not end")
			}
			require.Len(t, r.final(r.out), 2)
			i = launch(t, b, plan)
			i.await("all of the other topic", func() bool { return len(r.read(r.out)) >= 6 })
			i.drain()
			require.Equal(t, map[string][]string{"k": {"1", "2", "a", "b", "c", "d"}}, r.byKey())
		})
		t.Run("changelog", func(t *testing.T) {
			r := newRig(t, b, 1)
			i := launch(t, b, r.counter())
			r.put("a", "v", "b", "v", "a", "v", "b", "v")
			r.settle(i)
			recreate(t, r, r.changelog("n"), map[string]string{"cleanup.policy": "compact"})
			r.putTo(0, "a", "v")
			select {
			case err := <-i.end:
				var te *exec.TopicsError
				var de *exec.DeletedError // a task that has started again meanwhile
				require.True(t, errors.As(err, &te) || errors.As(err, &de), "%v", err)
			case <-time.After(90 * time.Second):
				require.FailNow(t, "the run did not end")
			}
			err := <-launch(t, b, r.counter()).end
			var de *exec.DeletedError
			require.ErrorAs(t, err, &de)
			require.NotEqual(t, de.Was, de.Is)
		})
		t.Run("repartition topic", func(t *testing.T) {
			r := newRig(t, b, 1)
			i := launch(t, b, r.byValue())
			r.put("k", "v", "k", "v")
			r.settle(i)
			i.drain()
			require.NoError(t, r.c.DeleteTopics(t.Context(), r.app+"-by-value-repartition", r.changelog("n")))
			err := <-launch(t, b, r.byValue()).end
			var te *exec.TopicsError
			require.ErrorAs(t, err, &te)
			require.ErrorContains(t, err, "repartition topic "+r.app+"-by-value-repartition was deleted")
		})
	})
}
