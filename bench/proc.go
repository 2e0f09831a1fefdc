package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// reading is the clocks at one moment.
type reading struct {
	at time.Time
	// cpu is this process's user and system time, broker the broker's, machine that of everything, in seconds.
	cpu, broker, machine float64
}

func read(brokerPID int) reading {
	r := reading{at: time.Now(), broker: processCPU(brokerPID), machine: machineCPU()}
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		r.cpu = float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	return r
}

// ticks per second in /proc: USER_HZ, the same on all platforms of Linux that Go knows.
const ticks = 100

// processCPU is the user and system seconds of a process, 0 if there is none.
func processCPU(pid int) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if pid == 0 || err != nil {
		return 0
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 13 {
		return 0
	}
	return number(f[11])/ticks + number(f[12])/ticks
}

// machineCPU is the seconds that all processors were busy.
func machineCPU() float64 {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	var busy float64
	for i, f := range bytes.Fields(line) {
		if i >= 1 && i <= 8 && i != 4 && i != 5 { // not idle, not waiting
			busy += number(f)
		}
	}
	return busy / ticks
}

func number(b []byte) float64 {
	n, _ := strconv.ParseFloat(string(b), 64)
	return n
}

// peakMemory is VmHWM of this process in bytes.
func peakMemory() int64 { return memory("VmHWM") }

// memory is a field of this process's status, in bytes.
func memory(field string) int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte(field+":")); ok {
			return int64(number(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB")))) << 10
		}
	}
	return 0
}

// libraryVersion is the version of a shared library that this process has mapped, as its file
// name has it.
func libraryVersion(name string) string {
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if i := strings.Index(line, "/"); i >= 0 {
			file := filepath.Base(strings.TrimSpace(line[i:]))
			if v, ok := strings.CutPrefix(file, name+".so."); ok {
				return v
			}
		}
	}
	return ""
}

// childNamed returns the pid of a child of this process that runs the program, 0 if there is none.
func childNamed(program string) int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		pid, rest, _ := strings.Cut(string(b), " (")
		i := strings.LastIndex(rest, ") ")
		if i < 0 || rest[:i] != program {
			continue
		}
		if f := strings.Fields(rest[i+2:]); len(f) > 1 && f[1] == strconv.Itoa(os.Getpid()) {
			n, _ := strconv.Atoi(pid)
			return n
		}
	}
	return 0
}
