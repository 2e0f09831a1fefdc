package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// driver runs scenarios, one process a run, on one broker.
type driver struct {
	settings
	broker    *kafka.Broker
	client    *kafka.Client
	groups    groupAdmin
	brokerPID int
	streams   *streamsProgram // nil if that side is left out
	left      string          // why it is
	versions  map[string]string
	// pure is Wicker's side of global, empty until it is built.
	pure string
	// trickleTime, unless zero, replaces the constant.
	trickleTime time.Duration
}

func drive(ctx context.Context, o settings, names []string) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	picked, err := pick(names)
	if err != nil {
		return err
	}
	for _, s := range picked {
		if s.about == restoreAbout {
			s.input.records = o.keys
		}
	}
	d := &driver{settings: o, versions: map[string]string{"wicker": revision(ctx)}}
	if err := d.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	var results []*result
	var failed []error
	for _, s := range picked {
		r, err := d.scenario(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if err := r.write(o.out); err != nil {
			return err
		}
		results = append(results, r)
		failed = append(failed, r.problems()...)
	}
	table(os.Stdout, results, d.left)
	return errors.Join(failed...)
}

// open gets the broker and the other side.
func (d *driver) open(ctx context.Context) (err error) {
	if d.brokers != "" {
		d.broker, err = kafka.Attach(ctx, d.brokers)
		d.versions["kafka"] = "unknown: the broker was not started here"
	} else {
		progress("start Apache Kafka %s in %s", kafka.Version, d.dir)
		// Flags as in production: the default ones are for a fast start.
		d.broker, err = kafka.OpenReal(ctx, kafka.Options{Dir: filepath.Join(d.dir, "kafka"), HeapBytes: 1 << 30, JVM: []string{"-Xms1g", "-XX:+UseG1GC"},
			Properties: map[string]string{"log.segment.delete.delay.ms": "1000"}}) // outputs of runs are large
		d.versions["kafka"] = kafka.Version
	}
	if err != nil {
		return err
	}
	if d.brokers == "" {
		d.brokerPID = childNamed("java")
	}
	if d.client, err = d.broker.Dial(); err != nil {
		return errors.Join(err, d.broker.Close())
	}
	if d.groups, err = newGroupAdmin(d.broker.Addr()); err != nil {
		return errors.Join(err, d.close())
	}
	if d.brokers == "" { // what a program that was killed has left
		for _, side := range []string{"wicker", "streams"} {
			if err := d.clean(ctx, "bench-"+side+"-", filepath.Join(d.dir, "state")); err != nil {
				return errors.Join(err, d.close())
			}
		}
	}
	if d.sides != "wicker" {
		d.streams, err = buildStreams(ctx, filepath.Join("bench", "streams"), filepath.Join(d.dir, "streams"))
		if err != nil {
			if d.sides == "streams" || ctx.Err() != nil {
				return errors.Join(err, d.close())
			}
			d.left = err.Error()
			progress("the Kafka Streams side is left out: %s", d.left)
		}
	} else {
		d.left = "-sides wicker"
	}
	return nil
}

func (d *driver) close() error {
	d.client.Close()
	d.groups.close()
	return d.broker.Close()
}

