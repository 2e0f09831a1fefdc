package exec_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/testkit/memlog"
)

// grown is a log whose topic in has more partitions than it began with.
type grown struct {
	*memlog.Log
	partitions *atomic.Int32
}

func (g grown) Topics(ctx context.Context, names ...string) (map[string]commitlog.Topic, error) {
	m, err := g.Log.Topics(ctx, names...)
	if topic, ok := m["in"]; ok && g.partitions.Load() > 0 {
		topic.Partitions = int(g.partitions.Load())
		m["in"] = topic
	}
	return m, err
}

// Partitions that come while a plan runs would be read by nobody, and keys part from their state (pain 22).
func TestVA04PartitionsThatComeEndRun(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		var n atomic.Int32
		s := b.run(b.joining(), memlog.Faults{}, func(c *exec.Config) { c.Log = grown{c.Log.(*memlog.Log), &n} }).idle()
		time.Sleep(10 * time.Minute)
		b.put(0, "k", "1")
		s.idle()
		require.Equal(t, []string{"k=1"}, b.texts("out", 0))
		n.Store(5)
		begin := time.Now()
		err := <-s.end
		require.LessOrEqual(t, time.Since(begin), 31*time.Second)
		var te *exec.TopicsError
		require.ErrorAs(t, err, &te)
		require.EqualError(t, err, "wicker: app: topics are not as planned: topic in had 2 partitions when this run began and has 5 now: "+
			"keys now go to other partitions than the one that has their state (n). To go on, put a Rekey that keeps the key in front of the state, with ops.Partitions(2), "+
			"so that state stays where it is; or copy the topic to one with the count wanted, and start a plan of another name on it")
	})
	onBench(t, 2, func(t *testing.T, b *bench) {
		var n atomic.Int32
		s := b.run(b.mapping(same), memlog.Faults{}, func(c *exec.Config) { c.Log = grown{c.Log.(*memlog.Log), &n} }).idle()
		n.Store(5)
		require.ErrorContains(t, <-s.end, "topic in had 2 partitions when this run began and has 5 now: start all instances again")
	})
}

// A topic that is deleted and created again is another one.
func TestATopicThatIsCreatedAgainEndsRun(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.put(0, "k", "1")
		s := b.run(b.joining(), memlog.Faults{}).idle()
		b.log.DeleteTopics(benchLog)
		b.create(benchLog, 1, map[string]string{"cleanup.policy": "compact"})
		err := <-s.end
		var te *exec.TopicsError
		require.ErrorAs(t, err, &te)
		require.ErrorContains(t, err, "topic "+benchLog+" was deleted and created again while the plan runs")
	})
}

// A topic that is deleted ends the run, also one that is only written and has nothing to do.
func TestVA03ATopicThatIsDeletedEndsRun(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		s := b.run(b.joining(), memlog.Faults{}).idle()
		b.log.DeleteTopics("out")
		require.ErrorContains(t, <-s.end, "topics are not as planned: topic out was deleted while the plan runs")
	})
}
