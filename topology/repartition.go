package topology

import "strings"

// Where repartition topics go (P1). A stream whose key was changed must go through a topic before an
// operator that keeps state by key. All rules are about need: whether records on an edge reach
// such an operator with their key unchanged.
//
// A Rekey with need gets one topic. It lies at the last point that all of the need passes: from the
// Rekey down, as long as a single edge has need, but not beyond a Merge, where other streams come in.
// What has no need stays in front of it.

// needs says for each node whether some of the records that enter it reach an operator with
// NeedsKey without another change of key, the node itself included.
type needs map[*node]bool

func (b *Builder) needs() needs {
	of := needs{}
	for i := len(b.nodes) - 1; i >= 0; i-- { // children before parents
		n := b.nodes[i]
		of[n] = n.traits.NeedsKey || !n.traits.ChangesKey && of.behind(n)
	}
	return of
}

// behind says whether any child of the node has need.
func (of needs) behind(n *node) bool {
	for _, p := range n.ports {
		if of.port(p) {
			return true
		}
	}
	return false
}

// port says whether any child of the port has need.
func (of needs) port(p *port) bool {
	for _, c := range p.to {
		if of[c] {
			return true
		}
	}
	return false
}

// cuts returns the ports at which records go through a repartition topic, and the Rekey that
// each is for.
func (b *Builder) cuts(of needs) map[*port]*node {
	cuts := map[*port]*node{}
	for _, n := range b.nodes {
		if n.role == roleRekey && of.behind(n) {
			cuts[of.deepest(n.ports[0])] = n
		}
	}
	return cuts
}

// deepest follows the need from a port down, to the last port that all of it passes.
func (of needs) deepest(p *port) *port {
	for {
		var only *node
		for _, c := range p.to {
			if !of[c] {
				continue
			}
			if only != nil {
				return p
			}
			only = c
		}
		if only.traits.NeedsKey || only.role == roleMerge {
			return p
		}
		var next *port
		for _, q := range only.ports {
			if !of.port(q) {
				continue
			}
			if next != nil {
				return p
			}
			next = q
		}
		p = next
	}
}

// checkKeys reports operators that keep state by key behind a Map or FlatMap without a Rekey in
// between: there is no name for the topic that such a stream would have to go through.
func (b *Builder) checkKeys() {
	changed := map[*port][]*node{} // the Maps and FlatMaps that the stream's keys may come from
	for _, n := range b.nodes {
		var from []*node
		for _, in := range n.inputs {
			from = union(from, changed[in])
		}
		switch {
		case n.traits.NeedsKey:
			if len(from) > 0 && !n.poisoned {
				var names []string
				for _, m := range from {
					names = append(names, m.traits.String()+" at "+m.at.String())
				}
				n.fail(`it keeps state by key, but %s in front of it may change the key: put Rekey("name", ...) in between`, strings.Join(names, " and "))
			}
			from = nil
		case n.role == roleRekey:
			from = nil
		case n.traits.ChangesKey:
			from = []*node{n}
		}
		for _, p := range n.ports {
			changed[p] = from
		}
	}
}

// union returns all elements of a and b, each once, in the order of their first appearance.
func union[T comparable](a, b []T) []T {
	out := a[:len(a):len(a)]
outer:
	for _, x := range b {
		for _, y := range out {
			if x == y {
				continue outer
			}
		}
		out = append(out, x)
	}
	return out
}
