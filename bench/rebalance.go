package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/wickerwork/wicker/testkit/kafka"
)

const (
	rebalanceAbout = "2,000 records/s into 4 partitions, keys and values as in count"
	rebalanceRate  = 2000
	settleTime     = 5 * time.Second
	joinAfter      = 15 * time.Second
	leaveAfter     = 20 * time.Second
)

// rebalanceFigures are the longest gaps in the output, in ms: before the second instance starts, of partitions that
// move and of those that do not, from its start to its end and from then on.
var rebalanceFigures = []figure{
	{name: "steady_ms", title: "steady ms"},
	{name: "join_moved_ms", title: "join moved", most: 500}, {name: "join_kept_ms", title: "join kept", most: 200},
	{name: "leave_moved_ms", title: "leave moved", most: 500}, {name: "leave_kept_ms", title: "leave kept", most: 200},
}

// playRebalance runs count on a steady input while a second instance comes and goes.
func playRebalance(ctx context.Context, d *driver, s *scenario, row row, j job) (m measurement, err error) {
	addr := d.broker.Addr()
	j.In = j.App + "-in"
	for _, topic := range []string{j.In, j.Out} {
		if err := d.client.CreateTopic(ctx, topic, partitions, nil); err != nil {
			return m, err
		}
	}
	member := func(name string) job {
		j := j
		j.Client, j.State = name, j.State+"/"+name
		if name != "first" {
			j.CPUProfile, j.MemProfile = "", ""
		}
		return j
	}
	a, m, err := d.start(ctx, row, member("first"))
	if err != nil {
		return m, err
	}
	defer a.kill()
	out, err := watch(ctx, addr, j.Out, partitions)
	if err != nil {
		return m, err
	}
	defer out.stop()
	g := newGenerator()
	input, err := feed(ctx, addr, j.In, rebalanceRate, func(int64) (k, v []byte) { return g.next() })
	if err != nil {
		return m, err
	}
	defer input.stop()
	begin := time.Now()
	if err := sleep(ctx, joinAfter); err != nil {
		return m, err
	}
	join := time.Now()
	b, joined, err := d.start(ctx, row, member("second"))
	if err != nil {
		return m, err
	}
	defer b.kill()
	if err := sleep(ctx, leaveAfter-time.Since(join)); err != nil {
		return m, err
	}
	moved, err := d.groups.owned(ctx, j.App, "second", j.In)
	if err != nil {
		return m, err
	}
	leave := time.Now()
	if _, err := b.stop(); err != nil {
		return m, fmt.Errorf("second instance: %w", err)
	}
	left := time.Since(leave)
	if err := sleep(ctx, row.tail-left); err != nil {
		return m, err
	}
	sent, err := input.stop()
	if err != nil {
		return m, err
	}
	end := time.Now()
	target, err := d.client.EndOffsets(ctx, kafka.ReadCommitted, j.In)
	if err != nil {
		return m, err
	}
	if err := d.processed(ctx, a, j.App, target); err != nil {
		return m, err
	}
	arrivals, err := out.stop()
	if err != nil {
		return m, err
	}
	if _, err := a.stop(); err != nil {
		return m, fmt.Errorf("first instance: %w", err)
	}
	m.Records = sent
	m.Figures = map[string]float64{"second_running_s": joined.Seconds, "second_stop_s": seconds(left), "moved_partitions": float64(len(moved))}
	m.Partitions = map[string][]int64{}
	for _, p := range moved {
		m.Partitions["moved"] = append(m.Partitions["moved"], int64(p))
	}
	gaps(&m, arrivals, moved, "steady", begin.Add(settleTime), join, end)
	gaps(&m, arrivals, moved, "join", join, leave, end)
	gaps(&m, arrivals, moved, "leave", leave, end, end)
	if len(moved) == 0 || len(moved) == partitions {
		m.Problem = fmt.Sprintf("a second instance with %d of %d partitions, which tells nothing", len(moved), partitions)
		return m, nil
	}
	counted := *s
	counted.input = dataset{j.In, int(sent)}
	want, err := expected(ctx, d.client, addr, &counted)
	if err != nil {
		return m, err
	}
	got, err := outcome(ctx, d.client, addr, j.Out)
	if err != nil {
		return m, fmt.Errorf("read output: %w", err)
	}
	m.Outputs = got.count
	m.Problem = want.differs(got, s.ordered)
	return m, nil
}

// gaps sets the figures of the time from..to.
func gaps(m *measurement, arrivals [][]time.Time, moved []int32, name string, from, to, end time.Time) {
	for p, at := range arrivals {
		gap := longestGap(at, from, to, end).Milliseconds()
		m.Partitions[name+"_ms"] = append(m.Partitions[name+"_ms"], gap)
		figure := name + "_ms"
		switch {
		case name == "steady":
		case slices.Contains(moved, int32(p)):
			figure = name + "_moved_ms"
		default:
			figure = name + "_kept_ms"
		}
		m.Figures[figure] = max(m.Figures[figure], float64(gap))
	}
}
