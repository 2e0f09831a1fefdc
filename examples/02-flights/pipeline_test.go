package main

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit"
)

// countingRegistry is the registry without its delay, with a count of calls by tail number.
type countingRegistry struct {
	*registry
	mu    sync.Mutex
	calls map[string]int
}

func newCountingRegistry(t *testing.T) *countingRegistry {
	r, err := newRegistry(0)
	require.NoError(t, err)
	return &countingRegistry{registry: r, calls: map[string]int{}}
}

func (r *countingRegistry) lookup(ctx context.Context, tail string) (Plane, error) {
	r.mu.Lock()
	r.calls[tail]++
	r.mu.Unlock()
	return r.registry.lookup(ctx, tail)
}

// The pipeline, on a log in memory, gives what a plain program makes of the same files, and asks
// the registry once for each tail number; also when it is restarted halfway.
func TestPipelineEqualsPlainProgram(t *testing.T) {
	want := expect(t)
	registry := newCountingRegistry(t)
	plan, err := newPlan(registry.lookup)
	require.NoError(t, err)
	kit := testkit.New(t, plan)
	rows, err := readAirports()
	require.NoError(t, err)
	table := kit.Table(Airports)
	kit.Stop()
	for code, airport := range rows {
		table.Put(code, airport)
	}
	in := kit.In(Flights)
	flights, err := readFlights()
	require.NoError(t, err)
	half := len(flights) / 2
	for _, part := range [][]Flight{flights[:half], flights[half:]} {
		kit.Stop() // it reads them in batches then, not one by one
		for _, f := range part {
			in.Push(f.Carrier+strconv.Itoa(f.Flight), f)
		}
		kit.Restart()
		kit.Settle()
	}
	want.check(t, messages(kit, Done), messages(kit, Tailless), messages(kit, Routes))
	asked := map[string]int{}
	for tail := range want.tails {
		asked[tail] = 1
	}
	require.Equal(t, asked, registry.calls)
	require.Equal(t, len(want.routes), kit.State(ByRoute).Len())
	require.EqualValues(t, len(rows), kit.Stats().Tables["airports"].Rows)
}

// messages reads a topic of the kit as bytes.
func messages[K, V any](kit *testkit.Kit, topic ops.Topic[K, V]) []message {
	var out []message
	for _, r := range kit.Out(topic).Read() {
		k, _ := topic.Key.Append(nil, r.Key)
		v, _ := topic.Value.Append(nil, r.Value)
		out = append(out, message{string(k), string(v)})
	}
	return out
}
