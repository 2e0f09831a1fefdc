package globaltable

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/wickerwork/wicker/codec"
)

// Table names a table and says how its rows are read. It is a value made once that serves every place where the table is
// mentioned; the methods that set something return another table of the same name. It is immutable and safe to share. Make one
// with New.
type Table[K, V any] struct{ d *definition[K, V] }

type definition[K, V any] struct {
	name   string
	key    codec.Codec[K]
	value  codec.Codec[V]
	topics []string
	enrich func(K, V) (V, error)
	skip   bool
	// instead is SubstituteInvalid's, nil without.
	instead func(InvalidRecord) (V, bool)
	// cache is CacheRows'.
	cache int
	// disk and version are OnDisk's.
	disk    bool
	version string
}

// InvalidRecord is a record of which the value cannot be decoded, as the function of SubstituteInvalid gets it. Key and Value are the record's bytes; they must
// not be changed or kept.
type InvalidRecord struct {
	// Topic, Partition and Offset are where the record lies.
	Topic      string
	Partition  int32
	Offset     int64
	Key, Value []byte
	// Err is the codec's error.
	Err error
}

// New returns the table of a topic. Name is the topic's and the table's, see Topics.
func New[K, V any](name string, key codec.Codec[K], value codec.Codec[V]) Table[K, V] {
	return Table[K, V]{&definition[K, V]{name: name, key: key, value: value, topics: []string{name}}}
}

func (t Table[K, V]) with(set func(d *definition[K, V])) Table[K, V] {
	var d definition[K, V]
	if t.d != nil {
		d = *t.d
	}
	set(&d)
	return Table[K, V]{&d}
}

// Topics makes the table one of other topics than that of its name. They share one space of keys: a record on any of them
// replaces or deletes the row of its key. Order holds within a partition only, so a key should have one place.
func (t Table[K, V]) Topics(names ...string) Table[K, V] {
	return t.with(func(d *definition[K, V]) { d.topics = slices.Clone(names) })
}

// Enrich has f make each row of what its record says: once for each record that is a key's last one at the start, and once for each
// that comes later; never for one that deletes, and never for a lookup. f gets a value of its own. It must be deterministic, since
// each instance calls it for itself, and is called by one goroutine at a time. An error ends the run. A result that the
// codec encodes to null is no row.
func (t Table[K, V]) Enrich(f func(K, V) (V, error)) Table[K, V] {
	return t.with(func(d *definition[K, V]) { d.enrich = f })
}

// SkipInvalid has records that cannot be decoded passed over and counted, instead of ending the run. The previous valid row of the
// key stands, at the start as later; at the start that takes a record that compaction has not removed yet. A tombstone whose
// key cannot be decoded deletes nothing.
func (t Table[K, V]) SkipInvalid() Table[K, V] {
	return t.with(func(d *definition[K, V]) { d.skip = true })
}

// SubstituteInvalid has f give a value in place of one that cannot be decoded, which is then enriched and kept as if the record had it; with false the record is passed over
// as with SkipInvalid. At the start that is done for records that have no later one of their key only. A key is never substituted: a record whose key cannot be decoded ends the run. f must
// be deterministic, since each instance calls it for itself, and is called by one goroutine at a time.
func (t Table[K, V]) SubstituteInvalid(f func(InvalidRecord) (V, bool)) Table[K, V] {
	return t.with(func(d *definition[K, V]) { d.instead = f })
}

// OnDisk keeps the rows in the application's engine of local state (exec.Config.State) in place of memory, with how far the topics have been read, so that a start reads
// what has come since: for tables that do not fit into memory, or that take long to read. A lookup reads the engine.
//
// Version names what the functions of Enrich and SubstituteInvalid do: rows that another version has made are made anew, by reading the topics from their start (KIP-813
// says what else would happen). Change it with the functions, and with a type of values whose encoding changes. A table without such functions may have "".
//
// Of a table on disk Enrich is called for each record that is read, at the start too; there an error counts if the record is its key's last one.
func (t Table[K, V]) OnDisk(version string) Table[K, V] {
	return t.with(func(d *definition[K, V]) { d.disk, d.version = true, version })
}

// CacheRows has each task keep up to so many of the rows that it has looked up, as values: a key that is looked up again while the table has not changed costs no
// lookup and no decoding. That is for tables that change seldom, with codecs that take long, or on disk. The lookups of a task then share values: functions must not change what these
// refer to. 0, the default, keeps none.
func (t Table[K, V]) CacheRows(n int) Table[K, V] {
	return t.with(func(d *definition[K, V]) { d.cache = n })
}

// Name returns the table's name, "" of the zero Table.
func (t Table[K, V]) Name() string {
	if t.d == nil {
		return ""
	}
	return t.d.name
}

// Codecs returns the codecs of keys and values.
func (t Table[K, V]) Codecs() (codec.Codec[K], codec.Codec[V]) {
	if t.d == nil {
		return nil, nil
	}
	return t.d.key, t.d.value
}

// View is a table that a process holds, for other uses than lookups of a topology. It is safe for concurrent use.
type View[K, V any] struct {
	d      *definition[K, V]
	loader *Loader
	ready  <-chan struct{}
	keys   sync.Pool // of *[]byte
}

// NewView returns a view of a table's rows, that are complete when ready is closed.
func NewView[K, V any](t Table[K, V], l *Loader, ready <-chan struct{}) *View[K, V] {
	return &View[K, V]{d: t.d, loader: l, ready: ready}
}

// Ready waits until all that was in the table's topics at the start has been read. The error is ctx's.
func (v *View[K, V]) Ready(ctx context.Context) error {
	select {
	case <-v.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Get returns the row of a key as it is now, false if there is none, or if the table has not been read yet. An error is a codec's, or of a table on disk its store's:
// that is closed when the run ends.
func (v *View[K, V]) Get(key K) (row V, ok bool, err error) {
	buf, _ := v.keys.Get().(*[]byte)
	if buf == nil {
		buf = new(make([]byte, 0, 64)) // non-nil: a nil result means null
	}
	kb, err := v.d.key.Append((*buf)[:0], key)
	if err != nil || kb == nil {
		return row, false, err
	}
	*buf = kb
	now := v.loader.Snapshot()
	b, ok, err := now.Get(nil, kb) // a decoder may keep it
	now.Release()
	v.keys.Put(buf)
	if !ok || err != nil {
		return row, false, err
	}
	if row, err = v.d.value.Decode(b); err != nil {
		return row, false, err
	}
	return row, true, nil
}

// All returns the rows as they are now, in no order. It ends early, with an error of a codec or a store in err, if err is not nil.
func (v *View[K, V]) All(err *error) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		now := v.loader.Snapshot()
		defer now.Release()
		for kb, vb := range now.All(err) {
			k, e := v.d.key.Decode(bytes.Clone(kb)) // a decoder may keep it
			var row V
			if e == nil {
				row, e = v.d.value.Decode(append([]byte{}, vb...))
			}
			if e != nil {
				if err != nil {
					*err = e
				}
				return
			}
			if !yield(k, row) {
				return
			}
		}
	}
}

// Len is the number of rows, Size the bytes of their keys and values. Of a table on disk both are estimates.
func (v *View[K, V]) Len() int64 {
	now := v.loader.Snapshot()
	defer now.Release()
	return now.Len()
}

// Size is explained at Len.
func (v *View[K, V]) Size() int64 {
	now := v.loader.Snapshot()
	defer now.Release()
	return now.Size()
}
