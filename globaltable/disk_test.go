//go:build cgo

package globaltable

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/kvstore/rocksdb"
)

// diskRun is a table on disk whose process ends and begins again, over topics of which nothing is lost.
type diskRun struct {
	t      *testing.T
	rand   *rand.Rand
	dir    string
	engine kvstore.Engine
	spec   *Spec
	log    [2][]Record // by partition
	read   int64
}

func (d *diskRun) write(n int) {
	for range n {
		p := int32(d.rand.IntN(2))
		r := Record{Topic: "rows", Partition: p, Offset: int64(len(d.log[p])), Key: fmt.Appendf(nil, "%d-%d", p, d.rand.IntN(20))}
		switch d.rand.IntN(10) {
		case 0, 1:
		case 2:
			r.Value = []byte("\xffinvalid")
		case 3:
			r.Value = []byte("gone")
		default:
			r.Value = fmt.Append(nil, "v", d.rand.IntN(1000))
		}
		d.log[p] = append(d.log[p], r)
	}
}

// want is the oracle: what each key's last record that is no invalid one makes of it.
func (d *diskRun) want() map[string]string {
	rows := map[string]string{}
	for _, part := range d.log {
		for _, r := range part {
			switch v := string(r.Value); {
			case strings.HasPrefix(v, "\xff"):
			case v == "" || v == "gone":
				delete(rows, string(r.Key))
			default:
				rows[string(r.Key)] = v + "!"
			}
		}
	}
	return rows
}

// run is a process: it opens the store, reads to the end, follows for a while, and may end anywhere.
func (d *diskRun) run(bulk bool) {
	d.engine = rocksdb.New(rocksdb.Options{Dir: d.dir})
	require.NoError(d.t, d.engine.Open())
	defer func() { require.NoError(d.t, d.engine.Close()) }()
	st, err := d.engine.OpenStore("table")
	require.NoError(d.t, err)
	l := NewLoader(d.spec)
	l.Open(st)
	if bulk {
		l.Expect(1 << 20)
	}
	var at [2]int64
	for p := range at {
		if at[p], _, err = l.Position("rows", int32(p)); err != nil {
			require.NoError(d.t, err)
		}
	}
	// some reads a chunk of a partition, and says whether the process goes on.
	some := func(p, most int) bool {
		n := min(len(d.log[p])-int(at[p]), 1+d.rand.IntN(most))
		for range n {
			require.NoError(d.t, l.Apply(&d.log[p][at[p]]))
			at[p]++
			d.read++
			if d.rand.IntN(400) == 0 {
				return false
			}
		}
		l.Reached("rows", int32(p), at[p])
		require.NoError(d.t, l.Publish())
		return true
	}
	for at[0] < int64(len(d.log[0])) || at[1] < int64(len(d.log[1])) {
		require.Empty(d.t, rowsOf(d.t, l), "nothing is seen before all is read")
		if !some(d.rand.IntN(2), 30) {
			return
		}
	}
	require.NoError(d.t, l.Boot())
	require.Equal(d.t, d.want(), rowsOf(d.t, l))
	held, want := l.Snapshot(), d.want()
	for range d.rand.IntN(20) {
		d.write(1 + d.rand.IntN(10))
		for p := range at {
			for at[p] < int64(len(d.log[p])) {
				if !some(p, 5) {
					return
				}
			}
		}
		require.Equal(d.t, d.want(), rowsOf(d.t, l))
	}
	got := map[string]string{}
	for k, v := range held.All(&err) {
		got[string(k)] = string(v)
		one, ok, err := held.Get(nil, k)
		require.NoError(d.t, err)
		require.True(d.t, ok)
		require.Equal(d.t, v, one)
	}
	require.NoError(d.t, err)
	require.Equal(d.t, want, got, "what is held stays")
	held.Release()
}

// G7, CF-14: a table on disk has, whatever process reads it up to wherever, the rows that reading all of its topics makes; each process goes on where the one before
// was. The seed is in the name.
func TestG7ATableOnDiskGoesOn(t *testing.T) {
	table := New("rows", codec.String, codec.Nullable(codec.String)).Enrich(func(_ string, v *string) (*string, error) {
		if *v == "gone" {
			return nil, nil
		}
		more := *v + "!"
		return &more, nil
	}).SkipInvalid().OnDisk("1")
	spec, err := table.Spec()
	require.NoError(t, err)
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			d := &diskRun{t: t, rand: rand.New(rand.NewPCG(seed, 7)), dir: t.TempDir(), spec: spec}
			d.write(300)
			for range 15 {
				d.run(d.rand.IntN(2) == 0)
				d.write(d.rand.IntN(50))
			}
			all := int64(len(d.log[0]) + len(d.log[1]))
			require.Less(t, d.read, 3*all, "each goes on where the one before was")
		})
	}
}

