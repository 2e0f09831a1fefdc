package topology

import (
	"cmp"
	"maps"
	"slices"

	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/ops"
)

// Plan is what an executor runs: sub-topologies, the topics between them, their state.
// Builder.Build makes it. It is immutable, and safe for concurrent use.
type Plan struct {
	app    string
	subs   []*Subtopology
	topics []TopicSpec
	stores []StoreSpec
	tables []*globaltable.Spec
	groups map[string]*group // by source topic
	// retired are names that the topology has had.
	retired []string
}

// Subtopology is a part of a plan without topics inside. A task is one partition of one
// sub-topology. It is immutable: its fields are for reading.
type Subtopology struct {
	// Name is durable and unique in the plan, a part of transactional ids: the least of the
	// names of its source topics and of the Rekeys that its repartition topics come from.
	Name string
	// Sources and Sinks are topics by full name, repartition topics included, sorted.
	Sources, Sinks []string
	// Stores is the state of its operators, sorted by name.
	Stores []StoreSpec
	// Groups lists the sources that must have the same number of partitions: groups of at
	// least two, sorted.
	Groups [][]string
	// Gates is how many levels of gates it has; a task flushes them in turn, level 0 first.
	Gates int

	places []*place // parents before children
}

// StoreSpec is the state of one operator.
type StoreSpec struct {
	// Name is the operator's durable name, Changelog the topic that holds its state.
	Name, Changelog string
	// As is the name that the program has for it: another one than Name if that was adopted (Builder.Adopt).
	As string
	// Key and Codec describe the codecs of keys and values, see codec.Describe.
	Key, Codec string
	// Op is the operator's kind, for example "Aggregate".
	Op string
	// Source says that the changelog is a source topic, which the sub-topology reads: rows are as its records, and up to where the group has
	// processed it.
	Source bool

	valid func(key, value []byte) bool
}

// Valid says whether a record of a changelog that is a source topic makes, or deletes, a row. A null key or value is nil.
func (s StoreSpec) Valid(key, value []byte) bool { return s.valid == nil || s.valid(key, value) }

// TopicKind says what a topic is to a plan.
type TopicKind int8

const (
	// SourceTopic is a topic of the user's that is read, and perhaps written too.
	SourceTopic TopicKind = iota
	// SinkTopic is a topic of the user's that is only written.
	SinkTopic
	// TableTopic is a topic of the user's of which every instance holds the rows, and which may be written too.
	TableTopic
	// DeadLetterTopic takes records that cannot be decoded (ops.DeadLetter). The application's own, <application>-dead-letter, is created if
	// it is missing.
	DeadLetterTopic
	// RepartitionTopic carries a stream with a new key from one sub-topology to the next.
	RepartitionTopic
	// ChangelogTopic holds the state of an operator.
	ChangelogTopic
)

// String returns "source", "sink", "table", "dead letter", "repartition" or "changelog".
func (k TopicKind) String() string {
	if k < 0 || int(k) >= len(topicKinds) {
		return "unknown"
	}
	return topicKinds[k]
}

// Internal says whether the topic is the plan's own, a repartition topic or changelog, and not the user's.
func (k TopicKind) Internal() bool { return k == RepartitionTopic || k == ChangelogTopic }

var topicKinds = [...]string{"source", "sink", "table", "dead letter", "repartition", "changelog"}

// TopicSpec is a topic of a plan.
type TopicSpec struct {
	Name string
	Kind TopicKind
	// Partitions is the count that ops.Partitions fixes, for the topic or for one that its keys meet;
	// it is 1 for the application's own topic of dead letters, which counts only where that is missing;
	// 0 means that the cluster (of source and sink topics) or Plan.Resolve (of the others) decides it.
	Partitions int
	// Like are the topics whose count an internal topic takes: the largest, if they differ. Of a
	// changelog they are all sources of its sub-topology, since each task has a partition of it. It is
	// empty where Partitions is set, and for source and sink topics.
	Like []string
	// Config holds the settings of internal topics, and of the application's own topic of dead letters if it is created; nil for others.
	Config map[string]string
}

// Name returns the application's name.
func (p *Plan) Name() string { return p.app }

// Subtopologies returns the sub-topologies in order of declaration.
func (p *Plan) Subtopologies() []*Subtopology { return slices.Clone(p.subs) }

