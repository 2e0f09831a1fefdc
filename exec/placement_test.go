package exec_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

// P4: a topic filled by CRC32 and declared as Murmur2 stops the task at the first misplaced record, and the error names
// CRC32; declared as it is, or repartitioned, each key is counted once and in one place.
func TestP4MisplacedKeys(t *testing.T) {
	const keys, partitions = 500, 8
	for _, c := range []struct {
		name string
		opts []ops.Option
		via  func(topology.Stream[string, string]) topology.Stream[string, string]
		says string
	}{
		{name: "declared falsely", says: "; by ops.CRC32"},
		{name: "declared", opts: []ops.Option{ops.PartitionedBy(ops.CRC32)}},
		{name: "counted", opts: []ops.Option{ops.OnMisplaced(ops.CountMisplaced)}},
		{name: "repartitioned", opts: []ops.Option{ops.PartitionedBy(ops.RoundRobin)},
			via: func(s topology.Stream[string, string]) topology.Stream[string, string] {
				return s.Repartition("by-key")
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBench(t, partitions, func(t *testing.T, b *bench) {
				want := map[string]bool{}
				for n := range 2 * keys {
					key := fmt.Sprintf("\u00fc%d", n%keys)
					p := ops.CRC32.Partition([]byte(key), partitions)
					_, err := b.log.Append(t.Context(), "in", p, []commitlog.Record{{Timestamp: int64(n), Key: []byte(key), Value: []byte(".")}})
					require.NoError(t, err)
					want[key+"=."], want[key+"=.."] = true, true
				}
				s := topology.New("app").From(ops.Source(ops.NewTopic("in", codec.String, codec.String), c.opts...))
				if c.via != nil {
					s = s.Via(c.via)
				}
				plan, err := s.Aggregate(benchSum, func(_, v, state string) string { return state + v }).To(ops.Sink(benchOut)).Build()
				require.NoError(t, err)
				run := b.run(plan, memlog.Faults{})
				if c.says != "" {
					err := <-run.end
					var me *exec.MisplacedError
					require.ErrorAs(t, err, &me)
					require.ErrorContains(t, err, c.says)
					require.Contains(t, me.Explained, "CRC32") // after few records others may explain them as well
					return
				}
				run.idle().drain()
				got := map[string]bool{}
				for p := range int32(partitions) {
					for _, text := range b.texts("out", p) {
						require.False(t, got[text], text)
						got[text] = true
					}
				}
				require.Equal(t, want, got)
				if c.name == "counted" {
					require.Positive(t, run.app.Stats().Counters[`Source "in"`][ops.CountMisplacedKeys])
				}
			})
		})
	}
}

// P4 on brokers: of two topics that are read for one state one was filled by Java's rule and one by librdkafka's. Declared as they
// are the plan is refused; declared falsely the first misplaced key stops the task, and the message names the rule that the topic was
// written by; repartitioned the counts are those of a plain map.
func TestP4TwoRulesOnKafka(t *testing.T) {
	const keys, partitions = 10_000, 8
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, partitions)
		other, wrong := r.app+".other", r.app+".wrong"
		for _, topic := range []string{other, wrong} {
			require.NoError(t, r.c.CreateTopic(t.Context(), topic, partitions, nil))
		}
		want := map[string]int{}
		var records []kafka.Record
		for n := range keys {
			key := fmt.Sprintf("schl\u00fcssel-%d \U0001f511", n)
			switch {
			case n == 0:
				key = "" // librdkafka puts it anywhere
			case n <= 128:
				key = string([]byte{byte(n - 1)})
			}
			bytes := []byte(key)
			records = append(records, kafka.Record{Topic: r.in, Partition: ops.Murmur2.Partition(bytes, partitions), Key: bytes, Value: []byte(".")},
				kafka.Record{Topic: other, Partition: max(0, ops.CRC32.Partition(bytes, partitions)), Key: bytes, Value: []byte(".")})
			want[key] = 2
		}
		require.NoError(t, r.c.ProduceTo(t.Context(), records...))
		count := func(app, out string, rule ops.Partitioner, via func(topology.Stream[string, string]) topology.Stream[string, string]) (*topology.Plan, error) {
			builder := topology.New(app)
			second := builder.From(ops.Source(ops.NewTopic(other, codec.String, codec.String), ops.PartitionedBy(rule)))
			if via != nil {
				second = second.Via(via)
			}
			return builder.From(ops.Source(ops.NewTopic(r.in, codec.String, codec.String))).Merge(second).
				Aggregate(ops.NewState("n", codec.String, decimal), func(_, _ string, n int) int { return n + 1 }).
				To(ops.Sink(ops.NewTopic(out, codec.String, codec.JSON[int]()))).Build()
		}

		_, err := count(r.app, r.out, ops.CRC32, nil)
		require.ErrorContains(t, err, "CRC32")
		require.ErrorContains(t, err, "Murmur2")

		plan, err := count(r.app+"-wrong", wrong, ops.Murmur2, nil)
		require.NoError(t, err)
		err = <-launch(t, b, plan).end
		var re *exec.RecordError
		require.ErrorAs(t, err, &re)
		require.Equal(t, other, re.Topic)
		var me *exec.MisplacedError
		require.ErrorAs(t, err, &me)
		require.Contains(t, me.Explained, "CRC32")
		require.ErrorContains(t, err, "CRC32")

		plan, err = count(r.app, r.out, ops.CRC32, func(s topology.Stream[string, string]) topology.Stream[string, string] {
			return s.Repartition("by-key")
		})
		require.NoError(t, err)
		i := launch(t, b, plan)
		i.await("all counts", func() bool { return len(r.read(r.out)) >= 2*keys })
		i.drain()
		got := map[string]int{}
		for _, rec := range r.read(r.out) {
			n, err := strconv.Atoi(string(rec.Value))
			require.NoError(t, err)
			require.Equal(t, got[string(rec.Key)]+1, n, "of key %q", rec.Key)
			got[string(rec.Key)] = n
		}
		require.Equal(t, want, got)
	})
}
