package topology

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
)

// Builder collects the operators of one topology. New makes it, From begins a chain, Build
// ends it. It is for one goroutine.
type Builder struct {
	app   string
	root  *node // stands for the builder itself in errors
	nodes []*node
	errs  []*BuildError
	built *callsite
	// adoptions and retired are what Adopt and Retire say.
	adoptions []adoption
	retired   []retirement
}

// New begins the topology of an application. app is durable: it is the consumer group, and the
// first part of the names of internal topics and of transactional ids. It must be of letters, digits,
// '.', '_' and '-'. Two applications of which one's name is the other's followed by '-' may derive the same names ("x" with a
// state "eu-by", and "x-eu" with a state "by"): on one cluster, let no name begin like that.
func New(app string) *Builder {
	b := &Builder{app: app}
	b.root = &node{b: b, id: -1, at: here(), traits: ops.Traits{Op: "New", Name: app}}
	if err := checkName(app); err != nil {
		b.root.fail("%w", err)
	}
	return b
}

// From reads a topic. A topic is read once in a plan; to process it in two ways, use the
// stream twice. Options go into ops.Source.
func (b *Builder) From[K, V any](s ops.SourceOp[K, V]) Stream[K, V] {
	if b == nil {
		panic("topology: From of a nil Builder: make one with topology.New")
	}
	n := b.source(&s)
	of := &shape[K, V]{part[K]{codec: s.Topic.Key, from: n}, part[V]{codec: s.Topic.Value, from: n}}
	n.wire = func(site *ops.Site, down []any) (any, error) {
		d, err := as[ops.Emit[K, V]](down[0])
		if err != nil {
			return nil, err
		}
		return s.Wire(site, d)
	}
	return leave(n, of)
}

// source records the node of a source, and sets in s what the builder knows.
func (b *Builder) source[K, V any](s *ops.SourceOp[K, V]) *node {
	n := b.add(roleSource, s.Traits())
	n.options(s.Options, "Name", "OnLost", "OnInvalid", "OnTimestamp", "PartitionedBy", "OnMisplaced")
	n.traitsOf(s.Traits())
	n.topic(s.Topic.Name)
	n.invalid[V]()
	s.Options.OnInvalid = n.opts.OnInvalid
	n.topicCodecs(s.Topic.Key, s.Topic.Value)
	return n
}

// Build checks the whole topology and returns its plan, or everything that is wrong with it: an
// errors.Join of *BuildError, in order of declaration. It may be called once; using the builder or its
// streams afterwards is an error too.
func (b *Builder) Build() (*Plan, error) {
	if b == nil {
		return nil, errors.New("topology: Build of a nil Builder: make one with topology.New")
	}
	at := here()
	if b.built != nil {
		n := &node{b: b, id: len(b.nodes), at: at, traits: ops.Traits{Op: "Build", Name: b.app}}
		n.fail("was called before, at %s", *b.built)
		return nil, join(b.errs)
	}
	b.built = &at
	if len(b.nodes) == 0 {
		b.root.fail("has no source: begin with From(ops.Source(...))")
	}
	b.adopt()
	b.checkNames()
	b.checkEnds()
	b.checkKeys()
	p := b.plan()
	if len(b.errs) > 0 {
		return nil, join(b.errs)
	}
	if err := p.prove(); err != nil {
		b.root.fail("%w", err)
		return nil, join(b.errs)
	}
	return p, nil
}

// End is the end of a chain: what To returns.
type End struct{ b *Builder }

// Build is the builder's Build, so that a program of one chain needs no variable for the builder.
func (e End) Build() (*Plan, error) {
	if e.b == nil {
		return nil, errors.New("topology: Build of a zero End: End is what To returns")
	}
	return e.b.Build()
}

// add records a node.
func (b *Builder) add(r role, t ops.Traits, inputs ...*port) *node {
	n := &node{b: b, id: len(b.nodes), at: here(), role: r, traits: t, inputs: inputs}
	b.nodes = append(b.nodes, n)
	for _, in := range inputs {
		in.to = append(in.to, n)
		n.poisoned = n.poisoned || in.node.poisoned
	}
	if b.built != nil {
		n.fail("was added after Build at %s", *b.built)
	}
	return n
}

func (b *Builder) report(n *node, err error) {
	name := n.traits.Name
	if name == "" {
		name = n.opts.Name // of a stateless operator whose traits are not set yet
	}
	b.errs = append(b.errs, &BuildError{Op: n.traits.Op, Name: name, File: n.at.file, Line: n.at.line, Err: err, order: n.id})
}

// checkEnds reports streams that end nowhere.
func (b *Builder) checkEnds() {
	for _, n := range b.nodes {
		if n.poisoned {
			continue
		}
		for _, p := range n.ports {
			if len(p.to) > 0 || n.keeps && n.readers > 0 {
				continue
			}
			if n.keeps {
				n.fail("nobody reads the table: Join a stream with it, or end the Updates of it with To(ops.Sink(...))")
				continue
			}
			if p.label != "" {
				n.fail("its %q side ends nowhere: end it with To(ops.Sink(...)), or use Filter if it is not wanted", p.label)
			} else {
				n.fail("the chain ends nowhere: end it with To(ops.Sink(...))")
			}
		}
	}
}

// invalid checks what the node does with invalid records, in place of which it may need values of type V, and names the topic of dead letters.
func (n *node) invalid[V any]() {
	if err := n.opts.OnInvalid.Fits[V](); err != nil {
		n.fail("OnInvalid: %w", err)
	}
	if topic, ok := n.opts.OnInvalid.DeadLetters(deadLetterTopic(n.b.app)); ok {
		n.opts.OnInvalid = n.opts.OnInvalid.To(topic)
		if err := checkName(topic); err != nil {
			n.fail("OnInvalid: %w", err)
		}
	}
}

// topic checks the topic of a source or sink.
func (n *node) topic(name string) {
	if err := checkName(name); err != nil {
		n.unnamed = true
		n.fail("topic: %w", err)
	} else if internal(n.b.app, name) {
		n.unnamed = true
		n.fail("topic %s has the form of the application's own internal topics, %s-...-repartition and -changelog: take another name", name, n.b.app)
	}
}

// topicCodecs checks the codecs of a source's or sink's topic.
func (n *node) topicCodecs(key, value any) {
	n.usable("the topic's key codec", key)
	n.usable("the topic's value codec", value)
	n.key, n.value = codec.Describe(key), codec.Describe(value)
}

// usable reports a codec that is nil, or that no value of its type could pass.
func (n *node) usable(what string, c any) {
	if c == nil {
		n.fail("%s is nil", what)
	} else if err := codec.Check(c); err != nil {
		n.fail("%s: %w", what, err)
	}
}

// leave adds a port to a node and returns it as a stream.
func leave[K, V any](n *node, of *shape[K, V]) Stream[K, V] {
	p := &port{node: n, of: of}
	n.ports = append(n.ports, p)
	return Stream[K, V]{p, of}
}

func typeName[T any]() string { return fmt.Sprint(reflect.TypeFor[T]()) }
