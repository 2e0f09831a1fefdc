package exec_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

var (
	simSeed  = flag.Int64("sim.seed", -1, "run the simulation with this seed only")
	simSeeds = flag.Int("sim.seeds", 200, "number of seeds of the simulation")
)

// Up to three processes share the tasks of a plan with every kind of operator, while records
// arrive and processes join, leave, are killed, hang beyond their session, and meet every class
// of error at every call, answers lost after a commit included. Whatever happens, what is committed
// is what a plain program computes.
//
// A seed fixes what happens, but not how goroutines interleave.
func TestSimulation(t *testing.T) {
	run := func(seed uint64) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { simulate(t, seed) })
		})
	}
	if *simSeed >= 0 {
		run(uint64(*simSeed))
		return
	}
	for seed := range *simSeeds {
		run(uint64(seed))
	}
}

const (
	simApp        = "sim"
	simPartitions = 3
	simUsers      = 12
)

// simulation is one run. Its driver is the test's goroutine.
type simulation struct {
	t     *testing.T
	log   *memlog.Log // the test's own connection
	plan  *topology.Plan
	disks [3]*disk
	// static: a process has the instance id of its disk.
	static bool
	procs  []*process
	next   int // number of the next process, and of the next record
	ids    int
	r      *rand.Rand
	story  []string // what the driver did

	rate atomic.Int32 // faults in 1000 calls
	// disruptions counts what may cost a Memo another call of a key.
	disruptions atomic.Int64
	mu          sync.Mutex
	faultRand   *rand.Rand
	asked       map[string]int
	// The oracle's: pushed values by input partition in order.
	pushed [simPartitions][]simRecord
}

type simRecord struct {
	key      string
	id, user int
}

func simulate(t *testing.T, seed uint64) {
	s := &simulation{t: t, log: memlog.New(memlog.Options{}), r: rand.New(rand.NewPCG(seed, 1)),
		faultRand: rand.New(rand.NewPCG(seed, 2)), asked: map[string]int{}}
	defer func() {
		if t.Failed() {
			t.Logf("run again with -run TestSimulation -sim.seed=%d; story: %s", seed, strings.Join(s.story, ", "))
		}
		s.rate.Store(0)
		for _, p := range s.procs {
			p.thaw()
			p.cancel()
			<-p.done
		}
		s.log.Close()
	}()
	for i := range s.disks {
		s.disks[i] = newDisk(t)
	}
	s.plan = s.build()
	var specs []commitlog.TopicSpec
	for _, name := range []string{"in", "lasts", "refined", "sums"} {
		specs = append(specs, commitlog.TopicSpec{Name: name, Partitions: simPartitions, Replication: 1})
	}
	require.NoError(t, s.log.CreateTopics(t.Context(), specs))
	calm := seed%4 == 0 // joins and leaves only: then nothing is asked twice
	s.static = seed%4 == 1
	s.start()
	for range 10 + s.r.IntN(30) {
		s.step(calm)
	}
	s.settle()
	s.check()
	if calm {
		for k, n := range s.asked {
			require.Equal(t, 1, n, "calls for %s", k)
		}
		// E8: what moves is given up before it is taken.
		require.Zero(t, s.log.Fenced())
	}
	for k, n := range s.asked {
		require.LessOrEqual(t, int64(n), 1+s.disruptions.Load(), "calls for %s", k)
	}
	// Each disk, whatever it holds from before, is made exact by one start.
	for i := range s.disks {
		s.stopAll()
		if s.static {
			s.sleep(time.Minute) // they stay in the group, with their tasks, for their session
		}
		s.push(1 + s.r.IntN(5))
		s.startOn(i)
		s.settle()
		s.stopAll()
		s.check()
		s.checkDisk(s.disks[i])
	}
}

func simGroup(user int) string { return fmt.Sprint("g", user%4) }

