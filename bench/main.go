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

// settings are the flags.
type settings struct {
	brokers, dir, out, sides string
	cpuProfile, memProfile   string
	runs, keys               int
	worker                   string
}

func main() {
	var o settings
	flag.StringVar(&o.brokers, "brokers", "", "address of a broker that runs already; default: one is started")
	flag.StringVar(&o.dir, "dir", "", "directory for the broker's data, local state and the built Kafka Streams side; default: wicker/bench in the user's cache directory")
	flag.StringVar(&o.out, "out", filepath.Join("bench", "results"), "directory for the results")
	flag.StringVar(&o.sides, "sides", "both", "both, wicker or streams")
	flag.StringVar(&o.cpuProfile, "cpuprofile", "", "directory for a CPU profile of Wicker per scenario, from a run of its own, and a summary of it")
	flag.StringVar(&o.memProfile, "memprofile", "", "the same for a profile of allocations")
	flag.IntVar(&o.runs, "runs", 0, "runs of each side; default: 3, of crash and rebalance 1")
	flag.IntVar(&o.keys, "keys", 5_000_000, "keys in the state of restore and crash")
	flag.StringVar(&o.worker, "worker", "", "used by the program itself: one run in this process, described by JSON")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: bench [flags] [map] [count] [memo] [restore] [crash] [rebalance] [global]\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := func() error {
		if o.worker != "" {
			return worker(ctx, o.worker)
		}
		return drive(ctx, o, flag.Args())
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// validate reports every flag whose value cannot work, joined, and sets defaults.
func (o *settings) validate() error {
	var errs []error
	if o.runs < 0 {
		errs = append(errs, fmt.Errorf("-runs (%d) must be >= 0", o.runs))
	}
	if o.keys < minKeys {
		errs = append(errs, fmt.Errorf("-keys (%d) must be >= %d", o.keys, minKeys))
	}
	if o.sides != "both" && o.sides != "wicker" && o.sides != "streams" {
		errs = append(errs, fmt.Errorf("-sides (%q) must be both, wicker or streams", o.sides))
	}
	if o.dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			errs = append(errs, fmt.Errorf("-dir: %w", err))
		}
		o.dir = filepath.Join(cache, "wicker", "bench")
	}
	return errors.Join(errs...)
}

// progress tells a person what is going on; results go to standard output.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}
