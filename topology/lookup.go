package topology

import (
	"strings"

	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/ops"
)

// Lookup joins each record with the row that a global table has for a key taken from it. Records for which there is none are left
// out and counted as missed. The stream keeps its key, and nothing is repartitioned: each instance has the whole table. All records
// of a batch see the same rows. Options: Name, ValueCodec.
func (s Stream[K, V]) Lookup[TK, TV, V2 any](table globaltable.Table[TK, TV], key func(K, V) TK, join func(V, TV) V2, opts ...ops.Option) Stream[K, V2] {
	op := ops.LookupOp[K, V, TK, TV, V2]{At: key, Inner: true}
	if join != nil {
		op.Join = func(v V, row TV, _ bool) V2 { return join(v, row) }
	}
	return s.lookup("Lookup", table, op, opts)
}

// LeftLookup is Lookup of all records: join gets those for which the table has no row as well, with TV's zero value and false, and they are
// counted as missed. Options: Name, ValueCodec.
func (s Stream[K, V]) LeftLookup[TK, TV, V2 any](table globaltable.Table[TK, TV], key func(K, V) TK, join func(V, TV, bool) V2, opts ...ops.Option) Stream[K, V2] {
	return s.lookup("LeftLookup", table, ops.LookupOp[K, V, TK, TV, V2]{At: key, Join: join}, opts)
}

func (s Stream[K, V]) lookup[TK, TV, V2 any](kind string, table globaltable.Table[TK, TV], op ops.LookupOp[K, V, TK, TV, V2], opts []ops.Option) Stream[K, V2] {
	n := s.add(kind, table.Name())
	n.options(ops.Collect(opts), "Name", "ValueCodec")
	n.function(op.At == nil || op.Join == nil)
	op.Label, op.Table = n.opts.Name, table.Name()
	op.Key, op.Value = table.Codecs()
	spec, err := table.Spec()
	if err != nil {
		n.fail("%w", err)
	} else {
		n.table, op.Cache = spec, spec.Cache
		for _, topic := range spec.Topics {
			n.topic(topic)
		}
	}
	return operator(n, op, &shape[K, V2]{s.of.key, partOf[V2](n, "ValueCodec", n.opts.ValueCodec)})
}

// ToTable ends the stream in the topic of a global table, so that the topology maintains the table: rows commit with the record that they came from, and every
// instance sees them when it has read them there. A value that the table's codec encodes to null deletes a row. The table must be one that the topology looks up
// in, with one topic. Where its keys are as many as the data has, it grows with the data, in every process: then a Rekey and a Memo, or an Aggregate, is what keeps it. Options: Name,
// Remember, which lets the task's own lookups see the rows at once.
func (s Stream[K, V]) ToTable(table globaltable.Table[K, V], opts ...ops.Option) End {
	n := s.add("Sink", table.Name())
	n.role = roleSink
	n.options(ops.Collect(opts), "Name", "Remember")
	key, value := table.Codecs()
	sink := ops.SinkOp[K, V]{Options: n.opts, Table: table.Name()}
	spec, err := table.Spec()
	switch {
	case err != nil:
		n.fail("%w", err)
	case len(spec.Topics) > 1:
		n.fail("table %s has the topics %s: use To with the one that is meant", spec.Name, strings.Join(spec.Topics, " and "))
	default:
		n.maintains = spec
		sink.Topic = ops.NewTopic(spec.Topics[0], key, value)
		n.traitsOf(sink.Traits())
		n.topic(sink.Topic.Name)
		n.topicCodecs(key, value)
	}
	n.wire = func(site *ops.Site, _ []any) (any, error) { return sink.Wire(site) }
	return End{n.b}
}

// tables returns the tables that are looked up in, each once, and reports what does not go together.
func (b *Builder) tables() []*globaltable.Spec {
	var all []*globaltable.Spec
	first := map[string]*node{}
	sources := map[string]*node{}
	for _, n := range b.nodes {
		if n.role == roleSource && !n.unnamed {
			sources[n.traits.Name] = n
		}
	}
	for _, n := range b.nodes {
		if n.table == nil {
			continue
		}
		if was := first[n.table.Name]; was == nil {
			first[n.table.Name] = n
			all = append(all, n.table)
		} else if !was.table.Same(n.table) {
			n.fail("another table of that name is looked up in at %s: use one value for both", was.at)
			continue
		}
		for _, topic := range n.table.Topics {
			if s := sources[topic]; s != nil {
				n.fail("its topic %s is read as a stream at %s: a record's row would be seen by some of the records behind it and not by others", topic, s.at)
			}
		}
	}
	for _, n := range b.nodes {
		if n.maintains == nil || n.poisoned {
			continue
		}
		if was := first[n.maintains.Name]; was == nil {
			n.fail("nobody looks up in table %s: To(ops.Sink(...)) writes its topic", n.maintains.Name)
		} else if !was.table.Same(n.maintains) {
			n.fail("another table of that name is looked up in at %s: use one value for both", was.at)
		}
	}
	return all
}
