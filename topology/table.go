package topology

import (
	"fmt"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
)

// Table is a keyed table within a Builder: the latest row of each key, as state of the task that owns the key's partition. Streams and other tables are
// joined with it by their keys, so that all of them must be partitioned alike; a global table (package globaltable) is looked up in by any key. It is a
// small value that never changes. A zero Table belongs to no Builder.
//
// A record meets the rows that the table's records with lower or equal timestamps have made, as far as they were there when it was processed.
type Table[K, V any] struct {
	// n is the operator that keeps the rows.
	n     *node
	p     *port // its changes
	key   codec.Codec[K]
	value codec.Codec[V]
}

// Table reads a compacted topic as a keyed table. name is durable: it is that of the state, which has no changelog of its own, since the topic is one: a task
// that is new to a disk reads it again up to where the group has processed it. A record with a null value deletes its key's row; one with a null key ends the run. The topic should be compacted
// (cleanup.policy=compact), and nothing of it is ever deleted by age then.
//
// Options go into ops.Source; OnInvalid takes no Substitute here, since the topic, from which rows are read again, would not have the substitute, and OnTimestamp no
// SkipTimestamp.
func (b *Builder) Table[K, V any](name string, s ops.SourceOp[K, V]) Table[K, V] {
	if b == nil {
		panic("topology: Table of a nil Builder: make one with topology.New")
	}
	src := b.source(&s)
	if s.Options.OnInvalid.Substitutes() {
		src.fail("OnInvalid: a table takes no Substitute, since its topic, from which its rows are read again, would not have that")
	}
	if s.Options.OnTimestamp == ops.SkipTimestamp {
		src.fail("OnTimestamp: a table skips no records for their timestamps, since its rows are read again from its topic without looking at those")
	}
	op := ops.TableSourceOp[K, V]{Source: s}
	src.tableSource = true
	of := &shape[K, ops.Row[V]]{part[K]{codec: s.Topic.Key, from: src}, none[ops.Row[V]](src)}
	src.wire = func(site *ops.Site, down []any) (any, error) {
		d, err := as[ops.Emit[K, ops.Row[V]]](down[0])
		if err != nil {
			return nil, err
		}
		return op.Wire(site, d)
	}
	rows := leave(src, of)
	n := rows.add("Table", name)
	n.durable(changelogTopic(b.app, name))
	n.changelog, n.valid = s.Topic.Name, op.Valid
	return keep(n, ops.TableOp[K, V]{State: ops.NewState(name, s.Topic.Key, s.Topic.Value), Raw: true}, of.key)
}

// Table keeps the stream's latest value of each key as a keyed table. The state's name is durable: the rows are kept in the topic <app>-<name>-changelog. A
// value that the state's codec encodes to null deletes the row. Options: Name.
func (s Stream[K, V]) Table(state ops.State[K, V], opts ...ops.Option) Table[K, V] {
	n := s.add("Table", state.Name)
	n.options(ops.Collect(opts), "Name")
	stateOf(n, s.of, state)
	return keep(n, ops.TableOp[K, V]{State: state}, s.of.key)
}

// keep makes n the operator that keeps a table.
func keep[K, V any](n *node, op ops.TableOp[K, V], key part[K]) Table[K, V] {
	n.traitsOf(op.Traits())
	t := Table[K, V]{n: n, key: op.State.Key, value: op.State.Value}
	n.wire = func(site *ops.Site, down []any) (any, error) {
		d, err := as[ops.Emit[K, ops.Change[V]]](down[0])
		if err != nil {
			return nil, err
		}
		op := op
		op.Silent = len(t.p.to) == 0
		rows, err := op.Wire(site, d)
		if err != nil || op.Raw {
			return rows, err
		}
		return ops.Emit[K, V](func(k K, v V) error { return rows(k, ops.Row[V]{Value: v, Present: true}) }), nil
	}
	t.p = &port{node: n, of: &shape[K, ops.Change[V]]{key, none[ops.Change[V]](n)}} // not a Stream: that would be of its own family
	n.ports = append(n.ports, t.p)
	n.keeps = true
	return t
}

// none is the codec of what never goes through a topic.
func none[T any](n *node) part[T] {
	return part[T]{from: n, err: fmt.Errorf("a table's rows go through no topic")}
}

// Updates returns the table as a stream: the new row of each key that has changed, nil of one that was deleted. Options: Name, ValueCodec, of *V.
func Updates[K, V any](t Table[K, V], opts ...ops.Option) Stream[K, *V] {
	s := changes(t, "Updates")
	n := s.add("Updates", "")
	n.options(ops.Collect(opts), "Name", "ValueCodec")
	of := &shape[K, *V]{s.of.key, partOf[*V](n, "ValueCodec", n.opts.ValueCodec)}
	return operator(n, ops.MapValuesOp[K, ops.Change[V], *V]{Label: n.opts.Name, F: func(c ops.Change[V]) *V {
		if !c.New.Present {
			return nil
		}
		return &c.New.Value
	}}, of)
}

