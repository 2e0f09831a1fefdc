package exec_test

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

// At the start stores are looked at once: what is of no use is destroyed, what the plan does not know is left alone, and the
// log says which.
func TestE4InventoryOfTheDisk(t *testing.T) {
	onBench(t, 3, func(t *testing.T, b *bench) {
		d := newDisk(t)
		for p := range int32(3) {
			b.put(p, "k", "1")
		}
		b.run(b.joining(), memlog.Faults{}, onDisk(d)).idle().drain()
		engine := &diskEngine{disk: d}
		for _, name := range []string{"app-old-0", "other-in-1"} {
			s, err := engine.OpenStore(name)
			require.NoError(t, err)
			require.NoError(t, s.Close())
		}
		var batch kvstore.Batch
		batch.SetMeta("wicker", []byte{7})
		require.NoError(t, d.stores["app-in-2"].Write(&batch))
		var log lines
		s := b.run(b.joining(), memlog.Faults{}, func(c *exec.Config) {
			c.State = &damaged{diskEngine: engine, openFails: true, only: "app-in-0"}
		}, logTo(&log, slog.LevelInfo)).idle()
		require.Contains(t, log.text(), `msg="stores that no task or table of the plan has are left as they are" stores="[app-old-0 other-in-1]"`)
		require.Contains(t, log.text(), "it has format 7, want 1")
		require.Contains(t, log.text(), "corrupt")
		require.Contains(t, log.text(), `msg="stores on disk" usable=1 found=3`)
		require.EqualValues(t, 2, s.app.Stats().Restored)
		s.drain()
		names, err := engine.Stores()
		require.NoError(t, err)
		require.Equal(t, []string{"app-in-0", "app-in-1", "app-in-2", "app-old-0", "other-in-1"}, names)
	})
}

// lossyEngine is an engine on disk that loses what was not flushed when its process dies.
type lossyEngine struct{ *diskEngine }

func (e *lossyEngine) OpenStore(name string) (kvstore.Store, error) {
	s, err := e.diskEngine.OpenStore(name)
	return &lossyStore{Store: s, e: e.diskEngine}, err
}

type lossyStore struct {
	kvstore.Store
	e       *diskEngine
	pending []kvstore.Batch
}

func (s *lossyStore) Write(b *kvstore.Batch) error {
	var c kvstore.Batch
	err := b.Each(func(op kvstore.Op, key, value []byte) error {
		switch op {
		case kvstore.OpPut:
			c.Put(key, value)
		case kvstore.OpDelete:
			c.Delete(key)
		case kvstore.OpMeta:
			c.SetMeta(string(key), value)
		case kvstore.OpCheckpoint:
			c.SetCheckpoint(string(key), int64(binary.BigEndian.Uint64(value)))
		}
		return nil
	})
	s.pending = append(s.pending, c)
	return err
}

func (s *lossyStore) Flush() error {
	for i := range s.pending {
		if err := s.Store.Write(&s.pending[i]); err != nil {
			return err
		}
	}
	s.pending = nil
	return nil
}

func (s *lossyStore) Close() error {
	return errors.Join(s.Flush(), s.Store.Close())
}

// A store that gets little has it in its files within the hour, so that a crash after days leaves one that is
// young enough to be used again (E4, pain 20).
func TestE4LittleStateIsDurableWithinTheHour(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		d := newDisk(t)
		engine := &lossyEngine{&diskEngine{disk: d}}
		s := b.run(b.joining(), memlog.Faults{}, func(c *exec.Config) { c.State = engine })
		for range 500 { // 83 hours
			b.put(0, "k", ".")
			time.Sleep(10 * time.Minute)
		}
		s.idle()
		engine.dead.Store(true)
		s.log.Close()
		s.cancel()
		<-s.end
		time.Sleep(time.Minute)
		var log lines
		s = b.run(b.joining(), memlog.Faults{}, onDisk(d), logTo(&log, slog.LevelInfo))
		b.put(0, "k", "!")
		s.idle()
		require.NotContains(t, log.text(), "rebuilt")
		require.LessOrEqual(t, s.app.Stats().Restored, int64(7))
		s.drain()
		out := b.texts("out", 0)
		require.Equal(t, "k="+strings.Repeat(".", 500)+"!", out[len(out)-1])
	})
}

// A changelog that was deleted beside the group's offsets is not begun anew without a word, and a store that still has
// the state is not destroyed for it. Who wants to go on says so, by setting the offsets.
func TestAChangelogThatWasDeletedIsRefused(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		d := newDisk(t)
		b.put(0, "k", "1")
		b.run(b.joining(), memlog.Faults{}, onDisk(d)).idle().drain()
		b.log.DeleteTopics(benchLog)
		b.put(0, "k", "2")
		for _, change := range []func(*exec.Config){onDisk(d), func(*exec.Config) {}} {
			err := <-b.run(b.joining(), memlog.Faults{}, change).end
			var de *exec.DeletedError
			require.ErrorAs(t, err, &de)
			require.Equal(t, "n", de.Store)
			require.Equal(t, benchLog, de.Changelog)
			require.NotEqual(t, de.Was, de.Is)
			require.ErrorContains(t, err, "changelog topic app-n-changelog was deleted: it held state of store n")
			require.ErrorContains(t, err, "kafka-consumer-groups.sh --bootstrap-server BROKERS --group app --topic in:0 --reset-offsets --to-earliest --execute")
		}
		s := d.stores["app-in-0"]
		_, ok, err := s.Checkpoint(benchLog)
		require.NoError(t, err)
		require.True(t, ok, "the store is as it was")
		b.log.SetCommitted("app", map[commitlog.TopicPartition]int64{inPart(0): 1}) // --to-current
		b.run(b.joining(), memlog.Faults{}, onDisk(d)).idle().drain()
		require.Equal(t, []string{"k=1", "k=2"}, b.texts("out", 0))
		b.put(0, "k", "3")
		b.run(b.joining(), memlog.Faults{}, onDisk(d)).idle().drain()
		require.Equal(t, []string{"k=1", "k=2", "k=23"}, b.texts("out", 0))
	})
}

