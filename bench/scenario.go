package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

// partitions is the count of every topic.
const partitions = 4

// dataset is an input topic.
type dataset struct {
	topic   string
	records int
}

var (
	large = dataset{"bench-in", 4_000_000}
	small = dataset{"bench-in2", 2_000_000}
)

// scenario is one workload.
type scenario struct {
	name  string
	input dataset
	// rows are the programs measured for it.
	rows []row
	// plan is Wicker's program.
	plan func(app, in, out string) (*topology.Plan, error)
	// ordered says that the output has the input's order within each partition.
	ordered bool
	// expect calls emit with each output that the input record calls for.
	expect func() func(key, value []byte, emit func(key, value []byte))
	// repartition is the name of the repartition topic without the application's, if there is one.
	repartition string
	// speed and cpu are the targets: at least so many times Kafka Streams' records/s, at most so
	// many times its CPU per record (0: none).
	speed, cpu float64
	// play measures one run of one row, in its own way; nil is throughput.
	play func(ctx context.Context, d *driver, s *scenario, row row, j job) (measurement, error)
	// figures are what a play measures beside, if they are what the scenario is about.
	figures []figure
	// runs is how many runs of each row there are unless a flag says so; 0 is three.
	runs int
	// about says what the input is, for the report; empty is the input of the throughput scenarios.
	about string
}

// figure is something measured that is not throughput.
type figure struct {
	// name is the key in the results, title the column's in the table, both with the unit.
	name, title string
	// most and least are the targets, that the median of Wicker's first row is at most, or at least, so much; 0 is none.
	most, least float64
}

// row is one side of a scenario.
type row struct {
	side string // "wicker" or "streams"
	name string // of the row in the report
	// settings override those of Kafka Streams, or are onDisk.
	settings []string
	// partial says that the output may lack updates (Kafka Streams' cache), so it is not compared.
	partial bool
	// once says that one run is enough: it is shown, not compared with.
	once bool
	// static says that Wicker's member of the group is a static one.
	static bool
	// tail is how long a rebalance is watched from the second instance's end on.
	tail time.Duration
}

// stateful says whether Wicker's program has state.
func (s *scenario) stateful() bool { return s.name != "map" && s.name != "global" }

// baseline is the row of Kafka Streams to compare with.
func (s *scenario) baseline() string { return s.rows[len(s.rows)-1].name }

func scenarios() []*scenario {
	return []*scenario{
		{
			name: "map", input: large, plan: mapPlan, ordered: true, speed: 2.5, cpu: 1.0 / 3,
			rows: []row{{side: "wicker", name: "map"}, {side: "streams", name: "map"}},
			expect: func() func(k, v []byte, emit func(k, v []byte)) {
				var buf []byte
				return func(k, v []byte, emit func(k, v []byte)) {
					buf = append(append(buf[:0], v...), '!')
					emit(k, buf)
				}
			},
		},
		{
			name: "count", input: small, plan: countPlan, ordered: true, speed: 1.5,
			rows: []row{
				{side: "wicker", name: "count"}, {side: "streams", name: "count", partial: true, once: true},
				{side: "streams", name: "count-nocache", settings: []string{noCache}},
			},
			expect: countExpect,
		},
		{
			name: "memo", input: small, plan: memoPlan, repartition: "by-field", speed: 1.5,
			rows: []row{{side: "wicker", name: "memo"}, {side: "streams", name: "memo"}},
			expect: func() func(k, v []byte, emit func(k, v []byte)) {
				var buf []byte
				return func(k, v []byte, emit func(k, v []byte)) {
					buf = append(append(buf[:0], v...), answerTo(string(v[:fieldSize]))...)
					emit(k, buf)
				}
			},
		},
		{
			name: "restore", plan: bumpPlan, play: playRestore, ordered: true, speed: 2, cpu: 0.5, about: restoreAbout,
			rows: []row{{side: "wicker", name: "restore"}, {side: "streams", name: "restore", settings: []string{leave}}},
		},
		{
			name: "crash", plan: bumpPlan, play: playCrash, ordered: true, runs: 1, about: restoreAbout,
			rows: []row{
				{side: "wicker", name: "crash", static: true}, {side: "wicker", name: "crash-dynamic"},
				{side: "streams", name: "crash", settings: []string{leave}},
			},
			figures: []figure{{name: "running_s", title: "s until running", most: 5}, {name: "first_output_s", title: "s until output"}, {name: "replayed_records", title: "records replayed"}},
		},
		{
			name: "rebalance", plan: countPlan, play: playRebalance, ordered: true, runs: 1, expect: countExpect, about: rebalanceAbout,
			rows: []row{
				{side: "wicker", name: "rebalance", tail: 10 * time.Second},
				{side: "streams", name: "rebalance-leave", settings: []string{leave, noCache, noWarmup}, tail: 10 * time.Second},
				{side: "streams", name: "rebalance", settings: []string{noCache, noWarmup}, tail: 50 * time.Second},
			},
			figures: rebalanceFigures,
		},
		{
			name: "global", input: rowsOfTable, plan: globalPlan, play: playGlobal, about: globalAbout,
			rows: []row{
				{side: "wicker", name: "global"}, {side: "wicker", name: "global-disk", settings: []string{onDisk}},
				{side: "streams", name: "global", settings: []string{"bench.store=rocksdb"}},
				{side: "streams", name: "global-mem", settings: []string{"bench.store=memory"}},
			},
			figures: globalFigures,
		},
	}
}

