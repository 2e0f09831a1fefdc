//go:build cgo

package rocksdb

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
)

// keyKinds make keys that a sort by 8 bytes at a time may trip over.
var keyKinds = map[string]func(r *rand.Rand) string{
	"numbers": func(r *rand.Rand) string { return fmt.Sprintf("k%015d", r.IntN(5000)) },
	"bytes":   func(r *rand.Rand) string { return string(randomBytes(r, 16, 256)) },
	"few":     func(r *rand.Rand) string { return fmt.Sprint(r.IntN(3)) },
	"same":    func(*rand.Rand) string { return "the same key, longer than 8 bytes" },
	"empty":   func(*rand.Rand) string { return "" },
	"zeros":   func(r *rand.Rand) string { return strings.Repeat("\x00", r.IntN(40)) },
	"lengths": func(r *rand.Rand) string { return string(randomBytes(r, r.IntN(30), 2)) },
	"prefixes": func(r *rand.Rand) string {
		return strings.Repeat("prefix", r.IntN(60)) + string(randomBytes(r, r.IntN(4), 2))
	},
	"long": func(r *rand.Rand) string { return strings.Repeat("l", 300) + fmt.Sprint(r.IntN(100)) },
	"tenants": func(r *rand.Rand) string {
		return fmt.Sprintf("tenant-%04d/device-%06d/%d", r.IntN(3), r.IntN(20), r.IntN(100))
	},
}

func randomBytes(r *rand.Rand, n, values int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.IntN(values))
	}
	return b
}

// TestChunkSorted compares the index of a chunk with a stable sort of what was added.
func TestChunkSorted(t *testing.T) {
	for name, key := range keyKinds {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 5))
			for _, count := range []int{0, 1, 2, fewEntries, fewEntries + 1, 100, 3000} {
				type add struct {
					key string
					n   int
				}
				var data, system []add
				c, err := newChunk(4 << 20)
				require.NoError(t, err)
				var b kvstore.Batch
				for n := range count {
					k := key(r)
					b.Reset()
					switch r.IntN(10) {
					case 0:
						b.SetMeta(k, fmt.Append(nil, n))
						system = append(system, add{"\x00m" + k, n})
					case 1:
						b.Put(nil, fmt.Append(nil, n))
						data = append(data, add{"\x01", n})
					default:
						b.Put([]byte(k), fmt.Append(nil, n))
						data = append(data, add{"\x01" + k, n})
					}
					require.True(t, c.fits(&b))
					c.add(&b)
				}
				gotSystem, gotData := c.sorted()
				for _, part := range []struct {
					want []add
					got  []entry
				}{{system, gotSystem}, {data, gotData}} {
					slices.SortStableFunc(part.want, func(a, b add) int { return strings.Compare(a.key, b.key) })
					var want, got []string
					for i, a := range part.want {
						if i+1 == len(part.want) || part.want[i+1].key != a.key {
							want = append(want, a.key, fmt.Sprint(a.n))
						}
					}
					for _, e := range part.got {
						if e.at == 0 {
							continue
						}
						key := c.key(e)
						length := len(binary.AppendUvarint(nil, uint64(len(key))))
						value := c.mem[int(e.at)+1+length+len(key):]
						got = append(got, string(key), string(value[1:1+value[0]]))
					}
					require.Equal(t, want, got)
				}
				c.free()
			}
		})
	}
}

// TestChunkBatch: what a chunk holds is one batch.
func TestChunkBatch(t *testing.T) {
	c, err := newChunk(1 << 20)
	require.NoError(t, err)
	defer c.free()
	var all, b kvstore.Batch
	for range 2 {
		all.Reset()
		c.reset()
		for i := range 100 {
			key := fmt.Append(nil, i)
			b.Reset()
			b.Put(key, key)
			b.Delete(key)
			b.SetCheckpoint("t", int64(i))
			c.add(&b)
			all.Put(key, key)
			all.Delete(key)
			all.SetCheckpoint("t", int64(i))
		}
		require.Equal(t, all.Encoding(), c.batch())
	}
}

// TestChunkFull: a chunk takes batches until batches and index fill its memory, and they
// do not meet.
func TestChunkFull(t *testing.T) {
	for size := 4000; size < 4040; size++ {
		c, err := newChunk(size)
		require.NoError(t, err)
		var b kvstore.Batch
		n := 0
		for ; ; n++ {
			b.Reset()
			b.Put(fmt.Appendf(nil, "%06d", 999_999-n), []byte("value"))
			if !c.fits(&b) {
				break
			}
			c.add(&b)
		}
		require.InDelta(t, size/(b.Size()+indexBytes), n, 2)
		want := bytes.Clone(c.batch())
		_, data := c.sorted()
		require.Len(t, data, n)
		require.Equal(t, want, c.batch(), "the index is behind the batches")
		require.True(t, slices.IsSortedFunc(data, func(a, b entry) int { return bytes.Compare(c.key(a), c.key(b)) }))
		c.free()
	}
}