// changes is the stream of what has changed.
func changes[K, V any](t Table[K, V], op string) Stream[K, ops.Change[V]] {
	if t.n == nil {
		panic("topology: " + op + " of the zero Table: a table begins with Builder.Table or Stream.Table")
	}
	return Stream[K, ops.Change[V]]{t.p, t.p.of.(*shape[K, ops.Change[V]])}
}

// Join joins each record with the row that the table has for its key. Records for which there is none are left out and counted as missed; those without a
// key end the run. The table makes no output by itself. Where the stream's key was changed it goes through a repartition topic first. Options: Name, ValueCodec.
func (s Stream[K, V]) Join[TV, V2 any](table Table[K, TV], join func(V, TV) V2, opts ...ops.Option) Stream[K, V2] {
	op := ops.JoinOp[K, V, TV, V2]{Inner: true}
	if join != nil {
		op.Join = func(v V, row TV, _ bool) V2 { return join(v, row) }
	}
	return s.join("Join", table, op, opts)
}

// LeftJoin is Join of all records: join gets those for which the table has no row as well, with TV's zero value and false, and they are counted as
// missed. Options: Name, ValueCodec.
func (s Stream[K, V]) LeftJoin[TV, V2 any](table Table[K, TV], join func(V, TV, bool) V2, opts ...ops.Option) Stream[K, V2] {
	return s.join("LeftJoin", table, ops.JoinOp[K, V, TV, V2]{Join: join}, opts)
}

func (s Stream[K, V]) join[TV, V2 any](kind string, table Table[K, TV], op ops.JoinOp[K, V, TV, V2], opts []ops.Option) Stream[K, V2] {
	n := s.add(kind, table.name())
	n.options(ops.Collect(opts), "Name", "ValueCodec")
	n.function(op.Join == nil)
	reads(n, table, s.of.key)
	op.Table, op.Key, op.Value = table.name(), table.key, table.value
	of := &shape[K, V2]{s.of.key, partOf[V2](n, "ValueCodec", n.opts.ValueCodec)}
	n.traitsOf(op.Traits())
	n.wire = func(site *ops.Site, down []any) (any, error) {
		d, err := as[ops.Emit[K, V2]](down[0])
		if err != nil {
			return nil, err
		}
		op := op
		op.Store = n.reads.lasting()
		return op.Wire(site, d)
	}
	return leave(n, of)
}

// JoinTables joins two tables: each change of either gives the joined row of its key, nil if one of the tables has none any more, and nothing if it had none
// and has none. Written to a compacted topic with codec.Nullable, the stream is a table again. Options: Name, ValueCodec, of *R.
func JoinTables[K, V1, V2, R any](one Table[K, V1], other Table[K, V2], join func(V1, V2) R, opts ...ops.Option) Stream[K, *R] {
	joined := joinChanges(changes(one, "JoinTables"), other, join, opts)
	if other.n == nil {
		return joined
	}
	if other.n == one.n {
		joined.p.node.fail("a table cannot be joined with itself")
		return joined
	}
	var swapped func(V2, V1) R
	if join != nil {
		swapped = func(v2 V2, v1 V1) R { return join(v1, v2) }
	}
	return joined.Merge(joinChanges(changes(other, "JoinTables"), one, swapped, opts))
}

func joinChanges[K, V, TV, R any](s Stream[K, ops.Change[V]], table Table[K, TV], join func(V, TV) R, opts []ops.Option) Stream[K, *R] {
	n := s.add("JoinTables", table.name())
	n.options(ops.Collect(opts), "Name", "ValueCodec")
	n.function(join == nil)
	reads(n, table, s.of.key)
	op := ops.JoinChangesOp[K, V, TV, R]{Table: table.name(), Key: table.key, Value: table.value, Join: join}
	n.traitsOf(op.Traits())
	n.wire = func(site *ops.Site, down []any) (any, error) {
		d, err := as[ops.Emit[K, *R]](down[0])
		if err != nil {
			return nil, err
		}
		op := op
		op.Store = n.reads.lasting()
		return op.Wire(site, d)
	}
	return leave(n, &shape[K, *R]{s.of.key, partOf[*R](n, "ValueCodec", n.opts.ValueCodec)})
}

func (t Table[K, V]) name() string {
	if t.n == nil {
		return ""
	}
	return t.n.traits.Name
}

// reads has n read the table's state, and reports what does not go together.
func reads[K, V any](n *node, t Table[K, V], key part[K]) {
	switch {
	case t.n == nil:
		n.fail("the table is the zero Table: a table begins with Builder.Table or Stream.Table")
	case t.n.b != n.b:
		n.fail("the table %s at %s belongs to another Builder", t.n.traits.String(), t.n.at)
	default:
		n.reads = t.n
		t.n.readers++
		n.poisoned = n.poisoned || t.n.poisoned
		if key.codec == nil || t.key == nil {
			return
		}
		if has, wants := codec.Describe(key.codec), codec.Describe(t.key); has != wants {
			n.fail("the table's keys are encoded as %s, the stream's as %s: equal keys would lie apart, so use one codec", wants, has)
		}
	}
}
