package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// result is what is written of one scenario.
type result struct {
	Scenario string            `json:"scenario"`
	Date     string            `json:"date"`
	Input    string            `json:"input,omitempty"`
	Records  int               `json:"records,omitempty"`
	Settings map[string]string `json:"settings"`
	Versions map[string]string `json:"versions"`
	CPUs     int               `json:"cpus"`
	Rows     []*rowResult      `json:"rows"`
	Targets  targets           `json:"targets"`

	s *scenario
}

// targets is what Wicker is to reach, as ratios to Kafka Streams, and what it reaches.
type targets struct {
	Speed    float64 `json:"records_per_s_at_least,omitempty"`
	CPU      float64 `json:"cpu_per_record_at_most,omitempty"`
	Baseline string  `json:"baseline,omitempty"`
	// Zero without the baseline.
	SpeedReached float64 `json:"records_per_s_ratio,omitempty"`
	CPUReached   float64 `json:"cpu_per_record_ratio,omitempty"`
	// Figures are what Wicker's figures are to be at most, Least at least.
	Figures map[string]float64 `json:"figures_at_most,omitempty"`
	Least   map[string]float64 `json:"figures_at_least,omitempty"`
}

// rowResult is one program's runs.
type rowResult struct {
	Side   string        `json:"side"`
	Name   string        `json:"name"`
	Runs   []measurement `json:"runs"`
	Median summary       `json:"median"`
}

// summary is the medians of a row's runs, each by itself.
type summary struct {
	RecordsPerSecond float64 `json:"records_per_s"`
	CPUPerRecord     float64 `json:"cpu_us_per_record"`
	PeakMemory       float64 `json:"peak_rss_bytes"`
	// Figures are those that the scenario has.
	Figures map[string]float64 `json:"figures,omitempty"`
}

func newResult(s *scenario, versions map[string]string) *result {
	r := &result{Scenario: s.name, Date: time.Now().UTC().Format(time.RFC3339), Input: s.input.topic, Records: s.input.records, CPUs: runtime.NumCPU(),
		Settings: map[string]string{
			"input":   cmp.Or(s.about, fmt.Sprintf("%d partitions, %d distinct keys of %d bytes, values of %d bytes, uncompressed", partitions, distinctKeys, keySize, valueSize)),
			"wicker":  "exec.Config with its defaults: CommitInterval 100ms; state in RocksDB",
			"streams": "exactly_once_v2, commit.interval.ms=100, num.stream.threads=2, " + heap + "; else defaults",
		},
		Versions: map[string]string{}, Targets: targets{Speed: s.speed, CPU: s.cpu, Baseline: "streams " + s.baseline()}, s: s}
	r.Targets.Figures, r.Targets.Least = map[string]float64{}, map[string]float64{}
	for _, f := range s.figures {
		if f.most > 0 {
			r.Targets.Figures[f.name] = f.most
		}
		if f.least > 0 {
			r.Targets.Least[f.name] = f.least
		}
	}
	for k, v := range versions {
		r.Versions[k] = v
	}
	return r
}

// add takes the measurement of one run.
func (r *result) add(row row, m measurement) {
	for k, v := range m.Versions {
		r.Versions[k] = v
	}
	m.Versions = nil
	rr := r.row(row.side, row.name)
	if rr == nil {
		rr = &rowResult{Side: row.side, Name: row.name}
		r.Rows = append(r.Rows, rr)
	}
	rr.Runs = append(rr.Runs, m)
	rr.Median = summary{
		RecordsPerSecond: median(rr.Runs, func(m measurement) float64 { return m.RecordsPerSecond }),
		CPUPerRecord:     median(rr.Runs, func(m measurement) float64 { return m.CPUPerRecord }),
		PeakMemory:       median(rr.Runs, func(m measurement) float64 { return float64(m.PeakMemory) }),
	}
	for name := range m.Figures {
		if rr.Median.Figures == nil {
			rr.Median.Figures = map[string]float64{}
		}
		rr.Median.Figures[name] = median(rr.Runs, func(m measurement) float64 { return m.Figures[name] })
	}
	if len(r.s.figures) > 0 {
		return // records per second say nothing
	}
	ours, theirs := r.row("wicker", r.Scenario), r.row("streams", r.s.baseline())
	if ours != nil && theirs != nil {
		r.Targets.SpeedReached = ours.Median.RecordsPerSecond / theirs.Median.RecordsPerSecond
		r.Targets.CPUReached = ours.Median.CPUPerRecord / theirs.Median.CPUPerRecord
	}
}

func (r *result) row(side, name string) *rowResult {
	for _, rr := range r.Rows {
		if rr.Side == side && rr.Name == name {
			return rr
		}
	}
	return nil
}

