package main

import (
	"fmt"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

// counted is the state of a key and what comes out for each of its inputs.
type counted struct {
	// Key is repeated for who reads it after the Rekey, where the record's key is the group.
	Key string `json:"key"`
	// N is how many inputs the key has had, ID the last of them.
	N  int64 `json:"n"`
	ID int64 `json:"id"`
}

// total is the state of a group of keys and what comes out for each of their inputs.
type total struct {
	// N is how many inputs the group's keys have had, Sum the sum of their ids.
	N   int64 `json:"n"`
	Sum int64 `json:"sum"`
	// Last is what was added last.
	Last counted `json:"last"`
}

// The names of the states.
const (
	countState = "count"
	totalState = "total"
)

// The codecs of the topics and states; the oracle decodes with encoding/json.
var (
	idCodec      = codec.JSON[int64]()
	countedCodec = codec.JSON[counted]()
	totalCodec   = codec.JSON[total]()
)

// names are the topics and the application of a run.
type names struct {
	App string `json:"app"`
}

func (n names) in() string     { return n.App + ".in" }
func (n names) counts() string { return n.App + ".counts" }
func (n names) totals() string { return n.App + ".totals" }
func (n names) changelog(state string) string {
	return n.App + "-" + state + "-changelog"
}

// groups is how many groups the keys have.
const groups = 40

// groupOf is the group of a key: the keys of a partition are in many groups, so that much goes from task to task.
func groupOf(key string) string {
	var h uint32
	for _, c := range []byte(key) {
		h = h*31 + uint32(c)
	}
	return fmt.Sprintf("group-%d", h%groups)
}

// newPlan is the example: it counts inputs by key, and by group what it has counted. Its outputs tell of every input
// once and number them without gap, so that whatever is lost, repeated or out of order shows.
func newPlan(n names) (*topology.Plan, error) {
	counts := topology.New(n.App).
		From(ops.Source(ops.NewTopic(n.in(), codec.String, idCodec))).
		Aggregate(ops.NewState(countState, codec.String, countedCodec), func(key string, id int64, c counted) counted {
			return counted{Key: key, N: c.N + 1, ID: id}
		})
	counts.To(ops.Sink(ops.NewTopic(n.counts(), codec.String, countedCodec)))
	return counts.
		Rekey("by-group", func(key string, _ counted) string { return groupOf(key) }).
		Aggregate(ops.NewState(totalState, codec.String, totalCodec), func(_ string, c counted, t total) total {
			return total{N: t.N + 1, Sum: t.Sum + c.ID, Last: c}
		}).
		To(ops.Sink(ops.NewTopic(n.totals(), codec.String, totalCodec))).
		Build()
}
