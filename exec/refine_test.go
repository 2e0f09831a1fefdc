package exec_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/topology"
)

// P3 on brokers: state by a key within the key lies in the partition of the key, through restarts and another owner.
func TestP3RefinedStateOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 3)
		text := codec.String
		plan, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, text, text))).
			Refine(func(_, v string) string { return v }).
			Aggregate(ops.NewFineState("by-value", text, text, codec.JSON[int]()), func(_, _, _ string, n int) int { return n + 1 }).
			To(ops.Sink(ops.NewTopic(r.out, text, codec.JSON[int]()))).Build()
		require.NoError(t, err)
		want := map[string][]string{}
		for round := 1; round <= 3; round++ {
			for k := range 5 {
				for _, v := range []string{"x", "y"} {
					r.put(fmt.Sprint(k), v)
					want[fmt.Sprint(k)] = append(want[fmt.Sprint(k)], fmt.Sprint(round))
				}
			}
			i := launch(t, b, plan)
			r.settle(i)
			i.drain()
		}
		require.Equal(t, want, r.byKey())
		for _, rec := range r.read(r.changelog("by-value")) {
			fine, err := ops.FineCodec(text, text).Decode(rec.Key)
			require.NoError(t, err)
			require.Equal(t, ops.Murmur2.Partition([]byte(fine.Key), 3), rec.Partition)
		}
	})
}
