package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/csv"
	"io"
	"strconv"
	"sync/atomic"
	"time"
)

//go:embed data/planes.csv
var planesCSV []byte

// registry stands in for a slow service that knows planes by tail number.
type registry struct {
	planes map[string]Plane
	delay  time.Duration
	asked  atomic.Int64
	log    io.Writer // takes a line for each call; nil for none
}

func newRegistry(delay time.Duration) (*registry, error) {
	rows, err := csv.NewReader(bytes.NewReader(planesCSV)).ReadAll()
	if err != nil {
		return nil, err
	}
	r := &registry{planes: map[string]Plane{}, delay: delay}
	for _, row := range rows[1:] { // tailnum,year,type,manufacturer,model,engines,seats,speed,engine
		p := Plane{Known: true, Manufacturer: row[3], Model: row[4]}
		if p.Seats, err = strconv.Atoi(row[6]); err != nil {
			return nil, err
		}
		if row[1] != "NA" {
			if p.Year, err = strconv.Atoi(row[1]); err != nil {
				return nil, err
			}
		}
		r.planes[row[0]] = p
	}
	return r, nil
}

// lookup answers after the delay. A plane it does not know is an answer too.
func (r *registry) lookup(ctx context.Context, tail string) (Plane, error) {
	r.asked.Add(1)
	if r.log != nil {
		if _, err := io.WriteString(r.log, tail+"\n"); err != nil {
			return Plane{}, err
		}
	}
	select {
	case <-time.After(r.delay):
		return r.planes[tail], nil
	case <-ctx.Done():
		return Plane{}, ctx.Err()
	}
}
