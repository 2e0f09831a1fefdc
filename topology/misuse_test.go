package topology_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

// Each function below misuses a builder. What Build is to say is in the comment of the very line
// that it is to name, after "want": all errors in order of declaration, their whole text. "@-2" stands
// for the place two lines above.
var misuses = map[string]func(b *topology.Builder){
	"nilFunctions": nilFunctions, "nilCodecs": nilCodecs, "wrongOptions": wrongOptions, "badOptions": badOptions,
	"foreign": foreign, "deadEnds": deadEnds, "durableNames": durableNames, "longNames": longNames, "takenNames": takenNames,
	"topicNames": topicNames, "metricNames": metricNames, "internalNames": internalNames, "stateKeys": stateKeys, "keyChanges": keyChanges, "encodings": encodings, "partitioners": partitioners,
	"fixedCounts": fixedCounts, "noCodecs": noCodecs, "tables": tables, "invalidRecords": invalidRecords, "keyedTables": keyedTables, "refined": refined, "maintained": maintained, "followUps": followUps, "helpers": helpers,
}

func nilFunctions(b *topology.Builder) {
	s := b.From(ops.Source(text("in")))
	s = s.TryMap[string, string](nil) // want TryMap: the function is nil
	s = s.TryMapValues[string](nil)   // want TryMapValues: the function is nil
	s = s.Map[string, string](nil)    // want Map: the function is nil
	s = s.MapValues[string](nil,      // want MapValues "m": the function is nil
		ops.Name("m"))
	s = s.
		Filter(nil).                  // want Filter: the function is nil
		FlatMap[string, string](nil). // want FlatMap: the function is nil
		Peek(nil)                     // want Peek: the function is nil
	yes, no := s.Branch(nil, ops.Name("halves"))                                // want Branch "halves": the function is nil
	s = yes.Merge(no).Rekey[string]("by", nil)                                  // want Rekey "by": the function is nil
	s = s.Memo[string, string](asks("memo"), nil)                               // want Memo "memo": the function is nil
	s = s.Memo(ops.Memo[string]("ask", codec.String, nil), join)                // want Memo "ask": the function that asks is nil
	s = s.Reduce(ops.NewState("reduce", codec.String, codec.String), nil)       // want Reduce "reduce": the function is nil
	s = s.Aggregate(ops.NewState("aggregate", codec.String, codec.String), nil) // want Aggregate "aggregate": the function is nil
	s.Via[string, string](nil).To(ops.Sink(text("out")))                        // want Via: the function is nil
}

func tables(b *topology.Builder) {
	at, two := func(k, _ string) string { return k }, func(v, row string) string { return v + row }
	three := func(v, row string, _ bool) string { return v + row }
	rows := globaltable.New("rows", codec.String, codec.String)
	s := b.From(ops.Source(text("in")))
	s = s.Lookup(rows, at, two).LeftLookup(rows, at, three)                       // one value, twice
	s = s.Lookup(rows.SkipInvalid(), at, two)                                     // want Lookup "rows": another table of that name is looked up in at @-1: use one value for both
	s = s.Lookup(globaltable.Table[string, string]{}, at, two)                    // want Lookup: the table has no name: it is made by globaltable.New
	s = s.LeftLookup(rows.Topics("x", "y", "x"), at, three)                       // want LeftLookup "rows": the table has topic x twice
	s = s.Lookup(globaltable.New("in", codec.String, codec.String), at, two)      // want Lookup "in": its topic in is read as a stream at @-5: a record's row would be seen by some of the records behind it and not by others
	s = s.Lookup(rows, nil, two)                                                  // want Lookup "rows": the function is nil
	s = s.Lookup[string, string, string](rows, at, nil)                           // want Lookup "rows": the function is nil
	s = s.LeftLookup[string, string, string](rows, at, nil, ops.Concurrency(1))   // want LeftLookup "rows": LeftLookup takes no option Concurrency // want LeftLookup "rows": the function is nil
	s = s.Lookup(globaltable.New("a topic", codec.String, codec.String), at, two) // want Lookup "a topic": topic: the name "a topic" has ' ' at byte 1: must be of a-z A-Z 0-9 . _ -
	s.To(ops.Sink(text("rows")))                                                  // a topology may write a table
}