// Topics returns all topics, each once: by kind, then by name. The result is the caller's.
func (p *Plan) Topics() []TopicSpec {
	topics := slices.Clone(p.topics)
	for i := range topics {
		topics[i].Like = slices.Clone(topics[i].Like)
		topics[i].Config = maps.Clone(topics[i].Config)
	}
	return topics
}

// Topic returns the topic of that name, false if the plan has none. The result must not be changed.
func (p *Plan) Topic(name string) (TopicSpec, bool) {
	i := slices.IndexFunc(p.topics, func(t TopicSpec) bool { return t.Name == name })
	if i < 0 {
		return TopicSpec{}, false
	}
	return p.topics[i], true
}

// Tables returns the global tables that are looked up in, sorted by name.
func (p *Plan) Tables() []*globaltable.Spec { return slices.Clone(p.tables) }

// Stores returns the state of all operators, sorted by name.
func (p *Plan) Stores() []StoreSpec { return slices.Clone(p.stores) }

// Retired returns the names of operators that the topology has had, and whose state was given up (Builder.Retire).
func (p *Plan) Retired() []string { return slices.Clone(p.retired) }

// Operators returns the operators of the sub-topology, parents before children. The pointers
// are those that Wire passes on in ops.Site.At, the same for all tasks, so that what tasks count at
// an operator can be added up. They must not be written to.
func (s *Subtopology) Operators() []*ops.Traits {
	var all []*ops.Traits
	for _, p := range s.places {
		if !p.hidden {
			all = append(all, p.at)
		}
	}
	return all
}

// SourceSpec is a topic as a sub-topology reads it.
type SourceSpec struct {
	// Topic is the topic's full name.
	Topic string
	// At is the source's traits, as in Operators.
	At *ops.Traits
	// Repartition says that the topic is a repartition topic, which nobody but the sub-topology reads.
	Repartition bool
	// Table says that the topic is that of a keyed table: of records with equal timestamps its come first.
	Table bool
	// OnLost is how reading goes on when records are gone before they were read.
	OnLost ops.LostPolicy
	// OnInvalid is what becomes of records that cannot be decoded, a topic of dead letters named in full.
	OnInvalid ops.InvalidPolicy
	// Partitioner is the rule by which records lie in their partitions. Keyed says that some of them feed state by the
	// key that they have there, so that it matters; OnMisplaced is what then becomes of one that lies elsewhere.
	Partitioner ops.Partitioner
	Keyed       bool
	OnMisplaced ops.MisplacedPolicy
}

// SourceSpecs returns how the sub-topology reads its sources, in the order of Sources.
func (s *Subtopology) SourceSpecs() []SourceSpec {
	var all []SourceSpec
	for _, p := range s.places {
		if p.role == roleSource {
			all = append(all, p.source())
		}
	}
	slices.SortFunc(all, func(a, b SourceSpec) int { return cmp.Compare(a.Topic, b.Topic) })
	return all
}

// source is how a source is read; repartition topics have the defaults.
func (p *place) source() SourceSpec {
	spec := SourceSpec{Topic: p.topic, At: p.at, Repartition: p.rekey != nil, Keyed: p.feeds}
	if p.node != nil {
		o := &p.node.opts
		spec.Table = p.node.tableSource
		spec.OnLost, spec.OnInvalid, spec.Partitioner, spec.OnMisplaced = o.OnLost, o.OnInvalid, o.Partitioner, o.OnMisplaced
	}
	return spec
}

// deadLetters returns the topic that invalid records are written to, if they are.
func (p *place) deadLetters() (string, bool) {
	if p.node == nil {
		return "", false
	}
	return p.node.opts.OnInvalid.DeadLetters("")
}

// place is an operator in its place in a plan, or one end of a repartition topic, or a Hold.
type place struct {
	at    *ops.Traits
	label string
	role  role
	wire  wireFunc
	outs  []exit
	in    []*place // parents, one for each edge
	// reads is the keyed table that it joins with, nil if it does not.
	reads *place
	// topic is what a source reads and a sink writes, with its codecs.
	topic, key, value string
	// rekey is the node that a repartition topic is for, at both ends; nil elsewhere.
	rekey *node
	// node is the operator's, nil for ends of repartition topics and Holds.
	node *node
	// level is how many gates a record has passed when it gets here.
	level int
	// hidden is for Holds: operators that nobody declared.
	hidden bool
	// sources and keyed are the sources whose records get here: all, and those with their key.
	sources, keyed []*place
	// feeds says of a source that some of its records get with their key to an operator that needs it.
	feeds bool
	sub   *Subtopology
	order int
}

