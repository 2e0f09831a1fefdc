package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// stand is what runs have in common: the cluster, and the proxy in front of it.
type stand struct {
	cluster *kafka.Cluster
	proxy   *proxy
	client  *kafka.Client
	dir     string
}

func openStand(ctx context.Context, dir string, nodes int) (_ *stand, err error) {
	s := &stand{proxy: newProxy(slotOf), dir: dir}
	s.cluster, err = kafka.OpenCluster(ctx, kafka.ClusterOptions{Nodes: nodes, Advertise: s.proxy.advertise, JVM: jvm, Properties: properties})
	if err == nil {
		s.client, err = s.cluster.Dial()
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// jvm are the flags of the nodes' JVMs: those that make them start and run cheaply where cores are few.
var jvm = []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xss512k"}

// properties are settings of the nodes: Kafka looks only every 10 s for transactions that are beyond their timeout.
var properties = map[string]string{"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}

func (s *stand) close() error {
	if s.client != nil {
		s.client.Close()
	}
	s.proxy.close()
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Close()
}

// setting is what a run is like, whatever its seed.
type setting struct {
	inputs, faults   int
	processes, slots int
	partitions       int
	duration         time.Duration
	stall            time.Duration // without any progress, after which a run is given up
	verbose          bool
}

// outcome is what came of a run.
type outcome struct {
	seed       uint64
	nature     nature
	inputs     int
	schedule   []fault
	unplanned  []exit
	short      int // workers that could not finish in time when asked to end
	vain       int // workers that found no broker at their start
	rebalances int
	duplicates int
	losses     int
	findings   []string
	took       time.Duration
	settled    time.Duration // how long after the last fault and input all inputs were through
	dir        string
	did        []string // what happened when, for a run that failed
}

func (o *outcome) ok() bool { return len(o.findings) == 0 && len(o.unplanned) == 0 }

func (o *outcome) String() string {
	verdict := "ok"
	if !o.ok() {
		verdict = "FAILED"
	}
	return fmt.Sprintf("seed %d: %d inputs; %d faults (%s); rebalances %d, unplanned exits %d, cut short %d, started in vain %d, duplicates %d, losses %d; settled in %.0f s, %.0f s in all: %s", o.seed, o.inputs, len(o.schedule),
		byKind(o.schedule), o.rebalances, len(o.unplanned), o.short, o.vain, o.duplicates, o.losses, o.settled.Seconds(), o.took.Seconds(), verdict)
}

// chaosRun is one run of a seed.
type chaosRun struct {
	*stand
	setting
	nature nature
	names  names
	fleet  *fleet
	oracle *oracle
	begin  time.Time
	told   time.Time // of progress, last

	mu  sync.Mutex
	did []string
}

func (r *chaosRun) note(format string, args ...any) {
	line := fmt.Sprintf("%8.2fs ", time.Since(r.begin).Seconds()) + fmt.Sprintf(format, args...)
	if r.verbose {
		progress("%s", line)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.did = append(r.did, line)
}

// newRun makes the topics and the fleet of a run.
func newRun(ctx context.Context, s *stand, set setting, n nature, app string) (*chaosRun, error) {
	r := &chaosRun{stand: s, setting: set, names: names{App: app}, begin: time.Now()}
	r.nature = n
	dir := filepath.Join(s.dir, app)
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	var err error
	r.fleet, err = newFleet(dir, set.slots, func(slot int) job {
		j := job{names: r.names, Brokers: s.proxy.addrs(), Session: n.session, Transaction: n.transaction, Commit: n.commit}
		if n.isStatic(slot) {
			j.Instance = fmt.Sprintf("instance-%d", slot)
		}
		return j
	})
	if err != nil {
		return nil, err
	}
	for _, topic := range []string{r.names.in(), r.names.counts(), r.names.totals()} {
		if err := s.client.CreateTopic(ctx, topic, set.partitions, nil); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// runSeed is one run: load and faults, then quiet until all inputs are through, then the questions. An error is of the
// harness; what the application did wrong is in the outcome.
func runSeed(ctx context.Context, s *stand, set setting, seed uint64) (*outcome, error) {
	n := natureOf(seed)
	shape := shape{faults: set.faults, duration: set.duration, slots: set.slots, running: set.processes, nodes: len(s.cluster.Addrs()), session: n.session}
	schedule := newSchedule(seed, shape)
	r, err := newRun(ctx, s, set, n, fmt.Sprintf("chaos-%d-%d", seed, time.Now().Unix()))
	if err != nil {
		return nil, err
	}
	defer r.fleet.close()
	inputs := inputsOf(seed, set.inputs)
	r.oracle = newOracle(inputs)
	for slot := range set.processes {
		if err := r.fleet.start(slot); err != nil {
			return nil, err
		}
	}
	err = r.disturbedLoad(ctx, &loader{client: s.client, names: r.names, inputs: inputs, takes: set.duration}, schedule)
	quiet := time.Now()
	if err == nil {
		err = r.settle(ctx)
	}
	settled := time.Since(quiet)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	if err != nil {
		r.oracle.find("%v", err)
	} else if err := r.examine(ctx); err != nil {
		r.oracle.find("%v", err)
	}
	o := r.oracle
	result := &outcome{seed: seed, nature: n, inputs: set.inputs, schedule: schedule, unplanned: r.fleet.unplanned(), short: r.fleet.cutShort(), vain: r.fleet.startsInVain(), duplicates: o.duplicates,
		losses: o.missing(&o.counts) + o.missing(&o.totals), findings: o.findings, took: time.Since(r.begin), settled: settled, dir: r.fleet.dir, did: r.did}
	if o.more > 0 {
		result.findings = append(result.findings, fmt.Sprintf("and %d more", o.more))
	}
	r.fleet.close()
	generations, err := s.client.Generations(ctx, r.names.App)
	if err != nil {
		return nil, err
	}
	result.rebalances = len(generations)
	if result.ok() {
		err := s.client.DeleteTopics(ctx, r.topics()...)
		return result, errors.Join(err, os.RemoveAll(result.dir))
	}
	return result, nil
}

// topics are all topics of the run, internal ones too.
func (r *chaosRun) topics() []string {
	return []string{r.names.in(), r.names.counts(), r.names.totals(), r.names.App + "-by-group-repartition",
		r.names.changelog(countState), r.names.changelog(totalState)}
}

// disturbedLoad writes the inputs while the faults happen and the outputs are watched, and returns when
// both are over.
func (r *chaosRun) disturbedLoad(ctx context.Context, l *loader, schedule []fault) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg, watching sync.WaitGroup
	fail := func(err error) {
		if err != nil {
			cancel(err)
		}
	}
	wg.Go(func() { fail(l.run(ctx)) })
	// Faults of one worker, and those of brokers, come one after the other; those of the network do not wait.
	queues := map[string][]fault{}
	for _, f := range schedule {
		switch f.kind {
		case bounce, halt, freeze:
			queues["brokers"] = append(queues["brokers"], f)
		case kill, pausing, blink, restart, join, leave:
			queue := fmt.Sprint("worker ", f.slot)
			queues[queue] = append(queues[queue], f)
		default:
			wg.Go(func() { fail(r.inflict(ctx, f)) })
		}
	}
	for _, queue := range queues {
		wg.Go(func() {
			for _, f := range queue {
				if err := r.inflict(ctx, f); err != nil {
					fail(err)
					return
				}
			}
		})
	}
	quiet := make(chan struct{})
	watching.Go(func() {
		t, err := newTail(ctx, r.client, r.names.counts(), r.names.totals())
		for err == nil {
			select {
			case <-quiet:
				return
			case <-time.After(time.Second):
			case <-ctx.Done():
				return
			}
			err = r.watch(ctx, t)
			r.tellProgress()
		}
		fail(err)
	})
	wg.Wait()
	close(quiet)
	watching.Wait()
	return context.Cause(ctx)
}

// watch shows the oracle what came out since the last call. That it cannot be read just now is not an error.
func (r *chaosRun) watch(ctx context.Context, t *tail) error {
	asked, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	records, err := t.next(asked)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.note("outputs cannot be read: %v", err)
		return nil
	}
	for _, rec := range records {
		if rec.Topic == r.names.counts() {
			r.oracle.count(rec)
		} else {
			r.oracle.total(rec)
		}
	}
	return nil
}

// tellProgress notes what the outputs have, every few seconds.
func (r *chaosRun) tellProgress() {
	if time.Since(r.told) > 5*time.Second {
		r.note("      counts %d, totals %d, unplanned exits %d", r.oracle.counts.records, r.oracle.totals.records, len(r.fleet.unplanned()))
		r.told = time.Now()
	}
}

// inflict waits for the time of a fault and makes it happen; it returns when the fault is over.
func (r *chaosRun) inflict(ctx context.Context, f fault) error {
	if !sleep(ctx, time.Until(r.begin.Add(f.at))) {
		return nil
	}
	r.note("begin %s", f)
	defer r.note("end   %s", f)
	lasting := func(begin, end error) error { return errors.Join(begin, end) }
	switch f.kind {
	case kill:
		err := r.fleet.kill(f.slot)
		sleep(ctx, f.lasts)
		return lasting(err, r.fleet.start(f.slot))
	case pausing, blink:
		err := r.fleet.signal(f.slot, syscall.SIGSTOP)
		sleep(ctx, f.lasts)
		return lasting(err, r.fleet.signal(f.slot, syscall.SIGCONT))
	case restart:
		err := r.fleet.stop(f.slot)
		sleep(ctx, f.lasts)
		return lasting(err, r.fleet.start(f.slot))
	case join:
		return r.fleet.start(f.slot)
	case leave:
		return r.fleet.stop(f.slot)
	case bounce, halt:
		end := r.cluster.Stop
		if f.kind == bounce {
			end = r.cluster.Kill
		}
		if err := end(f.node); err != nil {
			return err
		}
		sleep(ctx, f.lasts)
		return r.recover(ctx, r.cluster.Restart(ctx, f.node))
	case freeze:
		err := r.cluster.Pause(f.node)
		sleep(ctx, f.lasts)
		return r.recover(ctx, lasting(err, r.cluster.Resume(f.node)))
	case cut:
		r.proxy.cut(f.slot, f.node)
	default:
		lift := r.proxy.disturb(rule{slot: f.slot, node: f.node, on: f.on, hold: f.kind == blackhole, refuse: f.kind == refuse, delay: f.by})
		sleep(ctx, f.lasts)
		lift()
	}
	return nil
}

// recover waits until the cluster can bear the next fault of a broker.
func (r *chaosRun) recover(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	asked, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return r.cluster.AwaitInSync(asked)
}

// sleep returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// settle waits, without faults, until all inputs are through. It gives up when nothing moves for too long.
func (r *chaosRun) settle(ctx context.Context) error {
	r.note("no more faults and inputs; unplanned exits %d", len(r.fleet.unplanned()))
	t, err := newTail(ctx, r.client, r.names.counts(), r.names.totals())
	if err != nil {
		return err
	}
	// From the beginning, once more: the whole of both outputs as a reader who comes later sees it.
	watched := r.oracle
	r.oracle = newOracle(watched.inputs)
	defer func() {
		if r.oracle.findings == nil { // seen while it ran, and not afterwards
			r.oracle.findings = watched.findings
		}
	}()
	last, moved := -1, time.Now()
	for {
		if err := r.watch(ctx, t); err != nil {
			return err
		}
		var behind string
		if r.oracle.complete() {
			if behind, err = r.behind(ctx); err != nil {
				return err
			}
			if behind == "" {
				break
			}
		}
		if now := r.oracle.progress(); now > last {
			last, moved = now, time.Now()
		}
		if time.Since(moved) > r.stall {
			return fmt.Errorf("nothing moves for %v: %s", r.stall, r.diagnose(ctx, behind))
		}
		if !sleep(ctx, 500*time.Millisecond) {
			return ctx.Err()
		}
	}
	r.note("all inputs are through")
	return nil
}

// behind names a partition of the inputs up to whose last record the group has not committed.
func (r *chaosRun) behind(ctx context.Context) (string, error) {
	inputs, err := r.client.Read(ctx, kafka.ReadCommitted, r.names.in())
	if err != nil {
		return "", err
	}
	r.oracle.checkInputs(inputs)
	have, err := r.client.CommittedOffsets(ctx, r.names.App)
	if err != nil {
		return "", err
	}
	for _, rec := range inputs {
		if p := (kafka.Partition{Topic: rec.Topic, Partition: rec.Partition}); have[p] <= rec.Offset {
			return fmt.Sprintf("%v is committed up to %d, and has a record at %d", p, have[p], rec.Offset), nil
		}
	}
	return "", nil
}

// diagnose tells what can be seen from outside of an application that stands still, and has its processes write their
// goroutines to their logs.
func (r *chaosRun) diagnose(ctx context.Context, behind string) string {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var text strings.Builder
	fmt.Fprintf(&text, "counts miss %d, totals miss %d; %s", r.oracle.missing(&r.oracle.counts), r.oracle.missing(&r.oracle.totals), behind)
	g, err := r.client.Group(ctx, r.names.App)
	fmt.Fprintf(&text, "\n  group: %+v, %v", g, err)
	committed, err := r.client.CommittedOffsets(ctx, r.names.App)
	fmt.Fprintf(&text, "\n  committed: %v, %v", committed, err)
	for _, topic := range r.topics() {
		stable, err := r.client.EndOffsets(ctx, kafka.ReadCommitted, topic)
		if err != nil {
			fmt.Fprintf(&text, "\n  %s: %v", topic, err)
			continue
		}
		ends, err := r.client.EndOffsets(ctx, kafka.ReadUncommitted, topic)
		fmt.Fprintf(&text, "\n  %s: ends %v, stable %v, %v", topic, ends, stable, err)
	}
	r.fleet.dump()
	return text.String()
}

// examine ends all workers in order and asks what must hold then.
func (r *chaosRun) examine(ctx context.Context) error {
	r.fleet.stopAll()
	r.note("all workers have left")
	bounded, cancel := context.WithTimeout(ctx, r.nature.session+30*time.Second)
	defer cancel()
	if err := r.client.AwaitStable(bounded, r.topics()...); err != nil {
		return fmt.Errorf("a transaction is left open: %w", err)
	}
	// Static members stay until their session is over.
	for {
		g, err := r.client.Group(bounded, r.names.App)
		if err != nil {
			return err
		}
		if len(g.Members) == 0 {
			break
		}
		if !sleep(bounded, 200*time.Millisecond) {
			return fmt.Errorf("the group has members though all have left: %+v", g)
		}
	}
	logs := changelogs{}
	for _, state := range []string{countState, totalState} {
		records, err := r.client.Read(ctx, kafka.ReadCommitted, r.names.changelog(state))
		if err != nil {
			return err
		}
		for _, rec := range records {
			p := kafka.Partition{Topic: rec.Topic, Partition: rec.Partition}
			logs[p] = append(logs[p], rec)
		}
	}
	byKey, byGroup := r.oracle.states()
	checkState(r.oracle, "changelog of "+countState, logs.all(r.names.changelog(countState)), byKey)
	checkState(r.oracle, "changelog of "+totalState, logs.all(r.names.changelog(totalState)), byGroup)
	whole := map[kafka.Partition]bool{}
	for slot := range r.fleet.slots {
		if err := r.oracle.checkStores(r.fleet.statePath(slot), r.names, logs, whole); err != nil {
			return fmt.Errorf("state of worker %d: %w", slot, err)
		}
	}
	for p := range logs {
		if !whole[p] {
			r.oracle.find("no store holds all of %v, though its worker ended in order", p)
		}
	}
	return r.reopen(ctx)
}

// reopen starts a worker once more on what is left: it must come up, and there is nothing for it to do.
func (r *chaosRun) reopen(ctx context.Context) error {
	before, err := r.client.EndOffsets(ctx, kafka.ReadCommitted, r.topics()...)
	if err != nil {
		return err
	}
	if err := r.fleet.start(0); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		g, err := r.client.Group(bounded, r.names.App)
		if err != nil {
			return err
		}
		if g.State == "Stable" && len(g.Members) == 1 {
			break
		}
		if !sleep(bounded, 100*time.Millisecond) {
			return fmt.Errorf("a worker that starts on its old state does not come up: group %+v", g)
		}
	}
	if err := r.fleet.stop(0); err != nil {
		return err
	}
	t := &tail{client: r.client, at: before}
	records, err := t.next(ctx)
	if err != nil {
		return err
	}
	if len(records) > 0 {
		r.oracle.find("a worker that starts on its old state writes %d records, the first to %s", len(records), records[0].Topic)
	}
	return nil
}