func invalidRecords(b *topology.Builder) {
	number := func(ops.InvalidRecord) (int, bool) { return 0, false }
	s := b.From(ops.Source(text("a"), ops.OnInvalid(ops.Substitute(number))))                 // want Source "a": OnInvalid: Substitute gives values of another type than string
	s = s.Merge(b.From(ops.Source(text("b"), ops.OnInvalid(ops.Substitute[string](nil)))))    // want Source "b": the function of Substitute is nil
	s = s.Merge(b.From(ops.Source(text("c"), ops.OnInvalid(ops.DeadLetter("no such name"))))) // want Source "c": OnInvalid: the name "no such name" has ' ' at byte 2: must be of a-z A-Z 0-9 . _ -
	try := func(v string) (string, error) { return v, nil }
	s = s.TryMapValues(try, ops.OnInvalid(ops.Substitute(number)))               // want TryMapValues: OnInvalid: Substitute gives values of another type than string
	s = s.TryMap(func(k, v string) (string, string, error) { return k, v, nil }, // want TryMap: OnInvalid: Substitute gives a value and no key: TryMapValues takes it
		ops.OnInvalid(ops.Substitute(func(ops.InvalidRecord) (string, bool) { return "", true })))
	s.Filter(short, ops.OnInvalid(ops.SkipInvalid)).To(ops.Sink(text("out"))) // want Filter: Filter takes no option OnInvalid
}

func keyedTables(b *topology.Builder) {
	other := topology.New("other")
	foreign := other.Table("foreign", ops.Source(text("foreign")))
	b.Table("unread", ops.Source(text("unread")))                                                                                                // want Table "unread": nobody reads the table: Join a stream with it, or end the Updates of it with To(ops.Sink(...))
	b.Table("replaced", ops.Source(text("replaced"), ops.OnInvalid(ops.Substitute(func(ops.InvalidRecord) (string, bool) { return "", true })))) // want Source "replaced": OnInvalid: a table takes no Substitute, since its topic, from which its rows are read again, would not have that
	b.Table("timeless", ops.Source(text("timeless"), ops.OnTimestamp(ops.SkipTimestamp)))                                                        // want Source "timeless": OnTimestamp: a table skips no records for their timestamps, since its rows are read again from its topic without looking at those
	hex := b.Table("hex", ops.Source(ops.NewTopic("hex", codec.Limit[string](codec.String, 9), codec.String)))
	s := b.From(ops.Source(text("in")))
	s.Join(hex, join).To(ops.Sink(text("out")))                              // want Join "hex": the table's keys are encoded as {limit}, the stream's as string: equal keys would lie apart, so use one codec
	s.Join(foreign, join).To(ops.Sink(text("out")))                          // want Join "foreign": the table Table "foreign" at @-7 belongs to another Builder
	s.Join(topology.Table[string, string]{}, join).To(ops.Sink(text("out"))) // want Join: the table is the zero Table: a table begins with Builder.Table or Stream.Table
	mine := s.Table(ops.NewState("mine", codec.String, codec.String))
	s.Join[string, string](mine, nil).To(ops.Sink(text("out"))) // want Join "mine": the function is nil
	pointers := ops.NewTopic("pointers", codec.String, codec.Nullable(codec.String))
	topology.JoinTables(mine, mine, join).To(ops.Sink(pointers)) // want JoinTables "mine": a table cannot be joined with itself
	rule := b.Table("rule", ops.Source(text("rule"), ops.PartitionedBy(ops.CRC32)))
	s.Join(rule, join).To(ops.Sink(text("out"))) // want Join "rule": it keeps state by key, but topic in is partitioned by Murmur2 and topic rule by CRC32, so that equal keys lie in different partitions: put Repartition("name") behind one of them, or declare with ops.PartitionedBy how they are really written
}

func refined(b *topology.Builder) {
	s := b.From(ops.Source(text("in")))
	out := ops.Sink(text("out"))
	none := ops.State[ops.Fine[string, string], string]{Name: "none"}
	s.Refine(same).Reduce(none, join).To(out) // want Reduce "none": the state's key codec is nil // want Reduce "none": the state's codec is nil
	hex := codec.Limit[string](codec.String, 9)
	s.Refine(same).Reduce(ops.NewFineState[string, string, string]("a", hex, codec.String, codec.String), join).To(out) // want Reduce "a": the state's keys are encoded as {limit}, the stream's as string: state lies where its records' keys do, so use one codec
	s.Refine(same).Reduce(ops.NewFineState("b", codec.String, codec.String, codec.String), nil).To(out)                 // want Reduce "b": the function is nil
	s.Refine[string](nil).Reduce(ops.NewFineState("c", codec.String, codec.String, codec.String), join).To(out)         // want Reduce "c": the function is nil
	json := ops.NewState("d", codec.JSON[ops.Fine[string, string]](), codec.String)
	s.Refine(same).Reduce(json, join).To(out)                                                                                                                    // want Reduce "d": the state's key codec is json Fine[string,string]: it must be one of ops.FineCodec
	s.Map(func(k, v string) (string, string) { return k, v }).Refine(same).Reduce(ops.NewFineState("e", codec.String, codec.String, codec.String), join).To(out) // want Reduce "e": it keeps state by key, but Map at @-0 in front of it may change the key: put Rekey("name", ...) in between
}

