package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// group is a kind of work in a CPU profile. A sample belongs to the first group that has a
// matching frame, looking from the innermost frame outwards.
type group struct {
	name   string
	frames []string // parts of function names
}

// groups are looked at in this order for each frame.
var groups = []group{
	{"garbage collection", []string{"runtime.gcBgMarkWorker", "runtime.gcAssist", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcDrain", "runtime.sweepone", "runtime.scanobject", "runtime.greyobject", "runtime.markroot", "runtime.wbBufFlush", "runtime.gcWriteBarrier"}},
	{"allocation", []string{"runtime.mallocgc", "runtime.growslice", "runtime.makeslice", "runtime.newobject", "runtime.slicebytetostring", "runtime.madvise", "runtime.sysUsed"}},
	{"RocksDB", []string{"grocksdb", "kvstore/rocksdb"}},
	{"checksum", []string{"hash/crc32"}},
	{"read from the network", []string{"syscall.read", "syscall.Read", "internal/poll.(*FD).Read"}},
	{"write to the network", []string{"syscall.writev", "syscall.write", "syscall.Write", "internal/poll.(*FD).Write", "internal/poll.(*FD).Writev"}},
	{"partitioner", []string{"commitlog.Partition", "commitlog.murmur"}},
	{"decode records", []string{"commitlog.(*Cursor)", "commitlog.field", "commitlog.varint", "kafkalog.(*rawChunk)", "kafkalog.readFetch", "commitlog.ReadHeader"}},
	{"encode records", []string{"commitlog.(*Builder)", "commitlog.varintLen", "encoding/binary.AppendVarint", "exec.(*output).", "exec.(*outputs)"}},
	{"codecs", []string{"wicker/codec."}},
	{"state cache", []string{"exec.(*store)", "exec.(*state)", "exec.(*stateMap)"}},
	{"benchmark's own functions", []string{"main."}},
	{"operators", []string{"wicker/ops.", "wicker/topology."}},
	{"rest of kafkalog", []string{"exec/kafkalog."}},
	{"rest of exec", []string{"wicker/exec."}},
	{"scheduler", []string{"runtime.schedule", "runtime.findRunnable", "runtime.mcall", "runtime.park_m", "runtime.goexit0", "runtime.futex", "runtime.netpoll", "runtime.mstart", "runtime.sysmon", "runtime.notesleep", "runtime.gopreempt", "runtime.morestack"}},
}

// groupOf returns the group of a stack, innermost frame first.
func groupOf(stack []string) string {
	for _, frame := range stack {
		for _, g := range groups {
			for _, part := range g.frames {
				if strings.Contains(frame, part) {
					return g.name
				}
			}
		}
	}
	return "other"
}

// summarize prints where the CPU time of a profile goes.
func summarize(ctx context.Context, w io.Writer, name, path string, records int) error {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", "pprof", "-traces", path)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go tool pprof %s: %w: %s", path, err, strings.TrimSpace(stderr.String()))
	}
	spent, inner, total := readTraces(out)
	if total == 0 {
		return fmt.Errorf("profile %s has no samples", path)
	}
	fmt.Fprintf(w, "%s: %.2f s of CPU, %.3f us a record (%s)\n", name, total.Seconds(), total.Seconds()*1e6/float64(records), path)
	for _, by := range []struct {
		title string
		spent map[string]time.Duration
		most  int
	}{{"where it goes", spent, len(groups) + 1}, {"functions by their own time", inner, 15}} {
		fmt.Fprintf(w, "  %s\n", by.title)
		var names []string
		for n := range by.spent {
			names = append(names, n)
		}
		slices.SortFunc(names, func(a, b string) int {
			return cmp.Or(cmp.Compare(by.spent[b], by.spent[a]), cmp.Compare(a, b))
		})
		for _, n := range names[:min(len(names), by.most)] {
			d := by.spent[n]
			fmt.Fprintf(w, "  %5.1f %%  %6.3f us  %s\n", 100*float64(d)/float64(total), d.Seconds()*1e6/float64(records), n)
		}
	}
	fmt.Fprintln(w)
	return nil
}

// readTraces reads the output of pprof -traces: time by group and by innermost function.
func readTraces(text []byte) (spent, inner map[string]time.Duration, total time.Duration) {
	spent, inner = map[string]time.Duration{}, map[string]time.Duration{}
	var stack []string
	var value time.Duration
	flush := func() {
		// The signal of the process's timer also finds threads of RocksDB that sleep in the C
		// library. What is counted there was spent elsewhere, and is counted there too.
		if len(stack) > 0 && !(len(stack) == 1 && strings.HasPrefix(stack[0], "[libc.so")) {
			spent[groupOf(stack)] += value
			inner[stack[0]] += value
			total += value
		}
		stack, value = nil, 0
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	started := false
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "-----------+") {
			flush()
			started = true
			continue
		}
		if !started {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(stack) == 0 && len(fields) > 1 {
			d, err := time.ParseDuration(fields[0])
			if err != nil {
				continue // a label
			}
			value, fields = d, fields[1:]
		}
		stack = append(stack, strings.TrimSuffix(strings.Join(fields, " "), " (inline)"))
	}
	flush()
	return spent, inner, total
}
