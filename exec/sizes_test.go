package exec_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/testkit/memlog"
)

// A value that its changelog could not hold is refused where it is made, with the record, the store, the size and what sets the limit, before anything of
// the transaction is sent; one that is near the limit is told of once a minute; sizes are counted.
func TestOversizedState(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.create(benchLog, 1, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "1061"})
		b.put(0, "k", "1")
		b.run(b.joining(), memlog.Faults{}).idle().drain()
		var log lines
		b.put(0, "a", strings.Repeat("v", 50), "b", strings.Repeat("v", 850), "c", strings.Repeat("v", 900), "k", "2")
		s := b.run(b.joining(), memlog.Faults{}, logTo(&log, slog.LevelWarn)).idle()
		s.drain()
		require.Equal(t, exec.StoreStats{Sizes: [9]int64{1, 1, 2}, Largest: 937, Limit: 1000}, s.app.Stats().Stores["n"])
		require.Equal(t, 1, strings.Count(log.text(), "a value is near the limit of a record"))
		require.Contains(t, log.text(), "store=n bytes=887 limit=1000")
		require.NotContains(t, log.text(), "vvv")

		before := b.texts("out", 0)
		b.put(0, "k", "3", "c", strings.Repeat("v", 70))
		for range 2 {
			err := <-b.run(b.joining(), memlog.Faults{}).end
			var re *exec.RecordError
			require.ErrorAs(t, err, &re)
			require.Equal(t, []any{`Aggregate "n"`, int64(6)}, []any{re.Operator, re.Offset})
			require.ErrorIs(t, err, commitlog.ErrTooLarge)
			require.ErrorContains(t, err, "store n: record too large: the value of this key has 1007 bytes with the key, must be <= 1000 (max.message.bytes of app-n-changelog, less a batch's header)")
			require.Equal(t, before, b.texts("out", 0))
		}
	})
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.put(0, "c", strings.Repeat("v", 1000))
		err := <-b.run(b.joining(), memlog.Faults{}, func(c *exec.Config) { c.MaxRecordBytes = 1024 }).end
		require.ErrorContains(t, err, "must be <= 1024 (exec.Config.MaxRecordBytes)")
	})
}

// The same on brokers: a topic's own limit, with batches of many values that fit by themselves.
func TestOversizedStateOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		require.NoError(t, r.c.CreateTopic(t.Context(), r.changelog("n"), 1, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "2000"}))
		plan := named(t, r.app, r.in, r.out, "n", nil)
		for _, k := range []string{"a", "b", "c", "d", "e", "f"} {
			r.put(k, strings.Repeat("v", 700))
		}
		i := launch(t, b, plan)
		r.settle(i)
		i.drain()
		require.Len(t, r.read(r.out), 6)
		r.put("a", strings.Repeat("v", 1300))
		err := <-launch(t, b, plan).end
		require.ErrorIs(t, err, commitlog.ErrTooLarge)
		require.ErrorContains(t, err, "must be <= 1939 (max.message.bytes of "+r.changelog("n")+", less a batch's header)")
		require.Len(t, r.read(r.out), 6)
	})
}
