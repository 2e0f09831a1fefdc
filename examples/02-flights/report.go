package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// A route is ranked if this many of its flights have a known arrival delay.
const minArrived = 20

type route struct {
	name  string
	stats Stats
}

// report prints the routes that are latest on average, from what the topology wrote.
func report(ctx context.Context, c *kafka.Client, out io.Writer) error {
	latest, err := routeStats(ctx, c)
	if err != nil {
		return err
	}
	var routes []route
	for name, s := range latest {
		if s.Arrived >= minArrived {
			routes = append(routes, route{name, s})
		}
	}
	slices.SortFunc(routes, func(a, b route) int {
		return cmp.Or(cmp.Compare(b.stats.Mean(), a.stats.Mean()), cmp.Compare(a.name, b.name))
	})
	fmt.Fprintf(out, "\nThe ten worst of %d routes by mean arrival delay, of the %d with %d arrivals or more:\n\n",
		len(latest), len(routes), minArrived)
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "route\tflights\tmean delay\tworst\t")
	for _, r := range routes[:min(10, len(routes))] {
		fmt.Fprintf(t, "%s\t%d\t%.1f min\t%d min\t\n", r.name, r.stats.Flights, r.stats.Mean(), r.stats.Worst)
	}
	return t.Flush()
}

// routeStats returns the last statistics that were committed for each route.
func routeStats(ctx context.Context, c *kafka.Client) (map[string]Stats, error) {
	records, err := c.Read(ctx, kafka.ReadCommitted, Routes.Name)
	if err != nil {
		return nil, err
	}
	latest := map[string]Stats{}
	for _, r := range records { // one partition after the other, each in order
		name, err := Routes.Key.Decode(r.Key)
		if err != nil {
			return nil, err
		}
		if latest[name], err = Routes.Value.Decode(r.Value); err != nil {
			return nil, err
		}
	}
	return latest, nil
}

// where says where everything is and what to do next.
func where(out io.Writer, b *kafka.Broker, stateDir string) error {
	stateDir, err := filepath.Abs(stateDir)
	if err != nil {
		return err
	}
	kept := "of Kafka at " + b.Addr()
	if b.Kind() == kafka.Embedded {
		kept = "of the embedded Kafka, kept in " + b.Dir()
	}
	fmt.Fprintf(out, "Output: topics %s, %s and %s\n        %s\n", Done.Name, Routes.Name, Tailless.Name, kept)
	fmt.Fprintf(out, "State:  %s\n\n", stateDir)
	fmt.Fprintln(out, "Run it again: it goes on from there, and asks the registry nothing.")
	if b.Kind() == kafka.Embedded {
		fmt.Fprintln(out, "On a real Kafka: make demo BROKERS=localhost:9092")
	}
	return nil
}
