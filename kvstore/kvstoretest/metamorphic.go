package kvstoretest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
)

// testMetamorphic runs random calls on several stores of one engine, closing and
// reopening both, and compares every answer with plain maps. The seed is in the
// name of the subtest; the calls follow from it.
func testMetamorphic(t *testing.T, s *suite) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			own := *s
			own.dir = t.TempDir()
			m := &metamorphic{suite: &own, T: t, rand: rand.New(rand.NewPCG(seed, 1)), stores: map[string]*model{}}
			m.reopenEngine()
			for step := range 1500 {
				m.step = step
				m.one()
			}
			require.NoError(t, m.engine.Close())
		})
	}
}

// content is what a store should hold.
type content struct {
	data, meta  map[string]string
	checkpoints map[string]int64
}

func newContent() content {
	return content{data: map[string]string{}, meta: map[string]string{}, checkpoints: map[string]int64{}}
}

func (c content) clone() content {
	return content{data: maps.Clone(c.data), meta: maps.Clone(c.meta), checkpoints: maps.Clone(c.checkpoints)}
}

type model struct {
	content
	name string
	st   kvstore.Store // nil while closed
	// snaps are the open snapshots, each with what it shows.
	snaps []frozen
}

// frozen is a snapshot and the data it should show.
type frozen struct {
	snap kvstore.Snapshot
	data map[string]string
}

type metamorphic struct {
	*suite
	*testing.T
	rand   *rand.Rand
	engine kvstore.Engine
	stores map[string]*model
	batch  kvstore.Batch
	step   int
}

// one makes one random call.
func (m *metamorphic) one() {
	md := m.pick()
	switch p := m.rand.IntN(1000); {
	case p < 400:
		m.write(md)
	case p < 750:
		m.get(md, m.key())
	case p < 900:
		m.scan(md, 0)
	case p < 930:
		m.bookkeeping(md)
	case p < 934:
		m.load(md)
	case p < 942:
		m.snapshot(md)
	case p < 950:
		require.NoError(m, md.st.Flush())
	case p < 980:
		m.closeStore(md)
	case p < 985:
		m.closeStore(md)
		require.NoError(m, m.engine.DestroyStore(md.name))
		md.content = newContent()
	case p < 995:
		m.names()
	default:
		m.reopenEngine()
	}
}

// pick returns a random store, opened.
func (m *metamorphic) pick() *model {
	name := fmt.Sprint("s", m.rand.IntN(3))
	md := m.stores[name]
	if md == nil {
		md = &model{name: name, content: newContent()}
		m.stores[name] = md
	}
	if md.st == nil {
		md.st = openStore(m.T, m.engine, name)
		m.compare(md)
	}
	return md
}

func (m *metamorphic) closeStore(md *model) {
	require.NoError(m, md.st.Close())
	m.closed(md)
}

func (m *metamorphic) closed(md *model) {
	for _, f := range md.snaps {
		if m.rand.IntN(4) == 0 {
			wantSnapshotClosed(m.T, f.snap)
		}
	}
	md.snaps = nil
	if md.st = nil; !m.Persistent {
		md.content = newContent()
	}
}

func (m *metamorphic) reopenEngine() {
	if m.engine != nil {
		require.NoError(m, m.engine.Close())
		for _, md := range m.stores {
			m.closed(md)
		}
	}
	m.engine = m.newEngine(m.T, m.dir)
	require.NoError(m, m.engine.Open())
}

// key returns one of few keys, many of them prefixes of others.
func (m *metamorphic) key() string {
	const alphabet = "\x00\x01ab\xff"
	k := make([]byte, m.rand.IntN(4))
	for i := range k {
		k[i] = alphabet[m.rand.IntN(len(alphabet))]
	}
	return string(k)
}

func (m *metamorphic) value() string {
	n := m.rand.IntN(40)
	if m.rand.IntN(50) == 0 {
		n = m.rand.IntN(10_000)
	}
	v := make([]byte, n)
	for i := range v {
		v[i] = byte(m.rand.Uint32())
	}
	return string(v)
}

func (m *metamorphic) write(md *model) {
	m.fill(md.content)
	require.NoError(m, md.st.Write(&m.batch))
}

// fill makes a random batch and applies it to c.
func (m *metamorphic) fill(c content) {
	m.batch.Reset()
	for range m.rand.IntN(12) {
		k := m.key()
		switch p := m.rand.IntN(100); {
		case p < 60:
			v := m.value()
			m.batch.Put([]byte(k), []byte(v))
			c.data[k] = v
		case p < 90:
			m.batch.Delete([]byte(k))
			delete(c.data, k)
		case p < 95:
			v := m.value()
			m.batch.SetMeta(k, []byte(v))
			c.meta[k] = v
		default:
			m.batch.SetCheckpoint(k, int64(m.step))
			c.checkpoints[k] = int64(m.step)
		}
	}
}

// load writes batches through a Loader, and leaves it open now and then.
func (m *metamorphic) load(md *model) {
	for _, f := range md.snaps {
		f.snap.Close() // none may be open
	}
	md.snaps = nil
	memory := []int64{0, 1, 1500, 4000, 20_000, 100_000}[m.rand.IntN(6)]
	l, err := md.st.Load(memory)
	require.NoError(m, err)
	prefixes := []content{md.clone()}
	for range m.rand.IntN(30) {
		m.fill(md.content)
		require.NoError(m, l.Write(&m.batch))
		prefixes = append(prefixes, md.clone())
	}
	if m.rand.IntN(4) > 0 {
		require.NoError(m, l.Close())
		m.compare(md)
		return
	}
	m.closeStore(md)
	require.ErrorIs(m, l.Write(&m.batch), kvstore.ErrClosed)
	_ = l.Close()
	if !m.Persistent {
		return
	}
	md.st = openStore(m.T, m.engine, md.name)
	got := scan(m.T, md.st, nil, nil)
	for i := len(prefixes) - 1; i >= 0; i-- {
		md.content = prefixes[i]
		if slices.Equal(got, between(md.data, nil, nil)) && m.sameBooks(md) {
			return
		}
	}
	require.Fail(m, "the store is not as after some batch", "step %d, of %d batches", m.step, len(prefixes)-1)
}

