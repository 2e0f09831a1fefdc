package exec_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

// A group whose offsets are gone does not process its input into state that has seen it already.
func TestE7ForgottenOffsetsBesideStateAreRefused(t *testing.T) {
	forget := func(b *bench) {
		b.log.SetCommitted("app", map[commitlog.TopicPartition]int64{inPart(0): -1, inPart(1): -1})
	}
	begin := func(b *bench) {
		b.put(0, "k", "1")
		b.put(1, "k1", "2")
		b.run(b.joining(), memlog.Faults{}).idle().drain()
		forget(b)
	}
	t.Run("refused", func(t *testing.T) {
		onBench(t, 2, func(t *testing.T, b *bench) {
			begin(b)
			for range 2 {
				err := <-b.run(b.joining(), memlog.Faults{}).end
				var fe *exec.ForgottenError
				require.ErrorAs(t, err, &fe)
				require.Equal(t, "app", fe.Group)
				require.Equal(t, "n", fe.Store)
				require.Equal(t, []commitlog.TopicPartition{inPart(0), inPart(1)}, fe.Inputs)
				require.ErrorContains(t, err, "wicker: app: sub-topology in: group app has no committed offset for its input in/0, in/1, but store n was written")
				require.ErrorContains(t, err, "kafka-consumer-groups.sh --bootstrap-server BROKERS --group app --topic in:0,1 --reset-offsets --from-file FILE --execute (FILE has a line topic,partition,offset for each")
				require.Contains(t, err.Error(), "by deleting the group and the plan's internal topics (app-n-changelog)")
			}
			require.Equal(t, []string{"k=1"}, b.texts("out", 0))
		})
	})
	t.Run("of one task", func(t *testing.T) {
		onBench(t, 2, func(t *testing.T, b *bench) {
			begin(b)
			b.log.SetCommitted("app", map[commitlog.TopicPartition]int64{inPart(0): 1})
			err := <-b.run(b.joining(), memlog.Faults{}).end
			var fe *exec.ForgottenError
			require.ErrorAs(t, err, &fe)
			require.Equal(t, []commitlog.TopicPartition{inPart(1)}, fe.Inputs)
			require.ErrorContains(t, err, "wicker: app: task app-in-1: group app has no committed offset for its input in/1, but store n was written")
		})
	})
	t.Run("offsets set again", func(t *testing.T) {
		onBench(t, 2, func(t *testing.T, b *bench) {
			begin(b)
			b.log.SetCommitted("app", map[commitlog.TopicPartition]int64{inPart(0): 1, inPart(1): 0})
			b.run(b.joining(), memlog.Faults{}).idle().drain()
			require.Equal(t, []string{"k=1"}, b.texts("out", 0))
			require.Equal(t, []string{"k1=2", "k1=22"}, b.texts("out", 1), "as the administrator says")
		})
	})
	t.Run("changelog deleted", func(t *testing.T) {
		onBench(t, 2, func(t *testing.T, b *bench) {
			begin(b)
			b.log.DeleteTopics(benchLog)
			b.run(b.joining(), memlog.Faults{}).idle().drain()
			require.Equal(t, []string{"k=1", "k=1"}, b.texts("out", 0))
		})
	})
	t.Run("first transaction aborted", func(t *testing.T) {
		onBench(t, 1, func(t *testing.T, b *bench) {
			b.put(0, "k", "1")
			err := <-b.run(b.joining(), memlog.Faults{EndTxn: func(context.Context, string) error { return errors.New("no") }}).end
			require.ErrorContains(t, err, "no")
			recs, err := b.log.Records(benchLog, 0, commitlog.ReadUncommitted)
			require.NoError(t, err)
			require.Len(t, recs, 1, "aborted")
			b.run(b.joining(), memlog.Faults{}).idle().drain()
			require.Equal(t, []string{"k=1"}, b.texts("out", 0))
		})
	})
	t.Run("state that came to nothing", func(t *testing.T) {
		plan, err := topology.New("app").From(ops.Source(benchIn)).
			Aggregate(ops.NewState("n", codec.String, codec.OmitZero(codec.String)), func(_, v, _ string) string { return v }).
			To(ops.Sink(benchOut)).Build()
		require.NoError(t, err)
		onBench(t, 1, func(t *testing.T, b *bench) { // in one transaction: nothing was ever written
			b.put(0, "k", "1", "k", "")
			b.run(plan, memlog.Faults{}).idle().drain()
			forget(b)
			b.run(plan, memlog.Faults{}).idle().drain()
			require.Len(t, b.texts("out", 0), 4)
		})
		onBench(t, 1, func(t *testing.T, b *bench) { // in two
			b.put(0, "k", "1")
			s := b.run(plan, memlog.Faults{}).idle()
			b.put(0, "k", "")
			s.idle().drain()
			require.Equal(t, []string{"k=1", "k=null"}, b.texts(benchLog, 0))
			forget(b)
			var fe *exec.ForgottenError
			require.ErrorAs(t, <-b.run(plan, memlog.Faults{}).end, &fe)
		})
	})
	t.Run("source added", func(t *testing.T) {
		onBench(t, 1, func(t *testing.T, b *bench) {
			b.put(0, "k", "1")
			b.run(b.joining(), memlog.Faults{}).idle().drain()
			b.create("more", 1, nil)
			_, err := b.log.Append(t.Context(), "more", 0, []commitlog.Record{{Timestamp: 1, Key: []byte("k"), Value: []byte("2")}})
			require.NoError(t, err)
			bld := topology.New("app")
			plan, err := bld.From(ops.Source(benchIn)).Merge(bld.From(ops.Source(ops.NewTopic("more", codec.String, codec.String)))).
				Aggregate(benchSum, func(_, v, state string) string { return state + v }).To(ops.Sink(benchOut)).Build()
			require.NoError(t, err)
			b.run(plan, memlog.Faults{}).idle().drain()
			require.Equal(t, []string{"k=1", "k=12"}, b.texts("out", 0))
		})
	})
	t.Run("input that never was", func(t *testing.T) {
		onBench(t, 1, func(t *testing.T, b *bench) {
			b.put(0, "k", "1")
			b.run(b.joining(), memlog.Faults{}).idle().drain()
			b.create("new", 1, nil)
			plan, err := topology.New("app").From(ops.Source(ops.NewTopic("new", codec.String, codec.String))).
				Aggregate(benchSum, func(_, v, state string) string { return state + v }).To(ops.Sink(benchOut)).Build()
			require.NoError(t, err)
			s := b.run(plan, memlog.Faults{}).idle()
			time.Sleep(time.Second) // the task has looked
			require.Equal(t, 1, s.app.Stats().Tasks)
			_, err = b.log.Append(t.Context(), "new", 0, []commitlog.Record{{Timestamp: 1, Key: []byte("k"), Value: []byte("2")}})
			require.NoError(t, err)
			s.idle().drain()
			require.Equal(t, []string{"k=1", "k=12"}, b.texts("out", 0))
			b.log.SetCommitted("app", map[commitlog.TopicPartition]int64{{Topic: "new"}: -1})
			var fe *exec.ForgottenError
			require.ErrorAs(t, <-b.run(plan, memlog.Faults{}).end, &fe)
		})
	})
	t.Run("one of several", func(t *testing.T) {
		onBench(t, 1, func(t *testing.T, b *bench) {
			b.create("more", 1, nil)
			more := func(value string) {
				_, err := b.log.Append(t.Context(), "more", 0, []commitlog.Record{{Timestamp: 2, Key: []byte("k"), Value: []byte(value)}})
				require.NoError(t, err)
			}
			bld := topology.New("app")
			plan, err := bld.From(ops.Source(benchIn)).Merge(bld.From(ops.Source(ops.NewTopic("more", codec.String, codec.String)))).
				Aggregate(benchSum, func(_, v, state string) string { return state + v }).To(ops.Sink(benchOut)).Build()
			require.NoError(t, err)
			b.put(0, "k", "1")
			s := b.run(plan, memlog.Faults{}).idle()
			more("2") // committed later than what it is missed by
			s.idle().drain()
			b.log.SetCommitted("app", map[commitlog.TopicPartition]int64{{Topic: "more"}: -1})
			err = <-b.run(plan, memlog.Faults{}).end
			var fe *exec.ForgottenError
			require.ErrorAs(t, err, &fe)
			require.Equal(t, []commitlog.TopicPartition{{Topic: "more"}}, fe.Inputs)
			require.ErrorContains(t, err, "no committed offset for its input more/0, but store n was written")
			b.log.SetCommitted("app", map[commitlog.TopicPartition]int64{{Topic: "more"}: 1})
			more("3")
			b.run(plan, memlog.Faults{}).idle().drain()
			require.Equal(t, []string{"k=1", "k=12", "k=123"}, b.texts("out", 0))
		})
	})
	t.Run("another store of the name's beginning", func(t *testing.T) {
		onBench(t, 1, func(t *testing.T, b *bench) {
			plan := func(state string) *topology.Plan {
				p, err := topology.New("app").From(ops.Source(benchIn)).
					Aggregate(ops.NewState(state, codec.String, codec.String), func(_, v, s string) string { return s + v }).To(ops.Sink(benchOut)).Build()
				require.NoError(t, err)
				return p
			}
			d := newDisk(t)
			on := func(c *exec.Config) { c.State = &diskEngine{disk: d} }
			b.put(0, "k", "1")
			b.run(plan("n2"), memlog.Faults{}, on).idle().drain()
			forget(b)
			b.run(plan("n"), memlog.Faults{}, on).idle().drain() // n2's keys are not n's
			require.Equal(t, []string{"k=1", "k=1"}, b.texts("out", 0))
		})
	})
}

