package main

import (
	"time"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/ops"
)

// Flight is a departure as it was reported. A nil field is not known.
type Flight struct {
	Year         int       `json:"year"`
	Month        int       `json:"month"`
	Day          int       `json:"day"`
	DepTime      *int      `json:"dep_time"`
	SchedDepTime int       `json:"sched_dep_time"`
	DepDelay     *int      `json:"dep_delay"`
	ArrTime      *int      `json:"arr_time"`
	SchedArrTime int       `json:"sched_arr_time"`
	ArrDelay     *int      `json:"arr_delay"` // minutes
	Carrier      string    `json:"carrier"`
	Flight       int       `json:"flight"`
	TailNum      *string   `json:"tailnum"`
	Origin       string    `json:"origin"`
	Dest         string    `json:"dest"`
	AirTime      *int      `json:"air_time"` // minutes
	Distance     int       `json:"distance"` // miles
	Hour         int       `json:"hour"`
	Minute       int       `json:"minute"`
	TimeHour     time.Time `json:"time_hour"`
}

// Plane is the registry's answer for a tail number. Known is false if it has never heard of it.
type Plane struct {
	Known        bool   `json:"known"`
	Year         int    `json:"year,omitzero"`
	Manufacturer string `json:"manufacturer,omitzero"`
	Model        string `json:"model,omitzero"`
	Seats        int    `json:"seats,omitzero"`
}

// Airport is a row of the table of airports.
type Airport struct {
	Name string  `json:"name"`
	Lat  float64 `json:"lat"`
	Lon  float64 `json:"lon"`
	Zone string  `json:"tzone,omitzero"`
}

// Refined is a flight that took place, with its plane, and where it went to: nil for a destination that the table of airports
// does not have.
type Refined struct {
	Flight Flight   `json:"flight"`
	Plane  Plane    `json:"plane"`
	To     *Airport `json:"to"`
}

func (r Refined) to(a Airport, known bool) Refined {
	if known {
		r.To = &a
	}
	return r
}

// Stats is what is known of a route so far.
type Stats struct {
	// Flights took place, of which Arrived have a known arrival delay.
	Flights int `json:"flights"`
	Arrived int `json:"arrived"`
	// Total and Worst are of the known arrival delays, in minutes; early arrivals count negative.
	Total int `json:"total"`
	Worst int `json:"worst"`
}

// Mean is the mean arrival delay in minutes.
func (s Stats) Mean() float64 {
	if s.Arrived == 0 {
		return 0
	}
	return float64(s.Total) / float64(s.Arrived)
}

// add counts a flight.
func (s Stats) add(f Flight) Stats {
	s.Flights++
	if f.ArrDelay != nil {
		if s.Arrived == 0 || *f.ArrDelay > s.Worst {
			s.Worst = *f.ArrDelay
		}
		s.Arrived++
		s.Total += *f.ArrDelay
	}
	return s
}

// The topics and the state. Flights come keyed by carrier and flight number, refined ones go
// out keyed by tail number, statistics by route.
var (
	Flights  = ops.NewTopic("flights", codec.String, codec.JSON[Flight](codec.RejectUnknown()))
	Tailless = ops.NewTopic("flights-without-tail", codec.String, codec.JSON[Flight]())
	Done     = ops.NewTopic("refined-flights", codec.String, codec.JSON[Refined]())
	Routes   = ops.NewTopic("route-stats", codec.String, codec.JSON[Stats]())

	// Airports is held in full by every instance, by FAA code.
	Airports = globaltable.New("airports", codec.String, codec.JSON[Airport]())

	ByRoute = ops.NewState("routes", codec.String, codec.JSON[Stats]())
)
