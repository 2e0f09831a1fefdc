package logtest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/exec/commitlog/logtest"
	"github.com/wickerwork/wicker/testkit/memlog"
)

// mutant is a way to break a log that works, and the case that is to notice.
type mutant struct {
	name, caught string
	broken       hooks
}

// hooks are what a mutant does otherwise; nil is what the log does.
type hooks struct {
	reader   func(*commitlog.ReaderConfig)
	chunk    func(commitlog.Chunk) (_ commitlog.Chunk, deliver bool)
	producer func(*commitlog.ProducerConfig)
	commit   func(ctx context.Context, p commitlog.Producer, offsets map[commitlog.TopicPartition]int64, as commitlog.Identity) (map[commitlog.TopicPartition]int64, error)
	abort    func(context.Context, commitlog.Producer) error
	topics   func(ctx context.Context, l commitlog.Log, names []string) (map[string]commitlog.Topic, error)
	ends     func(*commitlog.Isolation)
	join     func(*commitlog.Assignment, int)
	leave    func(leave bool) bool
	member   func(*commitlog.MemberConfig)
}

var unique atomic.Int64

func mutants() []mutant {
	return []mutant{
		{"deliversAborted", "Reading/AbortedFiltered", hooks{
			reader: func(cfg *commitlog.ReaderConfig) { cfg.Isolation = commitlog.ReadUncommitted }}},
		{"endBeyondOpenTransaction", "Reading/OpenTransactionHolds", hooks{
			ends: func(iso *commitlog.Isolation) { *iso = commitlog.ReadUncommitted }}},
		{"nullIsEmpty", "Reading/RecordsAsWritten", hooks{
			chunk: func(c commitlog.Chunk) (commitlog.Chunk, bool) { return rewritten(c, emptyForNull), true }}},
		{"losesTimestamps", "Reading/ProducedAsWritten", hooks{
			chunk: func(c commitlog.Chunk) (commitlog.Chunk, bool) {
				return rewritten(c, func(r *commitlog.Record) { r.Timestamp = 0 }), true
			}}},
		{"batchesBackwards", "Transactions/ManyBatchesInOrder", hooks{
			chunk: func(c commitlog.Chunk) (commitlog.Chunk, bool) {
				c.Batches = slices.Clone(c.Batches)
				slices.Reverse(c.Batches)
				return c, true
			}}},
		{"losesRecords", "Transactions/ManyBatchesInOrder", hooks{
			chunk: func(c commitlog.Chunk) (commitlog.Chunk, bool) {
				if len(c.Batches) > 1 {
					c.Batches = c.Batches[1:]
				}
				return c, true
			}}},
		{"staysAtMarkers", "Positions/OnlyMarkersAndAborted", hooks{
			chunk: func(c commitlog.Chunk) (commitlog.Chunk, bool) { return c, len(c.Batches) > 0 }}},
		{"givesWholeBatches", "Positions/FromWithinBatch", hooks{
			chunk: func(c commitlog.Chunk) (commitlog.Chunk, bool) {
				if len(c.Batches) > 0 {
					c.Base = c.Batches[0].BaseOffset
				}
				return c, true
			}}},
		{"fencesNobody", "Fencing/OldProducerFails", hooks{
			producer: func(cfg *commitlog.ProducerConfig) {
				cfg.TransactionalID = fmt.Sprint(cfg.TransactionalID, unique.Add(1))
			}}},
		{"commitReturnsLastOffset", "Transactions/CommitReturnsEnds", hooks{
			commit: func(ctx context.Context, p commitlog.Producer, offsets map[commitlog.TopicPartition]int64, as commitlog.Identity) (map[commitlog.TopicPartition]int64, error) {
				ends, err := p.Commit(ctx, offsets, as)
				for tp := range ends {
					ends[tp]--
				}
				return ends, err
			}}},
		{"abortCommits", "Transactions/AbortThenGoOn", hooks{
			abort: func(ctx context.Context, p commitlog.Producer) error {
				_, err := p.Commit(ctx, nil, commitlog.GroupMetadata{Generation: -1})
				return err
			}}},
		{"abortDoesNothing", "Transactions/AbortThenGoOn", hooks{
			abort: func(context.Context, commitlog.Producer) error { return nil }}},
		{"losesOffsets", "Offsets/WithTheTransaction", hooks{
			commit: func(ctx context.Context, p commitlog.Producer, _ map[commitlog.TopicPartition]int64, as commitlog.Identity) (map[commitlog.TopicPartition]int64, error) {
				return p.Commit(ctx, nil, as)
			}}},
		{"ignoresGeneration", "Offsets/StaleGeneration", hooks{
			commit: func(ctx context.Context, p commitlog.Producer, offsets map[commitlog.TopicPartition]int64, as commitlog.Identity) (map[commitlog.TopicPartition]int64, error) {
				group, err := as.Current(ctx, commitlog.AnyGeneration)
				if err != nil {
					return nil, err
				}
				return p.Commit(ctx, offsets, commitlog.GroupMetadata{Group: group.Group, Generation: -1})
			}}},
		{"everythingToEveryone", "Groups/TwoShare", hooks{
			join: func(a *commitlog.Assignment, partitions int) {
				if len(a.Partitions) > 0 {
					topic := a.Partitions[0].Topic
					a.Partitions = nil
					for i := range partitions {
						a.Partitions = append(a.Partitions, commitlog.TopicPartition{Topic: topic, Partition: int32(i)})
					}
				}
			}}},
		{"generationsStay", "Groups/GenerationsRise", hooks{
			join: func(a *commitlog.Assignment, _ int) { a.Generation = 1 }}},
		{"neverFresh", "Membership/FreshOnce", hooks{
			join: func(a *commitlog.Assignment, _ int) { a.Fresh = false }}},
		{"alwaysFresh", "Membership/CancelledJoinKeepsThePlace", hooks{
			join: func(a *commitlog.Assignment, _ int) { a.Fresh = true }}},
		{"identityOfOneGeneration", "Membership/GenerationIsAwaited", hooks{
			join: func(a *commitlog.Assignment, _ int) { a.Identity = a.GroupMetadata }}},
		{"keepsTheFirstGeneration", "Membership/TakesTheNextGeneration", hooks{
			commit: func(ctx context.Context, p commitlog.Producer, offsets map[commitlog.TopicPartition]int64, as commitlog.Identity) (map[commitlog.TopicPartition]int64, error) {
				group, err := as.Current(ctx, commitlog.AnyGeneration)
				if err != nil {
					return nil, err
				}
				return p.Commit(ctx, offsets, group)
			}}},
		{"forgetsTheVersion", "Groups/StaticMemberOfAnotherVersion", hooks{
			member: func(cfg *commitlog.MemberConfig) { cfg.Version = "" }}},
		{"leavesSilently", "Groups/LeaveRebalances", hooks{
			leave: func(bool) bool { return false }}},
		{"createsWhatIsAskedFor", "Topics/MissingAreAbsent", hooks{
			topics: func(ctx context.Context, l commitlog.Log, names []string) (map[string]commitlog.Topic, error) {
				for _, n := range names {
					if err := l.CreateTopics(ctx, []commitlog.TopicSpec{{Name: n, Partitions: 1, Replication: -1}}); err != nil {
						return nil, err
					}
				}
				return l.Topics(ctx, names...)
			}}},
	}
}

