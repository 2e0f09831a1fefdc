package main

import (
	"context"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

// newPlan is the whole pipeline. lookup asks the registry of planes.
func newPlan(lookup func(ctx context.Context, tail string) (Plane, error)) (*topology.Plan, error) {
	b := topology.New("flights-demo")

	tracked, untracked := b.From(ops.Source(Flights)).
		Branch(func(_ string, f Flight) bool { return f.TailNum != nil }, ops.Name("has tail number"))

	untracked.To(ops.Sink(Tailless))

	refined := tracked.
		Filter(func(_ string, f Flight) bool { return f.DepTime != nil }, ops.Name("took place")).
		Rekey("by-tail", func(_ string, f Flight) string { return *f.TailNum }).
		Memo(ops.Memo("planes", codec.JSON[Plane](), lookup), func(f Flight, p Plane) Refined { return Refined{Flight: f, Plane: p} }).
		LeftLookup(Airports, func(_ string, r Refined) string { return r.Flight.Dest }, Refined.to)

	refined.To(ops.Sink(Done))

	refined.
		Rekey("by-route", func(_ string, r Refined) string { return r.Flight.Origin + "-" + r.Flight.Dest }).
		Aggregate(ByRoute, func(_ string, r Refined, s Stats) Stats { return s.add(r.Flight) }).
		To(ops.Sink(Routes))

	return b.Build()
}
