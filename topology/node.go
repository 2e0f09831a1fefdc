package topology

import (
	"fmt"
	"slices"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/ops"
)

// role is what the planner does with a node.
type role int8

const (
	roleOperator role = iota
	roleSource
	roleSink
	roleMerge
	roleRekey
)

// node is an operator as the user declared it.
type node struct {
	b      *Builder
	id     int // order of declaration: parents come before their children
	at     callsite
	role   role
	traits ops.Traits
	label  string // from ops.Name, where traits.Name is something else
	opts   ops.Options
	inputs []*port
	ports  []*port // two of a Branch, none of a sink
	// adopted is the durable name that an Adopt gives the operator, empty if it is the one in traits.
	adopted string
	// wire makes the operator for one task, given an Emit for each port.
	wire wireFunc
	// key and value describe the codecs of a source's or sink's topic.
	key, value string
	// table is what the node looks up in, nil if it does not.
	table *globaltable.Spec
	// maintains is the global table whose topic the node writes, nil if it is no ToTable.
	maintains *globaltable.Spec
	// reads is the operator that keeps the keyed table which the node joins with, nil if it does not.
	reads *node
	// keeps says that the node keeps a keyed table, readers how many join with it.
	keeps   bool
	readers int
	// changelog is the source topic that is the changelog of the node's state, empty if that has one of its own, and valid says which of its
	// records are rows. tableSource is the source in front.
	changelog   string
	valid       func(key, value []byte) bool
	tableSource bool
	// poisoned says that something about the node was reported, unnamed that its name was.
	poisoned, unnamed bool
}

// wireFunc makes an operator for one task. down holds an ops.Emit for each port, and so is
// what it returns: the typed functions of the facade know which, and everyone else need not.
type wireFunc func(site *ops.Site, down []any) (any, error)

// port is a stream as it leaves a node.
type port struct {
	node  *node
	label string // "yes" and "no" of a Branch
	of    erased
	to    []*node // in the order in which records go to them
}

// fail reports a misuse at the node.
func (n *node) fail(format string, args ...any) {
	n.poisoned = true
	n.b.report(n, fmt.Errorf(format, args...))
}

// options takes the operator's options and reports those that it does not take.
func (n *node) options(o ops.Options, allowed ...string) {
	n.opts = o
	if o.Err != nil {
		n.fail("%w", o.Err)
	}
	for i, name := range o.Given {
		if !slices.Contains(allowed, name) && !slices.Contains(o.Given[:i], name) {
			n.fail("%s takes no option %s", n.traits.Op, name)
		}
	}
}

// traitsOf sets what the planner must know of the operator.
func (n *node) traitsOf(t ops.Traits) {
	n.traits = t
	if n.opts.Name != t.Name {
		n.label = n.opts.Name
	}
}

// erased is what the planner needs of a stream's types.
type erased interface {
	// fan joins Emits into one that passes each record to all in turn.
	fan(down []any) (any, error)
	// hold, write and read wire an ops.Hold, and the two ends of a repartition topic.
	hold(site *ops.Site, down any) (any, error)
	write(topic string, site *ops.Site) (any, error)
	read(topic string, site *ops.Site, down any) (any, error)
	// codecs describes the stream's codecs.
	codecs() (key, value string)
	// missing returns the operator that should have been given a codec for the stream's
	// values, nil if there is one, and why there is none.
	missing() (*node, error)
}

// shape is a stream's types, with the codecs for topics and state that it may have to go through.
type shape[K, V any] struct {
	key   part[K]
	value part[V]
}

// part is one codec of a shape, or why there is none.
type part[T any] struct {
	codec codec.Codec[T]
	err   error
	from  *node
}

// partOf returns the codec that an option of n gives, or else the default of the type.
func partOf[T any](n *node, option string, given any) part[T] {
	p := part[T]{from: n}
	if given == nil {
		p.codec, p.err = codec.Default[T]()
		return p
	}
	c, ok := given.(codec.Codec[T])
	if !ok {
		p.err = fmt.Errorf("%s is a %T, must be a codec for %s", option, given, typeName[T]())
		n.fail("%w", p.err)
		return p
	}
	n.usable(option, c)
	p.codec = c
	return p
}

func describe[T any](p part[T]) string {
	if p.codec == nil {
		return "none"
	}
	return codec.Describe(p.codec)
}

func (s *shape[K, V]) codecs() (key, value string) { return describe(s.key), describe(s.value) }

func (s *shape[K, V]) missing() (*node, error) {
	if s.value.codec != nil {
		return nil, nil
	}
	return s.value.from, s.value.err
}

func (s *shape[K, V]) fan(down []any) (any, error) {
	all := make([]ops.Emit[K, V], len(down))
	for i, d := range down {
		e, err := as[ops.Emit[K, V]](d)
		if err != nil {
			return nil, err
		}
		all[i] = e
	}
	switch len(all) {
	case 1:
		return all[0], nil
	case 2:
		first, second := all[0], all[1]
		return ops.Emit[K, V](func(k K, v V) error {
			if err := first(k, v); err != nil {
				return err
			}
			return second(k, v)
		}), nil
	}
	return ops.Emit[K, V](func(k K, v V) error {
		for _, emit := range all {
			if err := emit(k, v); err != nil {
				return err
			}
		}
		return nil
	}), nil
}

func (s *shape[K, V]) hold(site *ops.Site, down any) (any, error) {
	d, err := as[ops.Emit[K, V]](down)
	if err != nil {
		return nil, err
	}
	return ops.Hold[K, V]{}.Wire(site, d)
}

func (s *shape[K, V]) topic(name string) ops.Topic[K, V] {
	return ops.NewTopic(name, s.key.codec, s.value.codec)
}

func (s *shape[K, V]) write(topic string, site *ops.Site) (any, error) {
	return ops.Sink(s.topic(topic)).Wire(site)
}

func (s *shape[K, V]) read(topic string, site *ops.Site, down any) (any, error) {
	d, err := as[ops.Emit[K, V]](down)
	if err != nil {
		return nil, err
	}
	return ops.Source(s.topic(topic)).Wire(site, d)
}

// as asserts the type of an Emit. It fails only by a mistake of this package.
func as[E any](emit any) (E, error) {
	e, ok := emit.(E)
	if !ok {
		return e, fmt.Errorf("internal error: an edge is a %T, must be a %s", emit, typeName[E]())
	}
	return e, nil
}
