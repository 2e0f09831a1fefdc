package ops

import (
	"fmt"

	"github.com/wickerwork/wicker/codec"
)

// Row is what a record of a table's topic says of its key: a value, or that there is none.
type Row[V any] struct {
	Value   V
	Present bool
}

// Change is how the row of a key in a keyed table has changed.
type Change[V any] struct{ Old, New Row[V] }

// TableSourceOp is a compacted topic as the beginning of a keyed table. A null value deletes the key's row and is not decoded.
type TableSourceOp[K, V any] struct{ Source SourceOp[K, V] }

// Traits describes the source.
func (s TableSourceOp[K, V]) Traits() Traits { return s.Source.Traits() }

// Wire makes the source for one task: what takes a record's bytes, nil for null.
func (s TableSourceOp[K, V]) Wire(site *Site, down Emit[K, Row[V]]) (Emit[[]byte, []byte], error) {
	m, at, key, value := site.Meta(), site.At, s.Source.Topic.Key, s.Source.Topic.Value
	invalid, err := newInvalid[V](s.Source.Options.OnInvalid, site)
	if err != nil {
		return nil, err
	}
	timed := s.Source.Options.OnTimestamp.timeless(site)
	return func(kb, vb []byte) error {
		m.At = at
		if m.Timestamp < 0 {
			if ok, err := timed(); !ok {
				return err
			}
		}
		k, err := key.Decode(kb)
		if err != nil {
			_, _, err := invalid.take("key", err, kb, vb)
			return err
		}
		if vb == nil {
			return down(k, Row[V]{})
		}
		v, err := value.Decode(vb)
		if err != nil {
			_, _, err := invalid.take("value", err, kb, vb)
			return err
		}
		return down(k, Row[V]{v, true})
	}, nil
}

// Valid says whether a record of the topic is one that the source passes on.
func (s TableSourceOp[K, V]) Valid(key, value []byte) bool {
	if key == nil {
		return false
	}
	if _, err := s.Source.Topic.Key.Decode(key); err != nil {
		return false
	}
	if value == nil {
		return true
	}
	_, err := s.Source.Topic.Value.Decode(value)
	return err == nil
}

// TableOp keeps the latest row of each key as state, and passes on what has changed.
type TableOp[K, V any] struct {
	State State[K, V]
	// Raw has rows kept as the bytes that were read: the topic is the state's changelog.
	Raw bool
	// Silent says that nobody wants to know what has changed.
	Silent bool
}

// Traits describes the operator.
func (o TableOp[K, V]) Traits() Traits {
	return Traits{Op: "Table", Name: o.State.Name, NeedsKey: true, Store: o.State.Name, StateCodec: codec.Describe(o.State.Value)}
}

// Wire makes the operator for one task.
func (o TableOp[K, V]) Wire(site *Site, down Emit[K, Change[V]]) (Emit[K, Row[V]], error) {
	store, err := site.Store(site.At.Store)
	if err != nil {
		return nil, err
	}
	m, at := site.Meta(), site.At
	kbuf, vbuf := make([]byte, 0, 64), make([]byte, 0, 256)
	return func(k K, r Row[V]) error {
		m.At = at
		kb, vb := m.Key, m.Value
		if !o.Raw {
			if kb, err = o.State.Key.Append(kbuf[:0], k); err != nil {
				return &EncodeError{Part: "key", Err: err}
			}
			if vb, err = o.State.Value.Append(vbuf[:0], r.Value); err != nil {
				return &EncodeError{Part: "state", Err: err}
			}
			if vb != nil {
				vbuf = vb
			}
			r.Present = vb != nil
		}
		if kb == nil {
			return ErrNullKey
		}
		if !o.Raw {
			kbuf = kb
		}
		c := Change[V]{New: r}
		if !o.Silent {
			if c.Old, err = readRow(store, kb, o.State.Value); err != nil {
				return err
			}
		}
		if err := store.Put(kb, vb); err != nil {
			return err
		}
		if o.Silent || !c.Old.Present && !c.New.Present {
			return nil
		}
		return down(k, c)
	}, nil
}

