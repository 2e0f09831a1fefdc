package exec_test

import (
	"fmt"
	"strings"
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

// tolerant is a plan that keeps all values of a key, with a policy for records that cannot be decoded.
func (b *bench) tolerant(p ops.InvalidPolicy) *topology.Plan {
	b.t.Helper()
	plan, err := topology.New("app").From(ops.Source(benchIn, anywhere, ops.OnInvalid(p))).
		Aggregate(benchSum, func(_, v, state string) string { return state + v }).To(ops.Sink(benchOut)).Build()
	require.NoError(b.t, err)
	return plan
}

// IN-01, IN-02: without a policy nothing moves, over restarts, and what went before is committed. Content is never told.
func TestIN02AnInvalidRecordEndsTheRun(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.put(0, "k", "1", "k", "secret\xff", "k", "3")
		for range 2 {
			err := <-b.run(b.tolerant(ops.FailInvalid), memlog.Faults{}).end
			var re *exec.RecordError
			require.ErrorAs(t, err, &re)
			require.Equal(t, []any{"in", int32(0), int64(1)}, []any{re.Topic, re.Partition, re.Offset})
			require.ErrorIs(t, err, codec.ErrUTF8)
			require.NotContains(t, err.Error(), "secret")
			require.LessOrEqual(t, b.offset(0), int64(1))
		}
	})
}

// IN-03, IN-04: what is passed over is counted and its offset commits with the batch, also where there is nothing else.
func TestIN04SkippedRecords(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.put(0, "k", "\xff", "k", "1", "\xff", "\xff")
		s := b.run(b.tolerant(ops.SkipInvalid), memlog.Faults{}).idle()
		s.drain()
		require.Equal(t, []string{"k=1"}, b.texts("out", 0))
		require.EqualValues(t, 2, s.app.Stats().Counters[`Source "in"`][ops.CountSkipped])
		require.EqualValues(t, 3, b.offset(0))
		b.put(0, "\xff", "1", "k", "\xff")
		b.run(b.tolerant(ops.SkipInvalid), memlog.Faults{}).idle().drain()
		require.EqualValues(t, 5, b.offset(0))
		require.Equal(t, []string{"k=1"}, b.texts(benchLog, 0))
	})
}

// IN-05 to IN-07: a substitute is processed as the record's value, also an empty one; none means to pass over; a key cannot be substituted.
func TestIN06SubstitutedValues(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		policy := ops.Substitute(func(r ops.InvalidRecord) (string, bool) {
			require.Equal(t, []any{"in", int32(0), "k"}, []any{r.Topic, r.Partition, string(r.Key)})
			require.ErrorIs(t, r.Err, codec.ErrUTF8)
			return fmt.Sprint(len(r.Value), "@", r.Offset)[:r.Offset], r.Offset != 2
		})
		b.put(0, "k", "\xff", "k", "\xff", "k", "\xff", "k", "\xff\xff", "k", "x")
		s := b.run(b.tolerant(policy), memlog.Faults{}).idle()
		s.drain()
		require.Equal(t, []string{"k=", "k=1", "k=12@3", "k=12@3x"}, b.texts("out", 0))
		counts := s.app.Stats().Counters[`Source "in"`]
		require.EqualValues(t, 3, counts[ops.CountSubstituted])
		require.EqualValues(t, 1, counts[ops.CountSkipped])
		b.put(0, "\xff", "x")
		err := <-b.run(b.tolerant(policy), memlog.Faults{}).end
		require.ErrorContains(t, err, "offset 5: a key cannot be substituted: decode key")
		require.ErrorIs(t, err, codec.ErrUTF8)
	})
}

// A dead letter is the record as it was, with its own headers and timestamp, and where it was; it is written in the task's transaction. The application's
// topic of dead letters is created, one's own has to be there.
func TestIN08DeadLetters(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		head := commitlog.AppendHeader(nil, "own", []byte("kept"))
		_, err := b.log.Append(t.Context(), "in", 0, []commitlog.Record{
			{Timestamp: 7, Key: []byte("k"), Value: []byte("bad\xff"), Headers: head, HeaderCount: 1},
			{Timestamp: 8, Key: []byte("\xff"), Value: nil},
			{Timestamp: 9, Key: []byte("k"), Value: []byte("1")},
		})
		require.NoError(t, err)
		s := b.run(b.tolerant(ops.DeadLetter("")), memlog.Faults{}).idle()
		s.drain()
		require.EqualValues(t, 2, s.app.Stats().Counters[`Source "in"`][ops.CountDeadLettered])
		require.EqualValues(t, 2, s.app.Stats().Out["app-dead-letter"])
		require.Equal(t, []string{"k=1"}, b.texts("out", 0))
		letters, err := b.log.Records("app-dead-letter", 0, commitlog.ReadCommitted)
		require.NoError(t, err)
		require.Len(t, letters, 2)
		headers := func(r commitlog.Record) map[string]string {
			m := map[string]string{}
			require.NoError(t, r.EachHeader(func(k string, v []byte) bool { m[k] = string(v); return true }))
			return m
		}
		require.Equal(t, []any{"k", "bad\xff", int64(7)}, []any{string(letters[0].Key), string(letters[0].Value), letters[0].Timestamp})
		require.Equal(t, map[string]string{"own": "kept", ops.HeaderTopic: "in", ops.HeaderPartition: "0", ops.HeaderOffset: "0", ops.HeaderOperator: `Source "in"`,
			ops.HeaderPart: "value", ops.HeaderError: headers(letters[0])[ops.HeaderError]}, headers(letters[0]))
		require.Contains(t, headers(letters[0])[ops.HeaderError], "codec: string: ")
		require.Nil(t, letters[1].Value)
		require.Equal(t, "key", headers(letters[1])[ops.HeaderPart])

		var te *exec.TopicsError
		require.ErrorAs(t, <-b.run(b.tolerant(ops.DeadLetter("mine")), memlog.Faults{}).end, &te)
		require.ErrorContains(t, te, "dead letter topic mine does not exist")
		b.create("mine", 3, nil)
		b.put(0, "k", "\xff")
		b.run(b.tolerant(ops.DeadLetter("mine")), memlog.Faults{}).idle().drain()
		n := 0
		for p := range int32(3) {
			n += len(b.texts("mine", p))
		}
		require.Equal(t, 1, n)
	})
}

