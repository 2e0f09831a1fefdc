package topology_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit"
	"github.com/wickerwork/wicker/topology"
)

// The topics of the examples.
var (
	lines    = ops.NewTopic("lines", codec.String, codec.String)
	shouts   = ops.NewTopic("shouts", codec.String, codec.String)
	readings = ops.NewTopic("readings", codec.String, codec.Float64) // by sensor, degrees Celsius
	checked  = ops.NewTopic("checked", codec.String, codec.Float64)
	alarms   = ops.NewTopic("alarms", codec.String, codec.Float64)
)

// exampleTB stands for the *testing.T that an example does not have.
type exampleTB struct{ ends []func() }

func (*exampleTB) Helper()                   {}
func (*exampleTB) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }
func (t *exampleTB) Cleanup(end func())      { t.ends = append(t.ends, end) }

// run runs a plan in memory for as long as use takes.
func run(plan *topology.Plan, err error, use func(kit *testkit.Kit)) {
	if err != nil {
		fmt.Println(err)
		return
	}
	t := &exampleTB{}
	use(testkit.New(t, plan))
	for _, end := range t.ends {
		end()
	}
}

// show prints what is in a topic.
func show[K, V any](kit *testkit.Kit, topic ops.Topic[K, V]) {
	for _, r := range kit.Out(topic).Read() {
		fmt.Println(topic.Name, r.Key, r.Value)
	}
}

// A program from its source to its sink, and its plan as text.
func Example() {
	var (
		orders = ops.NewTopic("orders", codec.String, codec.String) // by customer: what was ordered
		totals = ops.NewTopic("totals", codec.String, codec.Int64)  // by article: how often
		total  = ops.NewState("total", codec.String, codec.Int64)
	)
	plan, err := topology.New("shop").
		From(ops.Source(orders)).
		Rekey("by-article", func(_, article string) string { return article }).
		Aggregate(total, func(_, _ string, n int64) int64 { return n + 1 }).
		To(ops.Sink(totals)).
		Build()
	run(plan, err, func(kit *testkit.Kit) {
		in := kit.In(orders)
		in.Push("ada", "lamp")
		in.Push("ada", "chair")
		in.Push("ada", "lamp")
		show(kit, totals)
		fmt.Println(kit.State(total).Get("lamp"))
	})
	fmt.Print(plan.Describe())
	// Output:
	// totals lamp 1
	// totals chair 1
	// totals lamp 2
	// 2 true
	// topology shop
	//
	// sub-topology orders
	//   sources: orders
	//   sinks: shop-by-article-repartition
	//   operators:
	//     1 Source "orders", reads orders (string -> string) -> 2
	//     2 Rekey "by-article" -> 3
	//     3 Repartition "by-article", writes shop-by-article-repartition (string -> string)
	//
	// sub-topology by-article
	//   sources: shop-by-article-repartition
	//   sinks: totals
	//   operators:
	//     1 Repartition "by-article", reads shop-by-article-repartition (string -> string) -> 2
	//     2 Aggregate "total", state in shop-total-changelog (int64) -> 3
	//     3 Sink "totals", writes totals (string -> int64)
	//
	// topics
	//   source orders: partitions as on the cluster
	//   sink totals: partitions as on the cluster
	//   repartition shop-by-article-repartition: partitions as orders, cleanup.policy=delete, message.timestamp.type=CreateTime, retention.ms=-1, segment.bytes=52428800
	//   changelog shop-total-changelog: partitions as shop-by-article-repartition, cleanup.policy=compact
}

// The least program: a topic is copied into another, each record once.
func ExampleBuilder_From() {
	plan, err := topology.New("copy").
		From(ops.Source(lines)).
		To(ops.Sink(shouts)).
		Build()
	run(plan, err, func(kit *testkit.Kit) {
		kit.In(lines).Push("a", "hello")
		show(kit, shouts)
	})
	// Output: shouts a hello
}

// Build reports all that is wrong, each with the line of the program.
func ExampleBuilder_Build() {
	_, err := topology.New("broken").
		From(ops.Source(lines)).
		Filter(nil).
		Rekey("by first letter", func(_, v string) string { return v[:1] }).
		To(ops.Sink(shouts)).
		Build()
	for _, e := range topology.BuildErrors(err) {
		fmt.Println(e.Op, e.Name, "in", e.File, e.Err)
	}
	// Output:
	// Filter  in example_test.go the function is nil
	// Rekey by first letter in example_test.go the name "by first letter" has ' ' at byte 2: must be of a-z A-Z 0-9 . _ -
}

// A sink can be one of several: here each record goes two ways.
func ExampleStream_To() {
	b := topology.New("two-ways")
	s := b.From(ops.Source(readings))
	s.To(ops.Sink(checked))
	s.Filter(func(_ string, v float64) bool { return v > 80 }).To(ops.Sink(alarms))
	plan, err := b.Build()
	run(plan, err, func(kit *testkit.Kit) {
		in := kit.In(readings)
		in.Push("boiler", 70)
		in.Push("boiler", 85)
		show(kit, checked)
		show(kit, alarms)
	})
	// Output:
	// checked boiler 70
	// checked boiler 85
	// alarms boiler 85
}