// build makes the plan: two sub-topologies with state behind a third with state of its own.
func (s *simulation) build() *topology.Plan {
	text := codec.String
	b := topology.New(simApp)
	src := b.From(ops.Source(ops.NewTopic("in", text, text)))
	// The ids of a key so far; one divisible by 5 deletes them.
	src.Aggregate(ops.NewState("last", text, codec.OmitZero(text)), simLast).
		To(ops.Sink(ops.NewTopic("lasts", text, text)))
	memo := ops.Memo("names", text, func(_ context.Context, user string) (string, error) {
		s.mu.Lock()
		s.asked[user]++
		s.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
		return "name-" + user, nil
	})
	even, odd := src.Rekey("by-user", func(_, v string) string { return strings.Fields(v)[1] }).
		Branch(func(user, _ string) bool { n, _ := strconv.Atoi(user); return n%2 == 0 })
	all := even.Memo(memo, func(v, name string) string { return v + " " + name }).
		Merge(odd.MapValues(func(v string) string { return v + " odd" }))
	all.To(ops.Sink(ops.NewTopic("refined", text, text)))
	all.Rekey("by-group", func(user, _ string) string { n, _ := strconv.Atoi(user); return simGroup(n) }).
		Aggregate(ops.NewState("sum", text, text), func(_, v, state string) string {
			var n, sum int
			_, _ = fmt.Sscan(state, &n, &sum)
			id, _ := strconv.Atoi(strings.Fields(v)[0])
			return fmt.Sprint(n+1, " ", sum+id)
		}).
		To(ops.Sink(ops.NewTopic("sums", text, text)))
	plan, err := b.Build()
	require.NoError(s.t, err)
	return plan
}

// simLast is the state of a key after a record.
func simLast(_, v, state string) string {
	id, _ := strconv.Atoi(strings.Fields(v)[0])
	if id%5 == 0 {
		return ""
	}
	if len(state) > 40 {
		state = state[len(state)-40:]
	}
	return state + "," + strconv.Itoa(id)
}

// step does one thing that may happen.
func (s *simulation) step(calm bool) {
	s.reap()
	s.checkOffsets()
	n := 16
	if calm {
		n = 8
	}
	switch s.r.IntN(n) {
	case 0, 1, 2:
		s.push(1 + s.r.IntN(120))
	case 3:
		s.sleep(time.Duration(s.r.IntN(200)) * time.Millisecond)
	case 4:
		s.sleep(time.Duration(s.r.IntN(60)) * time.Second)
	case 5, 6:
		s.start()
	case 7:
		if p := s.pick(); p != nil && !p.frozen() {
			s.tell("p%d leaves", p.n)
			p.cancel()
			err := <-p.done
			if s.rate.Load() == 0 && s.disruptions.Load() == 0 {
				require.NoError(s.t, err)
			}
			s.gone(p)
		}
	case 8, 9:
		if p := s.pick(); p != nil {
			s.tell("p%d is killed", p.n)
			s.disruptions.Add(1)
			p.kill()
			s.gone(p)
			if s.static && s.r.IntN(2) == 0 { // it is back before its session is over
				s.startOn(slices.IndexFunc(s.disks[:], func(d *disk) bool { return d.user == p }))
			}
		}
	case 10, 11:
		if p := s.pick(); p != nil {
			if p.frozen() {
				s.tell("p%d goes on", p.n)
				p.thaw()
			} else {
				s.tell("p%d hangs", p.n)
				s.disruptions.Add(1)
				p.freeze()
			}
		}
	case 12, 13:
		s.rate.Store(int32(s.r.IntN(150)))
		s.tell("%d faults in 1000 calls", s.rate.Load())
	case 14:
		s.rate.Store(0)
		s.tell("no faults")
	case 15:
		for _, store := range s.plan.Stores() {
			_ = s.log.Compact(store.Changelog, memlog.CompactOptions{Markers: s.r.IntN(2) == 0}) // may not be there yet
		}
		s.tell("compaction")
	}
}

