package exec_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/exec/kafkalog"
	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

// A function that panics, or ends its goroutine, ends Run with the record's coordinates,
// wherever it is called, and commits nothing. It used to leave a task that nobody missed.
func TestE10FunctionsThatDoNotReturnEndRunWithTheRecord(t *testing.T) {
	for name, die := range map[string]func(){
		"panic": func() { panic("top secret") },
		"index": func() { _ = strings.Fields("")[0] },
		"exit":  runtime.Goexit,
	} {
		for at, plan := range map[string]func() (*topology.Plan, error){
			`MapValues "f"`: func() (*topology.Plan, error) {
				return topology.New("app").From(ops.Source(benchIn)).MapValues(func(v string) string {
					if v == "bad" {
						die()
					}
					return v
				}, ops.Name("f")).To(ops.Sink(benchOut)).Build()
			},
			`Aggregate "n"`: func() (*topology.Plan, error) {
				return topology.New("app").From(ops.Source(benchIn)).Aggregate(benchSum, func(_, v, s string) string {
					if v == "bad" {
						die()
					}
					return v
				}).To(ops.Sink(benchOut)).Build()
			},
			`Memo "m"`: func() (*topology.Plan, error) {
				return topology.New("app").From(ops.Source(benchIn)).Memo(ops.Memo("m", codec.String, func(_ context.Context, k string) (string, error) {
					if k == "c" {
						die()
					}
					return k, nil
				}), func(v, _ string) string { return v }).To(ops.Sink(benchOut)).Build()
			},
		} {
			t.Run(name+strings.Fields(at)[0], func(t *testing.T) {
				onBench(t, 1, func(t *testing.T, b *bench) {
					p, err := plan()
					require.NoError(t, err)
					b.put(0, "a", "1", "b", "2", "c", "bad", "d", "3")
					for range 2 {
						err := <-b.run(p, memlog.Faults{}).end
						var re *exec.RecordError
						require.ErrorAs(t, err, &re)
						require.Equal(t, at, re.Operator)
						require.ErrorContains(t, err, "topic in partition 0 offset 2")
						require.NotContains(t, err.Error(), "top secret")
						require.Empty(t, b.texts("out", 0))
						require.Zero(t, b.offset(0))
					}
				})
			})
		}
	}
}

// Run does not wait for ever for a function that does not return, when it ends and when the
// group rebalances; nothing of what the function's task has open is ever seen.
func TestE11AFunctionThatBlocksEndsRunWithErrDrainTimeout(t *testing.T) {
	for _, how := range []string{"end", "rebalance"} {
		t.Run(how, func(t *testing.T) {
			onBench(t, 2, func(t *testing.T, b *bench) {
				called, call := once()
				release := make(chan struct{})
				plan := b.mapping(func(v string) string {
					if v == "stuck" {
						call()
						<-release
					}
					return v
				})
				b.put(0, "k", "1", "k", "stuck")
				b.put(1, "k1", "2", "k1", "stuck") // whichever task moves is stuck
				s := b.run(plan, memlog.Faults{}, func(c *exec.Config) { c.DrainTimeout = 3 * time.Second })
				<-called
				synctest.Wait()
				begin := time.Now()
				var other *seat
				if how == "end" {
					s.cancel()
				} else {
					other = b.run(b.mapping(func(v string) string { return v }), memlog.Faults{})
				}
				err := <-s.end
				require.ErrorIs(t, err, exec.ErrDrainTimeout)
				require.ErrorContains(t, err, "task app-in-")
				bound := 3 * time.Second
				if how == "rebalance" { // the task has as long, and then all others
					bound *= 2
				}
				require.LessOrEqual(t, time.Since(begin), bound)
				close(release) // it comes back when all is over
				synctest.Wait()
				if other == nil {
					require.Empty(t, b.texts("out", 0))
					require.Empty(t, b.texts("out", 1))
					other = b.run(b.mapping(func(v string) string { return v }), memlog.Faults{})
				}
				other.idle().drain()
				require.Equal(t, []string{"k=1", "k=stuck"}, b.texts("out", 0))
				require.Equal(t, []string{"k1=2", "k1=stuck"}, b.texts("out", 1))
			})
		})
	}
}

