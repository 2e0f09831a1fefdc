package topology

import (
	"slices"

	"github.com/wickerwork/wicker/ops"
)

// levels sets how many gates records have passed at each place, and puts Holds on the edges
// where they have passed fewer than others that they meet: in front of a Merge, and in front of sinks
// into one topic. A keyed table changes at the level at which others join with it. All records that meet have then passed equally many, which keeps their order (E2,
// see ops.Gate).
func (s *Subtopology) levels() {
	for raised := true; raised; { // once more if a table is to wait for those that join with it
		raised = false
		for _, p := range s.places {
			for _, parent := range p.in {
				p.level = max(p.level, parent.passed())
			}
			if t := p.reads; t != nil {
				p.level = max(p.level, t.level)
				raised = raised || t.level < p.level
				t.level = p.level
			}
		}
	}
	sinks := map[string]int{} // by topic
	for _, p := range s.places {
		if p.role == roleSink {
			sinks[p.topic] = max(sinks[p.topic], p.level)
		}
	}
	var all []*place
	for _, p := range s.places {
		if p.role == roleSink {
			p.level = sinks[p.topic]
		}
		for _, h := range p.holds() {
			h.sub = s
			all = append(all, h)
		}
		all = append(all, p)
		s.Gates = max(s.Gates, p.passed())
	}
	s.places = all
}

// passed is how many gates a record has passed behind the place.
func (p *place) passed() int {
	if p.at.Gated {
		return p.level + 1
	}
	return p.level
}

// holds puts Holds on the edges into p that need them, and returns them.
func (p *place) holds() []*place {
	var all []*place
	for i, parent := range p.in {
		// An edge of a port is the place that it leads to, and one port may have several to p:
		// each has its turn here, and takes the first that leads to p still.
		for level := parent.passed(); level < p.level; level++ {
			e := parent.exitTo(p)
			h := &place{at: &ops.Traits{Op: "Hold", Gated: true}, level: level, hidden: true, in: []*place{parent}, outs: []exit{{of: e.of, to: []*place{p}}}}
			of := e.of
			h.wire = func(site *ops.Site, down []any) (any, error) { return of.hold(site, down[0]) }
			e.to[slices.Index(e.to, p)] = h
			p.in[i] = h
			all = append(all, h)
			parent = h
		}
	}
	return all
}

// exitTo returns the first port with an edge to a place.
func (p *place) exitTo(to *place) *exit {
	for i := range p.outs {
		if slices.Contains(p.outs[i].to, to) {
			return &p.outs[i]
		}
	}
	return nil
}
