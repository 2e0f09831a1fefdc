package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// built is the program, built once for all tests of the package.
var built struct {
	sync.Once
	path string
	err  error
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "wicker-flights-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built.path = filepath.Join(dir, "02-flights")
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// program returns a run of the program that has not begun.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	built.Do(func() {
		if out, err := exec.Command("go", "build", "-o", built.path, ".").CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	require.NoError(t, built.err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, built.path, args...)
}

// outcome is what a run of the program left.
type outcome struct {
	stdout, stderr string
	code           int
	took           time.Duration
}

// runProgram runs the program to its end.
func runProgram(t *testing.T, args ...string) outcome {
	t.Helper()
	cmd := program(t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); !ok {
		require.NoError(t, err)
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode(), time.Since(began)}
}

// mustRun runs the program and requires that it says nothing on stderr.
func mustRun(t *testing.T, args ...string) outcome {
	t.Helper()
	o := runProgram(t, args...)
	require.Zero(t, o.code, "%s\n%s", o.stdout, o.stderr)
	require.Empty(t, o.stderr)
	t.Logf("after %v:\n%s", o.took.Round(time.Millisecond), o.stdout)
	return o
}

// askedOf returns how often the registry was asked for each tail number, by an asked-log.
func askedOf(t *testing.T, file string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	asked := map[string]int{}
	for line := range strings.Lines(string(text)) {
		asked[strings.TrimSpace(line)]++
	}
	return asked
}

// checkTopics compares what a read_committed reader finds with the expectation.
func (e expectation) checkTopics(t *testing.T, b *kafka.Broker) {
	t.Helper()
	c := b.Client(t)
	read := func(topic string) []message {
		require.NoError(t, c.AwaitStable(t.Context(), topic))
		records, err := c.Read(t.Context(), kafka.ReadCommitted, topic)
		require.NoError(t, err)
		var out []message
		for _, r := range records {
			out = append(out, message{string(r.Key), string(r.Value)})
		}
		return out
	}
	e.check(t, read("refined-flights"), read("flights-without-tail"), read("route-stats"))
}

var tableRow = regexp.MustCompile(`^ *([A-Z]{3}-[A-Z]{3}) +(\d+) +(-?\d+\.\d) min +(-?\d+) min *$`)

// checkTable compares the printed table with the expectation.
func (e expectation) checkTable(t *testing.T, stdout string) {
	t.Helper()
	var names []string
	for name, r := range e.routes {
		if r.Arrived >= 20 {
			names = append(names, name)
		}
	}
	mean := func(name string) float64 { return float64(e.routes[name].Total) / float64(e.routes[name].Arrived) }
	slices.SortFunc(names, func(a, b string) int {
		if mean(a) > mean(b) || mean(a) == mean(b) && a < b {
			return -1
		}
		return 1
	})
	var want, got []string
	for _, name := range names[:10] {
		want = append(want, fmt.Sprintf("%s %d %.1f %d", name, e.routes[name].Flights, mean(name), e.routes[name].Worst))
	}
	for line := range strings.Lines(stdout) {
		if m := tableRow.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			got = append(got, strings.Join(m[1:], " "))
		}
	}
	require.Equal(t, want, got, stdout)
}

// The program on its embedded Kafka: as a plain program has it, each tail number asked for once;
// a second run finds Kafka's data and its own state again, changes nothing and asks nothing.
func TestSecondRunOnTheEmbeddedKafkaAsksNothing(t *testing.T) {
	want := expect(t)
	dir := t.TempDir()
	log := filepath.Join(dir, "asked")
	for run := range 2 {
		o := mustRun(t, "-dir", dir, "-delay", "1ms", "-asked-log", log)
		want.checkTable(t, o.stdout)
		require.Contains(t, o.stdout, []string{"asked 2,621 times", "asked 0 times"}[run])
		require.Contains(t, o.stdout, filepath.Join(dir, "state", "embedded-a"))
		asked := askedOf(t, log)
		require.Len(t, asked, len(want.tails))
		for tail, n := range asked {
			require.Equal(t, 1, n, tail)
		}
	}
	want.checkTopics(t, kafka.StartEmbedded(t, kafka.Options{Dir: filepath.Join(dir, "kafka")}))
}

// The same on a Kafka elsewhere. Then a record comes that is not a flight: the program ends with an error
// that says where and why without saying what, commits nothing of the transaction, in which
// there is a good flight too, and does so again when it is started again (E10).
func TestUndecodableRecordEndsTheProgramEachTime(t *testing.T) {
	kafka.EachOwn(t, kafka.Options{}, func(t *testing.T, b *kafka.Broker) {
		want := expect(t)
		dir := t.TempDir()
		log := filepath.Join(dir, "asked")
		args := []string{"-brokers", b.Addr(), "-dir", dir, "-delay", "1ms", "-asked-log", log}
		want.checkTable(t, mustRun(t, args...).stdout)
		want.checkTable(t, mustRun(t, args...).stdout)
		require.Len(t, askedOf(t, log), len(want.tails))

		c := b.Client(t)
		flights, err := c.Read(t.Context(), kafka.ReadCommitted, "flights")
		require.NoError(t, err)
		txn, err := c.Begin(t.Context(), "test")
		require.NoError(t, err)
		good := flights[0]
		bad := kafka.Record{Topic: "flights", Key: good.Key, Value: []byte(`{"year":2013,"month":"confidential"}`)}
		require.NoError(t, txn.Produce(t.Context(), kafka.Record{Topic: "flights", Key: good.Key, Value: good.Value}, bad))
		require.NoError(t, txn.Commit(t.Context()))
		require.NoError(t, c.AwaitStable(t.Context(), "flights"))
		flights, err = c.Read(t.Context(), kafka.ReadCommitted, "flights")
		require.NoError(t, err)
		at := slices.IndexFunc(flights, func(r kafka.Record) bool { return bytes.Equal(r.Value, bad.Value) })
		bad = flights[at]

		for range 2 {
			o := runProgram(t, args...)
			requireSentence(t, o, `Source "flights"`, fmt.Sprintf("topic flights partition %d offset %d: ", bad.Partition, bad.Offset),
				"/month", "value does not fit")
			require.NotContains(t, o.stdout+o.stderr, "confidential")
			offsets, err := c.CommittedOffsets(t.Context(), "flights-demo")
			require.NoError(t, err)
			require.LessOrEqual(t, offsets[kafka.Partition{Topic: "flights", Partition: bad.Partition}], flights[at-1].Offset)
		}
		want.checkTopics(t, b) // nothing of the good flight either
	})
}

// requireSentence requires that the program ended with code 1 and one sentence, in less than ten seconds.
func requireSentence(t *testing.T, o outcome, parts ...string) {
	t.Helper()
	t.Logf("after %v: %s", o.took.Round(time.Millisecond), o.stderr)
	require.Equal(t, 1, o.code, "%s\n%s", o.stdout, o.stderr)
	require.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
	require.True(t, strings.HasPrefix(o.stderr, "02-flights: "), o.stderr)
	for _, part := range parts {
		require.Contains(t, o.stderr, part)
	}
	require.Less(t, o.took, 10*time.Second)
}