func maintained(b *topology.Builder) {
	s := b.From(ops.Source(text("in")))
	rows := globaltable.New("rows", codec.String, codec.String)
	s = s.Lookup(rows, same, join)
	s.ToTable(rows, ops.Remember(0))                                                // want Sink "rows": Remember (0) must be from 1 to 10000000
	s.ToTable(globaltable.New("rows", codec.String, codec.String))                  // want Sink "rows": another table of that name is looked up in at @-2: use one value for both
	s.ToTable(globaltable.New("alone", codec.String, codec.String))                 // want Sink "alone": nobody looks up in table alone: To(ops.Sink(...)) writes its topic
	s.ToTable(globaltable.New("two", codec.String, codec.String).Topics("a", "b"))  // want Sink "two": table two has the topics a and b: use To with the one that is meant
	s.ToTable(globaltable.Table[string, string]{})                                  // want Sink: the table has no name: it is made by globaltable.New
	b.From(ops.Source(text("never"), ops.OnTimestamp(7))).To(ops.Sink(text("out"))) // want Source "never": OnTimestamp (7) must be KeepTimestamp, RefuseTimestamp or SkipTimestamp
	s.To(ops.Sink(text("out"), ops.Remember(1)))                                    // want Sink "out": Sink takes no option Remember
}

func nilCodecs(b *topology.Builder) {
	type broken struct{ C chan int }
	b.From(ops.Source(ops.NewTopic[string, string]("in", nil, codec.String))). // want Source "in": the topic's key codec is nil
											Rekey("by", same).
											Memo(ops.Memo("memo", nil, asks("").Ask), join).                     // want Memo "memo": the answer's codec is nil
											Reduce(ops.NewState[string, string]("reduce", nil, nil), join).      // want Reduce "reduce": the state's key codec is nil // want Reduce "reduce": the state's codec is nil
											To(ops.Sink(ops.NewTopic[string, string]("out", codec.String, nil))) // want Sink "out": the topic's value codec is nil
	b.From(ops.Source(ops.NewTopic("broken", codec.String, codec.JSON[broken]()))). // want Source "broken": the topic's value codec: codec: json broken: /C: type not supported: go chan int has no json form
											To(ops.Sink(ops.NewTopic("out", codec.String, codec.JSON[broken]()))) // want Sink "out": the topic's value codec: codec: json broken: /C: type not supported: go chan int has no json form
}

func wrongOptions(b *topology.Builder) {
	wrong := []ops.Option{ops.Partitions(3), ops.Concurrency(3), ops.AbsentKey(ops.Drop), ops.Name("x"), ops.Partitions(4)}
	s := b.From(ops.Source(text("in"), wrong...))                                                                                       // want Source "in": Source takes no option Partitions // want Source "in": Source takes no option Concurrency // want Source "in": Source takes no option AbsentKey
	s = s.Filter(short, ops.ValueCodec(codec.String))                                                                                   // want Filter: Filter takes no option ValueCodec
	s = s.Peek(func(_, _ string) {}, ops.KeyCodec(codec.String))                                                                        // want Peek: Peek takes no option KeyCodec
	s = s.MapValues(upper, ops.KeyCodec(codec.String))                                                                                  // want MapValues: MapValues takes no option KeyCodec
	s = s.Rekey("by", same, ops.ValueCodec(codec.String))                                                                               // want Rekey "by": Rekey takes no option ValueCodec
	s = s.Memo(asks("memo", ops.Partitions(3)), join, ops.AbsentKey(ops.Keep))                                                          // want Memo "memo": Memo takes no option AbsentKey // want Memo "memo": Memo takes no option Partitions
	s = s.Reduce(ops.NewState("reduce", codec.String, codec.String), join, ops.Concurrency(1))                                          // want Reduce "reduce": Reduce takes no option Concurrency
	s = s.Aggregate(ops.NewState("aggregate", codec.String, codec.String), func(_, _, a string) string { return a }, ops.Partitions(1)) // want Aggregate "aggregate": Aggregate takes no option Partitions
	s.To(ops.Sink(text("out"), ops.Partitions(1)))                                                                                      // want Sink "out": Sink takes no option Partitions
}

