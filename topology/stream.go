package topology

import (
	"slices"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
)

// Stream is a stream of records with keys K and values V within a Builder. It is a small value
// that never changes; to process the records in two ways, use it twice: they go the ways in the
// order in which those were added.
//
// The functions given to operators run on several tasks at the same time and must be safe for
// that; see package ops for what else they must keep to. The methods themselves are for the
// builder's goroutine. A method of a zero Stream panics, as there is no Builder to report to.
type Stream[K, V any] struct {
	p  *port
	of *shape[K, V]
}

// Map turns each record into another. It may change the key, so an operator that keeps state
// by key cannot follow before a Rekey has named the new key's partitioning. Options: Name, KeyCodec,
// ValueCodec.
func (s Stream[K, V]) Map[K2, V2 any](f func(K, V) (K2, V2), opts ...ops.Option) Stream[K2, V2] {
	n := s.add("Map", "")
	n.options(ops.Collect(opts), "Name", "KeyCodec", "ValueCodec")
	n.function(f == nil)
	of := &shape[K2, V2]{partOf[K2](n, "KeyCodec", n.opts.KeyCodec), partOf[V2](n, "ValueCodec", n.opts.ValueCodec)}
	return operator(n, ops.MapOp[K, V, K2, V2]{Label: n.opts.Name, F: f}, of)
}

// MapValues turns each value into another and leaves the key as it is. Options: Name,
// ValueCodec.
func (s Stream[K, V]) MapValues[V2 any](f func(V) V2, opts ...ops.Option) Stream[K, V2] {
	n := s.add("MapValues", "")
	n.options(ops.Collect(opts), "Name", "ValueCodec")
	n.function(f == nil)
	of := &shape[K, V2]{s.of.key, partOf[V2](n, "ValueCodec", n.opts.ValueCodec)}
	return operator(n, ops.MapValuesOp[K, V, V2]{Label: n.opts.Name, F: f}, of)
}

// TryMap is Map with a function that may fail. An error ends the run with the record's coordinates, unless it is ops.Invalid and the option OnInvalid
// says otherwise. Options: Name, KeyCodec, ValueCodec, OnInvalid (not Substitute, which gives no key).
func (s Stream[K, V]) TryMap[K2, V2 any](f func(K, V) (K2, V2, error), opts ...ops.Option) Stream[K2, V2] {
	n := s.add("TryMap", "")
	n.options(ops.Collect(opts), "Name", "KeyCodec", "ValueCodec", "OnInvalid")
	n.function(f == nil)
	if n.opts.OnInvalid.Substitutes() {
		n.fail("OnInvalid: Substitute gives a value and no key: TryMapValues takes it")
	}
	n.invalid[V2]()
	of := &shape[K2, V2]{partOf[K2](n, "KeyCodec", n.opts.KeyCodec), partOf[V2](n, "ValueCodec", n.opts.ValueCodec)}
	return operator(n, ops.TryMapOp[K, V, K2, V2]{Label: n.opts.Name, F: f, OnInvalid: n.opts.OnInvalid}, of)
}

// TryMapValues is MapValues with a function that may fail, as TryMap's may. Options: Name, ValueCodec, OnInvalid.
func (s Stream[K, V]) TryMapValues[V2 any](f func(V) (V2, error), opts ...ops.Option) Stream[K, V2] {
	n := s.add("TryMapValues", "")
	n.options(ops.Collect(opts), "Name", "ValueCodec", "OnInvalid")
	n.function(f == nil)
	n.invalid[V2]()
	of := &shape[K, V2]{s.of.key, partOf[V2](n, "ValueCodec", n.opts.ValueCodec)}
	return operator(n, ops.TryMapValuesOp[K, V, V2]{Label: n.opts.Name, F: f, OnInvalid: n.opts.OnInvalid}, of)
}

