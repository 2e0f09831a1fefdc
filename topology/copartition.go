package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// group is a co-partition group (P2): source topics of one sub-topology whose keys meet in
// state, so that equal keys must be in equal partitions. Most groups have one topic.
type group struct {
	plan *Plan
	sub  *Subtopology
	// topics are all of the group, user those which are not the plan's own, sorted.
	topics, user []string
	// operators are those that need the group, by kind and name.
	operators []string
	// fixed is the count that fixedBy's option Partitions gives, 0 if none does.
	fixed   int
	fixedBy *node
	// feeds are the topics that the group's repartition topics are filled from.
	feeds []string
}

// groups finds the co-partition groups, and reports those that cannot be.
func (b *Builder) groups(p *Plan, places []*place) {
	near := map[*node]*place{} // by Rekey
	for _, at := range places {
		at.trace()
		if at.role == roleSink && at.rekey != nil {
			near[at.rekey] = at
		}
	}
	of := map[*place]*group{}
	for _, at := range places {
		if at.role == roleSource {
			g := &group{plan: p, sub: at.sub, topics: []string{at.topic}}
			of[at] = g
			if at.rekey == nil {
				g.user = g.topics
				continue
			}
			for _, s := range near[at.rekey].sources {
				g.feeds = append(g.feeds, s.topic)
			}
			if g.fixed = at.rekey.opts.Partitions; g.fixed > 0 {
				g.fixedBy = at.rekey
			}
		}
	}
	for _, at := range places {
		if !at.at.NeedsKey || len(at.keyed) == 0 {
			continue
		}
		checkPartitioners(at)
		for _, s := range at.keyed {
			s.feeds = true
		}
		g := of[at.keyed[0]]
		for _, s := range at.keyed[1:] {
			if other := of[s]; other != g {
				b.checkEncoding(at)
				g.take(other)
				for k, v := range of {
					if v == other {
						of[k] = g
					}
				}
			}
		}
		g.operators = append(g.operators, at.at.String())
	}
	for at, g := range of {
		p.groups[at.topic] = g
	}
	for _, at := range places {
		if g := of[at]; g != nil && len(g.topics) > 1 && at.topic == g.topics[0] {
			at.sub.Groups = append(at.sub.Groups, g.topics)
		}
	}
	for _, s := range p.subs {
		slices.SortFunc(s.Groups, slices.Compare[[]string])
	}
}

// trace sets which sources' records get to the place.
func (p *place) trace() {
	if p.role == roleSource {
		p.sources, p.keyed = []*place{p}, []*place{p}
	}
	for _, parent := range p.in {
		p.sources = union(p.sources, parent.sources)
		if !parent.at.ChangesKey {
			p.keyed = union(p.keyed, parent.keyed)
		}
	}
	if p.reads != nil {
		p.sources = union(p.sources, p.reads.sources)
		p.keyed = union(p.keyed, p.reads.keyed)
	}
}

// take merges another group into g.
func (g *group) take(other *group) {
	g.topics = sorted(g.topics, other.topics)
	g.user = sorted(g.user, other.user)
	g.feeds = sorted(g.feeds, other.feeds)
	g.operators = append(slices.Clone(g.operators), other.operators...)
	switch {
	case other.fixed == 0:
	case g.fixed == 0:
		g.fixed, g.fixedBy = other.fixed, other.fixedBy
	case g.fixed != other.fixed:
		first, last := g.fixedBy, other.fixedBy
		if last.id < first.id {
			first, last = last, first
		}
		last.fail("its Partitions (%d) differ from the Partitions (%d) of %s at %s: both topics' keys meet in state and need the same count",
			last.opts.Partitions, first.opts.Partitions, first.traits.String(), first.at)
	}
}

func sorted(a, b []string) []string {
	all := union(a, b)
	slices.Sort(all)
	return all
}

// checkEncoding reports state that is fed from topics whose keys are encoded differently:
// equal keys would lie in different partitions, and in different state.
func (b *Builder) checkEncoding(at *place) {
	first := at.keyed[0]
	for _, s := range at.keyed[1:] {
		if s.key != first.key && !at.node.poisoned {
			at.node.fail("it keeps state by key, but the keys of topic %s (%s) and of topic %s (%s) are encoded differently, so equal keys would be kept apart: use one codec, or Rekey one of the streams",
				first.topic, first.key, s.topic, s.key)
		}
	}
}

// checkPartitioners reports state that is fed from topics whose records do not lie in partitions by one rule: those
// of one key would not meet (P4).
func checkPartitioners(at *place) {
	if at.node.poisoned {
		return
	}
	first := at.keyed[0]
	for _, s := range at.keyed {
		if rule := s.source().Partitioner; !rule.Keyed() {
			at.node.fail("it keeps state by key, but the records of topic %s lie in any partition (%s): put Repartition(\"name\") between the two, or declare with ops.PartitionedBy how it is really written",
				s.topic, rule)
			return
		}
	}
	for _, s := range at.keyed[1:] {
		if a, b := first.source().Partitioner, s.source().Partitioner; a.String() != b.String() {
			at.node.fail("it keeps state by key, but topic %s is partitioned by %s and topic %s by %s, so that equal keys lie in different partitions: put Repartition(\"name\") behind one of them, or declare with ops.PartitionedBy how they are really written",
				first.topic, a, s.topic, b)
			return
		}
	}
}

// decided says whether the group's count does not depend on other groups.
func (g *group) decided() bool { return g.fixed > 0 || len(g.user) > 0 }

