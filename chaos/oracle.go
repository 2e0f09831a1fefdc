package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// maxFindings is how many findings are told one by one.
const maxFindings = 20

// oracle knows what the example has to put out for the inputs, and watches what it does: every input tells once in
// both outputs, numbered 1, 2, 3 ... by key and by group. It is for one goroutine.
type oracle struct {
	inputs []string
	byKey  map[string][]int64 // ids of a key's inputs, in order

	counts, totals view
	groups         map[string]total

	duplicates int
	findings   []string
	more       int
}

// view is how far an output has come.
type view struct {
	what    string
	n       map[string]int64 // by key: how many of its inputs it has told of
	records int
}

func newOracle(inputs []string) *oracle {
	o := &oracle{inputs: inputs, byKey: map[string][]int64{}, groups: map[string]total{},
		counts: view{what: "counts", n: map[string]int64{}}, totals: view{what: "totals", n: map[string]int64{}}}
	for i, k := range inputs {
		o.byKey[k] = append(o.byKey[k], int64(i+1))
	}
	return o
}

func (o *oracle) find(format string, args ...any) {
	if len(o.findings) == maxFindings {
		o.more++
		return
	}
	o.findings = append(o.findings, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// count takes the next record of the counts.
func (o *oracle) count(r kafka.Record) {
	var c counted
	if err := json.Unmarshal(r.Value, &c); err != nil {
		o.find("counts[%d] offset %d: %v", r.Partition, r.Offset, err)
		return
	}
	if c.Key != string(r.Key) {
		o.find("counts[%d] offset %d: of %s, in a record of %s", r.Partition, r.Offset, c.Key, r.Key)
	}
	o.told(&o.counts, r, c)
}

// total takes the next record of the totals.
func (o *oracle) total(r kafka.Record) {
	var t total
	if err := json.Unmarshal(r.Value, &t); err != nil {
		o.find("totals[%d] offset %d: %v", r.Partition, r.Offset, err)
		return
	}
	g := string(r.Key)
	if groupOf(t.Last.Key) != g {
		o.find("totals[%d] offset %d: %s is not of %s", r.Partition, r.Offset, t.Last.Key, g)
	}
	o.told(&o.totals, r, t.Last)
	before := o.groups[g]
	if t.N != before.N+1 || t.Sum != before.Sum+t.Last.ID {
		o.find("totals[%d] offset %d: %s goes from n=%d sum=%d by %d to n=%d sum=%d", r.Partition, r.Offset, g, before.N, before.Sum, t.Last.ID, t.N, t.Sum)
	}
	o.groups[g] = t
}

// told notes that an output tells of an input, which must be the key's next one.
func (o *oracle) told(v *view, r kafka.Record, c counted) {
	v.records++
	ids, have := o.byKey[c.Key], v.n[c.Key]
	switch {
	case c.N < 1 || c.N > int64(len(ids)):
		o.find("%s[%d] offset %d: %s has n=%d, and %d inputs", v.what, r.Partition, r.Offset, c.Key, c.N, len(ids))
		return
	case c.N <= have:
		o.duplicates++
		o.find("%s[%d] offset %d: %s has n=%d again, after %d", v.what, r.Partition, r.Offset, c.Key, c.N, have)
	case c.N > have+1:
		o.find("%s[%d] offset %d: %s has n=%d, after %d", v.what, r.Partition, r.Offset, c.Key, c.N, have)
	}
	if c.ID != ids[c.N-1] {
		o.find("%s[%d] offset %d: %s has n=%d for input %d, must be %d", v.what, r.Partition, r.Offset, c.Key, c.N, c.ID, ids[c.N-1])
	}
	v.n[c.Key] = max(have, c.N)
}

// told is how many inputs both outputs have told of.
func (o *oracle) progress() int { return o.counts.records + o.totals.records }

// complete says whether both outputs have told of all inputs.
func (o *oracle) complete() bool { return o.missing(&o.counts) == 0 && o.missing(&o.totals) == 0 }

// missing is how many inputs an output has not told of.
func (o *oracle) missing(v *view) int {
	n := len(o.inputs)
	for _, have := range v.n {
		n -= int(have)
	}
	return n
}

// states returns what both states have to hold, by state and key.
func (o *oracle) states() (map[string]counted, map[string]total) {
	byKey, byGroup := map[string]counted{}, map[string]total{}
	for k, ids := range o.byKey {
		byKey[k] = counted{Key: k, N: int64(len(ids)), ID: ids[len(ids)-1]}
		g := byGroup[groupOf(k)]
		g.N += int64(len(ids))
		for _, id := range ids {
			g.Sum += id
		}
		// Which of the group's inputs came last is not determined.
		g.Last = o.groups[groupOf(k)].Last
		byGroup[groupOf(k)] = g
	}
	return byKey, byGroup
}

// checkInputs looks at the input topic as a reader sees it: the loader must have done its part.
func (o *oracle) checkInputs(records []kafka.Record) {
	next := map[string]int{}
	for _, r := range records {
		var id int64
		k := string(r.Key)
		if err := json.Unmarshal(r.Value, &id); err != nil || next[k] == len(o.byKey[k]) || o.byKey[k][next[k]] != id {
			o.find("the inputs are not as written: [%d] offset %d: %s %s", r.Partition, r.Offset, r.Key, r.Value)
			return
		}
		next[k]++
	}
	if len(records) != len(o.inputs) {
		o.find("the inputs are not as written: %d, must be %d", len(records), len(o.inputs))
	}
}

// checkState compares what a state holds, by key, with what it has to hold.
func checkState[T comparable](o *oracle, where string, have map[string][]byte, want map[string]T) {
	for k, w := range want {
		var h T
		value, ok := have[k]
		switch err := json.Unmarshal(value, &h); {
		case !ok:
			o.find("%s: nothing for %s", where, k)
		case err != nil:
			o.find("%s: %s: %v", where, k, err)
		case h != w:
			o.find("%s: %s is %+v, must be %+v", where, k, h, w)
		}
	}
	for k := range have {
		if _, ok := want[k]; !ok {
			o.find("%s: %s should not be there", where, k)
		}
	}
}