// A sub-topology without state, in front of a Rekey, would fill its repartition topic again: it is refused before anything is
// processed, whichever of the offsets are gone, and whatever is left in the topics that tells.
func TestE7ForgottenOffsetsInFrontOfARekeyAreRefused(t *testing.T) {
	repartition := commitlog.TopicPartition{Topic: benchRepartition}
	const counts = "app-counts-changelog"
	all := []commitlog.TopicPartition{inPart(0), repartition}
	for _, c := range []struct {
		name string
		// forget are the offsets that are lost, delete topics that are deleted with them.
		forget []commitlog.TopicPartition
		delete []string
		// told are the sub-topologies in the error.
		told []string
	}{
		{"of the source", all[:1], nil, []string{"in"}},
		{"of the repartition topic", all[1:], nil, []string{"by-value"}},
		{"all", all, nil, []string{"in", "by-value"}},
		{"all, and the changelog", all, []string{counts}, []string{"in"}},
		{"all, and the repartition topic", all, []string{benchRepartition}, []string{"in"}},
	} {
		for _, purged := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, " purged=", purged), func(t *testing.T) {
				onBench(t, 1, func(t *testing.T, b *bench) {
					ends := func() int64 {
						recs, err := b.log.Records("out", 0, commitlog.ReadUncommitted)
						require.NoError(t, err)
						ends := int64(len(recs))
						if found, err := b.log.Topics(t.Context(), benchRepartition); err == nil && len(found) > 0 {
							at, err := b.log.EndOffsets(t.Context(), all[1:], commitlog.ReadUncommitted)
							require.NoError(t, err)
							ends += at[repartition]
						}
						return ends
					}
					b.put(0, "k", "a", "k", "b")
					b.run(b.rekeyed(), memlog.Faults{}, func(cfg *exec.Config) {
						if !purged {
							cfg.Log = keeps{cfg.Log}
						}
					}).idle().drain()
					starts, err := b.log.StartOffsets(t.Context(), all[1:])
					require.NoError(t, err)
					require.Equal(t, purged, starts[repartition] > 0)
					for _, tp := range c.forget {
						b.log.SetCommitted("app", map[commitlog.TopicPartition]int64{tp: -1})
					}
					b.log.DeleteTopics(c.delete...)
					if purged && len(c.delete) > 0 && c.delete[0] == counts { // nothing is left that it would be processed into again
						b.run(b.rekeyed(), memlog.Faults{}).idle().drain()
						require.Equal(t, []string{"a=1", "b=1", "a=1", "b=1"}, b.texts("out", 0))
						return
					}
					before := ends()
					err = <-b.run(b.rekeyed(), memlog.Faults{}).end
					var fe *exec.ForgottenError
					require.ErrorAs(t, err, &fe)
					for sub, written := range map[string]string{
						"in":       "sub-topology in: group app has no committed offset for its input in/0, but repartition topic " + benchRepartition + " was written",
						"by-value": "sub-topology by-value: group app has no committed offset for its input " + benchRepartition + "/0, but store counts was written",
					} {
						require.Equal(t, slices.Contains(c.told, sub), strings.Contains(err.Error(), written), "%v", err)
					}
					require.Equal(t, before, ends(), "nothing was processed")
					// Begun anew.
					b.log.SetCommitted("app", map[commitlog.TopicPartition]int64{inPart(0): -1, repartition: -1})
					b.log.DeleteTopics(counts, benchRepartition)
					b.run(b.rekeyed(), memlog.Faults{}).idle().drain()
					require.Equal(t, []string{"a=1", "b=1", "a=1", "b=1"}, b.texts("out", 0))
				})
			})
		}
	}
}