// scenario measures one scenario: all its rows, in turns.
func (d *driver) scenario(ctx context.Context, s *scenario) (*result, error) {
	var want *digest
	if s.play == nil {
		if _, err := load(ctx, d.client, d.broker.Addr(), s.input); err != nil {
			return nil, err
		}
		var err error
		if want, err = expected(ctx, d.client, d.broker.Addr(), s); err != nil {
			return nil, err
		}
	}
	r := newResult(s, d.versions)
	for i := range cmp.Or(d.runs, s.runs, 3) {
		rows := slices.Clone(s.rows)
		if i%2 == 1 {
			slices.Reverse(rows)
		}
		for _, row := range rows {
			if d.skips(row) || row.once && i > 0 {
				continue
			}
			m, err := d.run(ctx, s, row, want, false)
			if err != nil {
				return nil, fmt.Errorf("%s %s, run %d: %w", row.side, row.name, i+1, err)
			}
			progress("%s %s %d: %s%s", row.side, row.name, i+1, m.line(s), note(m.Problem))
			r.add(row, m)
		}
	}
	if d.cpuProfile != "" || d.memProfile != "" {
		m, err := d.run(ctx, s, s.rows[0], want, true)
		if err != nil {
			return nil, fmt.Errorf("profiled run: %w", err)
		}
		if d.cpuProfile != "" {
			if err := summarize(ctx, os.Stdout, s.name, d.profilePath(d.cpuProfile, s, "cpu"), max(1, int(m.Records))); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

func note(problem string) string {
	if problem == "" {
		return ""
	}
	return ": WRONG OUTPUT: " + problem
}

func (d *driver) skips(row row) bool {
	return row.side == "streams" && d.streams == nil || row.side == "wicker" && d.sides == "streams"
}

func (d *driver) profilePath(dir string, s *scenario, kind string) string {
	return filepath.Join(dir, s.name+"."+kind+".pprof")
}

// run is one run of one row, in a process of its own, and the look at its output.
func (d *driver) run(ctx context.Context, s *scenario, row row, want *digest, profiled bool) (m measurement, err error) {
	app := fmt.Sprintf("bench-%s-%s-%d", row.side, row.name, time.Now().UnixNano())
	j := job{Scenario: s.name, App: app, In: s.input.topic, Out: app + "-out", State: filepath.Join(d.dir, "state", app),
		Broker: d.broker.Addr(), BrokerPID: d.brokerPID, Settings: row.settings}
	if profiled && d.cpuProfile != "" {
		j.CPUProfile = d.profilePath(d.cpuProfile, s, "cpu")
	}
	if profiled && d.memProfile != "" {
		j.MemProfile = d.profilePath(d.memProfile, s, "mem")
	}
	defer func() { err = errors.Join(err, d.clean(context.WithoutCancel(ctx), app, j.State)) }()
	if s.play != nil {
		return s.play(ctx, d, s, row, j)
	}
	if err := d.client.CreateTopic(ctx, j.Out, partitions, nil); err != nil {
		return m, err
	}
	cmd, err := d.command(ctx, row, j)
	if err != nil {
		return m, err
	}
	var out, text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &text
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	if err := cmd.Run(); err != nil {
		return m, fmt.Errorf("%w: %s", err, strings.TrimSpace(text.String()))
	}
	if err := json.Unmarshal(out.Bytes(), &m); err != nil {
		return m, fmt.Errorf("result %q: %w", out.String(), err)
	}
	got, err := outcome(ctx, d.client, d.broker.Addr(), j.Out)
	if err != nil {
		return m, fmt.Errorf("read output: %w", err)
	}
	m.Outputs = got.count
	if !row.partial {
		m.Problem = want.differs(got, s.ordered)
	}
	return m, nil
}

// command is the process of one run.
func (d *driver) command(ctx context.Context, row row, j job) (*exec.Cmd, error) {
	if row.side == "streams" {
		return d.streams.command(ctx, j), nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	description, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	if j.Scenario == "global" && !slices.Contains(j.Settings, onDisk) {
		self = cmp.Or(d.pure, self)
	}
	return exec.CommandContext(ctx, self, "-worker", string(description)), nil
}

// clean deletes what a run has left: its topics, by how their names begin, and its state.
func (d *driver) clean(ctx context.Context, prefix, state string) error {
	topics, err := d.client.Topics(ctx)
	if err != nil {
		return err
	}
	var dead []string
	for t := range topics {
		if strings.HasPrefix(t, prefix) {
			dead = append(dead, t)
		}
	}
	return errors.Join(d.client.DeleteTopics(ctx, dead...), os.RemoveAll(state))
}

// revision is the commit that this program was built from.
func revision(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12", "--match=v*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