// A process that ends while the last record of a key is one that ends the run, or before Enrich has worked, has not dealt with it: the next one meets it again.
func TestG7WhatIsNotDealtWithIsMetAgain(t *testing.T) {
	no := errors.New("no")
	fails := true
	table := New("rows", codec.String, codec.String).Enrich(func(_, v string) (string, error) {
		if v == "bad" && fails {
			return "", no
		}
		return v, nil
	}).OnDisk("1")
	spec, err := table.Spec()
	require.NoError(t, err)
	e := rocksdb.New(rocksdb.Options{Dir: t.TempDir()})
	require.NoError(t, e.Open())
	defer func() { require.NoError(t, e.Close()) }()
	st, err := e.OpenStore("table")
	require.NoError(t, err)
	start := func() (*Loader, int64) {
		l := NewLoader(spec)
		l.Open(st)
		at, _, err := l.Position("rows", 0)
		require.NoError(t, err)
		return l, at
	}
	log := []Record{{Topic: "rows", Key: []byte("a"), Value: []byte("1")}, {Topic: "rows", Offset: 1, Key: []byte("b"), Value: []byte("2")}}
	read := func(l *Loader, from int64) {
		for i := from; i < int64(len(log)); i++ {
			require.NoError(t, l.Apply(&log[i]))
			l.Reached("rows", 0, i+1)
			require.NoError(t, l.Publish())
		}
	}
	l, at := start()
	read(l, at)
	require.NoError(t, l.Boot())
	log = append(log, Record{Topic: "rows", Offset: 2, Key: []byte("a"), Value: []byte("bad")}, Record{Topic: "rows", Offset: 3, Key: []byte("b"), Value: []byte("3")})
	for range 3 {
		l, at = start()
		require.EqualValues(t, 2, at)
		read(l, at)
		err := l.Boot()
		require.ErrorIs(t, err, no)
		require.ErrorContains(t, err, "offset 2: function: enrich")
	}
	fails = false
	l, at = start()
	read(l, at)
	require.NoError(t, l.Boot())
	require.Equal(t, map[string]string{"a": "bad", "b": "3"}, rowsOf(t, l))
	_, at = start()
	require.EqualValues(t, 4, at)
}

// Lookups of many goroutines while the table is followed: each sees whole publishes, ever newer ones; after the store's end they are told.
func TestG7LookupsWhileItIsFollowed(t *testing.T) {
	l := load(t, onDisk, New("rows", codec.String, codec.Int64))
	value := func(n int64) []byte {
		b, err := codec.Int64.Append(nil, n)
		require.NoError(t, err)
		return b
	}
	publish := func(n int64) {
		for _, k := range []string{"a", "b"} {
			require.NoError(t, l.Apply(&Record{Topic: "rows", Key: []byte(k), Value: value(n)}))
		}
		require.NoError(t, l.Publish())
	}
	publish(0)
	require.NoError(t, l.Boot())
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := ""
			for {
				select {
				case <-done:
					return
				default:
				}
				now := l.Snapshot()
				a, ok, err := now.Get(nil, []byte("a"))
				b, _, err2 := now.Get(nil, []byte("b"))
				now.Release()
				if err != nil || err2 != nil || !ok || string(a) != string(b) || string(a) < last {
					t.Errorf("%x %x after %x: %v, %v", a, b, last, err, err2)
					return
				}
				last = string(a)
			}
		})
	}
	for n := range int64(2000) {
		publish(n)
	}
	close(done)
	wg.Wait()
	require.NoError(t, l.disk.store.Close())
	now := l.Snapshot()
	defer now.Release()
	_, _, err := now.Get(nil, []byte("a"))
	require.ErrorIs(t, err, kvstore.ErrClosed)
	for range now.All(&err) {
		require.Fail(t, "a row of a closed store")
	}
	require.ErrorIs(t, err, kvstore.ErrClosed)
}
