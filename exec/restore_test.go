package exec_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
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

// onDisk is a Config on what is left on a disk.
func onDisk(d *disk) func(*exec.Config) {
	return func(c *exec.Config) { c.State = &diskEngine{disk: d} }
}

// deleting is joining with "del" as the end of a key's state.
func (b *bench) deleting(retired ...string) *topology.Plan {
	b.t.Helper()
	plan, err := topology.New("app").Retire(retired...).From(ops.Source(benchIn, anywhere)).
		Aggregate(ops.NewState("n", codec.String, codec.OmitZero(codec.String)), func(_, v, s string) string {
			if v == "del" {
				return ""
			}
			return s + v
		}).To(ops.Sink(benchOut)).Build()
	require.NoError(b.t, err)
	return plan
}

// fill appends n records to a partition of the changelog and commits the input's beginning, as earlier runs would have.
func (b *bench) fill(partition int32, n, size int) {
	b.t.Helper()
	recs := make([]commitlog.Record, n)
	value := []byte(letters(size))
	for i := range recs {
		recs[i] = commitlog.Record{Timestamp: 1, Key: fmt.Appendf(nil, "key-%d", i), Value: value}
	}
	_, err := b.log.Append(b.t.Context(), benchLog, partition, recs)
	require.NoError(b.t, err)
	b.log.SetCommitted("app", map[commitlog.TopicPartition]int64{inPart(partition): max(0, b.offset(partition))})
}

func (b *bench) createChangelog(partitions int) {
	b.t.Helper()
	b.create(benchLog, partitions, map[string]string{"cleanup.policy": "compact"})
}

// foreign opens a transaction on a changelog, of a producer that is not the plan's.
func (b *bench) foreign(timeout time.Duration) commitlog.Producer {
	b.t.Helper()
	p, err := b.log.OpenProducer(b.t.Context(), commitlog.ProducerConfig{TransactionalID: "somebody-else", TransactionTimeout: timeout})
	require.NoError(b.t, err)
	builder := commitlog.NewBuilder(commitlog.NewPool(1000))
	builder.Append(1, []byte("k"), []byte("foreign"), nil, 0)
	require.NoError(b.t, p.Produce(b.t.Context(), commitlog.TopicPartition{Topic: benchLog}, builder.Take()))
	return p
}

// A store is used again after a clean stop and after a crash: only what the changelog got since its checkpoint
// is read, and what a replay reads has no effect twice (E4, pain 19).
func TestE4AStoreIsUsedAgain(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("crash=%v", crash), func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				d := newDisk(t)
				want, sum := []string{}, ""
				put := func(v string) {
					b.put(0, "k", v)
					sum += v
					want = append(want, "k="+sum)
				}
				for round := range 5 {
					engine := &diskEngine{disk: d}
					s := b.run(b.joining(), memlog.Faults{}, func(c *exec.Config) { c.State, c.FlushInterval = engine, time.Second })
					for i := range 10 {
						put(fmt.Sprint(i))
					}
					s.idle()
					replayed := int64(0)
					if crash && round > 0 {
						replayed = 2 // of the one before: the first of its last three was flushed at once
					}
					require.Equal(t, replayed, s.app.Stats().Restored)
					time.Sleep(10 * time.Second) // flushed by now
					for range 3 {
						put("x")
						s.idle()
					}
					if crash {
						engine.dead.Store(true)
						s.log.Close()
						s.cancel()
						<-s.end
						time.Sleep(time.Minute) // its session ends
						continue
					}
					s.drain()
				}
				require.Equal(t, want, b.texts("out", 0))
			})
		})
	}
}