func (s *simulation) tell(format string, args ...any) {
	s.story = append(s.story, fmt.Sprintf(format, args...))
}

func (s *simulation) sleep(d time.Duration) {
	s.tell("%v pass", d)
	time.Sleep(d)
}

func (s *simulation) push(n int) {
	s.tell("%d records", n)
	for i := range n {
		if i%10 == 9 {
			time.Sleep(time.Duration(s.r.IntN(30)) * time.Millisecond)
		}
		s.ids++
		rec := simRecord{key: fmt.Sprint("k", s.r.IntN(8)), id: s.ids, user: s.r.IntN(simUsers)}
		p := ops.Murmur2.Partition([]byte(rec.key), simPartitions)
		s.pushed[p] = append(s.pushed[p], rec)
		_, err := s.log.Append(s.t.Context(), "in", p, []commitlog.Record{{Timestamp: time.Now().UnixMilli(),
			Key: []byte(rec.key), Value: []byte(fmt.Sprint(rec.id, " ", rec.user))}})
		require.NoError(s.t, err)
	}
}

// pick returns some process, nil if there is none.
func (s *simulation) pick() *process {
	if len(s.procs) == 0 {
		return nil
	}
	return s.procs[s.r.IntN(len(s.procs))]
}

func (s *simulation) gone(p *process) {
	for i := range s.procs {
		if s.procs[i] == p {
			s.procs = append(s.procs[:i:i], s.procs[i+1:]...)
			return
		}
	}
}

// reap notices processes that have ended with an error, as a supervisor does.
func (s *simulation) reap() {
	for _, p := range append([]*process(nil), s.procs...) {
		select {
		case err := <-p.done:
			s.tell("p%d ended: %v", p.n, err)
			require.Error(s.t, err)
			require.Positive(s.t, s.disruptions.Load(), err.Error())
			p.thaw() // what it left hanging ends too
			s.gone(p)
		default:
		}
	}
}

// start starts a process on a disk that no process has.
func (s *simulation) start() {
	for i, d := range s.disks {
		if d.user == nil || s.running(d.user) == nil {
			s.startOn(i)
			return
		}
	}
}

func (s *simulation) running(p *process) *process {
	for _, x := range s.procs {
		if x == p {
			return x
		}
	}
	return nil
}

func (s *simulation) startOn(i int) {
	p := &process{s: s, n: s.next, log: s.log.Session(), engine: &diskEngine{disk: s.disks[i]}, done: make(chan error, 1)}
	s.next++
	s.disks[i].user = p
	s.tell("p%d starts on disk %d", p.n, i)
	p.log.SetFaults(p.faults())
	cfg := exec.Config{Log: p.log, State: p.engine, ClientID: fmt.Sprint("p", p.n), SessionTimeout: 10 * time.Second,
		RebalanceTimeout: 20 * time.Second, TransactionTimeout: 15 * time.Second, DrainTimeout: 5 * time.Second,
		FlushInterval:  []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, time.Hour}[s.r.IntN(3)],
		CommitInterval: 20 * time.Millisecond, MaxBatch: 1 + s.r.IntN(20), StateMemory: 1 << 20,
		MaxRecordBytes: 1024} // the size of output batches too: many are sent before their transaction closes
	if s.static {
		cfg.InstanceID = fmt.Sprint("disk", i)
	}
	app, err := exec.New(s.plan, cfg)
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	s.procs = append(s.procs, p)
	go func() {
		err := app.Run(ctx)
		p.log.Close() // a process that has ended has no connections
		if err == nil && ctx.Err() == nil {
			err = errors.New("Run returned nil before its context ended")
		}
		p.done <- err
		close(p.done)
	}()
}

