package exec_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/testkit/memlog"
)

// lag returns the lag of an instance's partitions, without what is open.
func (s *seat) lag() []exec.Lag {
	s.b.t.Helper()
	all, err := s.app.Lag(s.b.t.Context())
	require.NoError(s.b.t, err)
	return all
}

// Lag is what can be processed and has not been, and apart from it what waits for transactions of others; markers and aborted records are
// not lag (pain 29).
func TestLagTellsWhatWaitsAndWhatIsBlocked(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		called, call := once()
		release := make(chan struct{})
		b.put(0, "k", "1", "k", "stuck", "k", "3", "k", "4")
		s := b.run(b.mapping(func(v string) string {
			if v == "stuck" {
				call()
				<-release
			}
			return v
		}), memlog.Faults{}, func(c *exec.Config) { c.MaxBatch = 1 })
		idle, err := exec.New(b.joining(), exec.Config{Log: b.log})
		require.NoError(t, err)
		none, err := idle.Lag(t.Context())
		require.NoError(t, err)
		require.Empty(t, none, "nothing runs yet")
		<-called
		p, err := b.log.OpenProducer(t.Context(), commitlog.ProducerConfig{TransactionalID: "other", TransactionTimeout: 10 * time.Minute})
		require.NoError(t, err)
		builder := commitlog.NewBuilder(commitlog.NewPool(1000))
		builder.Append(1, []byte("k"), []byte("open"), nil, 0)
		builder.Append(1, []byte("k"), []byte("open"), nil, 0)
		require.NoError(t, p.Produce(t.Context(), inPart(0), builder.Take()))
		synctest.Wait()
		lag := s.lag()
		require.Len(t, lag, 2)
		require.Equal(t, inPart(0), lag[0].TopicPartition)
		require.Equal(t, []int64{1, 4, 6}, []int64{lag[0].Position, lag[0].Stable, lag[0].End})
		require.Equal(t, []int64{3, 2}, []int64{lag[0].Waiting(), lag[0].Blocked()})
		require.Len(t, lag[0].Open, 1)
		require.Equal(t, "other", lag[0].Open[0].TransactionalID)
		require.EqualValues(t, 4, lag[0].Open[0].Start)
		require.Equal(t, exec.Lag{TopicPartition: inPart(1)}, lag[1])
		close(release)
		time.Sleep(5 * time.Second)
		require.Equal(t, []int64{0, 2}, []int64{s.lag()[0].Waiting(), s.lag()[0].Blocked()})
		require.NoError(t, p.Abort(t.Context()))
		time.Sleep(5 * time.Second)
		require.Equal(t, exec.Lag{TopicPartition: inPart(0), Position: 7, Stable: 7, End: 7}, s.lag()[0], "no phantom")
		require.EqualValues(t, 7, b.offset(0), "nor for who looks at the group")
		s.drain()
		require.Empty(t, s.lag())
	})
}

func TestLagOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		r.put("k", "1")
		i := launch(t, b, r.counter())
		r.settle(i)
		txn, err := r.c.Begin(t.Context(), r.app+"-other")
		require.NoError(t, err)
		require.NoError(t, txn.Produce(t.Context(), kafka.Record{Topic: r.in, Key: []byte("k"), Value: []byte("2")}))
		lag := func() exec.Lag {
			all, err := i.app.Lag(t.Context())
			require.NoError(t, err)
			require.Len(t, all, 1)
			return all[0]
		}
		i.await("blocked", func() bool { return lag().Blocked() == 1 })
		require.Zero(t, lag().Waiting())
		require.Equal(t, r.in, lag().Topic)
		if b.Kind() == kafka.Real {
			require.Len(t, lag().Open, 1)
		}
		require.NoError(t, txn.Commit(t.Context()))
		i.await("nothing left", func() bool { l := lag(); return l.Position == 3 && l.End == 3 && l.Stable == 3 })
		i.await("committed", func() bool {
			have, err := r.c.CommittedOffsets(t.Context(), r.app)
			require.NoError(t, err)
			return have[part(r.in, 0)] == 3
		})
		i.drain()
	})
}

// The log tells where tasks have come to: to set a group's offsets by, should they be lost (E7).
func TestE7TheLogTellsWhereTasksHaveComeTo(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		b.put(0, "k", "1", "l", "2")
		b.put(1, "m", "3")
		b.run(b.joining(), memlog.Faults{}).idle().drain()
		b.put(1, "m", "4")
		var log lines
		b.run(b.joining(), memlog.Faults{}, logTo(&log, slog.LevelInfo)).idle().drain()
		for p, at := range []string{"in/0@2", "in/1@1"} {
			require.Contains(t, log.text(), fmt.Sprintf("msg=task task=app-in-%d state=running from=restoring committed=[%s]", p, at))
		}
		for p, at := range []string{"in/0@2", "in/1@2"} {
			require.Contains(t, log.text(), fmt.Sprintf("msg=task task=app-in-%d state=closed from=draining committed=[%s]", p, at))
		}
	})
}
