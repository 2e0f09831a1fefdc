package topology

import (
	"fmt"
	"slices"
	"strings"
)

// Mermaid draws the plan as a Mermaid flowchart: sub-topologies as boxes, topics and state as
// cylinders. It is as stable as Describe, and names are escaped.
func (p *Plan) Mermaid() string {
	m := mermaid{}
	m.printf("flowchart TD\n")
	p.draw(&m)
	return m.String()
}

// DOT draws the plan in the language of Graphviz, as Mermaid does.
func (p *Plan) DOT() string {
	d := dot{}
	d.printf("digraph %s {\n  rankdir=TB;\n  node [shape=box];\n", d.quote(p.app))
	p.draw(&d)
	d.printf("}\n")
	return d.String()
}

// drawing is a language for pictures of plans. Ids are of letters, digits and '_'.
type drawing interface {
	begin(id, title string)
	end()
	node(indent, id, title string)
	cylinder(id, title string)
	// edge draws an arrow, dashed for state.
	edge(from, to, label string, dashed bool)
}

// draw draws topics first, then sub-topologies, then all edges.
func (p *Plan) draw(w drawing) {
	ids := map[string]string{} // of topics
	for i, t := range p.topics {
		ids[t.Name] = fmt.Sprintf("topic%d", i+1)
		w.cylinder(ids[t.Name], t.Name)
	}
	at := map[*place]string{}
	for i, s := range p.subs {
		w.begin(fmt.Sprintf("sub%d", i+1), s.Name)
		for j, pl := range s.places {
			at[pl] = fmt.Sprintf("sub%d_%d", i+1, j+1)
			w.node("    ", at[pl], pl.title())
		}
		w.end()
	}
	for _, s := range p.subs {
		for _, pl := range s.places {
			switch {
			case pl.role == roleSource:
				w.edge(ids[pl.topic], at[pl], "", false)
			case pl.role == roleSink:
				w.edge(at[pl], ids[pl.topic], "", false)
			}
			if topic, ok := pl.deadLetters(); ok {
				w.edge(at[pl], ids[topic], "invalid", true)
			}
			if pl.at.Store != "" {
				w.edge(at[pl], ids[pl.changelog(p.app)], "", true)
			}
			for _, t := range p.tables {
				if t.Name == pl.at.Table {
					for _, topic := range t.Topics {
						w.edge(ids[topic], at[pl], "", true)
					}
				}
			}
			for _, e := range pl.outs {
				for _, to := range e.to {
					w.edge(at[pl], at[to], e.label, false)
				}
			}
		}
	}
}

type text struct{ strings.Builder }

func (t *text) printf(format string, args ...any) { fmt.Fprintf(t, format, args...) }

type mermaid struct{ text }

// quote makes a quoted label: Mermaid takes entities with # for &, and no line breaks.
func (m *mermaid) quote(s string) string {
	var w strings.Builder
	w.WriteByte('"')
	for _, r := range s {
		if r < ' ' || strings.ContainsRune("\"#&<>`\\", r) {
			fmt.Fprintf(&w, "#%d;", r)
		} else {
			w.WriteRune(r)
		}
	}
	w.WriteByte('"')
	return w.String()
}

func (m *mermaid) begin(id, title string) { m.printf("  subgraph %s[%s]\n", id, m.quote(title)) }
func (m *mermaid) end()                   { m.printf("  end\n") }
func (m *mermaid) cylinder(id, title string) {
	m.printf("  %s[(%s)]\n", id, m.quote(title))
}
func (m *mermaid) node(indent, id, title string) { m.printf("%s%s[%s]\n", indent, id, m.quote(title)) }
func (m *mermaid) edge(from, to, label string, dashed bool) {
	arrow := "-->"
	if dashed {
		arrow = "-.->"
	}
	if label != "" {
		arrow += "|" + m.quote(label) + "|"
	}
	m.printf("  %s %s %s\n", from, arrow, to)
}

type dot struct{ text }

// quote makes a quoted label: the only escape of a DOT string is that of its quote, but a
// label's backslashes are read once more.
func (d *dot) quote(s string) string {
	var w strings.Builder
	w.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			w.WriteByte('\\')
			w.WriteRune(r)
		case r < ' ':
			w.WriteByte(' ')
		default:
			w.WriteRune(r)
		}
	}
	w.WriteByte('"')
	return w.String()
}

func (d *dot) begin(id, title string) {
	d.printf("  subgraph cluster_%s {\n    label=%s;\n", id, d.quote(title))
}
func (d *dot) end() { d.printf("  }\n") }
func (d *dot) cylinder(id, title string) {
	d.printf("  %s [label=%s, shape=cylinder];\n", id, d.quote(title))
}
func (d *dot) node(indent, id, title string) {
	d.printf("%s%s [label=%s];\n", indent, id, d.quote(title))
}
func (d *dot) edge(from, to, label string, dashed bool) {
	var attributes []string
	if label != "" {
		attributes = append(attributes, "label="+d.quote(label))
	}
	if dashed {
		attributes = append(attributes, "style=dashed")
	}
	slices.Sort(attributes)
	list := ""
	if len(attributes) > 0 {
		list = " [" + strings.Join(attributes, ", ") + "]"
	}
	d.printf("  %s -> %s%s;\n", from, to, list)
}