func badOptions(b *topology.Builder) {
	s := b.From(ops.Source(text("in"), ops.Name("")))                                                                     // want Source "in": Name ("") must not be empty
	b.From(ops.Source(text("lost"), ops.OnLost(3))).To(ops.Sink(text("out")))                                             // want Source "lost": OnLost (3) must be EndRun, FromEarliest or FromLatest
	s = s.Filter(short, nil)                                                                                              // want Filter: option is nil
	s = s.Map(func(k, v string) (string, string) { return k, v }, ops.KeyCodec(codec.Int64), ops.ValueCodec(codec.Bytes)) // want Map: KeyCodec is a {int64}, must be a codec for string // want Map: ValueCodec is a {bytes}, must be a codec for string
	s = s.MapValues(upper, ops.ValueCodec(nil))                                                                           // want MapValues: ValueCodec is nil
	s = s.MapValues(upper, ops.ValueCodec("string"))                                                                      // want MapValues: ValueCodec is a string, must be a codec for string
	s = s.Rekey("a", same, ops.Partitions(0))                                                                             // want Rekey "a": Partitions (0) must be from 1 to 100000
	s = s.Rekey("b", same, ops.Partitions(100_001))                                                                       // want Rekey "b": Partitions (100001) must be from 1 to 100000
	s = s.Rekey("c", same, ops.AbsentKey(9))                                                                              // want Rekey "c": AbsentKey (9) must be Fail, Drop or Keep
	s = s.Rekey("d", same, ops.KeyCodec(codec.Bool))                                                                      // want Rekey "d": KeyCodec is a {bool}, must be a codec for string
	s = s.Memo(asks("e"), join, ops.Concurrency(0))                                                                       // want Memo "e": Concurrency (0) must be from 1 to 1000000
	s = s.Memo(asks("f", ops.Concurrency(-1)), join)                                                                      // want Memo "f": Concurrency (-1) must be from 1 to 1000000
	b.From(ops.Source(text("placed"), ops.OnMisplaced(2))).To(ops.Sink(text("out")))                                      // want Source "placed": OnMisplaced (2) must be RefuseMisplaced or CountMisplaced
	b.From(ops.Source(text("rule"), ops.PartitionedBy(ops.NewPartitioner("", nil)))).To(ops.Sink(text("out")))
	b.From(ops.Source(text("nil"), ops.PartitionedBy(ops.NewPartitioner("mine", nil)))).To(ops.Sink(text("out"))) // want Source "nil": PartitionedBy: the function of partitioner mine is nil
	s.To(ops.Sink(text("out")))
}

func foreign(b *topology.Builder) {
	other := topology.New("other").From(ops.Source(text("theirs")))
	s := b.From(ops.Source(text("in")))
	s.Merge(stream{}, // want Merge: a stream to merge is the zero Stream // want Merge: a stream to merge, of Source "theirs" at @-2, belongs to another Builder
		other).To(ops.Sink(text("out")))
	s.Merge(stream{}).To(ops.Sink(text("out"))) // want Merge: a stream to merge is the zero Stream
	s.Merge(s, other).To(ops.Sink(text("out"))) // want Merge: a stream to merge, of Source "theirs" at @-5, belongs to another Builder
}

func deadEnds(b *topology.Builder) {
	b.From(ops.Source(text("nothing"))) // want Source "nothing": the chain ends nowhere: end it with To(ops.Sink(...))
	b.From(ops.Source(text("in"))).
		Filter(short, ops.Name("short")) // want Filter "short": the chain ends nowhere: end it with To(ops.Sink(...))
	yes, _ := b.From(ops.Source(text("more"))).Branch(short) // want Branch: its "no" side ends nowhere: end it with To(ops.Sink(...)), or use Filter if it is not wanted
	yes.To(ops.Sink(text("out")))
}