// Filter lets the records through for which f holds and counts the others as dropped.
// Options: Name.
func (s Stream[K, V]) Filter(f func(K, V) bool, opts ...ops.Option) Stream[K, V] {
	n := s.add("Filter", "")
	n.options(ops.Collect(opts), "Name")
	n.function(f == nil)
	return operator(n, ops.FilterOp[K, V]{Label: n.opts.Name, F: f}, s.of)
}

// FlatMap turns each record into any number of others: those that f emits before it returns,
// in that order. It may change the key, as Map may. Options: Name, KeyCodec, ValueCodec.
func (s Stream[K, V]) FlatMap[K2, V2 any](f func(key K, value V, emit func(K2, V2)), opts ...ops.Option) Stream[K2, V2] {
	n := s.add("FlatMap", "")
	n.options(ops.Collect(opts), "Name", "KeyCodec", "ValueCodec")
	n.function(f == nil)
	of := &shape[K2, V2]{partOf[K2](n, "KeyCodec", n.opts.KeyCodec), partOf[V2](n, "ValueCodec", n.opts.ValueCodec)}
	return operator(n, ops.FlatMapOp[K, V, K2, V2]{Label: n.opts.Name, F: f}, of)
}

// Peek calls f with each record and passes the record on. f sees a record again if its
// transaction is processed again. Options: Name.
func (s Stream[K, V]) Peek(f func(K, V), opts ...ops.Option) Stream[K, V] {
	n := s.add("Peek", "")
	n.options(ops.Collect(opts), "Name")
	n.function(f == nil)
	return operator(n, ops.PeekOp[K, V]{Label: n.opts.Name, F: f}, s.of)
}

// Branch sends each record one of two ways: yes takes those for which f holds, no the others.
// Both must end in a sink; where one is not wanted, use Filter. Options: Name.
func (s Stream[K, V]) Branch(f func(K, V) bool, opts ...ops.Option) (yes, no Stream[K, V]) {
	n := s.add("Branch", "")
	n.options(ops.Collect(opts), "Name")
	n.function(f == nil)
	op := ops.BranchOp[K, V]{Label: n.opts.Name, F: f}
	n.traitsOf(op.Traits())
	n.wire = func(site *ops.Site, down []any) (any, error) {
		yes, err := as[ops.Emit[K, V]](down[0])
		if err != nil {
			return nil, err
		}
		no, err := as[ops.Emit[K, V]](down[1])
		if err != nil {
			return nil, err
		}
		return op.Wire(site, yes, no)
	}
	yes, no = leave(n, s.of), leave(n, s.of)
	yes.p.label, no.p.label = "yes", "no"
	return yes, no
}

// Merge joins streams of the same types into one: each record goes on as it arrives, those of
// one stream in their order. If state by key follows, the topics behind the streams form a
// co-partition group; streams whose keys are encoded differently are then an error. A repartition topic
// behind a Merge has the codecs of the first stream.
func (s Stream[K, V]) Merge(other Stream[K, V], more ...Stream[K, V]) Stream[K, V] {
	n := s.add("Merge", "")
	n.role = roleMerge
	for _, o := range append([]Stream[K, V]{other}, more...) {
		switch {
		case o.p == nil:
			n.fail("a stream to merge is the zero Stream")
		case o.p.node.b != s.p.node.b:
			n.fail("a stream to merge, of %s at %s, belongs to another Builder", o.p.node.traits.String(), o.p.node.at)
		default:
			n.inputs = append(n.inputs, o.p)
			n.poisoned = n.poisoned || o.p.node.poisoned
			o.p.to = append(o.p.to, n)
		}
	}
	n.wire = func(_ *ops.Site, down []any) (any, error) { return down[0], nil }
	return leave(n, s.of)
}

