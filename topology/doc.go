// Package topology composes operators into a typed chain and plans how it runs: which parts, which topics
// between them, which state. It knows nothing of clusters; package exec runs a Plan.
//
//	plan, err := topology.New("placement").
//		From(ops.Source(Orders)).
//		Rekey("by-city", func(_ string, o Order) string { return o.City }).
//		Memo(geo, func(o Order, g Geo) Placed { return Placed{o, g} }).
//		To(ops.Sink(PlacedOrders)).
//		Build()
//
// The package's Example runs such a program, and there is one for each operator. A [Stream] is a value. Using one twice sends its records both ways; [Stream.Merge] joins streams; several
// sources, chains and sinks make one plan. Every chain ends in a sink.
//
// # Operators by group
//
//	begin, end    From To
//	stateless     Map MapValues Filter FlatMap Peek Branch Merge Via
//	may fail      TryMap TryMapValues
//	key change    Rekey Repartition (Map and FlatMap may change the key too)
//	state by key  Memo Reduce Aggregate
//	keyed table   Builder.Table Stream.Table Join LeftJoin, and the functions JoinTables and Updates
//	global table  Lookup LeftLookup ToTable
//
// # What a plan is
//
// Sub-topologies, and topics that connect them. A task is one partition of one sub-topology, and state
// of a key lies with the task whose partition the key's records are in. [Plan.Subtopologies] and [Plan.Topics]
// list both, [Plan.Describe] is the same as text, [Plan.Mermaid] and [Plan.DOT] draw it, and
// [Plan.Resolve] gives internal topics their partition counts.
//
// The rules, whose numbers comments and tests cite (P4 is checked where records are read, by package exec):
//
//   - P1. Where an operator changes the key and one that keeps state by key follows, records go through a
//     repartition topic, as late as possible: what drops or shrinks records comes first, and what needs no
//     partitioning never sees the topic. A changed stream goes through one topic, however many such operators
//     follow. The topic lies in front of a Merge, since the other streams need not go through it. A Rekey
//     with no state behind it has no topic.
//   - P2. Topics whose keys meet in state form a co-partition group and have one partition count. Those of the
//     user's are checked when a program starts (by Resolve): differences are one [CopartitionError], with
//     the commands that settle them. Repartition topics take the group's count, or that of ops.Partitions;
//     without either, the largest count of the topics that they are filled from. Keys that are encoded
//     differently do not meet, and are an error of Build.
//   - P3. State is kept by the record's key. An ops.State names its key's codec, which must be the
//     stream's, and nothing lets an operator keep state by less than the key: that is what Rekey is for. Hence
//     state behind a Map or FlatMap, whose key has no name, is an error of Build until a Rekey is between.
//   - P5. The plan is text: Describe is stable and has no source positions, so that a golden file of it in a program's
//     tests shows each change of what is durable. Topics has what an operator of a cluster needs to create them.
//   - P6. What lasts is a [Lock]: CheckLock says what the change from one plan to the next means for it, with the way out. [Builder.Adopt]
//     renames an operator and keeps what it has, [Builder.Retire] gives it up.
//   - P7. Where a plan looks up in a global table that it fills itself, Describe says so: if the table's keys grow with the data,
//     it outgrows every process, and a Rekey and Memo is the place for it.
//
// Where records wait (Memo), the plan gives each waiting place a level and makes ways that meet equally long,
// so that records leave in the order in which they came (see ops.Gate). Describe shows levels as gates.
//
// # Names
//
// What survives a restart has a name that the user gives, in the operator's first argument, and nothing
// durable is numbered: adding and removing other operators changes none of it.
//
//	application          consumer group, transactional ids
//	Rekey                topic <application>-<name>-repartition, where one is needed
//	Memo, State          topic <application>-<name>-changelog
//	sub-topology         the least name among its source topics and Rekeys; part of transactional ids
//
// A name is of letters, digits, '.', '_' and '-', and the topic's name, as derived, has at most 249 bytes.
// Names must differ by more than '.' and '_', which Kafka's metrics do not tell apart. A topic of the
// user's may not have a name of the above forms. Renaming state would mean to begin without it, and renaming a Rekey that
// what lies unread in its topic is lost: both are refused (P6). Labels (ops.Name) are free, and may change at any time.
//
// # Errors
//
// A misuse of the builder, such as a nil function, a missing codec, an option that the operator does not take, a name
// that is used twice, is recorded and the chain goes on. [Builder.Build] returns all of them, each a
// [BuildError] with the operator and the line of the user's program, in the order of declaration;
// [BuildErrors] takes them apart. What only follows from an earlier mistake is left out. Only a method of a nil Builder or
// of the zero Stream panics, as there is nothing that could report it.
//
// # Concurrency
//
// A Builder and its streams are for one goroutine. A Plan is immutable and safe for concurrent use. Functions
// given to operators run on several tasks at once; package ops says what else they must keep to.
package topology