// keeps is a log of which nothing is purged.
type keeps struct{ commitlog.Log }

func (keeps) DeleteRecords(context.Context, map[commitlog.TopicPartition]int64) error { return nil }

// A source that was merged in front of a Rekey, and has lost its offsets, is told by the note of the other: if it is the whole
// topic, before anything is processed, and if it is a partition, by its task.
func TestE7OneForgottenOffsetOfSeveralInFrontOfARekey(t *testing.T) {
	for whose, lost := range map[string][]int32{"sub-topology in": {0, 1}, "task app-in-1": {1}} {
		onBench(t, 2, func(t *testing.T, b *bench) {
			b.create("more", 2, nil)
			put := func(value string) {
				for p := range int32(2) {
					_, err := b.log.Append(t.Context(), "more", p, []commitlog.Record{{Timestamp: 2, Key: []byte("k"), Value: []byte(value)}})
					require.NoError(t, err)
				}
			}
			bld := topology.New("app")
			plan, err := bld.From(ops.Source(benchIn)).Merge(bld.From(ops.Source(ops.NewTopic("more", codec.String, codec.String)))).
				Rekey("by-value", func(_, v string) string { return v }).
				Aggregate(benchSum, func(_, v, s string) string { return s + v }).To(ops.Sink(benchOut)).Build()
			require.NoError(t, err)
			b.put(0, "k", "1")
			b.put(1, "k", "2")
			s := b.run(plan, memlog.Faults{}).idle()
			put("3")
			s.idle().drain()
			forgotten, set := map[commitlog.TopicPartition]int64{}, map[commitlog.TopicPartition]int64{}
			var tps []commitlog.TopicPartition
			for _, p := range lost {
				tp := commitlog.TopicPartition{Topic: "more", Partition: p}
				tps, forgotten[tp], set[tp] = append(tps, tp), -1, 1
			}
			b.log.SetCommitted("app", forgotten)
			err = <-b.run(plan, memlog.Faults{}).end
			var fe *exec.ForgottenError
			require.ErrorAs(t, err, &fe)
			require.Equal(t, tps, fe.Inputs)
			require.ErrorContains(t, err, whose+": group app has no committed offset for its input more/")
			require.ErrorContains(t, err, "but repartition topic "+benchRepartition+" was written")
			b.log.SetCommitted("app", set)
			put("4")
			b.run(plan, memlog.Faults{}).idle().drain()
			got := append(b.texts("out", 0), b.texts("out", 1)...)
			require.ElementsMatch(t, []string{"1=1", "2=2", "3=3", "3=33", "4=4", "4=44"}, got)
		})
	}
}

