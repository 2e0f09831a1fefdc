package kvstore

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func (n *node) depth() int {
	if n == nil {
		return 0
	}
	return 1 + max(n.left.depth(), n.right.depth())
}

func keysOf(o *ordered) []string {
	keys := []string{}
	_ = o.visit(nil, nil, func(it *item) error { keys = append(keys, it.key+string(it.value)); return nil })
	return keys
}

// TestOrderedStaysFlat: neither ascending inserts nor a build from sorted items
// make a list of the tree.
func TestOrderedStaysFlat(t *testing.T) {
	const n = 50_000 // a random tree of this size is about 40 deep
	items := map[string]*item{}
	o := newOrdered(nil)
	for i := range n {
		it := &item{key: fmt.Sprintf("%06d", i)}
		items[it.key] = it
		o.insert(it)
	}
	require.Less(t, o.root.depth(), 90)
	require.Less(t, newOrdered(items).root.depth(), 90)
	for i := range n {
		if i%10 != 0 {
			o.remove(fmt.Sprintf("%06d", i))
		}
	}
	require.Len(t, keysOf(o), n/10)
	require.Less(t, o.root.depth(), 80)
}

// TestOrderedSnapshots: S6 below the store: any number of snapshots stay as they
// were while the set goes on changing.
func TestOrderedSnapshots(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	items := map[string]*item{}
	o := newOrdered(items)
	type kept struct {
		set  *ordered
		keys []string
	}
	var snapshots []kept
	for step := range 5000 {
		k := fmt.Sprintf("%03d", r.IntN(300))
		it := &item{key: k, value: fmt.Append(nil, "=", step)}
		switch {
		case items[k] == nil:
			o.insert(it)
			items[k] = it
		case r.IntN(2) == 0:
			o.replace(it)
			items[k] = it
		default:
			o.remove(k)
			delete(items, k)
		}
		if step%250 == 0 {
			require.Equal(t, keysOf(newOrdered(items)), keysOf(o))
			snapshots = append(snapshots, kept{o.snapshot(), keysOf(o)})
		}
	}
	for _, s := range snapshots {
		require.Equal(t, s.keys, keysOf(s.set))
	}
}
