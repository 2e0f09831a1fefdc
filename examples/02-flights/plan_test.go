package main

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the plan's text anew")

// What is durable, and how the pipeline is cut into parts, changes only on purpose.
func TestPlan(t *testing.T) {
	plan, err := newPlan(newCountingRegistry(t).lookup)
	require.NoError(t, err)
	const golden = "testdata/plan.txt"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, []byte(plan.Describe()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), plan.Describe())
}
