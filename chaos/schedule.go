package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// kind is a kind of fault.
type kind string

// The kinds of faults: of workers, of brokers, and of the network between them.
const (
	kill    kind = "kill"    // kill -9 of a worker, started again
	pausing kind = "pause"   // SIGSTOP of a worker beyond its session timeout, then SIGCONT
	blink   kind = "blink"   // the same for less than that
	restart kind = "restart" // SIGTERM, started again
	join    kind = "join"
	leave   kind = "leave"

	bounce kind = "bounce" // kill -9 of a broker, started again
	halt   kind = "halt"   // SIGTERM of a broker, started again
	freeze kind = "freeze" // SIGSTOP of a broker, then SIGCONT

	cut       kind = "cut"       // connections break
	refuse    kind = "refuse"    // and cannot be made again for a while
	blackhole kind = "blackhole" // nothing passes for a while
	delay     kind = "delay"     // all passes late for a while
)

// weights is how often a kind is drawn, in proportion.
var weights = []struct {
	kind   kind
	weight int
}{
	{kill, 9}, {pausing, 8}, {blink, 3}, {restart, 6}, {join, 4}, {leave, 4},
	{bounce, 5}, {halt, 2}, {freeze, 2},
	{cut, 6}, {refuse, 3}, {blackhole, 6}, {delay, 3},
}

// fault is one entry of a schedule.
type fault struct {
	at    time.Duration // since the start of the run
	kind  kind
	slot  int // of the worker, anyone for all; of no use for brokers' faults
	node  int // anyone for all; of no use for workers' faults
	lasts time.Duration
	// on and by are for the network.
	on direction
	by time.Duration
}

func (f fault) String() string {
	name := func(what string, n int) string {
		if n == anyone {
			return "every " + what
		}
		return fmt.Sprintf("%s %d", what, n)
	}
	text := fmt.Sprintf("%8.2fs %-9s ", f.at.Seconds(), f.kind)
	switch f.kind {
	case kill, pausing, blink, restart, join, leave:
		text += name("worker", f.slot)
	case bounce, halt, freeze:
		text += name("broker", f.node)
	default:
		text += name("worker", f.slot) + " - " + name("broker", f.node)
		if f.on != up|down {
			text += map[direction]string{up: ", requests", down: ", answers"}[f.on]
		}
	}
	if f.by > 0 {
		text += fmt.Sprintf(" by %v", f.by)
	}
	if f.lasts > 0 {
		text += fmt.Sprintf(" for %.2fs", f.lasts.Seconds())
	}
	return text
}

// shape is what a schedule is drawn for.
type shape struct {
	faults   int
	duration time.Duration
	slots    int // of which some run at first
	running  int
	nodes    int
	session  time.Duration
}

// brokerRecovery is how long a broker takes to be back and in sync after it was killed: until then no other fault of a
// broker is planned, as a cluster of three bears one.
const brokerRecovery = 14 * time.Second

// newSchedule draws faults: the same for the same seed and shape, in order of time. A fault of a worker is for
// one that is meant to run then and that no other fault is ending or stopping.
func newSchedule(seed uint64, s shape) []fault {
	r := rand.New(rand.NewPCG(seed, 1))
	upSlots := make([]bool, s.slots)
	for i := range s.running {
		upSlots[i] = true
	}
	busy := make([]time.Duration, s.slots) // until when
	var brokers time.Duration
	within := func(from, to time.Duration) time.Duration {
		return (from + time.Duration(r.Int64N(int64(to-from)))).Round(10 * time.Millisecond)
	}
	pick := func(want bool, at time.Duration) int {
		var free []int
		for i := range upSlots {
			if upSlots[i] == want && busy[i] <= at {
				free = append(free, i)
			}
		}
		if len(free) == 0 {
			return anyone
		}
		return free[r.IntN(len(free))]
	}
	least := min(2, s.running) // that run, so that there is somebody to take over
	sum := 0
	for _, w := range weights {
		sum += w.weight
	}
	draw := func() kind {
		n := r.IntN(sum)
		for _, w := range weights {
			if n -= w.weight; n < 0 {
				return w.kind
			}
		}
		return cut
	}
	// The first faults come when the application has begun, the last well before the inputs end.
	from, to := s.duration/20, s.duration*19/20
	var faults []fault
	for i := range s.faults {
		step := (to - from) / time.Duration(s.faults)
		at := from + time.Duration(i)*step + within(0, max(step, 20*time.Millisecond))
		f := fault{at: at, slot: anyone, node: anyone}
		for drawn := false; !drawn; {
			f.kind, f.lasts, f.on, f.by, drawn = draw(), 0, up|down, 0, true
			switch f.kind {
			case kill, pausing, blink, restart, leave:
				f.slot = pick(true, at)
				count := 0
				for _, runs := range upSlots {
					if runs {
						count++
					}
				}
				if drawn = f.slot != anyone && (f.kind != leave || count > least); !drawn {
					continue
				}
				switch f.kind {
				case kill, restart:
					f.lasts = within(0, 2*time.Second) // until it is started again
				case pausing:
					f.lasts = s.session + within(s.session/5, s.session)
				case blink:
					f.lasts = within(s.session/10, s.session*2/3)
				case leave:
					upSlots[f.slot] = false
				}
				busy[f.slot] = at + f.lasts + 2*time.Second
			case join:
				f.slot = pick(false, at)
				if drawn = f.slot != anyone; !drawn {
					continue
				}
				upSlots[f.slot] = true
				busy[f.slot] = at + 2*time.Second
			case bounce, halt, freeze:
				if drawn = brokers <= at && s.nodes > 1; !drawn {
					continue
				}
				f.node = r.IntN(s.nodes)
				f.lasts = within(500*time.Millisecond, 3*time.Second)
				if f.kind == freeze {
					f.lasts = within(time.Second, 6*time.Second)
				}
				brokers = at + f.lasts + brokerRecovery
			default:
				// A worker and all brokers, a broker and all workers, or one of each.
				if f.slot, f.node = pick(true, at), r.IntN(s.nodes); f.slot == anyone || r.IntN(3) == 0 {
					f.slot = anyone
				} else if r.IntN(2) == 0 {
					f.node = anyone
				}
				switch f.kind {
				case refuse:
					f.lasts = within(500*time.Millisecond, 4*time.Second)
				case blackhole:
					f.lasts = within(500*time.Millisecond, 2*s.session)
					f.on = []direction{up | down, up, down}[r.IntN(3)]
				case delay:
					f.lasts = within(time.Second, 5*time.Second)
					f.by = within(20*time.Millisecond, 400*time.Millisecond)
					f.on = []direction{up | down, up, down}[r.IntN(3)]
				}
			}
		}
		faults = append(faults, f)
	}
	slices.SortStableFunc(faults, func(a, b fault) int { return int(a.at - b.at) })
	return faults
}

// byKind counts faults.
func byKind(faults []fault) string {
	n := map[kind]int{}
	for _, f := range faults {
		n[f.kind]++
	}
	var parts []string
	for _, w := range weights {
		if n[w.kind] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", w.kind, n[w.kind]))
		}
	}
	return strings.Join(parts, ", ")
}