// exit is a port of a place.
type exit struct {
	label string
	of    erased
	to    []*place
}

// Settings of internal topics. Repartition topics keep what has not been read, however old.
var (
	repartitionConfig = map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800", "message.timestamp.type": "CreateTime"}
	letterConfig      = map[string]string{"cleanup.policy": "delete", "retention.ms": "-1"}
	changelogConfig   = map[string]string{"cleanup.policy": "compact"}
)

// plan makes the plan. Where the graph is in error it reports what else it finds, and the
// result is not for use.
func (b *Builder) plan() *Plan {
	of := b.needs()
	places := b.places(of, b.cuts(of))
	p := &Plan{app: b.app, groups: map[string]*group{}}
	for _, r := range b.retired {
		p.retired = append(p.retired, r.name)
	}
	p.subs = split(places)
	b.groups(p, places)
	p.tables = b.tables()
	slices.SortFunc(p.tables, func(a, b *globaltable.Spec) int { return cmp.Compare(a.Name, b.Name) })
	for _, s := range p.subs {
		s.levels()
		s.summarize(b.app)
		p.stores = append(p.stores, s.Stores...)
	}
	slices.SortFunc(p.stores, func(a, b StoreSpec) int { return cmp.Compare(a.Name, b.Name) })
	p.topics = topics(p, places)
	return p
}

// places puts the nodes in their places, with the ends of the repartition topics between
// them; parents come before children.
func (b *Builder) places(of needs, cuts map[*port]*node) []*place {
	var all []*place
	add := func(p *place) *place {
		p.order = len(all)
		all = append(all, p)
		return p
	}
	type hook struct { // an exit whose edges are still to come
		from *place
		port int
	}
	exits, behind := map[*port]hook{}, map[*port]hook{} // behind: on the far side of a cut
	connect := func(h hook, to *place) {
		e := &h.from.outs[h.port]
		e.to = append(e.to, to)
		to.in = append(to.in, h.from)
	}
	placed := map[*node]*place{}
	waiting := map[*port]*place{} // the near end of a cut, until its place among the edges is known
	for _, n := range b.nodes {
		traits := n.traits
		if traits.Store != "" {
			traits.Store = n.lasting()
		}
		at := add(&place{at: &traits, label: n.label, role: n.role, wire: n.wire, node: n})
		if placed[n] = at; n.reads != nil {
			at.reads = placed[n.reads]
		}
		if n.role == roleSource || n.role == roleSink {
			at.topic, at.key, at.value = n.traits.Name, n.key, n.value
		}
		for i, p := range n.ports {
			at.outs = append(at.outs, exit{label: p.label, of: p.of})
			exits[p] = hook{at, i}
			if rekey := cuts[p]; rekey != nil {
				near, far := b.cut(p, rekey)
				waiting[p], behind[p] = add(near), hook{add(far), 0}
			}
		}
		for _, in := range n.inputs {
			if cuts[in] == nil || !of[n] {
				connect(exits[in], at)
				continue
			}
			if near := waiting[in]; near != nil {
				connect(exits[in], near)
				delete(waiting, in)
			}
			connect(behind[in], at)
		}
	}
	return all
}

// cut makes the two ends of a repartition topic.
func (b *Builder) cut(p *port, rekey *node) (near, far *place) {
	topic := repartitionTopic(b.app, rekey.lasting())
	key, value := p.of.codecs()
	if maker, err := p.of.missing(); maker != nil && !maker.poisoned && !rekey.poisoned {
		rekey.fail("its repartition topic needs a codec for the values: give one to %s at %s with ops.ValueCodec: %w", maker.traits.String(), maker.at, err)
	}
	end := func(r role) *place {
		return &place{at: &ops.Traits{Op: "Repartition", Name: rekey.lasting()}, role: r, topic: topic, key: key, value: value, rekey: rekey}
	}
	of := p.of
	near, far = end(roleSink), end(roleSource)
	near.wire = func(site *ops.Site, _ []any) (any, error) { return of.write(topic, site) }
	far.wire = func(site *ops.Site, down []any) (any, error) { return of.read(topic, site, down[0]) }
	far.outs = []exit{{of: of}}
	return near, far
}