func (s *simulation) stopAll() {
	for len(s.procs) > 0 {
		p := s.procs[0]
		p.cancel()
		if err := <-p.done; err != nil { // a fault from before all trouble ended
			require.Positive(s.t, s.disruptions.Load(), err.Error())
			if !errors.Is(err, exec.ErrDrainTimeout) { // of a task that was to move when its process hung
				require.ErrorContains(s.t, err, "SIMULATED")
			}
		}
		s.gone(p)
	}
}

// settle ends all trouble and waits until everything has been processed.
func (s *simulation) settle() {
	s.rate.Store(0)
	for _, p := range s.procs {
		p.thaw()
	}
	for tries := 0; ; tries++ {
		s.reap()
		if len(s.procs) == 0 {
			s.start()
		}
		ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
		err := s.log.AwaitIdle(ctx, simApp)
		cancel()
		if err == nil {
			return
		}
		require.Less(s.t, tries, 50, "%v: %+v", err, s.log.Group(simApp))
		time.Sleep(time.Second)
	}
}

// records returns what a reader of committed records sees.
func (s *simulation) records(topic string, partition int) []commitlog.Record {
	recs, err := s.log.Records(topic, int32(partition), commitlog.ReadCommitted)
	require.NoError(s.t, err)
	return recs
}

// checkOffsets checks that no position is ahead of the outputs made from what lies before it.
func (s *simulation) checkOffsets() {
	log := s.log.Session()
	defer log.Close()
	for p := range simPartitions {
		tp := commitlog.TopicPartition{Topic: "in", Partition: int32(p)}
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Nanosecond)
		offsets, err := log.CommittedOffsets(ctx, simApp, []commitlog.TopicPartition{tp})
		cancel()
		if err == nil { // else a transaction with offsets is open
			require.GreaterOrEqual(s.t, int64(len(s.records("lasts", p))), offsets[tp], tp)
		}
	}
}

// check compares everything committed with what a plain program computes from the input.
func (s *simulation) check() {
	// lasts: each step of each key, in order.
	last := map[string]string{}
	sums, counts := map[string]int{}, map[string]int{}
	refined := map[string][]string{} // by key of the input and user, which fixes the order
	origin := map[string]string{}    // of an id: that key
	for p, pushed := range s.pushed {
		var want []string
		for _, rec := range pushed {
			v := fmt.Sprint(rec.id, " ", rec.user)
			last[rec.key] = simLast(rec.key, v, last[rec.key])
			want = append(want, rec.key+"="+last[rec.key])
			sums[simGroup(rec.user)] += rec.id
			counts[simGroup(rec.user)]++
			more := " odd"
			if rec.user%2 == 0 {
				more = fmt.Sprint(" name-", rec.user)
			}
			o := fmt.Sprint(rec.key, "/", rec.user)
			origin[strconv.Itoa(rec.id)] = o
			refined[o] = append(refined[o], v+more)
		}
		var got []string
		for _, rec := range s.records("lasts", p) {
			got = append(got, string(rec.Key)+"="+string(rec.Value))
		}
		require.Equal(s.t, want, got, "lasts of partition %d", p)
	}
	gotRefined := map[string][]string{}
	gotSums := map[string]int{}
	seen := map[string]int{}
	for p := range simPartitions {
		for _, rec := range s.records("refined", p) {
			o := origin[strings.Fields(string(rec.Value))[0]]
			require.True(s.t, strings.HasSuffix(o, "/"+string(rec.Key)))
			gotRefined[o] = append(gotRefined[o], string(rec.Value))
		}
		for _, rec := range s.records("sums", p) {
			var n, sum int
			_, err := fmt.Sscan(string(rec.Value), &n, &sum)
			require.NoError(s.t, err)
			seen[string(rec.Key)]++
			require.Equal(s.t, seen[string(rec.Key)], n, "count of %s", rec.Key)
			gotSums[string(rec.Key)] = sum
		}
	}
	require.Equal(s.t, refined, gotRefined)
	require.Equal(s.t, sums, gotSums)
	require.Equal(s.t, counts, seen)
	// Changelogs hold the same.
	require.Equal(s.t, s.wantStores(), s.changelogs())
}