// Rekey gives each record the key that f takes from it. name is durable: where an operator
// that keeps state by key follows, the records go through the topic <app>-<name>-repartition, as
// late as possible and once for all such operators. Otherwise there is none.
//
// A record whose new key is absent, encoded as null or as no bytes, ends the run unless the
// option AbsentKey says otherwise. Options: Name, KeyCodec, AbsentKey, Partitions.
func (s Stream[K, V]) Rekey[K2 any](name string, f func(K, V) K2, opts ...ops.Option) Stream[K2, V] {
	n := s.add("Rekey", name)
	n.role = roleRekey
	n.options(ops.Collect(opts), "Name", "KeyCodec", "AbsentKey", "Partitions")
	n.durable(repartitionTopic(n.b.app, name))
	n.function(f == nil)
	of := &shape[K2, V]{partOf[K2](n, "KeyCodec", n.opts.KeyCodec), s.of.value}
	if of.key.codec == nil && n.opts.KeyCodec == nil {
		n.fail("there is no codec for keys of type %s: give it one with ops.KeyCodec: %w", typeName[K2](), of.key.err)
	}
	return operator(n, ops.RekeyOp[K, V, K2]{Durable: name, Key: of.key.codec, Absent: n.opts.AbsentKey, F: f}, of)
}

// Repartition has the records go through the topic <app>-<name>-repartition where an operator that keeps state by key
// follows, as late as possible: each then is in the partition where its key belongs by Kafka's default partitioner,
// wherever it lay before (ops.PartitionedBy). name is durable. The empty key is a key like any other unless the option
// AbsentKey says otherwise; a null key ends the run, or is dropped. Options: Name, AbsentKey, Partitions.
func (s Stream[K, V]) Repartition(name string, opts ...ops.Option) Stream[K, V] {
	n := s.add("Repartition", name)
	n.role = roleRekey
	n.options(ops.Collect(opts), "Name", "AbsentKey", "Partitions")
	n.durable(repartitionTopic(n.b.app, name))
	if !slices.Contains(n.opts.Given, "AbsentKey") {
		n.opts.AbsentKey = ops.Keep
	}
	if s.of.key.codec == nil && !n.poisoned {
		n.fail("there is no codec for keys of type %s: give one to %s at %s with ops.KeyCodec: %w", typeName[K](), s.of.key.from.traits.String(), s.of.key.from.at, s.of.key.err)
	}
	return operator(n, ops.RepartitionOp[K, V]{Durable: name, Key: s.of.key.codec, Absent: n.opts.AbsentKey}, s.of)
}

// Memo joins each record with the remembered answer for its key, asked for once; see ops.Memo. Records
// keep their order while answers are awaited. The name in memo is durable: the answers are
// kept in the topic <app>-<name>-changelog. Options: Name, ValueCodec, OnInvalid; Concurrency, here or in ops.Memo.
func (s Stream[K, V]) Memo[A, V2 any](memo ops.MemoOp[K, A], join func(V, A) V2, opts ...ops.Option) Stream[K, V2] {
	n := s.add("Memo", memo.Durable)
	n.options(ops.Collect(opts), "Name", "ValueCodec", "Concurrency", "OnInvalid")
	asked := n.opts
	n.options(memo.Options, "Name", "Concurrency")
	n.opts = asked
	if asked.Concurrency != 0 {
		memo.Options.Concurrency = asked.Concurrency
	}
	n.durable(changelogTopic(n.b.app, memo.Durable))
	n.usable("the answer's codec", memo.Answer)
	if memo.Ask == nil {
		n.fail("the function that asks is nil")
	}
	n.function(join == nil)
	n.invalid[V2]()
	of := &shape[K, V2]{s.of.key, partOf[V2](n, "ValueCodec", n.opts.ValueCodec)}
	return operator(n, ops.MemoJoinOp[K, V, A, V2]{Memo: memo, Key: s.of.key.codec, Join: join, OnInvalid: n.opts.OnInvalid}, of)
}

// Reduce combines the values of each key: f gets the result so far and the next value, and
// the new result is kept as state and passed on. The first value of a key is its first result. The
// state's name is durable: the results are kept in the topic <app>-<name>-changelog. A null value is
// passed to f like any other; a result that the state's codec encodes to null is deleted. Options: Name.
func (s Stream[K, V]) Reduce(state ops.State[K, V], f func(a, b V) V, opts ...ops.Option) Stream[K, V] {
	n := s.add("Reduce", state.Name)
	n.options(ops.Collect(opts), "Name")
	stateOf(n, s.of, state)
	n.function(f == nil)
	of := &shape[K, V]{s.of.key, part[V]{codec: state.Value, from: n}}
	return operator(n, ops.ReduceOp[K, V]{State: state, F: f}, of)
}

