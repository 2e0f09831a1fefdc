package globaltable

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/kvstore"
)

type tier struct {
	Rate int    `json:"rate"`
	Name string `json:"name"`
}

var tiers = New("tiers", codec.String, codec.JSON[tier]())

// loading is a table that is being read.
type loading struct {
	*Loader
	t      *testing.T
	offset int64
}

// home says where the rows of a table are.
type home bool

const (
	inMemory home = false
	onDisk   home = true
)

// homes runs a test for both.
func homes(t *testing.T, f func(t *testing.T, h home)) {
	t.Run("memory", func(t *testing.T) { f(t, inMemory) })
	t.Run("disk", func(t *testing.T) { f(t, onDisk) })
}

func load[K, V any](t *testing.T, h home, table Table[K, V]) *loading {
	t.Helper()
	if h == onDisk {
		table = table.OnDisk("1")
	}
	spec, err := table.Spec()
	require.NoError(t, err)
	l := &loading{Loader: NewLoader(spec), t: t}
	if h == onDisk {
		e := kvstore.NewMemory()
		require.NoError(t, e.Open())
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		st, err := e.OpenStore("table")
		require.NoError(t, err)
		l.Open(st)
	}
	return l
}

// record applies the next record; "null" is none.
func (l *loading) record(key, value string) error {
	r := Record{Topic: l.spec.Topics[0], Partition: 3, Offset: l.offset}
	l.offset++
	if key != "null" {
		r.Key = []byte(key)
	}
	if value != "null" {
		r.Value = []byte(value)
	}
	return l.Apply(&r)
}

func (l *loading) put(pairs ...string) {
	l.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		require.NoError(l.t, l.record(pairs[i], pairs[i+1]))
	}
}

func (l *loading) boot() *loading {
	l.t.Helper()
	require.NoError(l.t, l.Boot())
	return l
}

func (l *loading) publish() {
	l.t.Helper()
	require.NoError(l.t, l.Publish())
}

// rows returns the published rows.
func (l *loading) rows() map[string]string { return rowsOf(l.t, l.Loader) }

func rowsOf(t *testing.T, l *Loader) map[string]string {
	t.Helper()
	got := map[string]string{}
	now := l.Snapshot()
	defer now.Release()
	var err error
	for k, v := range now.All(&err) {
		got[string(k)] = string(v)
	}
	require.NoError(t, err)
	return got
}

// CF-05: null, no bytes and exactly {} delete, whether they are read at the start or later; other forms of an empty object are rows.
func TestCF05Tombstones(t *testing.T) { homes(t, testCF05Tombstones) }

func testCF05Tombstones(t *testing.T, h home) {
	const one = `{"rate":1}`
	for value, deletes := range map[string]bool{"null": true, "": true, "{}": true, "{ }": false, "{}\n": false, " {}": false} {
		for _, live := range []bool{false, true} {
			l := load(t, h, tiers)
			l.put("k", one, "other", one)
			if live {
				l.boot()
			}
			l.put("k", value)
			if !live {
				l.boot()
			}
			l.publish()
			want := map[string]string{"other": one}
			if !deletes {
				want["k"] = value
			}
			require.Equal(t, want, l.rows(), "%q live=%v", value, live)
		}
	}
	// Of codecs whose values are no objects {} is a value.
	l := load(t, h, New("t", codec.String, codec.String))
	l.put("k", "{}")
	require.Equal(t, map[string]string{"k": "{}"}, l.boot().rows())
	// JSON null is no tombstone but invalid.
	l = load(t, h, tiers)
	l.put("k", "nul")
	require.Error(t, l.Boot())
	l = load(t, h, tiers).boot()
	require.Error(t, l.Apply(&Record{Topic: "tiers", Key: []byte("k"), Value: []byte("null")}))
}

// CF-06: a record without a key is one of the empty key, and counted.
func TestCF06NullKeys(t *testing.T) { homes(t, testCF06NullKeys) }

