package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/kvstore/rocksdb"
	"github.com/wickerwork/wicker/testkit/kafka"
)

// job is what a worker process is told: one run of one row.
type job struct {
	Scenario  string `json:"scenario"`
	App       string `json:"app"`
	In        string `json:"in"`
	Out       string `json:"out"`
	State     string `json:"state"`
	Broker    string `json:"broker"`
	BrokerPID int    `json:"broker_pid"`
	// Settings are the row's.
	Settings []string `json:"settings,omitempty"`
	// Client and Instance are Wicker's ClientID and InstanceID.
	Client   string `json:"client,omitempty"`
	Instance string `json:"instance,omitempty"`
	// CPUProfile and MemProfile are files to write.
	CPUProfile string `json:"cpu_profile,omitempty"`
	MemProfile string `json:"mem_profile,omitempty"`
}

// measurement is one run.
type measurement struct {
	Records          int64   `json:"records"`
	Seconds          float64 `json:"seconds"`
	RecordsPerSecond float64 `json:"records_per_s"`
	CPUSeconds       float64 `json:"cpu_s"`
	CPUPerRecord     float64 `json:"cpu_us_per_record"`
	PeakMemory       int64   `json:"peak_rss_bytes"`
	// StartSeconds is from the start of the instance to the beginning of the window.
	StartSeconds float64 `json:"start_s"`
	// BrokerCPU and OtherCPU are what the broker and everything else on the machine used in the
	// window: above a few seconds of the latter a run was disturbed.
	BrokerCPU float64 `json:"broker_cpu_s"`
	OtherCPU  float64 `json:"other_cpu_s"`
	// Outputs is the number of records that a read_committed reader finds.
	Outputs int64 `json:"outputs"`
	// Figures are what else was measured, by name.
	Figures map[string]float64 `json:"figures,omitempty"`
	// Partitions are such figures by partition, in milliseconds.
	Partitions map[string][]int64 `json:"partitions,omitempty"`
	// Problem says how the output differs from what it must be.
	Problem  string            `json:"problem,omitempty"`
	Versions map[string]string `json:"versions,omitempty"`
}

// measure is the measurement of the window between two readings.
func measure(records int64, started time.Time, from, to reading) measurement {
	m := measurement{Records: records, Seconds: to.at.Sub(from.at).Seconds(), CPUSeconds: to.cpu - from.cpu,
		PeakMemory: peakMemory(), StartSeconds: from.at.Sub(started).Seconds(), BrokerCPU: to.broker - from.broker}
	m.RecordsPerSecond = float64(records) / m.Seconds
	m.CPUPerRecord = m.CPUSeconds * 1e6 / float64(max(1, records))
	m.OtherCPU = max(0, to.machine-from.machine-m.CPUSeconds-m.BrokerCPU)
	for _, f := range []*float64{&m.Seconds, &m.RecordsPerSecond, &m.CPUSeconds, &m.CPUPerRecord, &m.StartSeconds, &m.BrokerCPU, &m.OtherCPU} {
		*f = math.Round(*f*1e4) / 1e4
	}
	return m
}

// disturbed says whether something else used more than a tenth of the machine in the window.
func (m *measurement) disturbed(cpus int) bool {
	return m.OtherCPU > m.Seconds*float64(cpus)/10
}

// worker does the job that the description tells and prints the measurement.
func worker(ctx context.Context, description string) error {
	var j job
	if err := json.Unmarshal([]byte(description), &j); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	picked, err := pick([]string{j.Scenario})
	if err != nil {
		return err
	}
	if picked[0].name == "global" {
		if err := lookUp(ctx, j, os.Stdout); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		return nil
	}
	if picked[0].play != nil {
		if err := instance(ctx, picked[0], j, os.Stdin, os.Stdout); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		return nil
	}
	m, err := work(ctx, picked[0], j)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(m)
}

// errEnded says that Wicker's Run returned before everything was processed.
var errEnded = errors.New("the run ended early")

