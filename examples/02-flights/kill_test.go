package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// kills is how often the program is killed.
const kills = 5

// The program on a real Kafka is killed at five random moments and started again each time.
// Afterwards every flight is there once and every number is right, and the registry was asked
// again only for what was in flight: never twice by one process, and never for an answer that
// had been committed before (E3, E4, E5).
func TestKilledFiveTimesEqualsPlainProgram(t *testing.T) {
	b := kafka.StartReal(t, kafka.Options{})
	c := b.Client(t)
	want := expect(t)
	dir := t.TempDir()

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	asked := map[string]int{}
	committed := map[string]bool{}
	total := 0
	var moments []int64 // in refined flights that are committed
	for range kills {
		moments = append(moments, random.Int64N(int64(len(want.refined)*8/10)))
	}
	slices.Sort(moments)
	refined := func() (n int64) {
		ends, err := c.EndOffsets(t.Context(), kafka.ReadCommitted, "refined-flights") // when there is the topic
		require.NoError(t, err)
		for _, end := range ends {
			n += end
		}
		return n
	}

	run := func(i int, until int64) { // killed at that moment; never, if negative
		log := filepath.Join(dir, fmt.Sprint("asked-", i))
		args := []string{"-brokers", b.Addr(), "-dir", dir, "-delay", "60ms", "-asked-log", log}
		if until < 0 {
			want.checkTable(t, mustRun(t, args...).stdout)
		} else {
			cmd := program(t, args...)
			var output bytes.Buffer
			cmd.Stdout, cmd.Stderr = &output, &output
			require.NoError(t, cmd.Start())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			for refined() <= until {
				select {
				case err := <-ended:
					require.FailNow(t, "it ended before it could be killed", "%v\n%s", err, output.String())
				case <-time.After(5 * time.Millisecond):
				}
			}
			time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond) // a random moment behind that
			require.NoError(t, cmd.Process.Kill())
			<-ended
			require.Equal(t, -1, cmd.ProcessState.ExitCode(), output.String())
		}
		mine := askedOf(t, log)
		for tail, n := range mine {
			require.Equal(t, 1, n, "process %d asked %s", i, tail)
			require.False(t, committed[tail], "process %d asked %s, whose answer was committed", i, tail)
			asked[tail] += n
			total += n
		}
		// What is committed now. Of the changelog's partitions each ends before an open transaction.
		answers, err := c.Read(t.Context(), kafka.ReadCommitted, "flights-demo-planes-changelog")
		require.NoError(t, err)
		for _, r := range answers {
			committed[string(r.Key)] = true
		}
		t.Logf("process %d: asked %d, %d in all; committed are %d answers and about %d flights", i, len(mine), total, len(committed), refined())
	}
	at := int64(0)
	for i, moment := range moments {
		run(i, max(moment, at)) // it commits something at least
		at = refined()
	}
	run(kills, -1)

	want.checkTopics(t, b)
	require.Len(t, asked, len(want.tails))
	for tail, n := range asked {
		require.LessOrEqual(t, n, 1+kills, tail)
	}
	require.Len(t, committed, len(want.tails))
}

// calls returns how many lines an asked-log has.
func calls(file string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	return bytes.Count(text, []byte("\n"))
}
