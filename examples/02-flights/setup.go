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

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/topology"
)

//go:embed data/flights.csv
var flightsCSV []byte

// partitions is the count of the topics that the demo creates.
const partitions = 4

//go:embed data/airports.csv
var airportsCSV []byte

// setUp creates the source, the sinks and the table of airports, and loads flights and airports, where they are missing. The
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
		config := t.Config
		if t.Kind == topology.TableTopic {
			config = map[string]string{"cleanup.policy": "compact"}
		}
		if err := c.CreateTopic(ctx, t.Name, partitions, config); err != nil {
			return err
		}
	}
	if _, err := load(ctx, c, Airports.Name(), airports); err != nil {
		return err
	}
	n, err := load(ctx, c, Flights.Name, flights)
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

// load writes all records of a topic in one transaction, unless the topic has some: so it has all of
// them or none, however a load ended. It returns how many it wrote.
func load(ctx context.Context, c *kafka.Client, topic string, read func() ([]kafka.Record, error)) (n int, err error) {
	if loaded, err := isLoaded(ctx, c, topic); loaded || err != nil {
		return 0, err
	}
	records, err := read()
	if err != nil {
		return 0, err
	}
	// Beginning ends the transaction of a loader that died, or that runs at the same time.
	txn, err := c.Begin(ctx, "flights-demo-loader")
	if err != nil {
		return 0, err
	}
	loaded, err := isLoaded(ctx, c, topic)
	if err == nil && !loaded {
		err = txn.Produce(ctx, records...)
	}
	if loaded || err != nil {
		return 0, errors.Join(err, txn.Abort(ctx))
	}
	return len(records), txn.Commit(ctx)
}

func isLoaded(ctx context.Context, c *kafka.Client, topic string) (bool, error) {
	records, err := c.Read(ctx, kafka.ReadCommitted, topic)
	return len(records) > 0, err
}

// flights are the records of the topic of flights.
func flights() ([]kafka.Record, error) {
	flights, err := readFlights()
	if err != nil {
		return nil, err
	}
	records := make([]kafka.Record, len(flights))
	for i, f := range flights {
		if records[i], err = record(Flights.Name, Flights.Key, Flights.Value, f.Carrier+strconv.Itoa(f.Flight), f); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// airports are the records of the table of airports.
func airports() ([]kafka.Record, error) {
	table, err := readAirports()
	if err != nil {
		return nil, err
	}
	key, value := Airports.Codecs()
	var records []kafka.Record
	for code, airport := range table {
		r, err := record(Airports.Name(), key, value, code, airport)
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}

func record[K, V any](topic string, key codec.Codec[K], value codec.Codec[V], k K, v V) (r kafka.Record, err error) {
	r.Topic = topic
	if r.Key, err = key.Append([]byte{}, k); err != nil {
		return r, err
	}
	r.Value, err = value.Append([]byte{}, v)
	return r, err
}

// readAirports parses airports.csv: faa,name,lat,lon,alt,tz,dst,tzone.
func readAirports() (map[string]Airport, error) {
	rows, err := csv.NewReader(bytes.NewReader(airportsCSV)).ReadAll()
	if err != nil {
		return nil, err
	}
	table := map[string]Airport{}
	for i, row := range rows[1:] {
		lat, err := strconv.ParseFloat(row[2], 64)
		lon, err2 := strconv.ParseFloat(row[3], 64)
		if err = errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("airports.csv: line %d: %w", i+2, err)
		}
		a := Airport{Name: row[1], Lat: lat, Lon: lon}
		if row[7] != "NA" {
			a.Zone = row[7]
		}
		table[row[0]] = a
	}
	return table, nil
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
