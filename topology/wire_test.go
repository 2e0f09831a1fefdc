package topology_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

// env is an ops.Env that keeps little.
type env struct {
	meta     ops.Meta
	counters map[string]*ops.Counter
	written  map[string]int
	last     struct{ key, value []byte }
	gates    []*ops.Gate
	missing  string // the store or topic that is not there
}

func newEnv() *env {
	return &env{counters: map[string]*ops.Counter{}, written: map[string]int{}}
}

func (e *env) Context() context.Context { return context.Background() }
func (e *env) Meta() *ops.Meta          { return &e.meta }

func (e *env) Store(name string) (ops.Store, error) {
	if name == e.missing {
		return nil, fmt.Errorf("no store %s", name)
	}
	return nowhere{}, nil
}

func (e *env) Output(topic string) (ops.Output, error) {
	if topic == e.missing {
		return nil, fmt.Errorf("no topic %s", topic)
	}
	return &output{e, topic}, nil
}

func (e *env) Gate(level int) *ops.Gate {
	for len(e.gates) <= level {
		e.gates = append(e.gates, &ops.Gate{})
	}
	return e.gates[level]
}

func (e *env) Counter(at *ops.Traits, name string) *ops.Counter {
	c := &ops.Counter{}
	e.counters[at.String()+" "+name] = c
	return c
}

func (*env) Remember(string, int) (func(key, value []byte) error, error) {
	return func(_, _ []byte) error { return nil }, nil
}

func (e *env) Lookups(table string) (ops.Lookups, error) {
	if table == e.missing {
		return nil, fmt.Errorf("no table %s", table)
	}
	return e, nil
}

// Get implements ops.Lookups.
func (e *env) Get([]byte) ([]byte, bool, error) { return nil, false, nil }

func (e *env) Version() int64 { return 0 }

func (e *env) Asker(_ string, n int) *ops.Asker { return ops.NewAsker(n) }

type nowhere struct{}

func (nowhere) Get([]byte) ([]byte, error) { return nil, nil }
func (nowhere) Put(_, _ []byte) error      { return nil }

type output struct {
	e     *env
	topic string
}

func (o *output) Write(_ *ops.Meta, key, value []byte) error {
	o.e.written[o.topic]++
	o.e.last.key, o.e.last.value = append(o.e.last.key[:0], key...), append(o.e.last.value[:0], value...)
	return nil
}

// stateless is a chain of all that needs no state, over all codecs that need no allocation.
func stateless(b *topology.Builder) {
	in := b.From(ops.Source(ops.NewTopic("in", codec.Int64, codec.Bytes))).
		Filter(func(k int64, _ []byte) bool { return k%7 != 0 }).
		MapValues(func(v []byte) int64 { return int64(binary.BigEndian.Uint64(v)) }).
		Map(func(k, v int64) (string, int64) { return keys[k&3], v + k }).
		FlatMap(func(k string, v int64, emit func(string, int64)) {
			emit(k, v)
			emit(k, v+1)
		}).
		Peek(func(string, int64) {})
	even, odd := in.Branch(func(_ string, v int64) bool { return v%2 == 0 })
	all := even.MapValues(func(v int64) int64 { return v * 2 }).Merge(odd, odd).
		Rekey("by", func(_ string, v int64) int64 { return v & 3 })
	all.To(ops.Sink(ops.NewTopic("out", codec.Int64, codec.Int64)))
	all.To(ops.Sink(ops.NewTopic("copy", codec.Int64, codec.Int64)))
	all.MapValues(func(v int64) string { return keys[v&3] }).To(ops.Sink(ops.NewTopic("text", codec.Int64, codec.String)))
}

var keys = [4]string{"north", "east", "south", "west"}

