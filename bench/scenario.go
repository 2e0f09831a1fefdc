package main

import (
	"context"
	"fmt"

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
}

// row is one side of a scenario.
type row struct {
	side string // "wicker" or "streams"
	name string // of the row in the report
	// settings override those of Kafka Streams.
	settings []string
	// partial says that the output may lack updates (Kafka Streams' cache), so it is not compared.
	partial bool
}

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
				{side: "wicker", name: "count"}, {side: "streams", name: "count", partial: true},
				{side: "streams", name: "count-nocache", settings: []string{"statestore.cache.max.bytes=0"}},
			},
			expect: func() func(k, v []byte, emit func(k, v []byte)) {
				counts := map[string]int64{}
				var buf []byte
				return func(k, _ []byte, emit func(k, v []byte)) {
					n := counts[string(k)] + 1
					counts[string(k)] = n
					buf, _ = codec.Int64.Append(buf[:0], n)
					emit(k, buf)
				}
			},
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
	}
}

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
	var picked []*scenario
	for _, name := range names {
		found := false
		for _, s := range all {
			if s.name == name {
				picked, found = append(picked, s), true
			}
		}
		if !found {
			return nil, fmt.Errorf("scenario (%q) must be map, count or memo", name)
		}
	}
	return picked, nil
}