// A call of Memo that heeds its context ends with it, at half of DrainTimeout: what is left is for the abort.
func TestE11MemosContextEndsWithinDrainTimeout(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		called, call := once()
		plan, err := topology.New("app").From(ops.Source(benchIn)).Memo(ops.Memo("m", codec.String, func(ctx context.Context, _ string) (string, error) {
			call()
			<-ctx.Done()
			return "", context.Cause(ctx)
		}), func(v, _ string) string { return v }).To(ops.Sink(benchOut)).Build()
		require.NoError(t, err)
		b.put(0, "k", "1")
		s := b.run(plan, memlog.Faults{}, func(c *exec.Config) { c.DrainTimeout = 3 * time.Second })
		<-called
		begin := time.Now()
		s.cancel()
		require.ErrorIs(t, <-s.end, exec.ErrDrainTimeout)
		require.Equal(t, 1500*time.Millisecond, time.Since(begin))
		require.Zero(t, b.offset(0))
	})
}

func TestTooLargeARecordEndsRunWithItsBound(t *testing.T) {
	big := strings.Repeat("x", 3000)
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.put(0, "k", "1", "k", "big")
		err := <-b.run(b.mapping(func(v string) string {
			if v == "big" {
				return big
			}
			return v
		}), memlog.Faults{}, func(c *exec.Config) { c.MaxRecordBytes = 2048 }).end
		var re *exec.RecordError
		require.ErrorAs(t, err, &re)
		require.ErrorIs(t, err, commitlog.ErrTooLarge)
		require.ErrorContains(t, err, "topic in partition 0 offset 1: topic out")
		require.ErrorContains(t, err, "must be <= 2048")
		require.Empty(t, b.texts("out", 0))
	})
	// State that has grown too large fails where it is put.
	onBench(t, 1, func(t *testing.T, b *bench) {
		plan, err := topology.New("app").From(ops.Source(benchIn)).
			Aggregate(benchSum, func(_, _, s string) string { return s + big[:1500] }).
			MapValues(func(string) string { return "" }).To(ops.Sink(benchOut)).Build()
		require.NoError(t, err)
		b.put(0, "k", "1", "k", "2")
		err = <-b.run(plan, memlog.Faults{}, func(c *exec.Config) { c.MaxRecordBytes = 2048 }).end
		require.ErrorIs(t, err, commitlog.ErrTooLarge)
		require.ErrorContains(t, err, "topic in partition 0 offset 1: store n: record too large: ")
		require.Empty(t, b.texts("out", 0))
		require.Zero(t, b.offset(0))
	})
}

// An error of one task ends Run; the others commit what they have done.
func TestE10TheOtherTasksCommit(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		b.put(0, "k", "1", "k", "2")
		b.put(1, "k1", "3", "k1", "bad")
		plan := b.mapping(func(v string) string {
			if v == "bad" {
				time.Sleep(time.Second) // the other task works meanwhile
				panic(errors.New("no good"))
			}
			return v
		})
		err := <-b.run(plan, memlog.Faults{}).end
		require.ErrorContains(t, err, `MapValues "f": topic in partition 1 offset 1: panic: no good`)
		require.Equal(t, []string{"k=1", "k=2"}, b.texts("out", 0))
		require.Empty(t, b.texts("out", 1))
		require.EqualValues(t, 2, b.offset(0))
		require.Zero(t, b.offset(1))
	})
}