func testCF06NullKeys(t *testing.T, h home) {
	l := load(t, h, tiers)
	l.put("null", `{"rate":1}`)
	l.boot()
	require.Equal(t, map[string]string{"": `{"rate":1}`}, l.rows())
	l.put("", `{"rate":2}`)
	l.publish()
	require.Equal(t, map[string]string{"": `{"rate":2}`}, l.rows())
	require.EqualValues(t, 1, l.Stats().NullKeys)
}

// CF-07: Enrich runs once for each row that is there at the start and once for each record after it, never for one that
// deletes; CF-08: it gets a value of its own.
func TestCF07EnrichOnce(t *testing.T) { homes(t, testCF07EnrichOnce) }

func testCF07EnrichOnce(t *testing.T, h home) {
	var calls []string
	l := load(t, h, tiers.Enrich(func(k string, v tier) (tier, error) {
		calls = append(calls, fmt.Sprint(k, v.Rate))
		v.Name = k + "!"
		return v, nil
	}))
	l.put("a", `{"rate":1}`, "a", `{"rate":2}`, "b", `{"rate":3}`, "b", "null", "a", `{"rate":4,"unknown":true}`)
	if h == inMemory {
		require.Empty(t, calls)
	}
	l.boot()
	if h == onDisk { // once for each record
		require.Equal(t, []string{"a1", "a2", "b3", "a4"}, calls)
		calls = calls[3:]
	}
	require.Equal(t, []string{"a4"}, calls)
	require.Equal(t, map[string]string{"a": `{"rate":4,"name":"a!"}`}, l.rows())
	l.put("a", `{"rate":5}`, "a", "null", "c", `{"rate":6}`)
	l.publish()
	require.Equal(t, []string{"a4", "a5", "c6"}, calls)
	require.Equal(t, map[string]string{"c": `{"rate":6,"name":"c!"}`}, l.rows())
	if h == inMemory {
		require.EqualValues(t, len(`c{"rate":6,"name":"c!"}`), l.Stats().Bytes)
	}
	require.EqualValues(t, 1, l.Stats().Rows)
	require.EqualValues(t, 8, l.Stats().Read)
}

// An error of Enrich names the record, also of one that was read long before it is enriched.
func TestCF07EnrichFails(t *testing.T) { homes(t, testCF07EnrichFails) }

func testCF07EnrichFails(t *testing.T, h home) {
	no := errors.New("no")
	for _, live := range []bool{false, true} {
		l := load(t, h, tiers.Enrich(func(k string, v tier) (tier, error) {
			if k == "bad" {
				return v, no
			}
			return v, nil
		}).SkipInvalid())
		var err error
		if live {
			l.boot()
		}
		l.put("good", `{"rate":2}`)
		err = l.record("bad", `{"rate":1}`)
		if !live {
			require.NoError(t, err)
			err = l.Boot()
		}
		require.ErrorIs(t, err, no)
		var re *RecordError
		require.ErrorAs(t, err, &re)
		require.Equal(t, RecordError{"tiers", "function", "tiers", 3, 1, re.Err}, *re)
		require.NotContains(t, err.Error(), "SkipInvalid", "which would not help")
	}
	// What Enrich makes of a value may be no row.
	l := load(t, h, New("t", codec.String, codec.Nullable(codec.String)).Enrich(func(_ string, v *string) (*string, error) {
		if *v == "gone" {
			return nil, nil
		}
		return v, nil
	}))
	l.put("a", "gone", "b", "stays")
	l.boot()
	l.put("c", "gone", "b", "gone")
	l.publish()
	require.Empty(t, l.rows())
}

// CF-13: what cannot be decoded counts if it is a key's last record at the start, each of them later; a key always.
func TestCF13InvalidRecords(t *testing.T) { homes(t, testCF13InvalidRecords) }