// wantStores returns the state by store, partition and key, as the oracle has it.
func (s *simulation) wantStores() map[string]string {
	want := map[string]string{}
	last := map[string]string{}
	n, sum := map[string]int{}, map[string]int{}
	for _, pushed := range s.pushed {
		for _, rec := range pushed {
			last[rec.key] = simLast(rec.key, fmt.Sprint(rec.id, " ", rec.user), last[rec.key])
			g := simGroup(rec.user)
			n[g]++
			sum[g] += rec.id
			if user := strconv.Itoa(rec.user); rec.user%2 == 0 {
				want[storeKey("names", user)] = "name-" + user
			}
		}
	}
	for k, v := range last {
		if v != "" {
			want[storeKey("last", k)] = v
		}
	}
	for g := range n {
		want[storeKey("sum", g)] = fmt.Sprint(n[g], " ", sum[g])
	}
	return want
}

func storeKey(store, key string) string {
	return fmt.Sprint(store, "/", ops.Murmur2.Partition([]byte(key), simPartitions), "/", key)
}

func (s *simulation) changelogs() map[string]string {
	got := map[string]string{}
	for _, store := range s.plan.Stores() {
		for p := range simPartitions {
			for _, rec := range s.records(store.Changelog, p) {
				k := fmt.Sprint(store.Name, "/", p, "/", string(rec.Key))
				if got[k] = string(rec.Value); rec.Value == nil {
					delete(got, k)
				}
			}
		}
	}
	return got
}

// checkDisk compares the stores on a disk with the oracle. The process that ended there in order had all tasks.
func (s *simulation) checkDisk(d *disk) {
	got := map[string]string{}
	for name, store := range d.stores {
		p := name[strings.LastIndexByte(name, '-')+1:]
		require.NoError(s.t, store.Scan(nil, nil, func(key, value []byte) error {
			n := int(key[0]) // the store's name with its length in front
			got[fmt.Sprint(string(key[1:1+n]), "/", p, "/", string(key[1+n:]))] = string(value)
			return nil
		}))
	}
	require.Equal(s.t, s.wantStores(), got)
}

// process is one life of a process.
type process struct {
	s      *simulation
	n      int
	log    *memlog.Log
	engine *diskEngine
	cancel context.CancelFunc
	done   chan error
	gate   struct {
		sync.Mutex
		ch     chan struct{} // not nil while it hangs
		member string
	}
}

// kill ends the process as kill -9 does: nothing reaches the log or the disk any more.
func (p *process) kill() {
	p.engine.dead.Store(true)
	p.thaw()
	p.log.Close()
	p.cancel()
	<-p.done
}

func (p *process) frozen() bool {
	p.gate.Lock()
	defer p.gate.Unlock()
	return p.gate.ch != nil
}

// freeze holds every call of the process at the log, and its heartbeats, as SIGSTOP does.
func (p *process) freeze() {
	p.gate.Lock()
	defer p.gate.Unlock()
	p.gate.ch = make(chan struct{})
	for _, m := range p.s.log.Group(simApp).Members {
		if m.ClientID == fmt.Sprint("p", p.n) && p.s.log.PauseMember(simApp, m.ID, true) == nil {
			p.gate.member = m.ID
		}
	}
}

func (p *process) thaw() {
	p.gate.Lock()
	defer p.gate.Unlock()
	if p.gate.ch == nil {
		return
	}
	close(p.gate.ch)
	p.gate.ch = nil
	if p.gate.member != "" {
		_ = p.s.log.PauseMember(simApp, p.gate.member, false) // it may have ended
		p.gate.member = ""
	}
}