// An operator with state that a Rekey is put in front of keeps its state, and is a task of another sub-topology: that this one
// has no offsets does not mean that it had any, whoever is first, and how often it starts.
func TestE7StateMovesBehindARekey(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		moved := func() *topology.Plan {
			plan, err := topology.New("app").From(ops.Source(benchIn, anywhere)).Rekey("by-value", func(k, _ string) string { return k }, ops.Partitions(2)).
				Aggregate(benchSum, func(_, v, s string) string { return s + v }).To(ops.Sink(benchOut)).Build()
			require.NoError(t, err)
			return plan
		}
		b.put(0, "k", "1")
		b.put(1, "k1", "2")
		b.run(b.joining(), memlog.Faults{}).idle().drain()
		b.put(0, "k", "3")
		b.put(1, "k1", "4")
		for range 3 { // the one in front commits, and the one behind does not get to it
			s := b.run(moved(), memlog.Faults{OpenProducer: func(ctx context.Context, cfg commitlog.ProducerConfig) error {
				if strings.Contains(cfg.TransactionalID, "by-value") {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}})
			for b.offset(0) < 2 || b.offset(1) < 2 {
				time.Sleep(time.Second)
			}
			s.drain()
		}
		b.run(moved(), memlog.Faults{}).idle().drain()
		var got []string
		for p := range int32(2) {
			got = append(got, b.texts("out", p)...)
		}
		require.ElementsMatch(t, []string{"k=1", "k=13", "k1=2", "k1=24"}, got)
	})
}

