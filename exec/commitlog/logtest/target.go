package logtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Target is an implementation and a cluster to try it on.
type Target struct {
	// Log is a connection that the cases share. The suite does not close it.
	Log commitlog.Log
	// Connect makes a further connection to the same cluster, as another process would. The
	// suite closes it.
	Connect func(t testing.TB) commitlog.Log
	// Append writes records without a transaction, in order, by a client other than the one under
	// test where there is one, and returns the offset of the first. Key, Value, Timestamp and
	// Headers (wire format) are to be written as they are.
	Append func(t testing.TB, tp commitlog.TopicPartition, records []commitlog.Record) (first int64)

	// CreateTopic creates a topic; nil means Log.CreateTopics.
	CreateTopic func(t testing.TB, spec commitlog.TopicSpec)
	// DeleteTopic deletes a topic.
	DeleteTopic func(t testing.TB, topic string)
	// Read reads a partition's first n records read_committed, by another client.
	Read func(t testing.TB, tp commitlog.TopicPartition, n int) []commitlog.Record
	// Compact compacts a topic with cleanup.policy=compact now, all of it up to the end.
	Compact func(t testing.TB, topic string)
	// DeleteRecords deletes a partition's records before an offset.
	DeleteRecords func(t testing.TB, tp commitlog.TopicPartition, before int64)
	// Elapse lets time pass for the cluster and for the log under test.
	Elapse func(d time.Duration)
	// SessionTimeout is the shortest that the cluster takes. 0 means 6 s, Kafka's default.
	SessionTimeout time.Duration
	// Compressions are tried by a producer beside "none".
	Compressions []string
	// Patience is how long a case waits for what must come. 0 means 30 s.
	Patience time.Duration
	// Steps is the length of a random interleaving. 0 means 120.
	Steps int
	// Seeds are those of the random interleavings. Empty means 1 and 2.
	Seeds []uint64
}

type testCase struct {
	name string
	run  func(e *env)
}

// Run runs every case as a subtest of its own. It calls open for each of them.
func Run(t *testing.T, open func(t *testing.T) Target) {
	groups := []struct {
		name  string
		cases []testCase
	}{
		{"Reading", readingCases},
		{"Positions", positionCases},
		{"Transactions", transactionCases},
		{"Fencing", fencingCases},
		{"Offsets", offsetCases},
		{"Groups", groupCases},
		{"Membership", membershipCases},
		{"Topics", topicCases},
		{"Admin", adminCases},
		{"Life", lifeCases},
		{"Interleaving", interleavingCases},
		{"Cooperation", cooperationCases},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.cases {
				t.Run(c.name, func(t *testing.T) { c.run(newEnv(t, open(t))) })
			}
		})
	}
}

// newEnv checks the target and makes a case's environment.
func newEnv(t *testing.T, target Target) *env {
	t.Helper()
	require.NotNil(t, target.Log, "Target.Log")
	require.NotNil(t, target.Connect, "Target.Connect")
	require.NotNil(t, target.Append, "Target.Append")
	if target.SessionTimeout == 0 {
		target.SessionTimeout = 6 * time.Second
	}
	if target.Patience == 0 {
		target.Patience = 30 * time.Second
	}
	if target.Steps == 0 {
		target.Steps = 120
	}
	if len(target.Seeds) == 0 {
		target.Seeds = []uint64{1, 2}
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return &env{T: t, Target: target, ctx: ctx, pool: commitlog.NewPool(16 << 10)}
}