func TestConfigNamesEachFieldThatCannotWork(t *testing.T) {
	plan := (&bench{t: t}).mapping(func(v string) string { return v })
	_, err := exec.New(plan, exec.Config{Brokers: []string{"localhost"}, SASL: &kafkalog.SASL{Mechanism: "MAGIC"},
		InstanceID: "a b", SessionTimeout: -1, RebalanceTimeout: -1, StateMemory: 1, FlushInterval: -1, CommitInterval: -1,
		TransactionTimeout: -1, MaxBatch: -1, MaxRecordBytes: -1, Compression: "rar", DrainTimeout: -1, Replication: -2})
	var ce *exec.ConfigError
	require.ErrorAs(t, err, &ce)
	for _, field := range []string{"Brokers", "SASL.Mechanism", "SASL.Username", "InstanceID", "SessionTimeout", "RebalanceTimeout", "StateMemory", "FlushInterval", "CommitInterval",
		"TransactionTimeout", "MaxBatch", "MaxRecordBytes", "Compression", "DrainTimeout", "Replication"} {
		require.ErrorContains(t, err, field)
	}
	require.NotContains(t, err.Error(), "\n")
	_, err = exec.New(plan, exec.Config{})
	require.ErrorContains(t, err, "Brokers")
	_, err = exec.New(nil, exec.Config{Brokers: []string{"localhost:1"}})
	require.ErrorContains(t, err, "plan is nil")
	_, err = exec.New(&topology.Plan{}, exec.Config{})
	require.ErrorContains(t, err, "plan is empty: it is made by Builder.Build")
	require.ErrorContains(t, new(exec.App).Run(t.Context()), "the App is empty: it is made by New")
	require.ErrorContains(t, exec.Run(t.Context(), plan, exec.Config{}), "wicker: config: Brokers")
}

func TestRunTwiceAndContextsThatHaveEnded(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		s := b.run(b.joining(), memlog.Faults{}).idle()
		require.ErrorContains(t, s.app.Run(t.Context()), "Run was called before")
		s.drain()
		require.ErrorContains(t, s.app.Run(t.Context()), "Run was called before")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		app, err := exec.New(b.joining(), exec.Config{Log: b.log})
		require.NoError(t, err)
		require.NoError(t, app.Run(ctx))
	})
}

// A start is ended at once, wherever it is, and leaves nothing behind.
func TestE11AContextThatEndsDuringTheStart(t *testing.T) {
	for _, at := range []string{"Topics", "CreateTopics", "StartOffsets", "EndOffsets", "CommittedOffsets", "OpenProducer", "OpenReader", "Join"} {
		t.Run(at, func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				b.put(0, "k", "1")
				if at != "CreateTopics" && at != "StartOffsets" {
					b.run(b.joining(), memlog.Faults{}).idle().drain()
					b.put(0, "k", "2")
				}
				reached, reach := once()
				hold := func(ctx context.Context, method string) error {
					if method != at {
						return nil
					}
					reach()
					<-ctx.Done()
					return &commitlog.Error{Op: method, Partition: -1, Class: commitlog.Retriable, Err: ctx.Err()}
				}
				s := b.run(b.joining(), memlog.Faults{
					Admin:        hold,
					OpenProducer: func(ctx context.Context, _ commitlog.ProducerConfig) error { return hold(ctx, "OpenProducer") },
					OpenReader:   func(ctx context.Context, _ commitlog.ReaderConfig) error { return hold(ctx, "OpenReader") },
					Join:         func(ctx context.Context, _ commitlog.MemberConfig) error { return hold(ctx, "Join") },
				})
				<-reached
				begin := time.Now()
				s.drain()
				require.Less(t, time.Since(begin), time.Second)
				b.run(b.joining(), memlog.Faults{}).idle().drain()
				out := b.texts("out", 0)
				require.Equal(t, "k="+"12"[:len(out)], out[len(out)-1])
			})
		})
	}
}

