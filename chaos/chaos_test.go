package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// TestMain lets the test's own program be the workers.
func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// newStand is a cluster behind a proxy for a test, which it ends with.
func newStand(t *testing.T, nodes int) *stand {
	p := newProxy(slotOf)
	t.Cleanup(p.close)
	c := kafka.StartCluster(t, kafka.ClusterOptions{Nodes: nodes, Advertise: p.advertise, JVM: jvm, Properties: properties})
	return &stand{cluster: c, proxy: p, client: c.Client(t), dir: t.TempDir()}
}

func testSetting() setting {
	return setting{inputs: 20_000, faults: 8, processes: 3, slots: 5, partitions: 4, duration: 24 * time.Second, stall: 2 * time.Minute}
}

// TestSmallChaos is one small run of what make chaos does: workers and brokers are killed and paused, connections
// are cut, and nothing is lost, repeated or out of order.
func TestSmallChaos(t *testing.T) {
	const seed = 29
	s := newStand(t, 3)
	o, err := runSeed(t.Context(), s, testSetting(), seed)
	require.NoError(t, err)
	t.Log(o)
	if !o.ok() {
		for _, line := range o.did {
			t.Log(line)
		}
		logWorkers(t, o.dir)
	}
	require.Empty(t, o.findings)
	require.Empty(t, o.unplanned)
}

// logWorkers logs the end of what each worker of a run has logged.
func logWorkers(t *testing.T, dir string) {
	t.Helper()
	const enough = 16 << 10
	paths, err := filepath.Glob(filepath.Join(dir, "worker-*.log"))
	require.NoError(t, err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		t.Logf("%s ends:\n%s", filepath.Base(path), text[max(0, len(text)-enough):])
	}
}

// TestPausedWorker is about a worker that is stopped beyond its session timeout, in the middle of a transaction, and
// goes on: what it had open never shows, and it works again without having ended.
func TestPausedWorker(t *testing.T) {
	s := newStand(t, 1)
	for _, static := range []bool{true, false} {
		set := testSetting()
		p, err := pauseOne(t.Context(), s, set, static)
		require.NoError(t, err)
		t.Log(p)
		require.Empty(t, p.problem)
		require.Empty(t, p.unplanned)
		require.Positive(t, p.open, "it had no transaction open")
		require.NotEqual(t, "(none)", p.refused)
	}
}