func durableNames(b *topology.Builder) {
	s := b.From(ops.Source(text("in")))
	s = s.Rekey("", same)                                               // want Rekey: the name is empty
	s = s.Rekey(".", same)                                              // want Rekey ".": the name "." is reserved
	s = s.Rekey("by value", same)                                       // want Rekey "by value": the name "by value" has ' ' at byte 2: must be of a-z A-Z 0-9 . _ -
	s = s.Memo(asks("plane/s"), join)                                   // want Memo "plane/s": the name "plane/s" has '/' at byte 5: must be of a-z A-Z 0-9 . _ -
	s = s.Reduce(ops.NewState("n\n", codec.String, codec.String), join) // want Reduce {newline}: the name "n\n" has '\n' at byte 1: must be of a-z A-Z 0-9 . _ -
	s.Aggregate(ops.NewState("", codec.String, codec.Int64), plusOne).  // want Aggregate: the name is empty
										To(ops.Sink(ops.NewTopic("", codec.String, codec.Int64))) // want Sink: topic: the name is empty
}

func longNames(b *topology.Builder) {
	fits := strings.Repeat("n", 249-len("app--repartition"))
	s := b.From(ops.Source(text(strings.Repeat("t", 249)))).Rekey(fits, same).Memo(asks(fits+"12"), join)
	s = s.Rekey(fits+"1", same)                    // want Rekey "{fits}1": the topic name derived from it, "app-{fits}1-repartition", has 250 bytes, must be <= 249
	s = s.Memo(asks(fits+"123"), join)             // want Memo "{fits}123": the topic name derived from it, "app-{fits}123-changelog", has 250 bytes, must be <= 249
	s.To(ops.Sink(text(strings.Repeat("t", 250)))) // want Sink "{t250}": topic: the name has 250 bytes, must be <= 249
}

func takenNames(b *topology.Builder) {
	s := b.From(ops.Source(text("in")))
	s = s.Rekey("by-value", same)
	s = s.Rekey("by-value", same) // want Rekey "by-value": the name is taken by Rekey "by-value" at @-1: a repartition topic is found by its durable name
	s = s.Memo(asks("one"), join)
	s = s.Reduce(ops.NewState("one", codec.String, codec.String), join) // want Reduce "one": the name is taken by Memo "one" at @-1: state is found by its durable name
	s = s.Memo(asks("one"), join)                                       // want Memo "one": the name is taken by Memo "one" at @-2: state is found by its durable name
	s = s.Rekey("in", same)                                             // want Rekey "in": the name is that of the source topic read at @-6: sub-topologies are named after both
	s.To(ops.Sink(text("out")))
	b.From(ops.Source(text("in"))). // want Source "in": the topic is read already at @-8: use the stream twice instead
					To(ops.Sink(text("out")))
}

func topicNames(b *topology.Builder) {
	b.From(ops.Source(text(".."))).To(ops.Sink(text("a b")))   // want Source "..": topic: the name ".." is reserved // want Sink "a b": topic: the name "a b" has ' ' at byte 1: must be of a-z A-Z 0-9 . _ -
	b.From(ops.Source(text("\u00e9"))).To(ops.Sink(text("x"))) // want Source "{e}": topic: the name "{e}" has '{e1}' at byte 0: must be of a-z A-Z 0-9 . _ -
}

func metricNames(b *topology.Builder) {
	s := b.From(ops.Source(text("in.put")))
	s = s.Rekey("by.value", same).Memo(asks("m.e"), join)
	s = s.Rekey("by_value", same)  // want Rekey "by_value": its topic app-by_value-repartition collides with topic app-by.value-repartition of Rekey "by.value" at @-1: Kafka does not tell '.' from '_' in its metrics
	s = s.Memo(asks("m_e"), join)  // want Memo "m_e": its topic app-m_e-changelog collides with topic app-m.e-changelog of Memo "m.e" at @-2: Kafka does not tell '.' from '_' in its metrics
	s.To(ops.Sink(text("in_put"))) // want Sink "in_put": its topic in_put collides with topic in.put of Source "in.put" at @-4: Kafka does not tell '.' from '_' in its metrics
	s.To(ops.Sink(text("in.put"))) // the same topic is no collision
}

func internalNames(b *topology.Builder) {
	b.From(ops.Source(text("app-x-changelog"))). // want Source "app-x-changelog": topic app-x-changelog has the form of the application's own internal topics, app-...-repartition and -changelog: take another name
							To(ops.Sink(text("app-y-repartition"))) // want Sink "app-y-repartition": topic app-y-repartition has the form of the application's own internal topics, app-...-repartition and -changelog: take another name
	b.From(ops.Source(text("other-x-changelog"))).To(ops.Sink(text("app-y-repartitioned"))) // another application's are topics like any
}