// snapshot takes one more, and closes the oldest when they are many.
func (m *metamorphic) snapshot(md *model) {
	snap, err := md.st.Snapshot()
	require.NoError(m, err)
	if md.snaps = append(md.snaps, frozen{snap, maps.Clone(md.data)}); len(md.snaps) > 4 {
		md.snaps[0].snap.Close()
		wantSnapshotClosed(m.T, md.snaps[0].snap)
		md.snaps = md.snaps[1:]
	}
}

// sameBooks reports whether checkpoints and metadata are those of the content.
func (m *metamorphic) sameBooks(md *model) bool {
	for name, want := range md.checkpoints {
		if got, ok, err := md.st.Checkpoint(name); !ok || err != nil || got != want {
			return false
		}
	}
	for name, want := range md.meta {
		if got, ok, err := md.st.Meta(name); !ok || err != nil || string(got) != want {
			return false
		}
	}
	return true
}

func (m *metamorphic) get(md *model, key string) {
	got, found, err := md.st.Get([]byte("#"), []byte(key))
	require.NoError(m, err)
	want, ok := md.data[key]
	require.Equal(m, ok, found, "step %d", m.step)
	require.Equal(m, "#"+want, string(got), "step %d", m.step)
	if len(md.snaps) == 0 {
		return
	}
	f := md.snaps[m.rand.IntN(len(md.snaps))]
	got, found, err = f.snap.Get([]byte("#"), []byte(key))
	require.NoError(m, err)
	want, ok = f.data[key]
	require.Equal(m, ok, found, "step %d", m.step)
	require.Equal(m, "#"+want, string(got), "step %d", m.step)
	if m.rand.IntN(20) == 0 {
		require.Equal(m, between(f.data, nil, nil), scan(m.T, f.snap, nil, nil), "step %d", m.step)
	}
}

func (m *metamorphic) bookkeeping(md *model) {
	k := m.key()
	offset, ok, err := md.st.Checkpoint(k)
	require.NoError(m, err)
	want, has := md.checkpoints[k]
	require.Equal(m, has, ok, "step %d", m.step)
	require.Equal(m, want, offset, "step %d", m.step)
	got, ok, err := md.st.Meta(k)
	require.NoError(m, err)
	meta, has := md.meta[k]
	require.Equal(m, has, ok, "step %d", m.step)
	require.Equal(m, meta, string(got), "step %d", m.step)
}

// scan checks a random range; its visitor writes, reads and scans.
func (m *metamorphic) scan(md *model, depth int) {
	var from, to []byte
	if m.rand.IntN(4) > 0 {
		from = []byte(m.key())
	}
	if m.rand.IntN(4) > 0 {
		to = []byte(m.key())
	}
	want := between(md.data, from, to)
	limit := -1
	if m.rand.IntN(4) == 0 {
		limit = m.rand.IntN(10)
	}
	got := []string{}
	busy := m.rand.IntN(3) == 0
	err := md.st.Scan(from, to, func(key, value []byte) error {
		if limit == 0 {
			return errStop
		}
		limit--
		got = append(got, string(key), string(value))
		if busy && m.rand.IntN(5) == 0 {
			m.write(md)
			m.get(md, m.key())
			if depth < 2 && m.rand.IntN(4) == 0 {
				m.scan(md, depth+1)
			}
			last := got[len(got)-2] + got[len(got)-1]
			require.Equal(m, last, string(key)+string(value), "step %d", m.step)
		}
		return nil
	})
	if err == errStop {
		want = want[:len(got)]
	} else {
		require.NoError(m, err)
	}
	require.Equal(m, want, got, "step %d", m.step)
}

var errStop = fmt.Errorf("stop")

// between is Scan on a plain map.
func between(data map[string]string, from, to []byte) []string {
	pairs := []string{}
	for _, k := range slices.Sorted(maps.Keys(data)) {
		if k >= string(from) && (to == nil || k < string(to)) {
			pairs = append(pairs, k, data[k])
		}
	}
	return pairs
}

// compare checks all of a store.
func (m *metamorphic) compare(md *model) {
	require.Equal(m, between(md.data, nil, nil), scan(m.T, md.st, nil, nil), "step %d", m.step)
	for name, want := range md.checkpoints {
		wantCheckpoint(m.T, md.st, name, want)
	}
	for name, want := range md.meta {
		wantMeta(m.T, md.st, name, want)
	}
}

// names checks Stores.
func (m *metamorphic) names() {
	want := map[string]bool{}
	for name, md := range m.stores {
		// A closed store that was destroyed, and so is absent, has no content;
		// one that is closed and empty may be listed or not.
		if md.st != nil || m.Persistent && len(md.data) > 0 {
			want[name] = true
		}
	}
	names, err := m.engine.Stores()
	require.NoError(m, err)
	require.True(m, slices.IsSorted(names))
	for name := range want {
		require.Contains(m, names, name, "step %d", m.step)
	}
}
