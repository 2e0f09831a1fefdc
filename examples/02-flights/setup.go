package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/topology"
)

//go:embed data/flights.csv
var flightsCSV []byte

// partitions is the count of the topics that the demo creates.
const partitions = 4

// setUp creates the source and the sinks, and loads the flights, where they are missing. The
// topics in between are the executor's.
func setUp(ctx context.Context, c *kafka.Client, plan *topology.Plan, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	have, err := c.Topics(ctx)
	if err != nil {
		return err
	}
	for _, t := range plan.Topics() {
		if t.Kind.Internal() || have[t.Name] > 0 {
			continue
		}
		if err := c.CreateTopic(ctx, t.Name, partitions, t.Config); err != nil {
			return err
		}
	}
	n, err := load(ctx, c)
	if err != nil {
		return err
	}
	if n == 0 {
		fmt.Fprintf(out, "Topic %s has flights already.\n", Flights.Name)
	} else {
		fmt.Fprintf(out, "Loaded %s flights into topic %s.\n", thousands(int64(n)), Flights.Name)
	}
	return nil
}

// load writes all flights in one transaction, unless the topic has records: so it has all of
// them or none, however a load ended. It returns how many it wrote.
func load(ctx context.Context, c *kafka.Client) (n int, err error) {
	if loaded, err := isLoaded(ctx, c); loaded || err != nil {
		return 0, err
	}
	flights, err := readFlights()
	if err != nil {
		return 0, err
	}
	records := make([]kafka.Record, len(flights))
	for i, f := range flights {
		r := kafka.Record{Topic: Flights.Name}
		if r.Key, err = Flights.Key.Append([]byte{}, f.Carrier+strconv.Itoa(f.Flight)); err != nil {
			return 0, err
		}
		if r.Value, err = Flights.Value.Append([]byte{}, f); err != nil {
			return 0, err
		}
		records[i] = r
	}
	// Beginning ends the transaction of a loader that died, or that runs at the same time.
	txn, err := c.Begin(ctx, "flights-demo-loader")
	if err != nil {
		return 0, err
	}
	loaded, err := isLoaded(ctx, c)
	if err == nil && !loaded {
		err = txn.Produce(ctx, records...)
	}
	if loaded || err != nil {
		return 0, errors.Join(err, txn.Abort(ctx))
	}
	return len(records), txn.Commit(ctx)
}

func isLoaded(ctx context.Context, c *kafka.Client) (bool, error) {
	records, err := c.Read(ctx, kafka.ReadCommitted, Flights.Name)
	return len(records) > 0, err
}

// readFlights parses flights.csv, where NA stands for "not known".
func readFlights() ([]Flight, error) {
	rows, err := csv.NewReader(bytes.NewReader(flightsCSV)).ReadAll()
	if err != nil {
		return nil, err
	}
	flights := make([]Flight, 0, len(rows)-1)
	for i, row := range rows[1:] {
		p := parser{row: row}
		f := Flight{
			Year: p.number(0), Month: p.number(1), Day: p.number(2),
			DepTime: p.known(3), SchedDepTime: p.number(4), DepDelay: p.known(5),
			ArrTime: p.known(6), SchedArrTime: p.number(7), ArrDelay: p.known(8),
			Carrier: row[9], Flight: p.number(10), Origin: row[12], Dest: row[13],
			AirTime: p.known(14), Distance: p.number(15), Hour: p.number(16), Minute: p.number(17),
		}
		if row[11] != "NA" {
			f.TailNum = &row[11]
		}
		f.TimeHour, err = time.Parse(time.RFC3339, row[18])
		if err = errors.Join(p.err, err); err != nil {
			return nil, fmt.Errorf("flights.csv: line %d: %w", i+2, err)
		}
		flights = append(flights, f)
	}
	return flights, nil
}

// parser reads the numbers of a row and keeps the first error.
type parser struct {
	row []string
	err error
}

func (p *parser) number(column int) int {
	n, err := strconv.Atoi(p.row[column])
	if p.err == nil {
		p.err = err
	}
	return n
}

func (p *parser) known(column int) *int {
	if p.row[column] == "NA" {
		return nil
	}
	n := p.number(column)
	return &n
}