// A restore that is cut short is not taken for a finished one.
func TestE5ARestoreThatIsCutShort(t *testing.T) {
	for _, how := range []string{"end", "log closed", "error"} {
		t.Run(how, func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				b.put(0, "k", "1", "l", "2")
				b.run(b.joining(), memlog.Faults{}).idle().drain()
				b.put(0, "k", "3")
				reached, reach := once()
				release := make(chan struct{})
				s := b.run(b.joining(), memlog.Faults{Fetch: func(tp commitlog.TopicPartition) error {
					if tp.Topic != benchLog {
						return nil
					}
					reach()
					<-release
					if how == "error" {
						return &commitlog.Error{Op: "fetch", Partition: -1, Class: commitlog.Fatal, Err: errors.New("bad disk")}
					}
					return nil
				}})
				<-reached
				switch how {
				case "end":
					s.cancel()
					synctest.Wait()
					close(release)
					require.NoError(t, <-s.end)
				case "log closed":
					go s.log.Close() // waits for the reader
					synctest.Wait()
					close(release)
					require.Error(t, <-s.end)
				case "error":
					close(release)
					require.ErrorContains(t, <-s.end, "bad disk")
				}
				time.Sleep(20 * time.Second) // its session ends
				b.run(b.joining(), memlog.Faults{}).idle().drain()
				require.Equal(t, []string{"k=1", "l=2", "k=13"}, b.texts("out", 0))
			})
		})
	}
}

// A log that closes under a running instance ends Run.
func TestALogThatClosesEndsRun(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		s := b.run(b.joining(), memlog.Faults{}).idle()
		s.log.Close()
		require.ErrorIs(t, <-s.end, commitlog.ErrClosed)
	})
}

// Two Apps on one engine are told what is wrong.
func TestAnEngineSharedByTwoApps(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		engine := kvstore.NewMemory()
		share := func(c *exec.Config) { c.State = engine }
		first := b.run(b.joining(), memlog.Faults{}, share).idle()
		b.create("in2", 1, nil)
		plan, err := topology.New("app2").From(ops.Source(ops.NewTopic("in2", codec.String, codec.String))).
			Aggregate(benchSum, func(_, v, s string) string { return s + v }).To(ops.Sink(benchOut)).Build()
		require.NoError(t, err)
		second := b.run(plan, memlog.Faults{}, share)
		synctest.Wait()
		first.drain()
		_, err = b.log.Append(t.Context(), "in2", 0, []commitlog.Record{{Key: []byte("k")}})
		require.NoError(t, err)
		err = <-second.end
		require.ErrorIs(t, err, kvstore.ErrClosed)
		require.ErrorContains(t, err, "is Config.State shared by two Apps?")
	})
}

// What the local store cannot know is rebuilt from the changelog: damage, another topic of the
// same name, a changelog that has lost what the store has not seen.
func TestE4AStoreThatCannotBeMadeExactIsRebuilt(t *testing.T) {
	for _, what := range []string{"damage", "damage in use", "checkpoint beyond the end", "checkpoint before the start"} {
		t.Run(what, func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				d := newDisk(t)
				on := func(c *exec.Config) { c.State = &diskEngine{disk: d} }
				b.put(0, "k", "1", "l", "2")
				b.run(b.joining(), memlog.Faults{}, on).idle().drain()
				store := "app-in-0"
				tamper := func(f func(*kvstore.Batch)) {
					var batch kvstore.Batch
					f(&batch)
					require.NoError(t, d.stores[store].Write(&batch))
				}
				tamper(func(batch *kvstore.Batch) { batch.Put([]byte("\x01nk"), []byte("wrong")) })
				restored := int64(2)
				switch what {
				case "damage":
					on = func(c *exec.Config) { c.State = &damaged{diskEngine: &diskEngine{disk: d}, openFails: true} }
				case "damage in use":
					on = func(c *exec.Config) { c.State = &damaged{diskEngine: &diskEngine{disk: d}, checkpointFails: true} }
				case "checkpoint beyond the end":
					tamper(func(batch *kvstore.Batch) { batch.SetCheckpoint(benchLog, 1000) })
				case "checkpoint before the start":
					tp := commitlog.TopicPartition{Topic: benchLog}
					_, err := b.log.Truncate(tp, 1)
					require.NoError(t, err)
					tamper(func(batch *kvstore.Batch) { batch.SetCheckpoint(benchLog, 0) })
					restored = 1
				}
				b.put(0, "l", "3")
				s := b.run(b.joining(), memlog.Faults{}, on).idle()
				require.Equal(t, restored, s.app.Stats().Restored)
				b.put(0, "k", "4")
				s.idle().drain()
				want := []string{"k=1", "l=2", "l=23", "k=14"}
				if what == "checkpoint before the start" {
					want[3] = "k=4" // what the changelog has lost is lost, as for any other owner
				}
				require.Equal(t, want, b.texts("out", 0))
			})
		})
	}
}