// split divides the places into sub-topologies: what is connected belongs together.
func split(places []*place) []*Subtopology {
	root := make([]int, len(places))
	for i := range root {
		root[i] = i
	}
	find := func(i int) int {
		for root[i] != i {
			root[i] = root[root[i]]
			i = root[i]
		}
		return i
	}
	for _, p := range places {
		near := p.in
		if p.reads != nil {
			near = append(slices.Clip(near), p.reads)
		}
		for _, parent := range near {
			a, b := find(p.order), find(parent.order)
			root[max(a, b)] = min(a, b) // the first declared stands for all
		}
	}
	var subs []*Subtopology
	of := map[int]*Subtopology{}
	for _, p := range places {
		s := of[find(p.order)]
		if s == nil {
			s = &Subtopology{}
			of[find(p.order)] = s
			subs = append(subs, s)
		}
		p.sub = s
		s.places = append(s.places, p)
	}
	return subs
}

// summarize fills the exported fields, but for the groups.
func (s *Subtopology) summarize(app string) {
	for _, p := range s.places {
		if topic, ok := p.deadLetters(); ok {
			s.Sinks = append(s.Sinks, topic)
		}
		switch {
		case p.role == roleSource:
			if s.Name == "" || p.at.Name < s.Name { // the Rekey's name of a repartition topic
				s.Name = p.at.Name
			}
			s.Sources = append(s.Sources, p.topic)
		case p.role == roleSink:
			s.Sinks = append(s.Sinks, p.topic)
		case p.at.Store != "":
			st := StoreSpec{Name: p.at.Store, As: p.at.Name, Changelog: changelogTopic(app, p.at.Store), Codec: p.at.StateCodec, Op: p.at.Op}
			if st.Key = p.at.StateKey; st.Key == "" && len(p.keyed) > 0 {
				st.Key = p.keyed[0].key
			}
			if topic := p.node.changelog; topic != "" {
				st.Changelog, st.Source, st.valid = topic, true, p.node.valid
			}
			s.Stores = append(s.Stores, st)
		}
	}
	slices.Sort(s.Sources)
	slices.Sort(s.Sinks)
	s.Sinks = slices.Compact(s.Sinks)
	slices.SortFunc(s.Stores, func(a, b StoreSpec) int { return cmp.Compare(a.Name, b.Name) })
}

// topics lists the topics of a plan.
func topics(p *Plan, places []*place) []TopicSpec {
	var specs []TopicSpec
	seen := map[string]bool{}
	add := func(t TopicSpec) {
		if !seen[t.Name] {
			seen[t.Name] = true
			specs = append(specs, t)
		}
	}
	for _, at := range places { // sources first: what is read as well is a source
		if at.role != roleSource {
			continue
		}
		g := p.groups[at.topic]
		if at.rekey != nil {
			add(TopicSpec{Name: at.topic, Kind: RepartitionTopic, Partitions: g.fixed, Like: g.like(), Config: repartitionConfig})
		} else {
			add(TopicSpec{Name: at.topic, Kind: SourceTopic, Partitions: g.fixed})
		}
	}
	for _, t := range p.tables {
		for _, topic := range t.Topics {
			add(TopicSpec{Name: topic, Kind: TableTopic})
		}
	}
	for _, at := range places {
		if topic, ok := at.deadLetters(); ok {
			t := TopicSpec{Name: topic, Kind: DeadLetterTopic}
			if topic == deadLetterTopic(p.app) {
				t.Partitions, t.Config = 1, letterConfig // if it is to be created
			}
			add(t)
		}
	}
	for _, at := range places {
		switch {
		case at.role == roleSink:
			add(TopicSpec{Name: at.topic, Kind: SinkTopic})
		case at.at.Store != "" && len(at.keyed) > 0 && at.node.changelog == "":
			// Every task of the sub-topology has a partition, also one whose number the state's own
			// sources do not have.
			t := TopicSpec{Name: changelogTopic(p.app, at.at.Store), Kind: ChangelogTopic, Config: changelogConfig}
			g := p.groups[at.keyed[0].topic]
			if t.Partitions = g.fixed; g.fixed == 0 || len(g.topics) < len(at.sub.Sources) {
				t.Partitions, t.Like = 0, at.sub.Sources
			}
			add(t)
		}
	}
	slices.SortFunc(specs, func(a, b TopicSpec) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return specs
}