func readRow[V any](store Store, key []byte, value codec.Codec[V]) (r Row[V], err error) {
	b, err := store.Get(key)
	if err != nil || b == nil {
		return r, err
	}
	if r.Value, err = value.Decode(b); err != nil {
		return r, &DecodeError{Part: "state", Err: err}
	}
	r.Present = true
	return r, nil
}

// JoinOp joins each record with the row that a keyed table has for its key.
type JoinOp[K, V, TV, V2 any] struct {
	// Table is the table's name, Store that of its state.
	Table, Store string
	Key          codec.Codec[K]
	Value        codec.Codec[TV]
	// Join joins a record with the row, which is TV's zero value if the table has none.
	Join func(V, TV, bool) V2
	// Inner leaves out records without a row, and counts them as CountMissed.
	Inner bool
}

// Traits describes the operator.
func (o JoinOp[K, V, TV, V2]) Traits() Traits {
	op := "LeftJoin"
	if o.Inner {
		op = "Join"
	}
	return Traits{Op: op, Name: o.Table, NeedsKey: true}
}

// Wire makes the operator for one task. Records without a row are counted as "missed".
func (o JoinOp[K, V, TV, V2]) Wire(site *Site, down Emit[K, V2]) (Emit[K, V], error) {
	rows, err := newRows(site, o.Store, o.Key, o.Value)
	if err != nil {
		return nil, err
	}
	m, at, missed := site.Meta(), site.At, site.Counter(site.At, CountMissed)
	return func(k K, v V) error {
		m.At = at
		r, err := rows.get(k)
		if err != nil {
			return err
		}
		if !r.Present {
			missed.Add(1)
			if o.Inner {
				return nil
			}
		}
		return down(k, o.Join(v, r.Value, r.Present))
	}, nil
}

// JoinChangesOp joins each change of one keyed table with the row that another one has for the key: the result is that of the key in both, nil if there is
// none any more.
type JoinChangesOp[K, V, TV, R any] struct {
	Table, Store string
	Key          codec.Codec[K]
	Value        codec.Codec[TV]
	Join         func(V, TV) R
}

// Traits describes the operator.
func (o JoinChangesOp[K, V, TV, R]) Traits() Traits {
	return Traits{Op: "JoinTables", Name: o.Table, NeedsKey: true}
}

// Wire makes the operator for one task.
func (o JoinChangesOp[K, V, TV, R]) Wire(site *Site, down Emit[K, *R]) (Emit[K, Change[V]], error) {
	rows, err := newRows(site, o.Store, o.Key, o.Value)
	if err != nil {
		return nil, err
	}
	m, at := site.Meta(), site.At
	return func(k K, c Change[V]) error {
		m.At = at
		r, err := rows.get(k)
		if err != nil || !r.Present {
			return err
		}
		if !c.New.Present {
			return down(k, nil)
		}
		return down(k, new(o.Join(c.New.Value, r.Value)))
	}, nil
}

// rows reads a keyed table of the task.
type rows[K, V any] struct {
	store Store
	table string
	key   codec.Codec[K]
	value codec.Codec[V]
	buf   []byte
}

func newRows[K, V any](site *Site, store string, key codec.Codec[K], value codec.Codec[V]) (*rows[K, V], error) {
	s, err := site.Store(store)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", store, err)
	}
	return &rows[K, V]{store: s, table: store, key: key, value: value, buf: make([]byte, 0, 64)}, nil
}

func (r *rows[K, V]) get(k K) (Row[V], error) {
	kb, err := r.key.Append(r.buf[:0], k)
	if err != nil {
		return Row[V]{}, &EncodeError{Part: "key", Err: err}
	}
	if kb == nil {
		return Row[V]{}, ErrNullKey
	}
	r.buf = kb
	return readRow(r.store, kb, r.value)
}