func TestAChainWithoutStateAllocatesNothing(t *testing.T) {
	sub := build(t, "app", stateless).Subtopologies()[0]
	e := newEnv()
	into, err := sub.Wire(e)
	require.NoError(t, err)
	emit := into["in"]
	key, value := make([]byte, 8), make([]byte, 8)
	n, failed := uint64(1), error(nil)
	allocs := testing.AllocsPerRun(2000, func() {
		n++
		binary.BigEndian.PutUint64(key, n)
		binary.BigEndian.PutUint64(value, n*3)
		if err := emit(key, value); err != nil {
			failed = err
		}
	})
	require.NoError(t, failed)
	require.Positive(t, e.written["text"])
	require.Equal(t, e.written["out"], e.written["copy"])
	require.Equal(t, int64(n/7), e.counters["Filter dropped"].Value())
	if !raceEnabled {
		require.Zero(t, allocs, "allocations per record")
	}
}

// The same with strings as they come: the one allocation is codec.String's own copy.
func TestAChainOfStringsAllocatesOnlyWhatItsCodecDoes(t *testing.T) {
	sub := build(t, "app", func(b *topology.Builder) {
		b.From(ops.Source(text("in"))).Filter(func(k, _ string) bool { return k != "" }).Peek(func(_, _ string) {}).To(ops.Sink(text("out")))
	}).Subtopologies()[0]
	into, err := sub.Wire(newEnv())
	require.NoError(t, err)
	key, value := []byte("a key of some length, so that it is copied"), []byte("a value of some length, so that it is copied")
	own := testing.AllocsPerRun(500, func() {
		k, _ := codec.String.Decode(key)
		v, _ := codec.String.Decode(value)
		sinkhole = len(k) + len(v)
		kept[0], kept[1] = k, v
	})
	allocs := testing.AllocsPerRun(500, func() { _ = into["in"](key, value) })
	if !raceEnabled {
		require.LessOrEqual(t, allocs, own)
	}
}

var (
	sinkhole int
	kept     [2]string
)

func TestWireSaysWhatIsMissing(t *testing.T) {
	plan := build(t, "app", features["two-hops"])
	e := newEnv()
	e.missing = "names"
	_, err := plan.Subtopologies()[1].Wire(e)
	require.EqualError(t, err, `Memo "names": no store names`)
	e.missing = "app-second-repartition"
	_, err = plan.Subtopologies()[1].Wire(e)
	require.EqualError(t, err, `Repartition "second": no topic app-second-repartition`)
}

// A plan is shared by tasks: each wires its own instance, and user functions run at once.
func TestTasksAreWiredConcurrently(t *testing.T) {
	sub := build(t, "app", stateless).Subtopologies()[0]
	var wg sync.WaitGroup
	written := make([]int, 4)
	for i := range written {
		wg.Go(func() {
			e := newEnv()
			into, err := sub.Wire(e)
			if err != nil {
				return
			}
			for n := range 500 {
				b := binary.BigEndian.AppendUint64(nil, uint64(n))
				if into["in"](b, b) != nil {
					return
				}
			}
			written[i] = e.written["out"]
		})
	}
	wg.Wait()
	require.Positive(t, written[0])
	require.Equal(t, []int{written[0], written[0], written[0], written[0]}, written)
}

// What tasks count at an operator can be added up: the pointers are the plan's.
func TestCountersAreKeptByThePlansOperators(t *testing.T) {
	sub := build(t, "app", features["two-hops"]).Subtopologies()[1]
	known := map[*ops.Traits]bool{}
	for _, at := range sub.Operators() {
		known[at] = true
	}
	e := &knowing{env: newEnv(), known: known}
	_, err := sub.Wire(e)
	require.NoError(t, err)
	require.Equal(t, 3, e.asked, "asked and saved of the Memo, dropped of the Rekey")
}

type knowing struct {
	*env
	known map[*ops.Traits]bool
	asked int
}

func (k *knowing) Counter(at *ops.Traits, name string) *ops.Counter {
	if k.known[at] {
		k.asked++
	}
	return k.env.Counter(at, name)
}