func testCF13InvalidRecords(t *testing.T, h home) {
	const one, two = `{"rate":1}`, `{"rate":2}`
	t.Run("fail", func(t *testing.T) {
		l := load(t, h, tiers)
		l.put("k", "{", "k", one, "gone", "{", "gone", "null")
		require.Equal(t, map[string]string{"k": one}, l.boot().rows())
		err := l.record("k", `{"rate":"secret"}`)
		var re *RecordError
		require.ErrorAs(t, err, &re)
		require.EqualValues(t, 4, re.Offset)
		require.ErrorContains(t, err, "table tiers: topic tiers partition 3 offset 4: value: ")
		require.NotContains(t, err.Error(), "secret")

		l = load(t, h, tiers)
		l.put("k", one, "k", "{")
		err = l.Boot()
		require.ErrorAs(t, err, &re)
		require.EqualValues(t, 1, re.Offset)

		l = load(t, h, tiers)
		require.ErrorContains(t, l.record("\xff", "null"), "offset 0: key: ", "also of one that would delete")
	})
	t.Run("skip", func(t *testing.T) { // CF-14, CF-15: the previous valid row stands, at the start as later
		for _, live := range []bool{false, true} {
			l := load(t, h, tiers.SkipInvalid())
			l.put("k", one, "l", two)
			if live {
				l.boot()
			}
			l.put("k", "{", "new", "{", "\xff", one, "\xff", "null")
			if !live {
				l.boot()
			}
			l.publish()
			require.Equal(t, map[string]string{"k": one, "l": two}, l.rows(), "live=%v", live)
			require.EqualValues(t, 4, l.Stats().Invalid)
		}
		l := load(t, h, tiers.SkipInvalid())
		l.put("k", "{", "k", "[", "k", one)
		l.boot()
		require.Zero(t, l.Stats().Invalid, "none was the last one")
	})
}

// CF-03: one space of keys over all topics.
func TestCF03TopicsShareTheKeys(t *testing.T) { homes(t, testCF03TopicsShareTheKeys) }

func testCF03TopicsShareTheKeys(t *testing.T, h home) {
	l := load(t, h, tiers.Topics("a", "b"))
	apply := func(topic, key, value string) {
		r := Record{Topic: topic, Key: []byte(key)}
		if value != "" {
			r.Value = []byte(value)
		}
		require.NoError(t, l.Apply(&r))
	}
	apply("a", "k", `{"rate":1}`)
	apply("b", "k", `{"rate":2}`)
	apply("b", "l", `{"rate":3}`)
	apply("a", "l", "")
	require.Equal(t, map[string]string{"k": `{"rate":2}`}, l.boot().rows())
}

// Tables that cannot be read as they are declared.
func TestTablesThatAreNone(t *testing.T) {
	for text, table := range map[string]Table[string, tier]{
		"has no name":                 {},
		"key codec is nil":            New[string, tier]("t", nil, codec.JSON[tier]()),
		"value codec is nil":          New[string, tier]("t", codec.String, nil),
		"has no topics":               tiers.Topics(),
		"the table has topic a twice": tiers.Topics("a", "b", "a"),
		"has no name: it":             Table[string, tier]{}.SkipInvalid(),
		"CacheRows (-1) must be >= 0": tiers.CacheRows(-1),
		"OnDisk needs a version":      tiers.Enrich(func(_ string, v tier) (tier, error) { return v, nil }).OnDisk(""),
		"makes its rows by Enrich or": tiers.OnDisk("").SubstituteInvalid(func(InvalidRecord) (v tier, _ bool) { return v, false }),
	} {
		_, err := table.Spec()
		require.ErrorContains(t, err, text)
	}
	_, err := New("t", codec.String, codec.JSON[func()]()).Spec()
	require.ErrorContains(t, err, "value codec")
	a, err := tiers.Spec()
	require.NoError(t, err)
	b, err := tiers.Spec()
	require.NoError(t, err)
	c, err := tiers.SkipInvalid().Spec()
	require.NoError(t, err)
	require.True(t, a.Same(b))
	require.False(t, a.Same(c))
	require.Equal(t, "tiers", c.Name)
}

// A view gives rows as values, and says when all are there.
func TestViews(t *testing.T) { homes(t, testViews) }