// A letter is larger than its record, and is written all the same if that was as large as a record may be; what a letter tells, when it was sent again and is back, is its
// last way.
func TestIN08LettersThatAreLargeOrBack(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		head := commitlog.AppendHeader(nil, ops.HeaderTopic, []byte("elsewhere"))
		head = commitlog.AppendHeader(head, "own", []byte("kept"))
		head = commitlog.AppendHeader(head, ops.HeaderError, []byte("of then"))
		value := []byte(strings.Repeat("\xff", 2000))
		_, err := b.log.Append(t.Context(), "in", 0, []commitlog.Record{{Timestamp: 7, Key: []byte("k"), Value: value, Headers: head, HeaderCount: 3}})
		require.NoError(t, err)
		b.run(b.tolerant(ops.DeadLetter("")), memlog.Faults{}, func(c *exec.Config) { c.MaxRecordBytes = 2048 }).idle().drain()
		letters, err := b.log.Records("app-dead-letter", 0, commitlog.ReadCommitted)
		require.NoError(t, err)
		require.Len(t, letters, 1)
		require.Equal(t, value, letters[0].Value)
		require.Equal(t, 7, letters[0].HeaderCount)
		got := map[string]string{}
		require.NoError(t, letters[0].EachHeader(func(k string, v []byte) bool { got[k] = string(v); return true }))
		require.Len(t, got, 7, "each once")
		require.Equal(t, []string{"in", "kept"}, []string{got[ops.HeaderTopic], got["own"]})
		configs, err := b.log.TopicConfigs(t.Context(), "app-dead-letter")
		require.NoError(t, err)
		require.Equal(t, []string{"-1", "delete"}, []string{configs["app-dead-letter"]["retention.ms"], configs["app-dead-letter"]["cleanup.policy"]})
	})
}

// One bad record in a thousand under each policy, on brokers; while it is dead-lettered the process is killed.
func TestIN08OneBadRecordInAThousandOnKafka(t *testing.T) {
	const all, bad = 1000, 500
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		fill := func(r *rig) {
			var records []kafka.Record
			for n := range all {
				value := fmt.Sprint(n)
				if n == bad {
					value = "\xff"
				}
				records = append(records, kafka.Record{Topic: r.in, Key: []byte("k"), Value: []byte(value)})
			}
			require.NoError(t, r.c.ProduceTo(t.Context(), records...))
		}
		for _, policy := range []string{"fail", "skip", "substitute", "dead letter"} {
			r := newRig(t, b, 1)
			fill(r)
			on, outputs, letters := ops.FailInvalid, all-1, 0
			switch policy {
			case "skip":
				on = ops.SkipInvalid
			case "substitute":
				on, outputs = ops.Substitute(func(ops.InvalidRecord) (string, bool) { return "instead", true }), all
			case "dead letter":
				on, letters = ops.DeadLetter(r.app+"-letters"), 1
				require.NoError(t, r.c.CreateTopic(t.Context(), r.app+"-letters", 1, nil))
				spec := r.spec()
				spec.Hold, spec.DeadLetter = "commit", r.app+"-letters"
				c := spawn(t, spec)
				require.Equal(t, "holding", c.says())
				require.Eventually(t, func() bool { return len(r.uncommitted(r.app+"-letters")) == 1 }, 30*time.Second, 10*time.Millisecond, "it is about to be committed")
				require.NoError(t, c.cmd.Process.Kill())
				<-c.ended
				require.Empty(t, r.read(r.app+"-letters"))
			}
			text := codec.String
			plan, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, text, text), ops.OnInvalid(on))).
				Aggregate(ops.NewState("n", text, decimal), func(_, _ string, n int) int { return n + 1 }).
				To(ops.Sink(ops.NewTopic(r.out, text, codec.JSON[int]()))).Build()
			require.NoError(t, err)
			i := launch(t, b, plan)
			if policy == "fail" {
				var re *exec.RecordError
				require.ErrorAs(t, <-i.end, &re)
				require.EqualValues(t, bad, re.Offset)
				continue
			}
			r.settle(i)
			i.drain()
			require.Len(t, r.read(r.out), outputs, policy)
			require.Equal(t, map[string][]string{"k": numbers(1, outputs)}, r.byKey())
			if letters > 0 {
				require.Len(t, r.read(r.app+"-letters"), letters)
			}
			require.Eventually(t, func() bool { return r.committed(0) == all }, 30*time.Second, 10*time.Millisecond)
		}
	})
}