// damaged is an engine whose first store is damaged.
type damaged struct {
	*diskEngine
	mu                         sync.Mutex // stores are opened by several goroutines at once
	openFails, checkpointFails bool
	// only is the store whose opening fails, empty for whichever is opened first.
	only string
}

func (d *damaged) OpenStore(name string) (kvstore.Store, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.openFails && (d.only == "" || d.only == name) {
		d.openFails = false
		return nil, fmt.Errorf("store %q: %w", name, kvstore.ErrCorrupt)
	}
	store, err := d.diskEngine.OpenStore(name)
	if d.checkpointFails {
		d.checkpointFails = false
		return damagedStore{store}, err
	}
	return store, err
}

type damagedStore struct{ kvstore.Store }

func (damagedStore) Checkpoint(string) (int64, bool, error) { return 0, false, kvstore.ErrCorrupt }

// A restore ends by position, whatever lies at the changelog's end: gaps, markers, aborted records.
func TestE5ARestoreEndsByPosition(t *testing.T) {
	for _, what := range []string{"compacted", "compacted to nothing", "aborted tail", "records deleted", "empty"} {
		t.Run(what, func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				plan, err := topology.New("app").From(ops.Source(benchIn)).
					Aggregate(ops.NewState("n", codec.String, codec.OmitZero(codec.String)), func(_, v, s string) string {
						if v == "del" {
							return ""
						}
						return s + v
					}).To(ops.Sink(benchOut)).Build()
				require.NoError(t, err)
				if what != "empty" {
					b.put(0, "k", "1", "l", "2")
					b.run(plan, memlog.Faults{}).idle().drain()
					b.put(0, "k", "3", "l", "del")
					b.run(plan, memlog.Faults{}).idle().drain()
				}
				want := "k=134"
				switch what {
				case "compacted":
					require.NoError(t, b.log.Compact(benchLog, memlog.CompactOptions{Markers: true, Tombstones: true}))
				case "compacted to nothing":
					b.put(0, "k", "del")
					b.run(plan, memlog.Faults{}).idle().drain()
					require.NoError(t, b.log.Compact(benchLog, memlog.CompactOptions{Markers: true, Tombstones: true}))
					require.Empty(t, b.texts(benchLog, 0))
					want = "k=4"
				case "aborted tail":
					p, err := b.log.OpenProducer(t.Context(), commitlog.ProducerConfig{TransactionalID: "app-in-0"})
					require.NoError(t, err)
					builder := commitlog.NewBuilder(commitlog.NewPool(1000))
					builder.Append(1, []byte("k"), []byte("aborted"), nil, 0)
					require.NoError(t, p.Produce(t.Context(), commitlog.TopicPartition{Topic: benchLog}, builder.Take()))
					// Its owner dies: the fence aborts it.
				case "records deleted":
					_, err := b.log.Truncate(commitlog.TopicPartition{Topic: benchLog}, -1)
					require.NoError(t, err)
					want = "k=4"
				case "empty":
					want = "k=4"
				}
				b.put(0, "k", "4")
				b.run(plan, memlog.Faults{}).idle().drain()
				out := b.texts("out", 0)
				require.Equal(t, want, out[len(out)-1])
			})
		})
	}
}

func TestAnInternalTopicWithAnotherCleanupPolicy(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.create(benchLog, 1, map[string]string{"cleanup.policy": "delete"})
		err := <-b.run(b.joining(), memlog.Faults{}).end
		var te *exec.TopicsError
		require.ErrorAs(t, err, &te)
		require.ErrorContains(t, err, benchLog+" has cleanup.policy=delete, want compact")
		require.ErrorContains(t, err, "kafka-configs.sh")
	})
}