// What looks like it and is not: stores that are new, that never got anything, or were taken out in between.
func TestAChangelogThatNeverHeldAnythingIsNotRefused(t *testing.T) {
	second := func(b *bench) *topology.Plan {
		plan, err := topology.New("app").From(ops.Source(benchIn)).
			Aggregate(benchSum, func(_, v, s string) string { return s + v }).
			Aggregate(ops.NewState("second", codec.String, codec.OmitZero(codec.String)), func(_, v, s string) string {
				if v == "nothing" {
					return ""
				}
				return v
			}).To(ops.Sink(benchOut)).Build()
		require.NoError(b.t, err)
		return plan
	}
	for name, steps := range map[string]func(b *bench, run func(*topology.Plan)){
		"state is new in the plan": func(b *bench, run func(*topology.Plan)) {
			run(b.mapping(func(v string) string { return v }))
			run(b.joining())
		},
		"a store is new in the plan": func(b *bench, run func(*topology.Plan)) {
			run(b.joining())
			run(second(b))
		},
		"a store without state lost its topic": func(b *bench, run func(*topology.Plan)) {
			b.put(0, "k", "nothing")
			run(second(b))
			b.log.DeleteTopics("app-second-changelog")
			run(second(b))
		},
		"a store was taken out, and comes back": func(b *bench, run func(*topology.Plan)) {
			b.put(0, "k", "1")
			run(second(b))
			b.put(0, "k", "2")
			run(b.joining("second"))
			b.log.DeleteTopics("app-second-changelog")
			b.put(0, "k", "3")
			run(second(b))
		},
		"everything was deleted": func(b *bench, run func(*topology.Plan)) {
			b.put(0, "k", "1")
			run(b.joining())
			b.log.DeleteTopics(benchLog)
			b.log.SetCommitted("app", map[commitlog.TopicPartition]int64{inPart(0): -1})
			run(b.joining())
		},
		"the topic was created again and filled": func(b *bench, run func(*topology.Plan)) {
			b.put(0, "k", "1")
			run(b.joining())
			b.log.DeleteTopics(benchLog)
			b.createChangelog(1)
			b.fill(0, 10, 1)
			run(b.joining())
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				b.put(0, "a", "nothing")
				steps(b, func(plan *topology.Plan) { b.run(plan, memlog.Faults{}).idle().drain() })
			})
		})
	}
}

// mortalEngine is an engine on disk whose process dies in the middle of a bulk load.
type mortalEngine struct {
	*diskEngine
	batches int // until then
}

func (e *mortalEngine) OpenStore(name string) (kvstore.Store, error) {
	s, err := e.diskEngine.OpenStore(name)
	return &mortalStore{s, e}, err
}

type mortalStore struct {
	kvstore.Store
	e *mortalEngine
}

func (s *mortalStore) Load(memory int64) (kvstore.Loader, error) {
	l, err := s.Store.Load(memory)
	return &mortalLoad{l, s}, err
}

type mortalLoad struct {
	kvstore.Loader
	s *mortalStore
}

func (l *mortalLoad) Write(b *kvstore.Batch) error {
	if l.s.e.batches--; l.s.e.batches < 0 {
		if l.s.e.batches == -1 {
			_ = l.Loader.Close() // what was written before is there
		}
		return errors.New("the process is dead")
	}
	return l.Loader.Write(b)
}

// A restore that was cut off goes on where the store is, not from the start (E4, pain 18).
func TestE4ARestoreThatWasCutOffGoesOn(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		d := newDisk(t)
		b.createChangelog(1)
		b.fill(0, 100_000, 20)
		b.put(0, "key-77", "+")
		replayed := int64(0)
		for _, batches := range []int{7, 1, 4} {
			s := b.run(b.joining(), memlog.Faults{}, func(c *exec.Config) { c.State = &mortalEngine{&diskEngine{disk: d}, batches} })
			require.ErrorContains(t, <-s.end, "the process is dead")
			time.Sleep(time.Minute)
			replayed += s.app.Stats().Restored
		}
		var log lines
		s := b.run(b.joining(), memlog.Faults{}, onDisk(d), logTo(&log, slog.LevelInfo)).idle()
		require.NotContains(t, log.text(), "rebuilt")
		require.Less(t, s.app.Stats().Restored, int64(60_000))
		require.InDelta(t, 100_000, replayed+s.app.Stats().Restored, 30_000, "a batch each was read for nothing")
		s.drain()
		require.Equal(t, []string{"key-77=" + letters(20) + "+"}, b.texts("out", 0))
		_, found, err := d.stores["app-in-0"].Get(nil, []byte("\x01nkey-99999"))
		require.NoError(t, err)
		require.True(t, found)
	})
}