// What was only aborted is no reason: the first start is repeated.
func TestE7AnAbortedBeginningIsForgotten(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.put(0, "k", "a")
		err := <-b.run(b.rekeyed(), memlog.Faults{EndTxn: func(context.Context, string) error { return errors.New("no") }}).end
		require.ErrorContains(t, err, "no")
		recs, err := b.log.Records(benchRepartition, 0, commitlog.ReadUncommitted)
		require.NoError(t, err)
		require.Len(t, recs, 1, "aborted")
		b.run(b.rekeyed(), memlog.Faults{}).idle().drain()
		require.Equal(t, []string{"a=1"}, b.texts("out", 0))
	})
}

// Of two instances that start at once for the first time, one has committed when the other looks at the topics: that one
// does not take the offsets for lost that it did not see a moment ago.
func TestE7TwoFirstStartsDoNotAccuseEachOther(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.run(b.rekeyed(), memlog.Faults{}).idle().drain() // has created the topics
		b.put(0, "k", "a", "k", "b")
		var first *seat
		noted := false
		second := b.run(b.rekeyed(), memlog.Faults{Admin: func(_ context.Context, method string) error {
			if noted = noted || method == "CommittedNotes"; noted && method == "EndOffsets" && first == nil {
				first = b.run(b.rekeyed(), memlog.Faults{})
				first.idle()
			}
			return nil
		}})
		for second.app.Stats().Tasks == 0 { // fails when all goroutines wait for ever
			select {
			case err := <-second.end:
				require.NoError(t, err)
			case <-time.After(time.Second):
			}
		}
		require.NotNil(t, first)
		first.drain()
		second.idle().drain()
		require.Equal(t, []string{"a=1", "b=1"}, b.texts("out", 0))
	})
}
