package exec

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// An index under any order of additions and removals finds what a map has, also where many
// keys want one slot and where searches go around the table's end.
func TestIndexEqualsAMap(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 3))
		x := newIndex()
		hash := x.hash
		if seed%2 == 0 {
			bits := uint64(1)<<r.IntN(8) - 1
			hash = func(key []byte) uint64 { return ^(x.hash(key) & bits) } // few, at the end
		}
		want := map[string]*entry{}
		for range 3000 {
			key := fmt.Appendf(nil, "k%d", r.IntN(400))
			if r.IntN(8) == 0 {
				key = fmt.Appendf(key, "%040d", 0) // too long to be within the entry
			}
			e := want[string(key)]
			require.Same(t, e, x.find(hash(key), key), "seed %d", seed)
			switch {
			case e == nil && r.IntN(3) > 0:
				e = newEntry(key)
				require.Equal(t, string(key), string(e.key))
				e.hash = hash(key)
				want[string(key)] = e
				x.add(e)
			case e != nil && r.IntN(3) == 0:
				delete(want, string(key))
				x.remove(e)
			}
			require.Equal(t, len(want), x.n)
		}
		for k, e := range want {
			require.Same(t, e, x.find(hash([]byte(k)), []byte(k)))
		}
	}
}