// like returns the topics whose count the group's repartition topics take, sorted; nil if the
// count is fixed.
func (g *group) like() []string {
	if g.fixed > 0 {
		return nil
	}
	if len(g.user) > 0 {
		return g.user
	}
	var all []string
	seen := map[*group]bool{}
	var visit func(g *group)
	visit = func(g *group) {
		if seen[g] {
			return
		}
		seen[g] = true
		for _, topic := range g.feeds {
			if from := g.plan.groups[topic]; from.decided() {
				all = sorted(all, []string{topic})
			} else {
				visit(from)
			}
		}
	}
	visit(g)
	return all
}

// Resolve returns the partition count of every internal topic, given the counts that the source
// topics have on the cluster. If topics of a co-partition group differ it returns a
// *CopartitionError that lists all differences (P2).
func (p *Plan) Resolve(counts map[string]int) (map[string]int, error) {
	var missing []string
	var differences []Difference
	seen := map[*group]bool{}
	for _, topic := range slices.Sorted(maps.Keys(p.groups)) {
		g := p.groups[topic]
		if seen[g] {
			continue
		}
		seen[g] = true
		for _, t := range g.user {
			if counts[t] < 1 {
				missing = append(missing, t)
			}
		}
		if d, ok := g.difference(counts); ok {
			differences = append(differences, d)
		}
	}
	if len(differences) > 0 {
		return nil, &CopartitionError{Differences: differences}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("the partition counts of source topics are not known: %s", strings.Join(missing, ", "))
	}
	resolved := map[string]int{}
	for _, t := range p.topics {
		if !t.Kind.Internal() {
			continue
		}
		n := t.Partitions
		for _, like := range t.Like {
			n = max(n, p.count(like, counts))
		}
		resolved[t.Name] = n
	}
	return resolved, nil
}

// count returns the partition count of a source topic, user's or repartition.
func (p *Plan) count(topic string, counts map[string]int) int {
	g := p.groups[topic]
	if g.fixed > 0 {
		return g.fixed
	}
	n := 0
	for _, t := range g.user {
		n = max(n, counts[t])
	}
	if n > 0 {
		return n
	}
	for _, t := range g.like() { // decided groups, so that this goes no deeper
		n = max(n, p.count(t, counts))
	}
	return n
}

// difference compares the counts of the group's topics.
func (g *group) difference(counts map[string]int) (d Difference, differs bool) {
	want := g.fixed
	for _, t := range g.user {
		want = max(want, counts[t])
	}
	d = Difference{Subtopology: g.sub.Name, Operators: slices.Clone(g.operators), Want: want, Partitions: g.fixed}
	for _, t := range g.user {
		if n := counts[t]; n > 0 {
			d.Topics = append(d.Topics, TopicCount{t, n})
			differs = differs || n != want
		}
	}
	if g.fixed > 0 {
		d.Rekey = g.fixedBy.traits.Name
		differs = differs || g.fixed != want
	}
	return d, differs
}

// CopartitionError lists all topics whose partition counts differ although their keys meet in
// state.
type CopartitionError struct {
	// Differences has one entry for each co-partition group.
	Differences []Difference
	// Bootstrap is the cluster's address for the commands in the text; "BROKERS" if empty.
	Bootstrap string
}

// Difference is a co-partition group whose topics do not have one partition count.
type Difference struct {
	// Subtopology is where the topics are read, Operators are those with the state, kind and name.
	Subtopology string
	Operators   []string
	// Topics are the group's source topics by name, with the counts found.
	Topics []TopicCount
	// Rekey and Partitions are a Rekey of the group that fixes the count, and at what; "" and 0 without.
	Rekey      string
	Partitions int
	// Want is the count that all can have: the largest, as a count can only be raised.
	Want int
}

// TopicCount is a topic and its partition count.
type TopicCount struct {
	Topic string
	Count int
}

// Commands returns what makes the counts equal: commands for topics, and what to change in the
// program. bootstrap is the cluster's address.
func (d Difference) Commands(bootstrap string) []string {
	var all []string
	for _, t := range d.Topics {
		if t.Count != d.Want {
			all = append(all, fmt.Sprintf("kafka-topics.sh --bootstrap-server %s --alter --topic %s --partitions %d", bootstrap, t.Topic, d.Want))
		}
	}
	if d.Rekey != "" && d.Partitions != d.Want {
		all = append(all, fmt.Sprintf("ops.Partitions(%d) for Rekey %q in the program", d.Want, d.Rekey))
	}
	return all
}

// Error is one line: for each group its topics with their counts, who needs them equal, and
// the commands.
func (e *CopartitionError) Error() string {
	bootstrap := e.Bootstrap
	if bootstrap == "" {
		bootstrap = "BROKERS"
	}
	var groups []string
	for _, d := range e.Differences {
		var counts []string
		for _, t := range d.Topics {
			counts = append(counts, fmt.Sprintf("%s has %d", t.Topic, t.Count))
		}
		if d.Rekey != "" {
			counts = append(counts, fmt.Sprintf("Rekey %q asks for %d", d.Rekey, d.Partitions))
		}
		groups = append(groups, fmt.Sprintf("%s (for %s): %s", strings.Join(counts, ", "), strings.Join(d.Operators, ", "), strings.Join(d.Commands(bootstrap), " and ")))
	}
	return "topics whose keys meet in state must have equal partition counts (raise one before it holds records, since its keys move): " + strings.Join(groups, "; ")
}