func stateKeys(b *topology.Builder) {
	s := b.From(ops.Source(text("in")))
	hex := codec.Limit[string](codec.String, 9)
	s.Reduce(ops.NewState[string, string]("a", hex, codec.String), join).To(ops.Sink(text("out"))) // want Reduce "a": the state's keys are encoded as {limit}, the stream's as string: state lies where its records' keys do, so use one codec
	s.Aggregate(ops.NewState[string, int64]("b", hex, codec.Int64), plusOne).                      // want Aggregate "b": the state's keys are encoded as {limit}, the stream's as string: state lies where its records' keys do, so use one codec
													To(ops.Sink(ops.NewTopic("out", codec.String, codec.Int64)))
	s.Rekey("by", same, ops.KeyCodec(hex)).Reduce(ops.NewState[string, string]("c", hex, codec.String), join).To(ops.Sink(text("out")))
}

func keyChanges(b *topology.Builder) {
	s := b.From(ops.Source(text("in")))
	swapped := s.Map(func(k, v string) (string, string) { return v, k }, ops.Name("swap"))
	swapped.Reduce(ops.NewState("a", codec.String, codec.String), join).To(ops.Sink(text("out"))) // want Reduce "a": it keeps state by key, but Map "swap" at @-1 in front of it may change the key: put Rekey("name", ...) in between
	flat := s.FlatMap(func(k, v string, emit func(string, string)) { emit(k, v) })
	flat.Merge(swapped).Filter(short).Memo(asks("b"), join).To(ops.Sink(text("out"))) // want Memo "b": it keeps state by key, but FlatMap at @-1 and Map "swap" at @-3 in front of it may change the key: put Rekey("name", ...) in between
	flat.Rekey("by", same).Memo(asks("c"), join).To(ops.Sink(text("out")))
}

func encodings(b *topology.Builder) {
	limited := ops.NewTopic[string, string]("limited", codec.Limit[string](codec.String, 9), codec.String)
	in, other := b.From(ops.Source(text("in"))), b.From(ops.Source(limited))
	in.Merge(other).To(ops.Sink(text("out")))                       // no state, no harm
	in.Merge(other).Memo(asks("m"), join).To(ops.Sink(text("out"))) // want Memo "m": it keeps state by key, but the keys of topic in (string) and of topic limited ({limit}) are encoded differently, so equal keys would be kept apart: use one codec, or Rekey one of the streams
}

func partitioners(b *topology.Builder) {
	in := b.From(ops.Source(text("in")))
	crc := b.From(ops.Source(text("crc"), ops.PartitionedBy(ops.CRC32)))
	any := b.From(ops.Source(text("any"), ops.PartitionedBy(ops.RoundRobin)))
	own := b.From(ops.Source(text("own"), ops.PartitionedBy(ops.NewPartitioner("own", ops.CRC32.Partition))))
	in.Merge(crc, any).To(ops.Sink(text("out")))                                                         // no state, no harm
	any.Memo(asks("a"), join).To(ops.Sink(text("out")))                                                  // want Memo "a": it keeps state by key, but the records of topic any lie in any partition (RoundRobin): put Repartition("name") between the two, or declare with ops.PartitionedBy how it is really written
	in.Merge(crc).Memo(asks("b"), join).To(ops.Sink(text("out")))                                        // want Memo "b": it keeps state by key, but topic in is partitioned by Murmur2 and topic crc by CRC32, so that equal keys lie in different partitions: put Repartition("name") behind one of them, or declare with ops.PartitionedBy how they are really written
	crc.Merge(own).Memo(asks("c"), join).To(ops.Sink(text("out")))                                       // want Memo "c": it keeps state by key, but topic crc is partitioned by CRC32 and topic own by own, so that equal keys lie in different partitions: put Repartition("name") behind one of them, or declare with ops.PartitionedBy how they are really written
	in.Rekey("by-value", same).Merge(crc).Memo(asks("d"), join).To(ops.Sink(text("out")))                // want Memo "d": it keeps state by key, but topic app-by-value-repartition is partitioned by Murmur2 and topic crc by CRC32, so that equal keys lie in different partitions: put Repartition("name") behind one of them, or declare with ops.PartitionedBy how they are really written
	in.Merge(crc.Repartition("e"), any.Repartition("f")).Memo(asks("g"), join).To(ops.Sink(text("out"))) // all of it lies by Murmur2
}

