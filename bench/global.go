package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/wickerwork/wicker/codec"
	wicker "github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/topology"
)

// rowsOfTable is the topic of the table.
var rowsOfTable = dataset{"bench-global", 1_000_000}

const (
	globalAbout = "a table of distinct keys of 20 bytes and values of 200 bytes (191 MiB) in four partitions, uncompressed"
	rowSize     = 200
	lookups     = 1_000_000
	// wireMiB is what keys and values are.
	wireMiB = 191
)

// globalFigures are of the start, until all has been read, and of lookups afterwards.
var globalFigures = []figure{
	{name: "ready_s", title: "s until ready"}, {name: "cpu_s", title: "s of CPU", most: 2},
	{name: "rss_mib", title: "resident MiB", most: 1.3 * wireMiB}, {name: "peak_mib", title: "at most", most: 1.6 * wireMiB},
	{name: "lookups_per_s", title: "lookups/s", least: 2_000_000}, {name: "parallel_lookups_per_s", title: "of all processors"},
	{name: "again_s", title: "s of the next start"},
}

// benchTable is the topic as a global table, diskTable the same on disk.
var (
	benchTable = globaltable.New(rowsOfTable.topic, codec.String, codec.Bytes)
	diskTable  = benchTable.OnDisk("")
)

// globalPlan looks up in the table, for an input that nobody writes.
func globalPlan(app, in, out string) (*topology.Plan, error) {
	return planOf(benchTable, app, in, out)
}

func planOf(table globaltable.Table[string, []byte], app, in, out string) (*topology.Plan, error) {
	return topology.New(app).
		From(ops.Source(ops.NewTopic(in, codec.String, codec.Bytes))).
		LeftLookup(table, func(k string, _ []byte) string { return k }, func(_, row []byte, _ bool) []byte { return row }).
		To(ops.Sink(ops.NewTopic(out, codec.String, codec.Bytes))).
		Build()
}

func rowKey(i int) []byte { return fmt.Appendf(make([]byte, 0, 20), "key-%016d", i) }

// loadTable makes the table's topic with its rows, in no order, unless it is there.
func (d *driver) loadTable(ctx context.Context, set dataset) error {
	topics, err := d.client.Topics(ctx)
	if err != nil {
		return err
	}
	if _, ok := topics[set.topic]; ok {
		n, err := d.count(ctx, set.topic)
		if err != nil || n == int64(set.records) {
			return err
		}
		if err := d.client.DeleteTopics(ctx, set.topic); err != nil { // left by a load that was interrupted
			return err
		}
	}
	err = d.client.CreateTopic(ctx, set.topic, partitions, map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"})
	if err != nil {
		return err
	}
	progress("load %s: %d records", set.topic, set.records)
	rnd := rand.New(rand.NewPCG(42, 42))
	return fill(ctx, d.broker.Addr(), set.topic, set.records, func(i int) (k, v []byte) {
		v = make([]byte, rowSize)
		for i := range v {
			v[i] = byte(33 + rnd.IntN(94))
		}
		return rowKey(int(int64(i) * 3_141_593 % int64(set.records))), v
	})
}

// count is the number of offsets of a topic that begins at 0.
func (d *driver) count(ctx context.Context, topic string) (int64, error) {
	ends, err := d.client.EndOffsets(ctx, kafka.ReadCommitted, topic)
	return sum(ends), err
}

// playGlobal starts an instance and has it tell what it measures.
func playGlobal(ctx context.Context, d *driver, s *scenario, row row, j job) (m measurement, err error) {
	if err := d.loadTable(ctx, s.input); err != nil {
		return m, err
	}
	if row.side == "wicker" {
		if err := d.buildPure(ctx); err != nil {
			return m, err
		}
		j.In = j.App + "-in"
		for _, topic := range []string{j.In, j.Out} {
			if err := d.client.CreateTopic(ctx, topic, 1, nil); err != nil {
				return m, err
			}
		}
	}
	p, m, err := d.start(ctx, row, j)
	if err != nil {
		return m, err
	}
	p.kill()
	if m.Records != int64(s.input.records) && m.Problem == "" {
		m.Problem = fmt.Sprintf("%d rows read of %d", m.Records, s.input.records)
	}
	return m, nil
}

// buildPure has Wicker's side run in a program without RocksDB, which a program without state does not have either: its code would be
// most of what is not the table.
func (d *driver) buildPure(ctx context.Context) error {
	if d.pure != "" {
		return nil
	}
	path := filepath.Join(d.dir, "bench-pure")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "./bench")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build without cgo: %w: %s", err, out)
	}
	d.pure = path
	return nil
}