func testViews(t *testing.T, h home) {
	l := load(t, h, tiers)
	ready := make(chan struct{})
	v := NewView(tiers, l.Loader, ready)
	l.put("a", `{"rate":1}`, "b", `{"rate":2}`)
	_, ok, err := v.Get("a")
	require.NoError(t, err)
	require.False(t, ok)
	l.boot()
	close(ready)
	require.NoError(t, v.Ready(t.Context()))
	row, ok, err := v.Get("a")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, tier{Rate: 1}, row)
	sum := 0
	for k, row := range v.All(&err) {
		sum += row.Rate + len(strings.TrimSpace(k))
	}
	require.NoError(t, err)
	require.Equal(t, 5, sum)
	require.EqualValues(t, 2, v.Len())
	if h == inMemory {
		require.EqualValues(t, 22, v.Size())
	}
	other := NewView(New("tiers", codec.Int64, codec.JSON[tier]()), l.Loader, ready)
	for range other.All(&err) {
		require.Fail(t, "a key of another type")
	}
	require.Error(t, err)
}

// CF-13, CF-16, CF-17, IN-05 to IN-07 for tables: a value that cannot be decoded is replaced, once for each record that is its key's last one at the start, and
// once for each that comes later; the replacement is enriched like any value, and may be empty; none means to pass the record over. A key is never replaced.
func TestCF16SubstitutedRows(t *testing.T) { homes(t, testCF16SubstitutedRows) }

func testCF16SubstitutedRows(t *testing.T, h home) {
	for _, enriched := range []bool{false, true} {
		var asked []int64
		table := New("rows", codec.String, codec.String).SubstituteInvalid(func(r InvalidRecord) (string, bool) {
			asked = append(asked, r.Offset)
			require.ErrorIs(t, r.Err, codec.ErrUTF8)
			require.Equal(t, []any{"rows", int32(3)}, []any{r.Topic, r.Partition})
			require.Equal(t, byte(0xff), r.Value[0])
			return string(r.Value[1:]), len(r.Value) > 1
		})
		want := func(rows map[string]string) map[string]string { return rows }
		if enriched {
			table = table.Enrich(func(_, v string) (string, error) { return v + "!", nil })
			want = func(rows map[string]string) map[string]string {
				for k, v := range rows {
					rows[k] = v + "!"
				}
				return rows
			}
		}
		l := load(t, h, table)
		require.True(t, l.spec.Substitutes)
		offset := int64(-1)
		apply := func(key, value string) error {
			offset++
			return l.Apply(&Record{Topic: "rows", Partition: 3, Offset: offset, Key: []byte(key), Value: []byte(value)})
		}
		for _, r := range [][2]string{{"a", "\xffstale"}, {"a", "1"}, {"b", "1"}, {"b", "\xffnew"}, {"c", "1"}, {"c", "\xff"}, {"d", "\xffgone"}} {
			require.NoError(t, apply(r[0], r[1]))
		}
		offset++
		require.NoError(t, l.Apply(&Record{Topic: "rows", Partition: 3, Offset: offset, Key: []byte("d")}))
		require.Empty(t, asked)
		require.NoError(t, l.Boot())
		slices.Sort(asked)
		require.Equal(t, []int64{3, 5}, asked, "those that are the last of their keys")
		require.Equal(t, want(map[string]string{"a": "1", "b": "new", "c": "1"}), l.rows())
		asked = nil
		require.NoError(t, apply("a", "\xfflive"))
		require.NoError(t, apply("b", "\xff"))
		l.publish()
		require.Equal(t, []int64{8, 9}, asked)
		require.Equal(t, want(map[string]string{"a": "live", "b": "new", "c": "1"}), l.rows())
		require.Equal(t, []int64{2, 2}, []int64{l.Stats().Substituted, l.Stats().Invalid})
		var e *RecordError
		require.ErrorAs(t, apply("\xff", "x"), &e)
		require.Equal(t, "key", e.Part)
	}
}