// work runs Wicker's side of one job in this process.
func work(ctx context.Context, s *scenario, j job) (m measurement, err error) {
	b, err := kafka.Attach(ctx, j.Broker)
	if err != nil {
		return m, err
	}
	c, err := b.Dial()
	if err != nil {
		return m, err
	}
	defer c.Close()
	ends, err := c.EndOffsets(ctx, kafka.ReadCommitted, j.In)
	if err != nil {
		return m, err
	}
	plan, err := s.plan(j.App, j.In, j.Out)
	if err != nil {
		return m, err
	}
	app, err := exec.New(plan, j.config(s))
	if err != nil {
		return m, err
	}

	started := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- app.Run(ctx) }()
	for app.Stats().Tasks == 0 {
		select {
		case err := <-ran:
			return m, errors.Join(errEnded, err)
		case <-time.After(time.Millisecond):
		}
	}
	stop, err := profile(j.CPUProfile)
	if err != nil {
		return m, err
	}
	from := read(j.BrokerPID)
	if err := await(ctx, c, app, j, s, ends, ran); err != nil {
		return m, err
	}
	to := read(j.BrokerPID)
	m = measure(sum(ends), started, from, to)
	if err := errors.Join(stop(), heapProfile(j.MemProfile)); err != nil {
		return m, err
	}
	m.Versions = workerVersions()
	cancel()
	if err := <-ran; err != nil {
		return m, err
	}
	return m, nil
}

// config is Wicker's configuration: the defaults, and state in RocksDB if there is any.
func (j *job) config(s *scenario) exec.Config {
	cfg := exec.Config{Brokers: []string{j.Broker}, ClientID: j.Client, InstanceID: j.Instance}
	if s.stateful() || slices.Contains(j.Settings, onDisk) {
		cfg.State = rocksdb.New(rocksdb.Options{Dir: j.State})
	}
	return cfg
}

func workerVersions() map[string]string {
	return map[string]string{"go": runtime.Version(), "librocksdb": libraryVersion("librocksdb")}
}

// await returns when everything has been processed and committed.
func await(ctx context.Context, c *kafka.Client, app *exec.App, j job, s *scenario, target kafka.Offsets, ran <-chan error) error {
	records := sum(target)
	target = maps.Clone(target)
	repartition := ""
	if s.repartition != "" {
		repartition = j.App + "-" + s.repartition + "-repartition"
	}
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		select {
		case err := <-ran:
			return errors.Join(errEnded, err)
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if repartition != "" {
			// What the second hop must reach is known once all of it was taken.
			if app.Stats().In[repartition] < records {
				continue
			}
			more, err := lastRecords(ctx, c, repartition)
			if err != nil {
				return err
			}
			maps.Copy(target, more)
			repartition = ""
		}
		have, err := c.CommittedOffsets(ctx, j.App)
		if err != nil {
			return err
		}
		reached := true
		for p, at := range target {
			reached = reached && have[p] >= at
		}
		if reached {
			return nil
		}
	}
}

// lastRecords returns the offset after the last record of each partition of a topic that
// nobody writes to any more: its end without the markers behind it.
func lastRecords(ctx context.Context, c *kafka.Client, topic string) (kafka.Offsets, error) {
	ends, err := c.EndOffsets(ctx, kafka.ReadUncommitted, topic)
	if err != nil {
		return nil, err
	}
	for back := int64(16); ; back *= 8 {
		from := kafka.Offsets{}
		for p, end := range ends {
			from[p] = max(0, end-back)
		}
		records, err := c.ReadFrom(ctx, kafka.ReadUncommitted, from)
		if err != nil {
			return nil, err
		}
		last := kafka.Offsets{}
		for _, r := range records {
			p := kafka.Partition{Topic: topic, Partition: r.Partition}
			last[p] = max(last[p], r.Offset+1)
		}
		whole := true
		for p := range ends {
			whole = whole && (last[p] > 0 || from[p] == 0)
		}
		if whole {
			return last, nil
		}
	}
}

// profile begins a CPU profile, if a file is named, and returns what ends it.
func profile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// heapProfile writes what was allocated so far, if a file is named.
func heapProfile(path string) error {
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
