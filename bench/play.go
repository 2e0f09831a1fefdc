package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/wickerwork/wicker/testkit/kafka"
)

const (
	// probes is how many inputs follow a restore, to see what it has restored.
	probes = 200
	// trickle is the input of crash, in records a second, and trickleTime how long it is processed before the kill,
	// unless a test says so.
	trickle     = 100
	trickleTime = 10 * time.Second
	// settleLimit bounds what is waited for background work, settleStep is how often it is looked at.
	settleLimit = 30 * time.Second
	settleStep  = 500 * time.Millisecond
	// processTimeout bounds what is waited for: that an instance runs, that inputs are processed.
	processTimeout = 3 * time.Minute
)

// input is the value of each; not none, which Kafka Streams would skip.
var input = []byte{'+'}

// playRestore starts an instance on an empty directory and measures until its task runs. Then
// inputs tell whether the state is what it must be.
func playRestore(ctx context.Context, d *driver, s *scenario, row row, j job) (m measurement, err error) {
	st, at, err := d.stocked(ctx, row, &j)
	if err != nil {
		return m, err
	}
	p, m, err := d.start(ctx, row, j)
	if err != nil {
		return m, err
	}
	defer p.kill()
	settled, err := settle(ctx, p.cmd.Process.Pid)
	if err != nil {
		return m, err
	}
	m.Figures = map[string]float64{"settled_cpu_us_per_record": math.Round(settled*1e10/float64(max(1, m.Records))) / 1e4}
	in := at
	err = fill(ctx, d.broker.Addr(), st.in, probes, func(int) (k, v []byte) {
		in++
		return st.key(in - 1), input
	})
	if err != nil {
		return m, err
	}
	return m, d.finish(ctx, s, row, j, st, at, p, &m)
}

// playCrash kills an instance that has restored its state and processes a trickle of input, and
// measures the next one on the same directory.
func playCrash(ctx context.Context, d *driver, s *scenario, row row, j job) (m measurement, err error) {
	st, at, err := d.stocked(ctx, row, &j)
	if err != nil {
		return m, err
	}
	first := j
	first.CPUProfile, first.MemProfile = "", ""
	p, _, err := d.start(ctx, row, first)
	if err != nil {
		return m, err
	}
	defer func() { p.kill() }()
	out, err := watch(ctx, d.broker.Addr(), j.Out, 1)
	if err != nil {
		return m, err
	}
	defer out.stop()
	trickled, err := feed(ctx, d.broker.Addr(), st.in, trickle, func(i int64) (k, v []byte) { return st.key(at + i), input })
	if err != nil {
		return m, err
	}
	defer trickled.stop()
	if err := sleep(ctx, cmp.Or(d.trickleTime, trickleTime)); err != nil {
		return m, err
	}
	p.kill()
	killed := time.Now()
	if p, m, err = d.start(ctx, row, j); err != nil {
		return m, err
	}
	var output time.Time
	err = until(ctx, p, func() (bool, error) {
		var ok bool
		output, ok = out.firstAfter(killed)
		return ok, nil
	})
	if err != nil {
		return m, fmt.Errorf("wait for output: %w", err)
	}
	if _, err := trickled.stop(); err != nil {
		return m, err
	}
	if err := d.finish(ctx, s, row, j, st, at, p, &m); err != nil {
		return m, err
	}
	m.Figures = map[string]float64{"running_s": m.Seconds, "first_output_s": seconds(output.Sub(killed)), "replayed_records": float64(m.Records)}
	return m, nil
}

// stocked makes the job one on the side's stock, whose input it continues at the offset returned.
func (d *driver) stocked(ctx context.Context, row row, j *job) (*stock, int64, error) {
	st, err := d.stock(ctx, row.side)
	if err != nil {
		return nil, 0, err
	}
	j.App, j.In = st.app, st.in
	j.Client = "bench"
	if row.static {
		j.Instance = "bench"
	}
	if err := d.client.CreateTopic(ctx, j.Out, 1, nil); err != nil {
		return nil, 0, err
	}
	at, err := d.end(ctx, st.in)
	return st, at, err
}

// start starts an instance and returns when its tasks run. The caller has to call kill.
func (d *driver) start(ctx context.Context, row row, j job) (*process, measurement, error) {
	var m measurement
	p, err := d.spawn(ctx, row, j)
	if err != nil {
		return nil, m, err
	}
	late := time.AfterFunc(processTimeout, p.kill)
	err = p.next(&m)
	if !late.Stop() && err != nil {
		err = fmt.Errorf("not running after %s: %w", processTimeout, err)
	}
	if err != nil {
		p.kill()
		return nil, m, err
	}
	return p, m, nil
}

// finish waits until the instance has processed all of its input, ends it, and compares the output with what
// the input from offset at on calls for.
func (d *driver) finish(ctx context.Context, s *scenario, row row, j job, st *stock, at int64, p *process, m *measurement) error {
	end, err := d.end(ctx, st.in)
	if err != nil {
		return err
	}
	if err := d.processed(ctx, p, j.App, kafka.Offsets{{Topic: st.in}: end}); err != nil {
		return err
	}
	e, err := p.stop()
	if err != nil {
		return err
	}
	if m.Records = e.Restored; m.Seconds > 0 {
		m.RecordsPerSecond = float64(m.Records) / m.Seconds
		m.CPUPerRecord = m.CPUSeconds * 1e6 / float64(max(1, m.Records))
	}
	if err := d.groups.vacate(ctx, st.app); err != nil {
		return err
	}
	got, err := outcome(ctx, d.client, d.broker.Addr(), j.Out)
	if err != nil {
		return fmt.Errorf("read output: %w", err)
	}
	m.Outputs = got.count
	m.Problem = st.expected(at, end).differs(got, s.ordered)
	if s.name == "restore" && m.Records < int64(st.keys) && m.Problem == "" {
		m.Problem = fmt.Sprintf("%d records restored of %d", m.Records, st.keys)
	}
	return nil
}

// processed returns when the group's committed offsets have reached the target.
func (d *driver) processed(ctx context.Context, p *process, group string, target kafka.Offsets) error {
	err := until(ctx, p, func() (bool, error) {
		have, err := d.client.CommittedOffsets(ctx, group)
		for tp, at := range target {
			if have[tp] < at {
				return false, err
			}
		}
		return true, err
	})
	if err != nil {
		return fmt.Errorf("wait until the input is processed: %w", err)
	}
	return nil
}

// until asks every few milliseconds until the answer is yes, the instance ends, or it takes too long.
func until(ctx context.Context, p *process, ask func() (bool, error)) error {
	late := time.NewTimer(processTimeout)
	defer late.Stop()
	for {
		if ok, err := ask(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.exited:
			return fmt.Errorf("the instance ended (%v): %s", p.err, p.text.String())
		case <-late.C:
			return fmt.Errorf("not after %s: %s", processTimeout, p.text.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// settle returns when a process has used less than a tenth of a processor for two seconds, or after
// settleLimit, with the CPU seconds that it has used from its start to before that: what a start has left to do
// in the background is work too.
func settle(ctx context.Context, pid int) (float64, error) {
	begin, quiet, used := time.Now(), time.Now(), processCPU(pid)
	last := used
	for time.Since(begin) < settleLimit && time.Since(quiet) < 2*time.Second {
		if err := sleep(ctx, settleStep); err != nil {
			return 0, err
		}
		now := processCPU(pid)
		if now-last > settleStep.Seconds()/10 {
			quiet, used = time.Now(), now
		}
		last = now
	}
	return used, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }
