// Command chaos runs an example application under faults, on a real Kafka of three nodes, and checks that nothing is
// lost, repeated or out of order:
//
//	go run ./chaos -seeds 20
//
// A run starts some processes of the example (plan.go), writes inputs at a steady pace, and inflicts what the seed's
// schedule says (schedule.go): workers and brokers are killed, paused and restarted, workers join and leave,
// connections between them are cut, delayed and blackholed (proxy.go). Then it waits until all inputs are through, ends the
// processes, and asks an oracle (oracle.go): every input is counted once, in both outputs, in order by key and
// without gap; the changelogs hold exactly that state; the local stores are what their changelogs say; no transaction is
// open, the group is empty, and the state can be opened again. A process that ends without being asked is a finding too.
//
// It prints a line per seed. A run that fails prints what it found, its schedule with the times at which things
// happened, and how to run it again. A seed always gives the same schedule and the same inputs; how they meet is up
// to the machine.
//
// Other modes measure what a rolling restart and a pause do (rolling.go, pause.go).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// workerEnv is the variable in which a worker process finds its job.
const workerEnv = "WICKER_CHAOS_WORKER"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := func() error {
		defer stop()
		if description := os.Getenv(workerEnv); description != "" {
			return work(ctx, description)
		}
		return command(ctx)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// errFailed says that a run has failed, which has been told already.
var errFailed = errors.New("a run has failed")

// options are the flags.
type options struct {
	setting
	mode  string
	seed  uint64
	seeds int
	dir   string
	nodes int
}

func command(ctx context.Context) error {
	o := options{}
	flag.StringVar(&o.mode, "mode", "faults", "faults, rolling or pause")
	flag.Uint64Var(&o.seed, "seed", 1, "the first seed")
	flag.IntVar(&o.seeds, "seeds", 1, "how many seeds, one after the other")
	flag.IntVar(&o.inputs, "inputs", 300_000, "inputs of a run")
	flag.IntVar(&o.faults, "faults", 50, "faults of a run")
	flag.IntVar(&o.processes, "processes", 0, "worker processes at the start; with faults up to 5 while it runs; default 3, rolling 5")
	flag.IntVar(&o.partitions, "partitions", 0, "partitions of each topic; default 6, rolling 64")
	flag.IntVar(&o.nodes, "nodes", 0, "nodes of the cluster; default 3, rolling and pause 1")
	flag.DurationVar(&o.duration, "duration", 0, "how long inputs are written and faults happen; default 3 s for each fault")
	flag.DurationVar(&o.stall, "stall", 90*time.Second, "a run is given up when nothing moves for so long after the last fault")
	flag.StringVar(&o.dir, "dir", "", "directory for state and logs; default: a temporary one, kept if a run fails")
	flag.BoolVar(&o.verbose, "v", false, "tell what happens as it happens")
	flag.Parse()
	if err := o.complete(); err != nil {
		return err
	}
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	temp := o.dir == ""
	if temp {
		dir, err := os.MkdirTemp("", "wicker-chaos-")
		if err != nil {
			return err
		}
		o.dir = dir
	}
	s, err := openStand(ctx, o.dir, o.nodes)
	if err != nil {
		return err
	}
	switch o.mode {
	case "rolling":
		err = o.runRolling(ctx, s)
	case "pause":
		err = o.runPause(ctx, s)
	default:
		err = o.runFaults(ctx, s)
	}
	if err == nil && temp {
		err = os.RemoveAll(o.dir)
	}
	return errors.Join(err, s.close())
}

// complete fills in what follows from other flags and reports those that cannot work, joined.
func (o *options) complete() error {
	def := func(field *int, mode string, value int) {
		if *field == 0 && (mode == "" || mode == o.mode) {
			*field = value
		}
	}
	def(&o.processes, "rolling", 5)
	def(&o.processes, "", 3)
	def(&o.partitions, "rolling", 64)
	def(&o.partitions, "", 6)
	def(&o.nodes, "faults", 3)
	def(&o.nodes, "", 1)
	o.slots = max(5, o.processes)
	if o.duration == 0 {
		o.duration = time.Duration(o.faults) * 3 * time.Second
	}
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.mode == "faults" || o.mode == "rolling" || o.mode == "pause", "-mode (%q) must be faults, rolling or pause", o.mode)
	check(o.seeds >= 1, "-seeds (%d) must be >= 1", o.seeds)
	check(o.inputs >= 1, "-inputs (%d) must be >= 1", o.inputs)
	check(o.faults >= 0, "-faults (%d) must be >= 0", o.faults)
	check(o.processes >= 1 && o.processes <= 5, "-processes (%d) must be from 1 to 5", o.processes)
	check(o.partitions >= 1, "-partitions (%d) must be >= 1", o.partitions)
	check(o.nodes == 1 || o.nodes >= 3 && o.nodes <= 9, "-nodes (%d) must be 1 or from 3 to 9", o.nodes)
	check(o.duration > 0, "-duration (%v) must be > 0", o.duration)
	return errors.Join(errs...)
}

func (o *options) runRolling(ctx context.Context, s *stand) error {
	failed := false
	for _, static := range []bool{true, false} {
		result, err := rolling(ctx, s, o.setting, static)
		if err != nil {
			return err
		}
		fmt.Println(result)
		failed = failed || result.problem != "" || len(result.unplanned) > 0
	}
	if failed {
		return errFailed
	}
	return nil
}

func (o *options) runPause(ctx context.Context, s *stand) error {
	failed := false
	for _, static := range []bool{true, false} {
		result, err := pauseOne(ctx, s, o.setting, static)
		if err != nil {
			return err
		}
		fmt.Println(result)
		failed = failed || result.problem != "" || len(result.unplanned) > 0
	}
	if failed {
		return errFailed
	}
	return nil
}

func (o *options) runFaults(ctx context.Context, s *stand) error {
	failed := false
	for i := range o.seeds {
		result, err := runSeed(ctx, s, o.setting, o.seed+uint64(i))
		if err != nil {
			return fmt.Errorf("seed %d: %w", o.seed+uint64(i), err)
		}
		fmt.Println(result)
		if result.ok() {
			continue
		}
		failed = true
		if err := o.tell(result); err != nil {
			return err
		}
	}
	if failed {
		return errFailed
	}
	return nil
}

// tell says all about a run that failed.
func (o *options) tell(r *outcome) error {
	fmt.Println("  workers:", r.nature)
	for _, f := range r.findings {
		fmt.Println("  found:", f)
	}
	for _, e := range r.unplanned {
		fmt.Println("  unplanned:", e)
	}
	path := filepath.Join(r.dir, "happened.txt")
	text := ""
	for _, line := range r.did {
		text += line + "\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	fmt.Printf("  schedule: %s, logs and state beside it\n", path)
	fmt.Printf("  again: go run ./chaos -seed %d -inputs %d -faults %d -processes %d -partitions %d -nodes %d -duration %v\n",
		r.seed, o.inputs, o.faults, o.processes, o.partitions, o.nodes, o.duration)
	return nil
}

// progress tells a person what is going on; results go to standard output.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}
