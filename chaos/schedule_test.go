package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var testShape = shape{faults: 50, duration: 150 * time.Second, slots: 5, running: 3, nodes: 3, session: 3 * time.Second}

// A seed always gives the same schedule, and another seed another one.
func TestScheduleReplays(t *testing.T) {
	require.Equal(t, newSchedule(7, testShape), newSchedule(7, testShape))
	require.NotEqual(t, newSchedule(7, testShape), newSchedule(8, testShape))
	require.Equal(t, inputsOf(7, 1000), inputsOf(7, 1000))
	require.NotEqual(t, inputsOf(7, 1000), inputsOf(8, 1000))
}

// What a schedule asks for can be done: workers that run, one broker at a time, somebody always left.
func TestScheduleIsPossible(t *testing.T) {
	kinds := map[kind]int{}
	for seed := range uint64(300) {
		faults := newSchedule(seed, testShape)
		require.Len(t, faults, testShape.faults)
		runs := []bool{true, true, true, false, false}
		var broker, last time.Duration
		busy := make([]time.Duration, 5)
		for _, f := range faults {
			kinds[f.kind]++
			require.GreaterOrEqual(t, f.at, last)
			require.Less(t, f.at, testShape.duration)
			last = f.at
			switch f.kind {
			case kill, pausing, blink, restart, join, leave:
				require.Equal(t, f.kind != join, runs[f.slot], "seed %d: %v", seed, f)
				require.LessOrEqual(t, busy[f.slot], f.at)
				busy[f.slot] = f.at + f.lasts
				runs[f.slot] = f.kind != leave
				require.Contains(t, runs, true)
			case bounce, halt, freeze:
				require.LessOrEqual(t, broker, f.at)
				broker = f.at + f.lasts + brokerRecovery
				require.Less(t, f.node, testShape.nodes)
			default:
				require.False(t, f.slot == anyone && f.node == anyone)
			}
			if f.kind == pausing {
				require.Greater(t, f.lasts, testShape.session)
			}
			if f.kind == blink {
				require.Less(t, f.lasts, testShape.session)
			}
		}
	}
	for _, w := range weights {
		require.Positive(t, kinds[w.kind], w.kind)
	}
}

// A cluster of one node has no faults of brokers.
func TestScheduleOfOneNode(t *testing.T) {
	s := testShape
	s.nodes = 1
	for _, f := range newSchedule(3, s) {
		require.NotContains(t, []kind{bounce, halt, freeze}, f.kind)
	}
}

func TestFaultTellsWhatHappens(t *testing.T) {
	for _, c := range []struct {
		fault fault
		want  string
	}{
		{fault{at: 1500 * time.Millisecond, kind: kill, slot: 2, node: anyone, lasts: time.Second}, "    1.50s kill      worker 2 for 1.00s"},
		{fault{kind: bounce, slot: anyone, node: 0, lasts: time.Second}, "    0.00s bounce    broker 0 for 1.00s"},
		{fault{kind: cut, slot: anyone, node: 1, on: up | down}, "    0.00s cut       every worker - broker 1"},
		{fault{kind: blackhole, slot: 0, node: anyone, on: down, lasts: time.Second}, "    0.00s blackhole worker 0 - every broker, answers for 1.00s"},
		{fault{kind: delay, slot: 0, node: 2, on: up, by: 50 * time.Millisecond, lasts: time.Second}, "    0.00s delay     worker 0 - broker 2, requests by 50ms for 1.00s"},
	} {
		require.Equal(t, c.want, c.fault.String())
	}
	require.Equal(t, "kill 2, cut 1", byKind([]fault{{kind: kill}, {kind: cut}, {kind: kill}}))
}