// mutantVariable names the mutant that a process of this test's is to be.
const mutantVariable = "WICKER_LOGTEST_MUTANT"

// A suite that passes everything proves nothing: each mutant fails the case that is there for it. A mutant
// runs in a process of its own, as a test that must fail cannot run in one that must pass.
func TestSuiteCatches(t *testing.T) {
	if os.Getenv(mutantVariable) != "" {
		t.Skip("a mutant's process runs TestMutant alone")
	}
	for _, m := range append(mutants(), mutant{name: "none"}) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			run := "^TestMutant$"
			if m.caught != "" {
				group, name, _ := strings.Cut(m.caught, "/")
				run = fmt.Sprintf("^TestMutant$/^%s$/^%s$", group, name)
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+run, "-test.count=1", "-test.v")
			cmd.Env = append(os.Environ(), mutantVariable+"="+m.name)
			out, err := cmd.CombinedOutput()
			if m.caught == "" {
				require.NoError(t, err, "%s", out)
				require.NotContains(t, string(out), "--- SKIP")
				return
			}
			require.Error(t, err, "%s passes although %s", m.caught, m.name)
			require.Contains(t, string(out), "--- FAIL: TestMutant/"+m.caught, "%s", out)
			require.NotContains(t, string(out), "panic:", "%s", out)
		})
	}
}