// Map changes key and value; Rekey is needed before state can follow.
func ExampleStream_Map() {
	plan, err := topology.New("swap").
		From(ops.Source(lines)).
		Map(func(k, v string) (string, string) { return v, k }).
		To(ops.Sink(shouts)).
		Build()
	run(plan, err, func(kit *testkit.Kit) {
		kit.In(lines).Push("left", "right")
		show(kit, shouts)
	})
	// Output: shouts right left
}

func ExampleStream_MapValues() {
	plan, err := topology.New("shout").
		From(ops.Source(lines)).
		MapValues(strings.ToUpper).
		To(ops.Sink(shouts)).
		Build()
	run(plan, err, func(kit *testkit.Kit) {
		kit.In(lines).Push("a", "hello")
		show(kit, shouts)
	})
	// Output: shouts a HELLO
}

// What Filter leaves out is counted, under its label.
func ExampleStream_Filter() {
	plan, err := topology.New("filter").
		From(ops.Source(readings)).
		Filter(func(_ string, v float64) bool { return v > -273 }, ops.Name("possible")).
		To(ops.Sink(checked)).
		Build()
	run(plan, err, func(kit *testkit.Kit) {
		in := kit.In(readings)
		in.Push("roof", -300)
		in.Push("roof", 21.5)
		show(kit, checked)
		fmt.Println(kit.Stats().Counters[`Filter "possible"`][ops.CountDropped], "dropped")
	})
	// Output:
	// checked roof 21.5
	// 1 dropped
}

func ExampleStream_FlatMap() {
	plan, err := topology.New("words").
		From(ops.Source(lines)).
		FlatMap(func(k, line string, emit func(string, string)) {
			for i, word := range strings.Fields(line) {
				emit(k, fmt.Sprint(i, " ", word))
			}
		}).
		To(ops.Sink(shouts)).
		Build()
	run(plan, err, func(kit *testkit.Kit) {
		kit.In(lines).Push("a", "to be or")
		show(kit, shouts)
	})
	// Output:
	// shouts a 0 to
	// shouts a 1 be
	// shouts a 2 or
}

// Peek looks at records and changes nothing. It may see one twice: after a transaction that aborted.
func ExampleStream_Peek() {
	plan, err := topology.New("peek").
		From(ops.Source(lines)).
		Peek(func(k, v string) { fmt.Println("saw", k, v) }).
		To(ops.Sink(shouts)).
		Build()
	run(plan, err, func(kit *testkit.Kit) {
		kit.In(lines).Push("a", "hello")
		show(kit, shouts)
	})
	// Output:
	// saw a hello
	// shouts a hello
}

func ExampleStream_Branch() {
	b := topology.New("branch")
	hot, fine := b.From(ops.Source(readings)).
		Branch(func(_ string, v float64) bool { return v > 80 })
	hot.To(ops.Sink(alarms))
	fine.To(ops.Sink(checked))
	plan, err := b.Build()
	run(plan, err, func(kit *testkit.Kit) {
		in := kit.In(readings)
		in.Push("boiler", 70)
		in.Push("boiler", 85)
		show(kit, checked)
		show(kit, alarms)
	})
	// Output:
	// checked boiler 70
	// alarms boiler 85
}

func ExampleStream_Merge() {
	indoor := ops.NewTopic("indoor", codec.String, codec.Float64)
	outdoor := ops.NewTopic("outdoor", codec.String, codec.Float64)
	b := topology.New("merge")
	b.From(ops.Source(indoor)).
		Merge(b.From(ops.Source(outdoor))).
		To(ops.Sink(readings))
	plan, err := b.Build()
	run(plan, err, func(kit *testkit.Kit) {
		kit.In(indoor).Push("kitchen", 21)
		kit.In(outdoor).Push("roof", 9)
		show(kit, readings)
	})
	// Output:
	// readings kitchen 21
	// readings roof 9
}

// A chain of one's own as one step of another.
func ExampleStream_Via() {
	trimmed := func(s topology.Stream[string, string]) topology.Stream[string, string] {
		return s.MapValues(strings.TrimSpace).
			Filter(func(_, v string) bool { return v != "" })
	}
	plan, err := topology.New("via").
		From(ops.Source(lines)).
		Via(trimmed).
		To(ops.Sink(shouts)).
		Build()
	run(plan, err, func(kit *testkit.Kit) {
		in := kit.In(lines)
		in.Push("a", "  hello ")
		in.Push("b", "   ")
		show(kit, shouts)
	})
	// Output: shouts a hello
}

// Records without the new key are dropped and counted here; without the option they end the run.
func ExampleStream_Rekey() {
	plan, err := topology.New("rekey").
		From(ops.Source(lines)).
		Rekey("by-first-word", func(_, line string) string {
			word, _, _ := strings.Cut(line, " ")
			return word
		}, ops.AbsentKey(ops.Drop)).
		To(ops.Sink(shouts)).
		Build()
	run(plan, err, func(kit *testkit.Kit) {
		in := kit.In(lines)
		in.Push("1", "hello world")
		in.Push("2", "")
		show(kit, shouts)
		fmt.Println(kit.Stats().Counters[`Rekey "by-first-word"`][ops.CountDropped], "dropped")
	})
	// Output:
	// shouts hello hello world
	// 1 dropped
}