// faults makes calls hang while the process does, and fail now and then.
func (p *process) faults() memlog.Faults {
	meet := func(op string) error {
		p.gate.Lock()
		ch := p.gate.ch
		p.gate.Unlock()
		if ch != nil {
			<-ch
		}
		if p.engine.dead.Load() {
			return &commitlog.Error{Op: op, Partition: -1, Class: commitlog.Fatal, Err: commitlog.ErrClosed}
		}
		s := p.s
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.faultRand.IntN(1000) >= int(s.rate.Load()) {
			return nil
		}
		s.disruptions.Add(1)
		class := commitlog.Class(s.faultRand.IntN(4))
		if class == commitlog.Fatal && s.faultRand.IntN(3) > 0 {
			class = commitlog.Retriable // a process that ends is dull
		}
		return &commitlog.Error{Op: op, Partition: -1, Name: "SIMULATED", Class: class}
	}
	// What a broker takes its time for, so that tasks go on meanwhile.
	slow := func(op string) error {
		p.s.mu.Lock()
		d := time.Duration(p.s.faultRand.IntN(15)) * time.Millisecond
		p.s.mu.Unlock()
		time.Sleep(d)
		return meet(op)
	}
	id := func(op string) func(context.Context, string) error {
		return func(context.Context, string) error { return slow(op) }
	}
	return memlog.Faults{
		Admin:        func(_ context.Context, method string) error { return meet(method) },
		OpenProducer: func(context.Context, commitlog.ProducerConfig) error { return meet("open producer") },
		OpenReader:   func(context.Context, commitlog.ReaderConfig) error { return meet("open reader") },
		OpenMember:   func(context.Context, commitlog.MemberConfig) error { return meet("open member") },
		Fetch:        func(commitlog.TopicPartition) error { return meet("fetch") },
		Produce: func(context.Context, string, commitlog.TopicPartition, int) error {
			return meet("produce")
		},
		Commit:    func(context.Context, string, map[commitlog.TopicPartition]int64) error { return slow("commit") },
		EndTxn:    id("end transaction"),
		Committed: id("answer of a commit"),
		Abort:     id("abort"),
		Join:      func(context.Context, commitlog.MemberConfig) error { return meet("join") },
	}
}

// disk is what outlives a process: stores by name. Its driver is the test; one process has it at a time.
type disk struct {
	mem    *kvstore.Memory
	stores map[string]kvstore.Store
	user   *process
	mu     sync.Mutex
	open   map[string]bool
}

func newDisk(t testing.TB) *disk {
	d := &disk{mem: kvstore.NewMemory(), stores: map[string]kvstore.Store{}, open: map[string]bool{}}
	require.NoError(t, d.mem.Open())
	return d
}

// diskEngine is a process's way to a disk. Writes of a dead one are lost.
type diskEngine struct {
	*disk
	dead atomic.Bool
}

func (e *diskEngine) Open() error { return nil }

func (e *diskEngine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.open)
	return nil
}

func (e *diskEngine) Stores() ([]string, error) { return e.mem.Stores() }

func (e *diskEngine) OpenStore(name string) (kvstore.Store, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open[name] {
		return nil, kvstore.ErrInUse
	}
	if e.stores[name] == nil {
		store, err := e.mem.OpenStore(name)
		if err != nil {
			return nil, err
		}
		e.stores[name] = store
	}
	e.open[name] = true
	return &diskStore{e.stores[name], e, name}, nil
}

func (e *diskEngine) DestroyStore(name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open[name] {
		return kvstore.ErrInUse
	}
	if store := e.stores[name]; store != nil {
		delete(e.stores, name)
		return store.Close()
	}
	return nil
}

type diskStore struct {
	kvstore.Store
	e    *diskEngine
	name string
}

func (s *diskStore) Write(b *kvstore.Batch) error {
	if s.e.dead.Load() {
		return errors.New("the process is dead")
	}
	return s.Store.Write(b)
}

func (s *diskStore) Close() error {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	delete(s.e.open, s.name)
	return nil
}