// onDisk has Wicker keep a global table on disk.
const onDisk = "disk"

// Settings of Kafka Streams.
const (
	noCache = "statestore.cache.max.bytes=0"
	leave   = "bench.close=leave" // of its program here: close() leaves the group
	// noWarmup moves a task at once, however much of its changelog there is to read. By default one of
	// more than 10,000 records, as it is here after a slow start, moves only at a probing rebalance, 10 minutes later.
	noWarmup = "acceptable.recovery.lag=1000000"
)

func mapPlan(app, in, out string) (*topology.Plan, error) {
	return topology.New(app).
		From(ops.Source(ops.NewTopic(in, codec.Bytes, codec.Bytes))).
		MapValues(func(v []byte) []byte { return concat(v, exclamation) }).
		To(ops.Sink(ops.NewTopic(out, codec.Bytes, codec.Bytes))).
		Build()
}

func countPlan(app, in, out string) (*topology.Plan, error) {
	return topology.New(app).
		From(ops.Source(ops.NewTopic(in, codec.String, codec.Bytes))).
		Aggregate(ops.NewState("count", codec.String, codec.Int64), func(_ string, _ []byte, n int64) int64 { return n + 1 }).
		To(ops.Sink(ops.NewTopic(out, codec.String, codec.Int64))).
		Build()
}

func countExpect() func(k, v []byte, emit func(k, v []byte)) {
	counts := map[string]int64{}
	var buf []byte
	return func(k, _ []byte, emit func(k, v []byte)) {
		n := counts[string(k)] + 1
		counts[string(k)] = n
		buf, _ = codec.Int64.Append(buf[:0], n)
		emit(k, buf)
	}
}

const (
	keySize    = 16
	fieldSize  = 4
	answerSize = 100
)

var exclamation = []byte{'!'}

// memoPlan carries the key in front of the value through the repartition topic.
func memoPlan(app, in, out string) (*topology.Plan, error) {
	return topology.New(app).
		From(ops.Source(ops.NewTopic(in, codec.Bytes, codec.Bytes))).
		Map(func(k, v []byte) ([]byte, []byte) { return k, concat(k, v) }).
		Rekey("by-field", func(_ []byte, kv []byte) string { return string(kv[keySize : keySize+fieldSize]) }).
		Memo(ops.Memo("memo", codec.Bytes, ask), concat).
		Rekey("back", func(_ string, kv []byte) []byte { return kv[:keySize] }).
		MapValues(func(kv []byte) []byte { return kv[keySize:] }).
		To(ops.Sink(ops.NewTopic(out, codec.Bytes, codec.Bytes))).
		Build()
}

func ask(_ context.Context, field string) ([]byte, error) { return answerTo(field), nil }

func answerTo(field string) []byte {
	a := make([]byte, answerSize)
	copy(a, "answer to "+field)
	return a
}

// concat returns a and b in memory of their own.
func concat(a, b []byte) []byte {
	return append(append(make([]byte, 0, len(a)+len(b)), a...), b...)
}

// pick returns the scenarios named, all without names.
func pick(names []string) ([]*scenario, error) {
	all := scenarios()
	if len(names) == 0 {
		return all, nil
	}
	byName := map[string]*scenario{}
	var known []string
	for _, s := range all {
		byName[s.name] = s
		known = append(known, s.name)
	}
	var picked []*scenario
	for _, name := range names {
		s := byName[name]
		if s == nil {
			return nil, fmt.Errorf("scenario (%q) must be one of %s", name, strings.Join(known, ", "))
		}
		picked = append(picked, s)
	}
	return picked, nil
}