// Aggregate folds the records of each key into a state of type A: f gets key, value and the state
// so far, A's zero value at first, and the new state is kept and passed on. The state's name is
// durable: it is kept in the topic <app>-<name>-changelog. A state that its codec encodes to null is
// deleted. Options: Name.
func (s Stream[K, V]) Aggregate[A any](state ops.State[K, A], f func(K, V, A) A, opts ...ops.Option) Stream[K, A] {
	n := s.add("Aggregate", state.Name)
	n.options(ops.Collect(opts), "Name")
	stateOf(n, s.of, state)
	n.function(f == nil)
	of := &shape[K, A]{s.of.key, part[A]{codec: state.Value, from: n}}
	return operator(n, ops.AggregateOp[K, V, A]{State: state, F: f}, of)
}

// stateOf checks the state of a node: its keys lie where the stream's keys do only if both
// are encoded in one way.
func stateOf[K, V, A any](n *node, of *shape[K, V], state ops.State[K, A]) {
	n.durable(changelogTopic(n.b.app, state.Name))
	n.usable("the state's key codec", state.Key)
	n.usable("the state's codec", state.Value)
	if state.Key == nil || of.key.codec == nil {
		return
	}
	if has, wants := codec.Describe(of.key.codec), codec.Describe(state.Key); has != wants {
		n.fail("the state's keys are encoded as %s, the stream's as %s: state lies where its records' keys do, so use one codec", wants, has)
	}
}

// To ends the stream in a topic. Options go into ops.Sink. What it returns has Build, for a
// program of one chain, and may be ignored.
func (s Stream[K, V]) To(sink ops.SinkOp[K, V]) End {
	n := s.add("Sink", sink.Topic.Name)
	n.role = roleSink
	n.options(sink.Options, "Name")
	n.traitsOf(sink.Traits())
	n.topic(sink.Topic.Name)
	n.topicCodecs(sink.Topic.Key, sink.Topic.Value)
	n.wire = func(site *ops.Site, _ []any) (any, error) { return sink.Wire(site) }
	return End{n.b}
}

// Via is f(s): a chain of one's own as one step of another.
func (s Stream[K, V]) Via[K2, V2 any](f func(Stream[K, V]) Stream[K2, V2]) Stream[K2, V2] {
	if f == nil {
		n := s.add("Via", "")
		n.function(true)
		return leave(n, &shape[K2, V2]{key: part[K2]{from: n}, value: part[V2]{from: n}})
	}
	return f(s)
}

// add records an operator behind the stream.
func (s Stream[K, V]) add(op, name string) *node {
	if s.p == nil {
		panic("topology: " + op + " of the zero Stream: a stream begins with Builder.From")
	}
	return s.p.node.b.add(roleOperator, ops.Traits{Op: op, Name: name}, s.p)
}

func (n *node) function(missing bool) {
	if missing {
		n.fail("the function is nil")
	}
}

// durable checks the node's durable name.
func (n *node) durable(derived string) {
	err := checkName(n.traits.Name)
	if err == nil && !n.b.root.poisoned {
		err = checkDerived(derived)
	}
	if err != nil {
		n.unnamed = true
		n.fail("%w", err)
	}
}

// operator sets what a node does and returns what comes out of it.
func operator[K, V, K2, V2 any](n *node, op ops.Operator[K, V, K2, V2], of *shape[K2, V2]) Stream[K2, V2] {
	n.traitsOf(op.Traits())
	n.wire = func(site *ops.Site, down []any) (any, error) {
		d, err := as[ops.Emit[K2, V2]](down[0])
		if err != nil {
			return nil, err
		}
		return op.Wire(site, d)
	}
	return leave(n, of)
}