func fixedCounts(b *topology.Builder) {
	in := b.From(ops.Source(text("in")))
	one := in.Rekey("one", same, ops.Partitions(4))
	two := in.Rekey("two", same, ops.Partitions(5)) // want Rekey "two": its Partitions (5) differ from the Partitions (4) of Rekey "one" at @-1: both topics' keys meet in state and need the same count
	one.Merge(two).Memo(asks("m"), join).To(ops.Sink(text("out")))
}

func noCodecs(b *topology.Builder) {
	type odd struct{ F func() }
	in := b.From(ops.Source(text("in")))
	odds := in.MapValues(func(string) odd { return odd{} })
	odds.MapValues(func(odd) string { return "" }).To(ops.Sink(text("out"))) // a codec that is not needed is not missed
	odds.Rekey("by", func(string, odd) string { return "" }).                // want Rekey "by": its repartition topic needs a codec for the values: give one to MapValues at @-2 with ops.ValueCodec: codec: json odd: /F: type not supported: go func() has no json form
											Memo(asks("m"), func(odd, string) string { return "" }).To(ops.Sink(text("out")))
	in.Rekey("odd", func(_, _ string) odd { return odd{} }). // want Rekey "odd": there is no codec for keys of type topology_test.odd: give it one with ops.KeyCodec: codec: json odd: /F: type not supported: go func() has no json form
									Map(func(_ odd, v string) (string, string) { return v, v }).To(ops.Sink(text("out")))
}

func afterBuild(b *topology.Builder) error {
	s := b.From(ops.Source(text("in")))
	if _, err := s.To(ops.Sink(text("out"))).Build(); err != nil { // (Build is here)
		panic(err)
	}
	s.Filter(short). // want Filter: was added after Build at @-3
				To(ops.Sink(text("out"))) // want Sink "out": was added after Build at @-4
	b.From(ops.Source(text("new"))) // want Source "new": was added after Build at @-5
	_, err := b.Build()             // want Build "app": was called before, at @-6
	return err
}

// What only follows from a mistake is not reported, a mistake of its own is.
func followUps(b *topology.Builder) {
	s := b.From(ops.Source(ops.NewTopic[string, string]("in", nil, codec.String))) // want Source "in": the topic's key codec is nil
	s = s.Map(func(k, v string) (string, string) { return v, k })                  // keeps the poison of its source
	s.Reduce(ops.NewState("a", codec.String, codec.String), join)                  // needs a Rekey, ends nowhere, follows a mistake
	s.Filter(nil)                                                                  // want Filter: the function is nil
}

func helpers(b *topology.Builder) {
	s := b.From(ops.Source(text("in")))
	s.Via(func(s stream) stream {
		return s.Filter(nil) // want Filter: the function is nil
	}).To(ops.Sink(text("out")))
}

// wanted reads what Build is to say from the comments of this file, by function.
func wanted(t *testing.T) map[string][]string {
	const name = "misuse_test.go"
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, nil, parser.ParseComments)
	require.NoError(t, err)
	want := map[string][]string{}
	back := regexp.MustCompile(`@-(\d+)`)
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		for _, g := range file.Comments {
			for _, c := range g.List {
				if c.Pos() < f.Pos() || c.Pos() > f.End() {
					continue
				}
				line := files.Position(c.Pos()).Line
				for _, w := range strings.Split(c.Text, "// want ")[1:] {
					w = back.ReplaceAllStringFunc(strings.TrimSpace(w), func(m string) string {
						n, _ := strconv.Atoi(m[2:])
						return fmt.Sprintf("%s:%d", name, line-n)
					})
					want[f.Name.Name] = append(want[f.Name.Name], fmt.Sprintf("%s:%d: %s", name, line, w))
				}
			}
		}
	}
	return want
}

// shorthands are for texts that do not fit into a comment, or come from package codec.
var shorthands = strings.NewReplacer(
	"{fits}", strings.Repeat("n", 249-len("app--repartition")), "{t250}", strings.Repeat("t", 250),
	"{newline}", "\"n\n\"", "{e}", "\u00e9", "{e1}", "\u00c3",
	"{int64}", fmt.Sprintf("%T", codec.Int64), "{bytes}", fmt.Sprintf("%T", codec.Bytes), "{bool}", fmt.Sprintf("%T", codec.Bool),
	"{limit}", codec.Describe(codec.Limit[string](codec.String, 9)),
)