// Each reason to rebuild a store from its changelog, and that the log tells it (E4, pain 20). Without the rebuild
// each of these would go on with state that the changelog does not have.
func TestE4ReasonsToRebuildAStore(t *testing.T) {
	const store = "app-in-0"
	tamper := func(t *testing.T, d *disk, f func(*kvstore.Batch)) {
		var batch kvstore.Batch
		f(&batch)
		require.NoError(t, d.stores[store].Write(&batch))
	}
	for _, c := range []struct {
		name string
		// between is what happens while the instance that has the disk is down.
		between func(t *testing.T, b *bench, d *disk)
		reason  string // as the log has it, "" if the store is used again
		want    string // of k, when it gets "9"
	}{
		{"nothing happened", func(*testing.T, *bench, *disk) {}, "", "k=19"},
		{"a long time", func(*testing.T, *bench, *disk) { time.Sleep(1000 * time.Hour) }, "", "k=19"},
		{"topic created again", func(t *testing.T, b *bench, d *disk) {
			b.log.DeleteTopics(benchLog)
			b.createChangelog(1)
			b.fill(0, 100, 1)
		}, "topic app-n-changelog was created again", "k=9"},
		{"deletion that is forgotten", func(t *testing.T, b *bench, d *disk) {
			time.Sleep(time.Hour)
			b.put(0, "k", "del", "k", "", "l", "5")
			b.run(b.deleting(), memlog.Faults{}).idle().drain() // elsewhere
			time.Sleep(24*time.Hour + time.Minute)
			require.NoError(t, b.log.Compact(benchLog, memlog.CompactOptions{Tombstones: true}))
		}, "keeps deletions for 24h0m0s (delete.retention.ms)", "k=9"},
		{"deletion that is still there", func(t *testing.T, b *bench, d *disk) {
			time.Sleep(time.Hour)
			b.put(0, "k", "del", "l", "5")
			b.run(b.deleting(), memlog.Faults{}).idle().drain()
			time.Sleep(22 * time.Hour)
			require.NoError(t, b.log.Compact(benchLog, memlog.CompactOptions{}))
		}, "", "k=9"},
		{"other format", func(t *testing.T, b *bench, d *disk) {
			tamper(t, d, func(batch *kvstore.Batch) { batch.SetMeta("wicker", []byte{9, 1, 2, 3}) })
		}, "it has format 9, want 1", "k=19"},
		{"broken label", func(t *testing.T, b *bench, d *disk) {
			tamper(t, d, func(batch *kvstore.Batch) { batch.SetMeta("wicker", []byte{1, 2, 3}) })
		}, "label of 3 bytes", "k=19"},
		{"no label", func(t *testing.T, b *bench, d *disk) {
			require.NoError(t, (&diskEngine{disk: d}).DestroyStore(store))
			other, err := d.mem.OpenStore(store)
			require.NoError(t, err)
			d.stores[store] = other
			tamper(t, d, func(batch *kvstore.Batch) { batch.SetCheckpoint(benchLog, 1) })
		}, "it does not say what wrote it", "k=19"},
		{"store taken out", func(t *testing.T, b *bench, d *disk) {
			b.put(0, "z", "1")
			plan, err := topology.New("app").From(ops.Source(benchIn)).
				Aggregate(benchSum, func(_, v, s string) string { return s + v }).
				Aggregate(ops.NewState("second", codec.String, codec.String), func(_, v, _ string) string { return v }).
				To(ops.Sink(benchOut)).Build()
			require.NoError(t, err)
			b.run(plan, memlog.Faults{}, onDisk(d)).idle().drain()
		}, `it has state of \"second\", which sub-topology in no longer has`, "k=19"},
		{"beyond the end", func(t *testing.T, b *bench, d *disk) {
			tamper(t, d, func(batch *kvstore.Batch) { batch.SetCheckpoint(benchLog, 77) })
		}, "checkpoint 77 of app-n-changelog/0 lies beyond its end", "k=19"},
		{"before the start", func(t *testing.T, b *bench, d *disk) {
			tamper(t, d, func(batch *kvstore.Batch) { batch.SetCheckpoint(benchLog, 0) })
			_, err := b.log.Truncate(commitlog.TopicPartition{Topic: benchLog}, 1)
			require.NoError(t, err)
		}, "checkpoint 0 of app-n-changelog/0 lies before its start 1", "k=9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				d := newDisk(t)
				b.put(0, "k", "1")
				b.run(b.deleting(), memlog.Faults{}, onDisk(d)).idle().drain()
				c.between(t, b, d)
				var log lines
				b.put(0, "k", "9")
				b.run(b.deleting("second"), memlog.Faults{}, onDisk(d), logTo(&log, slog.LevelInfo)).idle().drain()
				if c.reason == "" {
					require.NotContains(t, log.text(), "store is rebuilt")
				} else {
					require.Contains(t, log.text(), "store is rebuilt")
					require.Contains(t, log.text(), store)
					require.Contains(t, log.text(), c.reason)
				}
				out := b.texts("out", 0)
				require.Equal(t, c.want, out[len(out)-1])
			})
		})
	}
}

