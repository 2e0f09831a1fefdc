package ops

import "github.com/wickerwork/wicker/codec"

// Lookups is a global table as one task sees it: it stays the same for a batch of records. It belongs to the task's goroutine.
type Lookups interface {
	// Get returns the value of a key, false if the table has none. The value is the caller's to keep. An error is of a table on disk.
	Get(key []byte) ([]byte, bool, error)
	// Version is another number when Get may answer otherwise than it has.
	Version() int64
}

// LookupOp joins each record with the row that a global table has for a key taken from it.
type LookupOp[K, V, TK, TV, V2 any] struct {
	Label string
	// Table is the table's name, with its codecs.
	Table string
	Key   codec.Codec[TK]
	Value codec.Codec[TV]
	// Cache is how many decoded rows are kept while the table does not change.
	Cache int
	// At takes the key to look up from a record.
	At func(K, V) TK
	// Join joins a record with the row, which is TV's zero value if the table has none.
	Join func(V, TV, bool) V2
	// Inner leaves out records without a row, and counts them as CountMissed.
	Inner bool
}

// Traits describes the operator.
func (o LookupOp[K, V, TK, TV, V2]) Traits() Traits {
	op := "LeftLookup"
	if o.Inner {
		op = "Lookup"
	}
	return Traits{Op: op, Name: o.Table, Table: o.Table}
}

// Wire makes the operator for one task. Records without a row are counted as "missed".
func (o LookupOp[K, V, TK, TV, V2]) Wire(site *Site, down Emit[K, V2]) (Emit[K, V], error) {
	table, err := site.Lookups(o.Table)
	if err != nil {
		return nil, err
	}
	m, at, missed := site.Meta(), site.At, site.Counter(site.At, CountMissed)
	kbuf := make([]byte, 0, 64) // non-nil: a nil result means null
	cache := &rowCache[TV]{table: table, name: o.Table, codec: o.Value, most: o.Cache}
	return func(k K, v V) error {
		m.At = at
		kb, err := o.Key.Append(kbuf[:0], o.At(k, v))
		if err != nil {
			return &EncodeError{Part: "key of table " + o.Table, Err: err}
		}
		var row TV
		found := false
		if kb != nil { // the null key has no row
			kbuf = kb
			if row, found, err = cache.get(kb); err != nil {
				return err
			}
		}
		if !found {
			missed.Add(1)
			if o.Inner {
				return nil
			}
		}
		return down(k, o.Join(v, row, found))
	}, nil
}