// lookUp is Wicker's side: it reads the table and looks up in it.
func lookUp(ctx context.Context, j job, out io.Writer) error {
	table := benchTable
	if slices.Contains(j.Settings, onDisk) {
		table = diskTable
	}
	plan, err := planOf(table, j.App, j.In, j.Out)
	if err != nil {
		return err
	}
	begin := func() (*wicker.App, *globaltable.View[string, []byte], error) {
		app, err := wicker.New(plan, j.config(&scenario{name: j.Scenario}))
		if err != nil {
			return nil, nil, err
		}
		view, err := app.Table(table)
		return app, view, err
	}
	app, view, err := begin()
	if err != nil {
		return err
	}
	parent := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop, err := profile(j.CPUProfile)
	if err != nil {
		return err
	}
	from := read(j.BrokerPID)
	ran := make(chan error, 1)
	go func() {
		ran <- app.Run(ctx)
		cancel()
	}()
	if err := view.Ready(ctx); err != nil {
		return errors.Join(fmt.Errorf("%w, before the table was read", errEnded), <-ran, stop())
	}
	to := read(j.BrokerPID)
	rows := view.Len()
	if table != benchTable { // it estimates
		rows = app.Stats().Tables[rowsOfTable.topic].Read
	}
	m := measure(rows, from.at, from, to)
	m.Figures = map[string]float64{"ready_s": m.Seconds, "cpu_s": m.CPUSeconds, "rss_mib": float64(memory("VmRSS")) / (1 << 20), "peak_mib": float64(memory("VmHWM")) / (1 << 20)}
	rnd := rand.New(rand.NewPCG(7, 7))
	keys := make([]string, min(lookups, 10*rows))
	for i := range keys {
		keys[i] = string(rowKey(rnd.IntN(int(max(1, rows)))))
	}
	runtime.GC() // what making the keys has left is no business of the lookups
	for name, goroutines := range map[string]int{"lookups_per_s": 1, "parallel_lookups_per_s": runtime.GOMAXPROCS(0)} {
		rate, missing := lookAll(view, keys, goroutines)
		m.Figures[name] = rate
		if missing > 0 {
			m.Problem = fmt.Sprintf("%d of the rows looked up were not there", missing)
		}
	}
	if table != benchTable {
		cancel()
		if err := <-ran; err != nil {
			return err
		}
		if app, view, err = begin(); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(parent)
		began := time.Now()
		go func() { ran <- app.Run(ctx) }()
		err := view.Ready(ctx)
		m.Figures["again_s"] = time.Since(began).Seconds()
		if n := app.Stats().Tables[rowsOfTable.topic].Read; n > 0 {
			m.Problem = fmt.Sprintf("%d rows read anew", n)
		}
		cancel()
		if err := errors.Join(err, <-ran); err != nil {
			return err
		}
	}
	m.Versions = workerVersions()
	return errors.Join(stop(), heapProfile(j.MemProfile), json.NewEncoder(out).Encode(m))
}

// lookAll has some goroutines look up all keys each, and returns how many they did in a second, and for how many there was no row.
func lookAll(view *globaltable.View[string, []byte], keys []string, goroutines int) (rate float64, missing int) {
	var wg sync.WaitGroup
	none := make([]int, goroutines)
	began := time.Now()
	for g := range goroutines {
		wg.Go(func() {
			n := 0
			for _, part := range [][]string{keys[g*len(keys)/goroutines:], keys[:g*len(keys)/goroutines]} {
				for _, key := range part {
					v, ok, err := view.Get(key)
					if !ok || err != nil || len(v) != rowSize {
						n++
					}
				}
			}
			none[g] = n
		})
	}
	wg.Wait()
	took := time.Since(began)
	for _, n := range none {
		missing += n
	}
	return float64(len(keys)*goroutines) / took.Seconds(), missing
}
