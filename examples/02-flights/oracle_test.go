package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// expectation is what a plain program makes of the files, without Wicker and without any of the
// example's own types.
type expectation struct {
	refined  []string // "tail {json}", sorted
	tailless []string // "carrier and number {json}", sorted
	routes   map[string]routeTotal
	tails    map[string]bool
	dropped  int
	unknown  int // refined flights to destinations that are not in airports.csv
	all      int
}

type routeTotal struct{ Flights, Arrived, Total, Worst int }

// columns of flights.csv that hold text; the others are numbers.
var textColumns = map[string]bool{"carrier": true, "tailnum": true, "origin": true, "dest": true, "time_hour": true}

func readCSV(t *testing.T, file string) []map[string]string {
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	var out []map[string]string
	for _, row := range rows[1:] {
		m := map[string]string{}
		for i, column := range rows[0] {
			m[column] = row[i]
		}
		out = append(out, m)
	}
	return out
}

// jsonOf is the JSON object of a row: sorted names, null for NA.
func jsonOf(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// expect computes it.
func expect(t *testing.T) expectation {
	planes := map[string]map[string]any{}
	for _, row := range readCSV(t, "data/planes.csv") {
		p := map[string]any{"known": true, "manufacturer": row["manufacturer"], "model": row["model"]}
		for _, column := range []string{"year", "seats"} {
			if n, err := strconv.ParseFloat(row[column], 64); err == nil && n != 0 {
				p[column] = n
			}
		}
		planes[row["tailnum"]] = p
	}
	airports := map[string]map[string]any{}
	for _, row := range readCSV(t, "data/airports.csv") {
		a := map[string]any{"name": row["name"]}
		for _, column := range []string{"lat", "lon"} {
			n, err := strconv.ParseFloat(row[column], 64)
			require.NoError(t, err)
			a[column] = n
		}
		if row["tzone"] != "NA" {
			a["tzone"] = row["tzone"]
		}
		airports[row["faa"]] = a
	}
	e := expectation{routes: map[string]routeTotal{}, tails: map[string]bool{}}
	for _, row := range readCSV(t, "data/flights.csv") {
		e.all++
		flight := map[string]any{}
		for column, text := range row {
			switch {
			case text == "NA":
				flight[column] = nil
			case textColumns[column]:
				flight[column] = text
			default:
				n, err := strconv.ParseFloat(text, 64)
				require.NoError(t, err)
				flight[column] = n
			}
		}
		tail := row["tailnum"]
		switch {
		case tail == "NA":
			e.tailless = append(e.tailless, row["carrier"]+row["flight"]+" "+jsonOf(t, flight))
			continue
		case row["dep_time"] == "NA":
			e.dropped++
			continue
		}
		e.tails[tail] = true
		plane := planes[tail]
		if plane == nil {
			plane = map[string]any{"known": false}
		}
		e.refined = append(e.refined, tail+" "+jsonOf(t, map[string]any{"flight": flight, "plane": plane, "to": airports[row["dest"]]}))
		if airports[row["dest"]] == nil {
			e.unknown++
		}
		name := row["origin"] + "-" + row["dest"]
		r := e.routes[name]
		r.Flights++
		if row["arr_delay"] != "NA" {
			delay, err := strconv.Atoi(row["arr_delay"])
			require.NoError(t, err)
			if r.Arrived == 0 || delay > r.Worst {
				r.Worst = delay
			}
			r.Arrived++
			r.Total += delay
		}
		e.routes[name] = r
	}
	slices.Sort(e.refined)
	slices.Sort(e.tailless)
	require.Equal(t, []int{12208, 12126, 24, 58, 2621, 186, 335}, // what the data is known to hold
		[]int{e.all, len(e.refined), len(e.tailless), e.dropped, len(e.tails), len(e.routes), e.unknown})
	return e
}

// message is a record as a reader of the topic finds it.
type message struct{ key, value string }

// check compares what was written with the expectation, every record and number of it.
func (e expectation) check(t *testing.T, refined, tailless, routes []message) {
	t.Helper()
	requireSame(t, "refined flights", e.refined, canonical(t, refined))
	requireSame(t, "flights without tail", e.tailless, canonical(t, tailless))

	// Each refined flight moves its route's statistics on by one, and the last are the final ones.
	require.Len(t, routes, len(e.refined))
	got := map[string]routeTotal{}
	for _, m := range routes {
		var r routeTotal
		require.NoError(t, json.Unmarshal([]byte(m.value), &r))
		require.Equal(t, got[m.key].Flights+1, r.Flights, "updates of %s", m.key)
		got[m.key] = r
	}
	require.Equal(t, e.routes, got)
}

// canonical returns "key {json}" of each message, sorted.
func canonical(t *testing.T, messages []message) []string {
	var out []string
	for _, m := range messages {
		var v any
		require.NoError(t, json.Unmarshal([]byte(m.value), &v))
		out = append(out, m.key+" "+jsonOf(t, v))
	}
	slices.Sort(out)
	return out
}

// requireSame says in few words how two long sorted lists differ.
func requireSame(t *testing.T, what string, want, got []string) {
	t.Helper()
	if slices.Equal(want, got) {
		return
	}
	count := map[string]int{}
	for _, s := range want {
		count[s]++
	}
	for _, s := range got {
		count[s]--
	}
	var lost, extra []string
	for s, n := range count {
		if n > 0 {
			lost = append(lost, s)
		} else if n < 0 {
			extra = append(extra, s)
		}
	}
	slices.Sort(lost)
	slices.Sort(extra)
	t.Fatalf("%s: %d, want %d; %d lost, such as\n%s\n%d too many, such as\n%s", what, len(got), len(want),
		len(lost), strings.Join(lost[:min(3, len(lost))], "\n"), len(extra), strings.Join(extra[:min(3, len(extra))], "\n"))
}