// A store that the plan has anew is restored from its changelog's start, those that were there go on from where
// they are.
func TestE4AStoreThatIsNewIsReadFromTheStart(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		d := newDisk(t)
		b.put(0, "k", "1", "l", "2")
		b.run(b.joining(), memlog.Faults{}, onDisk(d)).idle().drain()
		b.create("app-second-changelog", 1, map[string]string{"cleanup.policy": "compact"})
		_, err := b.log.Append(t.Context(), "app-second-changelog", 0, []commitlog.Record{{Key: []byte("k"), Value: []byte("before")}})
		require.NoError(t, err)
		plan, err := topology.New("app").From(ops.Source(benchIn)).
			Aggregate(benchSum, func(_, v, s string) string { return s + v }).
			Aggregate(ops.NewState("second", codec.String, codec.String), func(_, v, s string) string { return s + "," + v }).
			To(ops.Sink(benchOut)).Build()
		require.NoError(t, err)
		b.put(0, "k", "3")
		s := b.run(plan, memlog.Faults{}, onDisk(d)).idle()
		require.EqualValues(t, 1, s.app.Stats().Restored)
		s.drain()
		require.Equal(t, []string{"k=1", "l=2", "k=before,13"}, b.texts("out", 0))
	})
}

// A restore does not end below a transaction that somebody has open on the changelog, whatever becomes of it, and says
// whose it is (E5, ST-06, TX-19, pain 3).
func TestE5ST06TX19ARestoreWaitsForAnOpenTransaction(t *testing.T) {
	for _, outcome := range []string{"committed", "aborted", "timeout"} {
		t.Run(outcome, func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				b.put(0, "k", "1")
				b.run(b.joining(), memlog.Faults{}).idle().drain()
				p := b.foreign(time.Minute)
				b.put(0, "k", "2")
				var log lines
				s := b.run(b.joining(), memlog.Faults{}, logTo(&log, slog.LevelInfo))
				time.Sleep(25 * time.Second)
				require.Equal(t, []exec.RestoreProgress{{Task: "app-in-0", Left: 1}}, s.app.Stats().Restores)
				require.Equal(t, 1, s.app.Stats().Restoring)
				require.Contains(t, log.text(), `msg="restore waits for an open transaction of another producer" task=app-in-0 partition=app-n-changelog/0 offset=2 `)
				require.Contains(t, log.text(), `"transactional id"=somebody-else`)
				require.Equal(t, []string{"k=1"}, b.texts("out", 0))
				want := "k=12"
				switch outcome {
				case "committed":
					_, err := p.Commit(t.Context(), nil, commitlog.GroupMetadata{})
					require.NoError(t, err)
					want = "k=foreign2"
				case "aborted":
					require.NoError(t, p.Abort(t.Context()))
				}
				s.idle()
				require.Empty(t, s.app.Stats().Restores)
				s.drain()
				require.Equal(t, []string{"k=1", want}, b.texts("out", 0))
			})
		})
	}
}

// changingLog is a log whose answers a test may change.
type changingLog struct {
	commitlog.Log
	mu   sync.Mutex
	ends func(map[commitlog.TopicPartition]int64)
}

func (l *changingLog) EndOffsets(ctx context.Context, tps []commitlog.TopicPartition, iso commitlog.Isolation) (map[commitlog.TopicPartition]int64, error) {
	ends, err := l.Log.EndOffsets(ctx, tps, iso)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ends != nil && err == nil {
		l.ends(ends)
	}
	return ends, err
}

// A changelog that loses its end, or goes away, while it is read is an error that says so and no endless wait (pain 4).
func TestE5AChangelogThatShrinksDuringRestore(t *testing.T) {
	for what, message := range map[string]string{
		"truncated":     "restore app-n-changelog/0: the log ended at offset 3 and ends at 2 now: what was committed is lost",
		"deleted":       "UNKNOWN_TOPIC_OR_PARTITION",
		"created again": "restore",
	} {
		t.Run(what, func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				b.put(0, "k", "1")
				b.run(b.joining(), memlog.Faults{}).idle().drain()
				b.foreign(15 * time.Minute)
				var log *changingLog
				s := b.run(b.joining(), memlog.Faults{}, func(c *exec.Config) {
					log = &changingLog{Log: c.Log}
					c.Log = log
				})
				time.Sleep(15 * time.Second)
				switch what {
				case "truncated":
					log.mu.Lock()
					log.ends = func(ends map[commitlog.TopicPartition]int64) {
						for tp := range ends {
							ends[tp] = min(ends[tp], 2)
						}
					}
					log.mu.Unlock()
				case "deleted":
					b.log.DeleteTopics(benchLog)
				case "created again":
					b.log.DeleteTopics(benchLog)
					b.createChangelog(1)
				}
				err := <-s.end
				require.ErrorContains(t, err, message)
				require.ErrorContains(t, err, benchLog)
			})
		})
	}
}