// The outside is asked once for each key, also across restarts.
func ExampleStream_Memo() {
	visits := ops.NewTopic("visits", codec.String, codec.String) // by city: who
	located := ops.NewTopic("located", codec.String, codec.String)
	calls := 0
	country := ops.Memo("country", codec.String, func(_ context.Context, city string) (string, error) {
		calls++ // a service that takes its time
		return map[string]string{"Oslo": "Norway", "Turin": "Italy"}[city], nil
	}, ops.Concurrency(1))
	plan, err := topology.New("memo").
		From(ops.Source(visits)).
		Memo(country, func(who, country string) string { return who + " in " + country }).
		To(ops.Sink(located)).
		Build()
	run(plan, err, func(kit *testkit.Kit) {
		in := kit.In(visits)
		in.Push("Oslo", "Ada")
		in.Push("Turin", "Bob")
		in.Push("Oslo", "Cleo")
		kit.Restart()
		in.Push("Turin", "Dan")
		show(kit, located)
		fmt.Println(calls, "calls")
	})
	// Output:
	// located Oslo Ada in Norway
	// located Turin Bob in Italy
	// located Oslo Cleo in Norway
	// located Turin Dan in Italy
	// 2 calls
}

func ExampleStream_Reduce() {
	warmest := ops.NewState("warmest", codec.String, codec.Float64)
	plan, err := topology.New("reduce").
		From(ops.Source(readings)).
		Reduce(warmest, func(a, b float64) float64 { return max(a, b) }).
		To(ops.Sink(checked)).
		Build()
	run(plan, err, func(kit *testkit.Kit) {
		in := kit.In(readings)
		in.Push("roof", 9)
		in.Push("roof", 14)
		in.Push("roof", 11)
		show(kit, checked)
	})
	// Output:
	// checked roof 9
	// checked roof 14
	// checked roof 14
}

// Count and mean by key. Counters are in the state, not in variables: it survives restarts, and
// tasks do not share it.
func ExampleStream_Aggregate() {
	type stats struct {
		Count int64
		Sum   float64
	}
	perSensor := ops.NewState("per-sensor", codec.String, codec.JSON[stats]())
	means := ops.NewTopic("means", codec.String, codec.Float64)
	plan, err := topology.New("aggregate").
		From(ops.Source(readings)).
		Aggregate(perSensor, func(_ string, v float64, s stats) stats { return stats{s.Count + 1, s.Sum + v} }).
		MapValues(func(s stats) float64 { return s.Sum / float64(s.Count) }).
		To(ops.Sink(means)).
		Build()
	run(plan, err, func(kit *testkit.Kit) {
		in := kit.In(readings)
		in.Push("roof", 9)
		in.Push("kitchen", 20)
		in.Push("roof", 14)
		show(kit, means)
		fmt.Println(kit.State(perSensor).Get("roof"))
	})
	// Output:
	// means roof 9
	// means kitchen 20
	// means roof 11.5
	// {2 23} true
}

// Every instance holds the whole table, so that a record finds the row of any key; it keeps its own.
func ExampleStream_Lookup() {
	tiers := globaltable.New("tiers", codec.String, codec.String)
	plan, err := topology.New("shop").
		From(ops.Source(lines)).
		Lookup(tiers, func(customer, _ string) string { return customer }, func(article, tier string) string { return article + " for " + tier }).
		To(ops.Sink(shouts)).
		Build()
	run(plan, err, func(kit *testkit.Kit) {
		table, in := kit.Table(tiers), kit.In(lines)
		table.Put("ada", "gold")
		in.Push("ada", "lamp")
		in.Push("bob", "chair")
		table.Put("ada", "silver")
		table.Put("bob", "gold")
		in.Push("ada", "lamp")
		in.Push("bob", "chair")
		show(kit, shouts)
	})
	// Output:
	// shouts ada lamp for gold
	// shouts ada lamp for silver
	// shouts bob chair for gold
}

// Records for which the table has no row go on as well.
func ExampleStream_LeftLookup() {
	tiers := globaltable.New("tiers", codec.String, codec.String)
	plan, err := topology.New("shop").
		From(ops.Source(lines)).
		LeftLookup(tiers, func(customer, _ string) string { return customer }, func(article, tier string, ok bool) string {
			if !ok {
				tier = "everybody"
			}
			return article + " for " + tier
		}).
		To(ops.Sink(shouts)).
		Build()
	run(plan, err, func(kit *testkit.Kit) {
		kit.Table(tiers).Put("ada", "gold")
		in := kit.In(lines)
		in.Push("ada", "lamp")
		in.Push("bob", "chair")
		show(kit, shouts)
	})
	// Output:
	// shouts ada lamp for gold
	// shouts bob chair for everybody
}
