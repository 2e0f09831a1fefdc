package topology

import (
	"cmp"
	"slices"
	"strings"

	"github.com/wickerwork/wicker/ops"
)

// adoption is an Adopt, as a node of its own for errors.
type adoption struct {
	n        *node
	old, new string
}

// Adopt has the operator that the program calls new go on with the state, or the repartition topic, that it has had as old: names are durable, and
// renaming an operator would otherwise begin with nothing. Topics keep their names, and nothing is copied; so Adopt stays in the program
// for as long as it runs on them. It returns the Builder, and takes names of states, Memos and Rekeys.
func (b *Builder) Adopt(old, new string) *Builder {
	if b == nil {
		panic("topology: Adopt of a nil Builder: make one with topology.New")
	}
	n := &node{b: b, id: len(b.nodes), at: here(), traits: ops.Traits{Op: "Adopt", Name: new}}
	b.adoptions = append(b.adoptions, adoption{n, old, new})
	if err := checkName(old); err != nil {
		n.fail("old name: %w", err)
	}
	return b
}

// Retire says that the topology no longer has operators that it has had by these names, and that what they kept is given up: without
// that, instances refuse to run a plan that lacks state which the group has. Their topics are left to be deleted, with tools, when no instance of
// an earlier version runs any more. It returns the Builder.
func (b *Builder) Retire(names ...string) *Builder {
	if b == nil {
		panic("topology: Retire of a nil Builder: make one with topology.New")
	}
	n := &node{b: b, id: len(b.nodes), at: here(), traits: ops.Traits{Op: "Retire", Name: strings.Join(names, ", ")}}
	for _, name := range names {
		if err := checkName(name); err != nil {
			n.fail("%w", err)
		}
		b.retired = append(b.retired, retirement{n, name})
	}
	return b
}

type retirement struct {
	n    *node
	name string
}

// lasting is the node's durable name.
func (n *node) lasting() string { return cmp.Or(n.adopted, n.traits.Name) }

// adopt gives operators the names that they had.
func (b *Builder) adopt() {
	durable := func(name string) (all []*node) {
		for _, n := range b.nodes {
			if (n.role == roleRekey || n.traits.Store != "") && n.traits.Name == name {
				all = append(all, n)
			}
		}
		return all
	}
	for i, a := range b.adoptions {
		own := durable(a.new)
		switch was := durable(a.old); {
		case a.n.poisoned:
		case len(own) == 0:
			a.n.fail("no operator with state, and no Rekey, has that name")
		case len(was) > 0:
			a.n.fail("the old name %q is that of %s at %s: an operator cannot go on with what another one has", a.old, was[0].traits.String(), was[0].at)
		case slices.ContainsFunc(b.adoptions[:i], func(x adoption) bool { return x.new == a.new || x.old == a.old }):
			a.n.fail("one of the names %q and %q is in an Adopt before", a.old, a.new)
		default:
			for _, n := range own {
				n.adopted = a.old
			}
		}
	}
	for _, r := range b.retired {
		if own := durable(r.name); len(own) > 0 {
			r.n.fail("%q is the name of %s at %s", r.name, own[0].traits.String(), own[0].at)
		} else if i := slices.IndexFunc(b.adoptions, func(a adoption) bool { return a.old == r.name }); i >= 0 {
			r.n.fail("%q is adopted at %s", r.name, b.adoptions[i].n.at)
		}
	}
}