func TestEveryMisuseIsReportedAtItsLine(t *testing.T) {
	want := wanted(t)
	for _, name := range slices.Sorted(maps.Keys(misuses)) {
		t.Run(name, func(t *testing.T) {
			b := topology.New("app")
			misuses[name](b)
			plan, err := b.Build()
			require.Error(t, err)
			require.Nil(t, plan)
			var got []string
			for _, e := range topology.BuildErrors(err) {
				got = append(got, e.Error())
			}
			var lines []string
			for _, w := range want[name] {
				lines = append(lines, shorthands.Replace(w))
			}
			require.Equal(t, strings.Join(lines, "\n"), strings.Join(got, "\n"))
			require.Equal(t, strings.Join(got, "\n"), err.Error(), "the joined error is the same, a line each")
		})
	}
}

// Build is a misuse too when it is called again, and so it cannot be called by the test above.
func TestMisuseAfterBuild(t *testing.T) {
	b := topology.New("app")
	err := afterBuild(b)
	require.Equal(t, strings.Join(wanted(t)["afterBuild"], "\n"), err.Error())
}

func TestMisuseOfTheBuilderItself(t *testing.T) {
	at := func(err error) *topology.BuildError {
		t.Helper()
		all := topology.BuildErrors(err)
		require.Len(t, all, 1, "%v", err)
		return all[0]
	}
	_, err := topology.New("app").Build()
	require.ErrorContains(t, err, `New "app": has no source: begin with From(ops.Source(...))`)
	for name, says := range map[string]string{
		"": "New: the name is empty", "a b": `New "a b": the name "a b" has ' ' at byte 1`,
		strings.Repeat("a", 250): "the name has 250 bytes, must be <= 249",
	} {
		b := topology.New(name)
		b.From(ops.Source(text("in"))).Rekey("by", same).Memo(asks("m"), join).To(ops.Sink(text("out")))
		_, err := b.Build()
		require.ErrorContains(t, at(err), says, "what is derived from a wrong name is not reported once more")
	}
	_, err = (*topology.Builder)(nil).Build()
	require.ErrorContains(t, err, "nil Builder")
	_, err = topology.End{}.Build()
	require.ErrorContains(t, err, "zero End")
	require.PanicsWithValue(t, "topology: Filter of the zero Stream: a stream begins with Builder.From", func() { stream{}.Filter(short) })
	require.PanicsWithValue(t, "topology: Merge of the zero Stream: a stream begins with Builder.From", func() { stream{}.Merge(stream{}) })
	require.PanicsWithValue(t, "topology: From of a nil Builder: make one with topology.New", func() { (*topology.Builder)(nil).From(ops.Source(text("in"))) })
}

func TestBuildIsCalledOnce(t *testing.T) {
	b := topology.New("app")
	end := b.From(ops.Source(text("in"))).To(ops.Sink(text("out")))
	plan, err := b.Build()
	require.NoError(t, err)
	before := plan.Describe()
	_, err = end.Build()
	require.Regexp(t, `^misuse_test.go:\d+: Build "app": was called before, at misuse_test.go:\d+$`, err.Error())
	b.From(ops.Source(text("late")))
	require.Equal(t, before, plan.Describe(), "a plan never changes")
}

func TestBuildErrorsAreTakenApart(t *testing.T) {
	b := topology.New("app")
	b.From(ops.Source(text("in"))).Filter(nil).To(ops.Sink(text("out")))
	b.From(ops.Source(ops.NewTopic("more", codec.String, codec.JSON[func()]()))).To(ops.Sink(ops.NewTopic("out", codec.String, codec.JSON[func()]())))
	_, err := b.Build()
	require.ErrorIs(t, err, codec.ErrUnsupported, "the cause is wrapped")
	first, ok := errors.AsType[*topology.BuildError](err)
	require.True(t, ok)
	require.Equal(t, "Filter", first.Op)
	require.Empty(t, first.Name)
	require.Equal(t, "misuse_test.go", first.File)
	require.Positive(t, first.Line)
	require.EqualError(t, first.Err, "the function is nil")
	require.Len(t, topology.BuildErrors(fmt.Errorf("wicker: %w", err)), 3, "also when they are wrapped")
	require.Empty(t, topology.BuildErrors(nil))
	require.Empty(t, topology.BuildErrors(errors.New("another")))
}