func TestARecordWithoutAKeyHasNoState(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		plan, err := topology.New("app").From(ops.Source(ops.NewTopic("in", codec.Bytes, codec.String))).
			Aggregate(ops.NewState("n", codec.Bytes, codec.String), func(_ []byte, v, s string) string { return s + v }).
			To(ops.Sink(ops.NewTopic("out", codec.Bytes, codec.String))).Build()
		require.NoError(t, err)
		_, err = b.log.Append(t.Context(), "in", 0, []commitlog.Record{{Key: []byte{}, Value: []byte("1")}, {Value: []byte("2")}})
		require.NoError(t, err)
		err = <-b.run(plan, memlog.Faults{}).end
		require.ErrorIs(t, err, ops.ErrNullKey)
		require.ErrorContains(t, err, `Aggregate "n": topic in partition 0 offset 1`)
	})
}

// Headers and timestamps go through as they are.
func TestManyHeadersAndOddTimestamps(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		var headers []byte
		for i := range 10_000 {
			headers = commitlog.AppendHeader(headers, fmt.Sprint("h", i), []byte(letters(i%7)))
		}
		in := []commitlog.Record{
			{Offset: 0, Timestamp: 1 << 60, Key: []byte("a"), Value: []byte("1"), Headers: headers, HeaderCount: 10_000},
			{Offset: 1, Timestamp: -1, Key: []byte("b"), Value: []byte("2"), Headers: []byte{}},
			{Offset: 2, Timestamp: 1<<63 - 1, Key: []byte("c"), Value: []byte{}, Headers: []byte{}},
			{Offset: 3, Timestamp: 0, Key: []byte{}, Value: []byte("4"), Headers: []byte{}},
		}
		_, err := b.log.Append(t.Context(), "in", 0, in)
		require.NoError(t, err)
		b.run(b.mapping(func(v string) string { return v }), memlog.Faults{}).idle().drain()
		got, err := b.log.Records("out", 0, commitlog.ReadCommitted)
		require.NoError(t, err)
		require.Equal(t, in, got)
	})
}

// A process that hangs at any point of a transaction, loses its session and comes back writes
// nothing: its task has another owner (E3).
func TestE3AZombieWritesNothing(t *testing.T) {
	for _, at := range []string{"produce", "commit", "end"} {
		t.Run(at, func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				reached, reach := once()
				release := make(chan struct{})
				hold := func(here string) error {
					if here == at {
						reach()
						<-release
					}
					return nil
				}
				b.put(0, "k", "1", "k", "2")
				zombie := b.run(b.joining(), memlog.Faults{
					Produce: func(context.Context, string, commitlog.TopicPartition, int) error { return hold("produce") },
					Commit:  func(context.Context, string, map[commitlog.TopicPartition]int64) error { return hold("commit") },
					EndTxn:  func(context.Context, string) error { return hold("end") },
				}, func(c *exec.Config) { c.ClientID = "zombie" })
				<-reached
				for _, m := range b.log.Group("app").Members {
					require.NoError(t, b.log.PauseMember("app", m.ID, true))
					defer func() { _ = b.log.PauseMember("app", m.ID, false) }()
				}
				other := b.run(b.joining(), memlog.Faults{}, func(c *exec.Config) { c.ClientID = "other" })
				time.Sleep(time.Minute)
				other.idle()
				require.Equal(t, []string{"k=1", "k=12"}, b.texts("out", 0))
				log := b.texts(benchLog, 0)
				b.put(0, "k", "3")
				close(release)
				synctest.Wait()
				other.idle()
				require.Equal(t, []string{"k=1", "k=12", "k=123"}, b.texts("out", 0))
				require.Equal(t, append(log, "k=123"), b.texts(benchLog, 0))
				zombie.cancel()
				<-zombie.end
				other.drain()
			})
		})
	}
}