// A leader that has just been elected may not know the log's end: a store is not rebuilt for that.
func TestE4AnEndThatIsKnownLateCostsNoStore(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		d := newDisk(t)
		b.put(0, "k", "1")
		b.run(b.joining(), memlog.Faults{}, onDisk(d)).idle().drain()
		b.put(0, "k", "2")
		early := 3
		s := b.run(b.joining(), memlog.Faults{}, onDisk(d), func(c *exec.Config) {
			c.Log = &changingLog{Log: c.Log, ends: func(ends map[commitlog.TopicPartition]int64) {
				for tp := range ends {
					if tp.Topic == benchLog && early > 0 {
						early--
						ends[tp] = 0
					}
				}
			}}
		}).idle()
		require.Zero(t, s.app.Stats().Restored)
		s.drain()
		require.Equal(t, []string{"k=1", "k=12"}, b.texts("out", 0))
	})
}

// loadEngine watches bulk loads, and holds them up while a test wants it to.
type loadEngine struct {
	kvstore.Engine
	mu            sync.Mutex
	gate          chan struct{} // closed lets loads go on
	loads, most   int
	memory, worst int64
	writes        int
}

func newLoadEngine() *loadEngine {
	return &loadEngine{Engine: kvstore.NewMemory(), gate: make(chan struct{})}
}

func (e *loadEngine) OpenStore(name string) (kvstore.Store, error) {
	s, err := e.Engine.OpenStore(name)
	return &loadStore{Store: s, e: e}, err
}

type loadStore struct {
	kvstore.Store
	e *loadEngine
}

func (s *loadStore) Load(memory int64) (kvstore.Loader, error) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	s.e.loads++
	s.e.memory += memory
	s.e.most, s.e.worst = max(s.e.most, s.e.loads), max(s.e.worst, s.e.memory)
	l, err := s.Store.Load(memory)
	return &watchedLoad{l, s.e, memory}, err
}

func (s *loadStore) Write(b *kvstore.Batch) error {
	s.e.mu.Lock()
	s.e.writes++
	s.e.mu.Unlock()
	return s.Store.Write(b)
}

type watchedLoad struct {
	kvstore.Loader
	e      *loadEngine
	memory int64
}

func (l *watchedLoad) Write(b *kvstore.Batch) error {
	<-l.e.gate
	return l.Loader.Write(b)
}

func (l *watchedLoad) Close() error {
	l.e.mu.Lock()
	l.e.loads--
	l.e.memory -= l.memory
	l.e.mu.Unlock()
	return l.Loader.Close()
}

// Tasks with much to restore load in bulk, a few at a time and within the memory for state; those with little to restore
// do neither, and all that are complete work meanwhile (pain 18).
func TestRestoresAreBoundedAndInNobodysWay(t *testing.T) {
	onBench(t, 9, func(t *testing.T, b *bench) {
		b.createChangelog(9)
		for p := range int32(7) {
			b.fill(p, 25_000, 10)
		}
		b.fill(8, 1000, 10)
		engine := newLoadEngine()
		open := sync.OnceFunc(func() { close(engine.gate) })
		defer open()
		s := b.run(b.joining(), memlog.Faults{}, func(c *exec.Config) {
			c.State, c.RestoreParallelism, c.StateMemory = engine, 3, 9<<20
		})
		for p := range int32(9) {
			b.put(p, "key-1", "+")
		}
		time.Sleep(time.Minute)
		outs := func() []string {
			var all []string
			for p := range int32(9) {
				all = append(all, b.texts("out", p)...)
			}
			return all
		}
		full := "key-1=" + letters(10) + "+"
		require.ElementsMatch(t, []string{"key-1=+", full}, outs()) // of partitions 7 and 8
		stats := s.app.Stats()
		require.Equal(t, 2, stats.Tasks)
		require.Equal(t, 7, stats.Restoring)
		require.Len(t, stats.Restores, 7)
		require.Equal(t, exec.RestoreProgress{Task: "app-in-0", Left: 25_000}, stats.Restores[0])
		open()
		s.idle()
		require.Empty(t, s.app.Stats().Restores)
		require.EqualValues(t, 7*25_000+1000, s.app.Stats().Restored)
		s.drain()
		require.Equal(t, 3, engine.most)
		require.LessOrEqual(t, engine.worst, int64(9<<20))
		require.ElementsMatch(t, append(slices.Repeat([]string{full}, 8), "key-1=+"), outs())
	})
}

