package globaltable

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// check compares all that a snapshot tells with a map.
func check(t *testing.T, s Snapshot, want map[string]string) {
	t.Helper()
	size := int64(0)
	for k, v := range want {
		got, ok, err := s.Get(nil, []byte(k))
		require.NoError(t, err)
		require.True(t, ok, "key of %d bytes", len(k))
		require.Equal(t, v, string(got))
		size += int64(len(k) + len(v))
	}
	require.EqualValues(t, len(want), s.Len())
	require.Equal(t, size, s.Size())
	got := map[string]string{}
	for k, v := range s.All(nil) {
		_, twice := got[string(k)]
		require.False(t, twice)
		got[string(k)] = string(v)
	}
	require.Equal(t, want, got)
}

// A table and its snapshots against maps, over writes, deletions and whatever is written anew for them: a snapshot stays as it is.
func TestEntriesAreAMapAndSnapshotsStay(t *testing.T) {
	for seed := range uint64(10) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		e := NewEntries()
		now := map[string]string{}
		type moment struct {
			s    Snapshot
			want map[string]string
		}
		var held []moment
		keys := 1 + rnd.IntN(3000)
		most := []int{10, 300, 3 * blockSize}[rnd.IntN(3)]
		for step := range 3000 {
			key := fmt.Sprint(rnd.IntN(keys))
			if key == "0" {
				key = "" // is a key like any other
			}
			switch rnd.IntN(10) {
			case 0, 1:
				require.NoError(t, e.Delete([]byte(key)))
				delete(now, key)
			default:
				size := rnd.IntN(20)
				if rnd.IntN(50) == 0 {
					size = rnd.IntN(most)
				}
				value := bytes.Repeat([]byte{byte(step)}, size)
				require.NoError(t, e.Put([]byte(key), value))
				now[key] = string(value)
			}
			if rnd.IntN(500) == 0 {
				e.Publish()
				held = append(held, moment{e.Snapshot(), maps.Clone(now)})
			}
		}
		for _, m := range held {
			check(t, m.s, m.want)
		}
		_, ok, _ := e.Snapshot().Get(nil, []byte("no such key"))
		require.False(t, ok)
		// Values changed, and some taken out.
		require.NoError(t, e.Rewrite(func(key, value []byte) ([]byte, error) {
			if len(key) == 1 {
				return nil, nil
			}
			return append([]byte("new "), value...), nil
		}))
		for k, v := range now {
			if now[k] = "new " + v; len(k) == 1 {
				delete(now, k)
			}
		}
		e.Publish()
		check(t, e.Snapshot(), now)
		if len(held) > 0 {
			check(t, held[0].s, held[0].want)
		}
	}
	check(t, NewEntries().Snapshot(), map[string]string{})
	check(t, Snapshot{}, map[string]string{})
}

// Readers meet a writer: each sees rows that were published together.
func TestEntriesAreReadWhileTheyAreWritten(t *testing.T) {
	e := NewEntries()
	const keys, rounds = 500, 200
	key := func(n int) []byte { return fmt.Append(nil, "key ", n) }
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				s := e.Snapshot()
				var first []byte
				for n := range keys {
					v, ok, _ := s.Get(nil, key(n))
					if n == 0 {
						first = v
					}
					if ok != (first != nil) || !bytes.Equal(v, first) {
						panic(fmt.Sprintf("key %d has %q, the first has %q", n, v, first))
					}
				}
				if n := s.Len(); n != 0 && n != keys {
					panic(n)
				}
			}
		})
	}
	for round := range rounds {
		for n := range keys {
			if round%20 == 19 {
				require.NoError(t, e.Delete(key(n)))
			} else {
				require.NoError(t, e.Put(key(n), fmt.Append(nil, "value of round ", round)))
			}
		}
		e.Publish()
		runtime.Gosched()
	}
	close(stop)
	wg.Wait()
}