// problems returns an error for each run whose output was wrong.
func (r *result) problems() []error {
	var errs []error
	for _, rr := range r.Rows {
		for i, m := range rr.Runs {
			if m.Problem != "" {
				errs = append(errs, fmt.Errorf("%s %s, run %d: the output has %s", rr.Side, rr.Name, i+1, m.Problem))
			}
		}
	}
	return errs
}

// median is the middle of the runs' values, of an even number the mean of the two in the middle.
func median(runs []measurement, of func(measurement) float64) float64 {
	var values []float64
	for _, m := range runs {
		values = append(values, of(m))
	}
	slices.Sort(values)
	n := len(values)
	if n == 0 {
		return 0
	}
	return (values[n/2] + values[(n-1)/2]) / 2
}

// write writes the result as dir/NAME.json.
func (r *result) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, r.Scenario+".json")
	progress("write %s", path)
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// line is a run in one line.
func (m *measurement) line(s *scenario) string {
	if len(s.figures) == 0 {
		text := fmt.Sprintf("%.0f records/s, %.2f us CPU/record, %d MiB", m.RecordsPerSecond, m.CPUPerRecord, m.PeakMemory>>20)
		if us := m.Figures["settled_cpu_us_per_record"]; us > 0 {
			text += fmt.Sprintf(" (%.2f us with what the process does before and after)", us)
		}
		return text
	}
	var parts []string
	for _, f := range s.figures {
		if v, ok := m.Figures[f.name]; ok {
			parts = append(parts, f.title+" "+number1(v))
		}
	}
	return strings.Join(parts, ", ")
}

// number1 is a number with one decimal, if that says anything.
func number1(x float64) string {
	if x >= 100 || x == math.Trunc(x) {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.1f", x)
}

// table prints medians, ratios and targets. left says why Kafka Streams was left out, empty if
// it was not.
func table(w io.Writer, results []*result, left string) {
	var compared, others []*result
	for _, r := range results {
		if len(r.s.figures) == 0 {
			compared = append(compared, r)
		} else {
			others = append(others, r)
		}
	}
	if len(compared) > 0 {
		ratios(w, compared)
	}
	for _, r := range others {
		figures(w, r)
	}
	runs, disturbed := 0, 0
	for _, r := range results {
		for _, rr := range r.Rows {
			for _, m := range rr.Runs {
				runs++
				if m.disturbed(r.CPUs) {
					disturbed++
				}
			}
		}
	}
	if disturbed > 0 {
		fmt.Fprintf(w, "%d of %d runs were disturbed: something else used more than a tenth of the machine.\n", disturbed, runs)
	}
	if left != "" {
		fmt.Fprintf(w, "Kafka Streams was left out: %s.\n", left)
	}
}

// ratios prints the scenarios whose throughput is compared.
func ratios(w io.Writer, results []*result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "scenario\tside\tk records/s\tus CPU/record\tpeak MiB\tspeed ratio\ttarget\tCPU ratio\ttarget\t")
	for _, r := range results {
		for _, rr := range r.Rows {
			m := rr.Median
			fmt.Fprintf(t, "%s\t%s\t%.0f\t%.2f\t%.0f\t", rr.Name, rr.Side, m.RecordsPerSecond/1e3, m.CPUPerRecord, m.PeakMemory/(1<<20))
			if g := r.Targets; rr.Side == "wicker" && g.SpeedReached > 0 {
				fmt.Fprintf(t, "%.2f\t>= %.2f\t%.2f\t", g.SpeedReached, g.Speed, g.CPUReached)
				if g.CPU > 0 {
					fmt.Fprintf(t, "<= %.2f", g.CPU)
				}
				fmt.Fprintln(t, "\t")
			} else {
				fmt.Fprintln(t, "\t\t\t\t")
			}
		}
	}
	_ = t.Flush()
	fmt.Fprintln(w, "\nMedians. Ratios are Wicker's figure divided by Kafka Streams' of the last row of the scenario.")
}

// figures prints a scenario that has figures of its own.
func figures(w io.Writer, r *result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\n", r.Scenario, "\tside\t")
	for _, f := range r.s.figures {
		fmt.Fprint(t, f.title, "\t")
	}
	fmt.Fprintln(t, "peak MiB\t")
	for _, rr := range r.Rows {
		fmt.Fprint(t, rr.Name, "\t", rr.Side, "\t")
		for _, f := range r.s.figures {
			if v, ok := rr.Median.Figures[f.name]; ok {
				fmt.Fprint(t, number1(v))
			}
			fmt.Fprint(t, "\t")
		}
		fmt.Fprintf(t, "%.0f\t\n", rr.Median.PeakMemory/(1<<20))
	}
	fmt.Fprint(t, "target\twicker\t")
	for _, f := range r.s.figures {
		if f.most > 0 {
			fmt.Fprint(t, "<= ", number1(f.most))
		} else if f.least > 0 {
			fmt.Fprint(t, ">= ", number1(f.least))
		}
		fmt.Fprint(t, "\t")
	}
	fmt.Fprintln(t, "\t")
	_ = t.Flush()
}
