package topology

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/ops"
)

// Describe returns the plan as text (P5): each sub-topology with its operators and where their
// records go, then all topics with partition counts and settings. The text is stable: the same program
// always gives the same, and it has no source positions, so that a golden file of it shows
// whatever changes of what is durable. Operators are numbered within their sub-topology; the numbers are of
// no meaning beyond the text.
func (p *Plan) Describe() string {
	var w strings.Builder
	fmt.Fprintf(&w, "topology %s\n", p.app)
	for _, s := range p.subs {
		w.WriteByte('\n')
		s.describe(&w, p.app)
	}
	if len(p.tables) > 0 {
		w.WriteString("\ntables\n")
	}
	for _, t := range p.tables {
		fmt.Fprintf(&w, "  %s (%s -> %s): all of %s", t.Name, t.KeyCodec, t.ValueCodec, strings.Join(t.Topics, " and "))
		if t.Enriched {
			w.WriteString(", enriched")
		}
		if t.Skip {
			w.WriteString(", on invalid records skips")
		}
		if t.Substitutes {
			w.WriteString(", on invalid values substitutes")
		}
		if t.Disk {
			w.WriteString(", on disk")
		}
		if t.Version != "" {
			fmt.Fprintf(&w, ", version %q", t.Version)
		}
		if by := p.fills(t); len(by) > 0 {
			fmt.Fprintf(&w, ", filled by sub-topology %s of this plan: if its keys grow with the data, it outgrows every process; then use Rekey and Memo", strings.Join(by, " and "))
		}
		w.WriteByte('\n')
	}
	w.WriteString("\ntopics\n")
	for _, t := range p.topics {
		fmt.Fprintf(&w, "  %s %s: %s", t.Kind, t.Name, t.counted())
		for _, k := range slices.Sorted(maps.Keys(t.Config)) {
			fmt.Fprintf(&w, ", %s=%s", k, t.Config[k])
		}
		w.WriteByte('\n')
	}
	return w.String()
}

// fills returns the sub-topologies that write to a table's topics (P7).
func (p *Plan) fills(t *globaltable.Spec) []string {
	var by []string
	for _, s := range p.subs {
		if slices.ContainsFunc(t.Topics, func(topic string) bool { return slices.Contains(s.Sinks, topic) }) {
			by = append(by, s.Name)
		}
	}
	return by
}

// counted says where a topic's partition count comes from.
func (t TopicSpec) counted() string {
	switch {
	case t.Partitions > 0:
		return fmt.Sprintf("partitions=%d", t.Partitions)
	case len(t.Like) > 0:
		return "partitions as " + strings.Join(t.Like, " and ")
	default:
		return "partitions as on the cluster"
	}
}

func (s *Subtopology) describe(w *strings.Builder, app string) {
	fmt.Fprintf(w, "sub-topology %s\n", s.Name)
	fmt.Fprintf(w, "  sources: %s\n", strings.Join(s.Sources, ", "))
	if len(s.Sinks) > 0 {
		fmt.Fprintf(w, "  sinks: %s\n", strings.Join(s.Sinks, ", "))
	}
	for _, g := range s.Groups {
		fmt.Fprintf(w, "  co-partitioned: %s\n", strings.Join(g, ", "))
	}
	if s.Gates > 0 {
		fmt.Fprintf(w, "  gates: %d\n", s.Gates)
	}
	w.WriteString("  operators:\n")
	number := numbers(s.places)
	for _, p := range s.places {
		fmt.Fprintf(w, "    %d %s", number[p], p.title())
		for _, d := range p.details(app) {
			fmt.Fprintf(w, ", %s", d)
		}
		for i, e := range p.outs {
			sep := ";"
			if i == 0 {
				sep = " ->"
			}
			if len(e.to) == 0 {
				continue // a table that is only joined with
			}
			w.WriteString(sep)
			if e.label != "" {
				fmt.Fprintf(w, " %s", e.label)
			}
			for j, to := range e.to {
				if j > 0 {
					w.WriteByte(',')
				}
				fmt.Fprintf(w, " %d", number[to])
			}
		}
		w.WriteByte('\n')
	}
}

// numbers counts the places from 1 on, parents before children.
func numbers(places []*place) map[*place]int {
	of := make(map[*place]int, len(places))
	for i, p := range places {
		of[p] = i + 1
	}
	return of
}

// title is the place's kind, name and label.
func (p *place) title() string {
	title := p.at.Op
	if p.at.Name != "" {
		title += " " + strconv.Quote(p.at.Name)
	}
	if p.label != "" {
		title += " named " + strconv.Quote(p.label)
	}
	return title
}

// changelog is the topic that holds the place's state.
func (p *place) changelog(app string) string {
	if p.node.changelog != "" {
		return p.node.changelog
	}
	return changelogTopic(app, p.at.Store)
}

// invalid says what becomes of invalid records, if that is not the default.
func (p *place) invalid() []string {
	if p.node == nil || p.node.opts.OnInvalid.String() == ops.FailInvalid.String() {
		return nil
	}
	return []string{"on invalid records " + p.node.opts.OnInvalid.String()}
}

// details says what else there is to know of the place.
func (p *place) details(app string) []string {
	var all []string
	switch {
	case p.role == roleSource:
		all = append(all, "reads "+p.topic+" ("+p.key+" -> "+p.value+")")
		spec := p.source()
		if rule := spec.Partitioner.String(); rule != ops.Murmur2.String() {
			all = append(all, "partitioned by "+rule)
		}
		if spec.OnMisplaced == ops.CountMisplaced {
			all = append(all, "on misplaced keys counts")
		}
		all = append(all, p.invalid()...)
		if spec.OnLost != ops.EndRun {
			all = append(all, "on lost input "+spec.OnLost.String())
		}
	case p.role == roleSink:
		all = append(all, "writes "+p.topic+" ("+p.key+" -> "+p.value+")")
	}
	if p.at.Store != "" {
		if p.at.StateKey != "" {
			all = append(all, "by "+p.at.StateKey)
		}
		all = append(all, "state in "+p.changelog(app)+" ("+p.at.StateCodec+")")
	}
	if p.reads != nil {
		all = append(all, "joins with "+p.reads.at.Name)
	}
	if p.role != roleSource {
		all = append(all, p.invalid()...)
	}
	if p.at.Table != "" {
		all = append(all, "looks up in "+p.at.Table)
	}
	if p.at.Gated {
		all = append(all, "gate "+strconv.Itoa(p.level))
	}
	return all
}
