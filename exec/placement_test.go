package exec_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
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