// A restore can be ended at any moment: while it loads, waits for its turn, or stands still (pain 17).
func TestE11RestoresEndAtOnce(t *testing.T) {
	for _, where := range []string{"loading", "waiting", "standing still"} {
		t.Run(where, func(t *testing.T) {
			onBench(t, 3, func(t *testing.T, b *bench) {
				b.createChangelog(3)
				engine := newLoadEngine()
				faults := memlog.Faults{}
				switch where {
				case "waiting":
					b.fill(0, 25_000, 10)
					b.fill(1, 25_000, 10)
					time.AfterFunc(600*time.Millisecond, func() { close(engine.gate) }) // of the one that loads
				case "standing still":
					b.fill(0, 25_000, 10)
					b.foreign(15 * time.Minute)
					close(engine.gate)
				case "loading":
					b.fill(0, 100_000, 10)
					close(engine.gate)
					faults.Fetch = func(commitlog.TopicPartition) error { time.Sleep(100 * time.Millisecond); return nil }
				}
				s := b.run(b.joining(), faults, func(c *exec.Config) {
					c.State, c.RestoreParallelism, c.StateMemory = engine, 1, 1<<20
				})
				time.Sleep(500 * time.Millisecond)
				require.NotZero(t, s.app.Stats().Restoring)
				began := time.Now()
				s.drain()
				require.Less(t, time.Since(began), time.Second)
			})
		})
	}
}

// Progress is there to see and in the log, every ten seconds (pain 18).
func TestRestoreProgress(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.createChangelog(1)
		b.fill(0, 60_000, 100)
		var log lines
		s := b.run(b.joining(), memlog.Faults{Fetch: func(tp commitlog.TopicPartition) error {
			if tp.Topic == benchLog {
				time.Sleep(time.Second)
			}
			return nil
		}}, logTo(&log, slog.LevelInfo), func(c *exec.Config) { c.StateMemory = 1 << 20 })
		b.put(0, "key-1", "+")
		left := int64(60_001)
		time.Sleep(500 * time.Millisecond) // between two fetches
		for {
			time.Sleep(5 * time.Second)
			restores := s.app.Stats().Restores
			if len(restores) == 0 {
				break
			}
			p := restores[0]
			require.Equal(t, "app-in-0", p.Task)
			require.Less(t, p.Left, left)
			require.InDelta(t, 550, p.Rate, 50)
			require.InDelta(t, float64(p.Left)/p.Rate, p.Remaining.Seconds(), 1)
			require.InDelta(t, 60_000, float64(s.app.Stats().Restored+p.Left), 1)
			left = p.Left
		}
		s.idle().drain()
		require.Regexp(t, `(?s)msg=restore task=app-in-0 offsets=60000 bulk=true.*msg=restoring task=app-in-0 left=\d+ of=60000 rate=5\d\d remaining=1m\d+s.*msg=restored task=app-in-0 records=60000 took=\d+`, log.text())
	})
}

// Processes that are all killed and come back, while the group waits for those it knew, get the tasks whose state they
// have on disk, and replay nothing (E8).
func TestE8TasksComeBackToTheirDisks(t *testing.T) {
	onBench(t, 12, func(t *testing.T, b *bench) {
		disks := []*disk{newDisk(t), newDisk(t), newDisk(t)}
		launch := func(order ...int) []*seat {
			seats := make([]*seat, len(disks))
			for _, i := range order {
				seats[i] = b.run(b.joining(), memlog.Faults{}, onDisk(disks[i]), func(c *exec.Config) { c.StayInGroup = true })
			}
			return seats
		}
		put := func() {
			for p := range int32(12) {
				b.put(p, "k", "1")
			}
		}
		seats := launch(0, 1, 2)
		put()
		seats[0].idle()
		time.Sleep(time.Minute)
		put()
		seats[0].idle()
		var stops sync.WaitGroup
		stop := func() {
			for _, s := range seats {
				stops.Go(s.drain)
			}
			stops.Wait()
		}
		stop()
		for range 4 {
			seats = launch(2, 0, 1)
			synctest.Wait()
			time.Sleep(time.Minute)
			for _, s := range seats {
				require.Equal(t, 4, s.app.Stats().Tasks)
				require.Zero(t, s.app.Stats().Restored)
			}
			put()
			seats[0].idle()
			stop()
		}
		var out []string
		for p := range int32(12) {
			out = append(out, b.texts("out", p)...)
		}
		require.Len(t, out, 12*6)
	})
}