// TestMutant is what a mutant's process runs.
func TestMutant(t *testing.T) {
	name := os.Getenv(mutantVariable)
	if name == "" {
		t.Skip("runs in a process that TestSuiteCatches starts")
	}
	var broken hooks
	patience := 20 * time.Second
	if name != "none" {
		all := mutants()
		i := slices.IndexFunc(all, func(m mutant) bool { return m.name == name })
		require.GreaterOrEqual(t, i, 0, "no mutant %s", name)
		broken = all[i].broken
		patience = time.Second // that nothing comes is how some are noticed
	}
	logtest.Run(t, func(t *testing.T) logtest.Target {
		clock := &handClock{now: time.Now()}
		l := memlog.New(memlog.Options{Now: clock.Now})
		t.Cleanup(func() { require.NoError(t, l.Close()) })
		wrap := func(l commitlog.Log) commitlog.Log {
			if name == "none" {
				return l
			}
			return &brokenLog{Log: l, hooks: broken}
		}
		return logtest.Target{
			Log:     wrap(l),
			Connect: func(testing.TB) commitlog.Log { return wrap(l.Session()) },
			Append: func(t testing.TB, tp commitlog.TopicPartition, records []commitlog.Record) int64 {
				first, err := l.Append(context.Background(), tp.Topic, tp.Partition, records)
				require.NoError(t, err)
				return first
			},
			CreateTopic: func(t testing.TB, spec commitlog.TopicSpec) {
				require.NoError(t, l.CreateTopics(context.Background(), []commitlog.TopicSpec{spec}))
			},
			Read: func(t testing.TB, tp commitlog.TopicPartition, n int) []commitlog.Record {
				records, err := l.Records(tp.Topic, tp.Partition, commitlog.ReadCommitted)
				require.NoError(t, err)
				return records[:n]
			},
			Compact: func(t testing.TB, topic string) { require.NoError(t, l.Compact(topic, memlog.CompactOptions{})) },
			DeleteRecords: func(t testing.TB, tp commitlog.TopicPartition, before int64) {
				_, err := l.Truncate(tp, before)
				require.NoError(t, err)
			},
			DeleteTopic: func(_ testing.TB, topic string) { l.DeleteTopics(topic) },
			Elapse: func(d time.Duration) {
				clock.advance(d)
				l.Tick()
			},
			Compressions: []string{"gzip", "snappy", "lz4", "zstd"},
			Patience:     patience,
		}
	})
}

// handClock is a clock that a test moves. Safe for concurrent use.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// brokenLog is a log with a mutant's hooks in it.
type brokenLog struct {
	commitlog.Log
	hooks
}

func (l *brokenLog) Topics(ctx context.Context, names ...string) (map[string]commitlog.Topic, error) {
	if l.topics != nil {
		return l.topics(ctx, l.Log, names)
	}
	return l.Log.Topics(ctx, names...)
}

func (l *brokenLog) EndOffsets(ctx context.Context, tps []commitlog.TopicPartition, iso commitlog.Isolation) (map[commitlog.TopicPartition]int64, error) {
	if l.ends != nil {
		l.ends(&iso)
	}
	return l.Log.EndOffsets(ctx, tps, iso)
}