// What is dead is given back: a table that is written over and over stays at its size, and one that is emptied at next to nothing.
func TestEntriesDoNotGrow(t *testing.T) {
	e := NewEntries()
	value := bytes.Repeat([]byte("v"), 100)
	fill := func(round int) {
		for n := range 20_000 {
			require.NoError(t, e.Put(fmt.Append(nil, n), append(value, byte(round))))
		}
	}
	fill(0)
	once := e.Memory()
	for round := range 20 {
		fill(round)
	}
	require.Less(t, e.Memory(), once*3/2)
	for n := range 20_000 {
		require.NoError(t, e.Delete(fmt.Append(nil, n)))
	}
	require.Less(t, e.Memory(), once/2)
	e.Publish()
	check(t, e.Snapshot(), map[string]string{})
}

// Memory outside Go's heap is given back when nobody can see it any more, and not before: a snapshot that is held stays as it is, through
// whatever is written and collected.
func TestMappedMemoryIsGivenBack(t *testing.T) {
	e := NewEntries()
	value := make([]byte, 4000)
	want := map[string]string{}
	round := func(n byte) {
		for k := range 5_000 {
			value[0], value[3999] = n, byte(k)
			require.NoError(t, e.Put(fmt.Append(nil, k), value))
		}
		e.Publish()
	}
	round(0)
	for k := range 5_000 {
		value[0], value[3999] = 0, byte(k)
		want[fmt.Sprint(k)] = string(value)
	}
	once := e.arena.mapped.Load()
	if mapMemory(1) == nil {
		require.Zero(t, once, "nothing is mapped on this platform")
	} else {
		require.Greater(t, once, int64(10<<20))
	}
	held := e.Snapshot()
	for n := range byte(10) {
		round(n + 1)
	}
	check(t, held, want)
	runtime.GC()
	check(t, held, want)
	held = Snapshot{}
	require.Eventually(t, func() bool {
		runtime.GC()
		return e.arena.mapped.Load() <= 30<<20 && e.arena.retired.Load() == 0
	}, 10*time.Second, 10*time.Millisecond, "20 MB of rows, an eighth of it dead, and the ends of blocks")
	check(t, held, map[string]string{})
	a := e.arena
	e = nil
	require.Eventually(t, func() bool {
		runtime.GC()
		return a.mapped.Load() == 0
	}, 10*time.Second, 10*time.Millisecond)
}

// A change that fails is the caller's error.
func TestRewriteFails(t *testing.T) {
	e := NewEntries()
	require.NoError(t, e.Put([]byte("k"), nil))
	no := errors.New("no")
	require.ErrorIs(t, e.Rewrite(func(_, _ []byte) ([]byte, error) { return nil, no }), no)
}

// A row of a million costs little more than its bytes, and a lookup into a buffer allocates nothing.
func TestEntriesAreCompact(t *testing.T) {
	e := NewEntries()
	const rows = 100_000
	value := bytes.Repeat([]byte("v"), 200)
	for n := range rows {
		require.NoError(t, e.Put(fmt.Appendf(nil, "%020d", n), value))
	}
	e.Publish()
	s := e.Snapshot()
	require.EqualValues(t, rows*220, s.Size())
	require.Less(t, float64(e.Memory()), 1.2*rows*220)
	key, value := []byte("00000000000000077777"), make([]byte, 0, 256)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, ok, _ := s.Get(value, key); !ok {
			panic("not there")
		}
	}))
}

func BenchmarkGet(b *testing.B) {
	e := NewEntries()
	const rows = 1_000_000
	value := bytes.Repeat([]byte("v"), 200)
	for n := range rows {
		_ = e.Put(fmt.Appendf(nil, "%020d", n), value)
	}
	e.Publish()
	s := e.Snapshot()
	keys := make([]byte, 0, rows*20)
	for range rows {
		keys = fmt.Appendf(keys, "%020d", rand.IntN(rows))
	}
	b.RunParallel(func(pb *testing.PB) {
		value := make([]byte, 0, 200)
		for i := rand.IntN(rows); pb.Next(); i++ {
			if i == rows {
				i = 0
			}
			if _, ok, _ := s.Get(value, keys[i*20:(i+1)*20]); !ok {
				panic("not there")
			}
		}
	})
}

func BenchmarkPut(b *testing.B) {
	value := bytes.Repeat([]byte("v"), 200)
	e := NewEntries()
	key := make([]byte, 0, 20)
	for n := 0; b.Loop(); n++ {
		key = fmt.Appendf(key[:0], "%020d", n%1_000_000)
		_ = e.Put(key, value)
	}
}
