package kvstore

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// ordered is an ordered set of items by key: a treap, that is a binary search
// tree that random priorities, largest at the top, keep flat. Sets made by
// snapshot share nodes; a node is changed in place by the set that made it since
// its last snapshot, and copied by others.
//
// One goroutine uses a set. Its snapshots are for all: what they see is not
// changed.
type ordered struct {
	root *node
	// own marks the nodes that no snapshot can see. A new snapshot renews it.
	own *owner
}

// owner is an identity; not of size zero, because those may be equal.
type owner struct{ _ byte }

type node struct {
	left, right *node
	item        *item
	own         *owner
	priority    uint32
}

// newOrdered returns a set of all items.
func newOrdered(items map[string]*item) *ordered {
	sorted := make([]*item, 0, len(items))
	for _, it := range items {
		sorted = append(sorted, it)
	}
	slices.SortFunc(sorted, func(a, b *item) int { return strings.Compare(a.key, b.key) })
	o := &ordered{own: new(owner)}
	// The right spine of the treap so far, top first: a sorted sequence is
	// appended in linear time.
	var spine []*node
	for _, it := range sorted {
		n := o.node(it)
		for len(spine) > 0 && spine[len(spine)-1].priority < n.priority {
			n.left = spine[len(spine)-1]
			spine = spine[:len(spine)-1]
		}
		if len(spine) > 0 {
			spine[len(spine)-1].right = n
		}
		spine = append(spine, n)
	}
	if len(spine) > 0 {
		o.root = spine[0]
	}
	return o
}

func (o *ordered) node(it *item) *node {
	return &node{item: it, own: o.own, priority: rand.Uint32()}
}

// snapshot returns a set with the same content that later changes of o leave
// alone. It costs nothing now; the changes copy the nodes on their way.
func (o *ordered) snapshot() *ordered {
	o.own = new(owner)
	return &ordered{root: o.root}
}

// mutable returns n, or a copy if a snapshot may see n.
func (o *ordered) mutable(n *node) *node {
	if n.own == o.own {
		return n
	}
	c := *n
	c.own = o.own
	return &c
}

// insert adds an item whose key is not in the set.
func (o *ordered) insert(it *item) {
	fresh := o.node(it)
	at := &o.root
	for *at != nil && (*at).priority >= fresh.priority {
		at = o.step(at, it.key)
	}
	fresh.left, fresh.right = o.split(*at, it.key)
	*at = fresh
}

// replace puts it in the place of the item with the same key, which must be
// there.
func (o *ordered) replace(it *item) {
	at := &o.root
	for (*at).item.key != it.key {
		at = o.step(at, it.key)
	}
	n := o.mutable(*at)
	n.item = it
	*at = n
}

// remove takes the item with this key out; it must be there.
func (o *ordered) remove(key string) {
	at := &o.root
	for (*at).item.key != key {
		at = o.step(at, key)
	}
	*at = o.join((*at).left, (*at).right)
}

// step makes the node at mutable and returns the place below it where key
// belongs, key being another than the node's.
func (o *ordered) step(at **node, key string) **node {
	n := o.mutable(*at)
	*at = n
	if key < n.item.key {
		return &n.left
	}
	return &n.right
}

// split cuts the tree below n into keys below and above key, which it does not
// hold.
func (o *ordered) split(n *node, key string) (below, above *node) {
	if n == nil {
		return nil, nil
	}
	n = o.mutable(n)
	if n.item.key < key {
		n.right, above = o.split(n.right, key)
		return n, above
	}
	below, n.left = o.split(n.left, key)
	return below, n
}

// join makes one tree of two, all keys of a being below those of b.
func (o *ordered) join(a, b *node) *node {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority > b.priority:
		a = o.mutable(a)
		a.right = o.join(a.right, b)
		return a
	default:
		b = o.mutable(b)
		b.left = o.join(a, b.left)
		return b
	}
}

// find returns the item with this key, nil if there is none.
func (o *ordered) find(key []byte) *item {
	n := o.root
	for n != nil && n.item.key != string(key) {
		if string(key) < n.item.key {
			n = n.left
		} else {
			n = n.right
		}
	}
	if n == nil {
		return nil
	}
	return n.item
}

// scan is visit with copies of the keys.
func (o *ordered) scan(from, to []byte, visit func(key, value []byte) error) error {
	var key []byte
	return o.visit(from, to, func(it *item) error {
		// A copy, because a string's bytes must not be exposed; Cap is cut so
		// that an append by visit cannot reach the item.
		key = append(key[:0], it.key...)
		return visit(key[:len(key):len(key)], it.value[:len(it.value):len(it.value)])
	})
}

// visit calls f for the items with from <= key < to in order; a nil to is open.
func (o *ordered) visit(from, to []byte, f func(*item) error) error {
	return walk(o.root, from, to, f)
}

func walk(n *node, from, to []byte, f func(*item) error) error {
	for n != nil {
		if n.item.key < string(from) {
			n = n.right
			continue
		}
		if to != nil && n.item.key >= string(to) {
			n = n.left
			continue
		}
		if err := walk(n.left, from, to, f); err != nil {
			return err
		}
		if err := f(n.item); err != nil {
			return err
		}
		n = n.right
	}
	return nil
}