func (l *brokenLog) OpenProducer(ctx context.Context, cfg commitlog.ProducerConfig) (commitlog.Producer, error) {
	if l.producer != nil {
		l.producer(&cfg)
	}
	p, err := l.Log.OpenProducer(ctx, cfg)
	return &brokenProducer{p, l.hooks}, err
}

func (l *brokenLog) OpenReader(ctx context.Context, cfg commitlog.ReaderConfig) (commitlog.Reader, error) {
	if l.reader != nil {
		l.reader(&cfg)
	}
	r, err := l.Log.OpenReader(ctx, cfg)
	if err != nil || l.chunk == nil {
		return r, err
	}
	b := &brokenReader{Reader: r, chunks: make(chan commitlog.Chunk)}
	go func() {
		defer close(b.chunks)
		for c := range r.Chunks() {
			if c, deliver := l.chunk(c); deliver {
				b.chunks <- c
			}
		}
	}()
	return b, nil
}

func (l *brokenLog) OpenMember(ctx context.Context, cfg commitlog.MemberConfig) (commitlog.Member, error) {
	if l.member != nil {
		l.member(&cfg)
	}
	m, err := l.Log.OpenMember(ctx, cfg)
	return &brokenMember{m, l.Log, l.hooks}, err
}

type brokenProducer struct {
	commitlog.Producer
	hooks
}

func (p *brokenProducer) Commit(ctx context.Context, offsets map[commitlog.TopicPartition]int64, as commitlog.Identity) (map[commitlog.TopicPartition]int64, error) {
	if p.commit != nil {
		return p.commit(ctx, p.Producer, offsets, as)
	}
	return p.Producer.Commit(ctx, offsets, as)
}

func (p *brokenProducer) Abort(ctx context.Context) error {
	if p.abort != nil {
		return p.abort(ctx, p.Producer)
	}
	return p.Producer.Abort(ctx)
}

type brokenReader struct {
	commitlog.Reader
	chunks chan commitlog.Chunk
}

func (r *brokenReader) Chunks() <-chan commitlog.Chunk { return r.chunks }

type brokenMember struct {
	commitlog.Member
	log commitlog.Log
	hooks
}

func (m *brokenMember) Join(ctx context.Context, owned []commitlog.TopicPartition, userData []byte) (commitlog.Assignment, error) {
	a, err := m.Member.Join(ctx, owned, userData)
	if err == nil && m.join != nil {
		n := 0
		if len(a.Partitions) > 0 {
			topics, err := m.log.Topics(ctx, a.Partitions[0].Topic)
			if err != nil {
				return a, err
			}
			n = topics[a.Partitions[0].Topic].Partitions
		}
		m.join(&a, n)
	}
	return a, err
}

func (m *brokenMember) Close(ctx context.Context, leave bool) error {
	if m.leave != nil {
		leave = m.leave(leave)
	}
	return m.Member.Close(ctx, leave)
}

// rewritten returns c with every record changed.
func rewritten(c commitlog.Chunk, change func(*commitlog.Record)) commitlog.Chunk {
	batches := slices.Clone(c.Batches)
	for i, b := range batches {
		one := commitlog.Chunk{Base: b.BaseOffset, Batches: []commitlog.RecordBatch{b}}
		builder := commitlog.NewBuilder(commitlog.NewPool(0))
		var cursor commitlog.Cursor
		var r commitlog.Record
		for cursor.Reset(&one); cursor.Next(&r); {
			change(&r)
			builder.Append(r.Timestamp, r.Key, r.Value, r.Headers, r.HeaderCount)
		}
		if built := builder.Take(); built != nil {
			batches[i].BaseTimestamp, batches[i].Records = built.BaseTimestamp, built.Buf[commitlog.HeaderSize:]
		}
	}
	c.Batches = batches
	return c
}

func emptyForNull(r *commitlog.Record) {
	if r.Key == nil {
		r.Key = []byte{}
	}
	if r.Value == nil {
		r.Value = []byte{}
	}
}
