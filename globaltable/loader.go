package globaltable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/wickerwork/wicker/codec"
)

// Record is one record of a table's topics. Nil keys and values are null. The loader copies what it keeps.
type Record struct {
	Topic      string
	Partition  int32
	Offset     int64
	Key, Value []byte
}

// Spec is a table without its types: what is needed to read its topics.
type Spec struct {
	// Name is the table's, Topics are what it is read from.
	Name   string
	Topics []string
	// KeyCodec and ValueCodec describe its codecs.
	KeyCodec, ValueCodec string
	// Enriched says that rows are not what records say.
	Enriched bool
	// Skip says that records which cannot be decoded are passed over, Substitutes that values which cannot are replaced.
	Skip, Substitutes bool

	definition any // a pointer
	object     bool
	key        func(key []byte) error
	value      func(value []byte) error
	enrich     func(dst, key, value []byte) ([]byte, error)
	// instead gives the bytes of a value in place of an invalid one, false if there is none.
	instead func(r *InvalidRecord) ([]byte, bool, error)
}

// Spec returns the table without its types, or what is wrong with it.
func (t Table[K, V]) Spec() (*Spec, error) {
	d := t.d
	if err := t.check(); err != nil {
		return nil, err
	}
	s := &Spec{Name: d.name, Topics: d.topics, KeyCodec: codec.Describe(d.key), ValueCodec: codec.Describe(d.value), Enriched: d.enrich != nil, Skip: d.skip,
		definition: d, object: codec.IsObject(d.value)}
	s.key = func(b []byte) error {
		_, err := d.key.Decode(b)
		return err
	}
	s.value = func(b []byte) error {
		_, err := d.value.Decode(b)
		return err
	}
	if f := d.instead; f != nil {
		s.Substitutes = true
		s.instead = func(r *InvalidRecord) ([]byte, bool, error) {
			v, ok := f(*r)
			if !ok {
				return nil, false, nil
			}
			b, err := d.value.Append([]byte{}, v)
			if err != nil {
				return nil, false, fmt.Errorf("encode what SubstituteInvalid returned: %w", err)
			}
			return b, true, nil
		}
	}
	if f := d.enrich; f != nil {
		s.enrich = func(dst, key, value []byte) ([]byte, error) {
			k, err := d.key.Decode(key)
			if err != nil {
				return nil, err
			}
			v, err := d.value.Decode(value)
			if err != nil {
				return nil, err
			}
			if v, err = f(k, v); err != nil {
				return nil, fmt.Errorf("enrich: %w", err)
			}
			b, err := d.value.Append(dst, v)
			if err != nil {
				return nil, fmt.Errorf("encode what Enrich returned: %w", err)
			}
			return b, nil
		}
	}
	return s, nil
}

// Same says whether both are of one table value: two of one name that are not would hold different rows.
func (s *Spec) Same(other *Spec) bool { return s.definition == other.definition }

func (t Table[K, V]) check() error {
	d := t.d
	switch {
	case d == nil || d.name == "":
		return errors.New("the table has no name: it is made by globaltable.New")
	case d.key == nil:
		return errors.New("the table's key codec is nil")
	case d.value == nil:
		return errors.New("the table's value codec is nil")
	case len(d.topics) == 0:
		return errors.New("the table has no topics: Topics needs at least one")
	}
	for i, topic := range d.topics {
		if slices.Contains(d.topics[:i], topic) {
			return fmt.Errorf("the table has topic %s twice", topic)
		}
	}
	if err := codec.Check(d.key); err != nil {
		return fmt.Errorf("the table's key codec: %w", err)
	}
	if err := codec.Check(d.value); err != nil {
		return fmt.Errorf("the table's value codec: %w", err)
	}
	return nil
}

// RecordError is a record of a table that cannot be read. It wraps the codec's error, or what Enrich returned.
type RecordError struct {
	Table string
	// Part is "key" or "value".
	Part      string
	Topic     string
	Partition int32
	Offset    int64
	Err       error
}

// Error names table, part and coordinates, never the content.
func (e *RecordError) Error() string {
	return fmt.Sprintf("table %s: topic %s partition %d offset %d: %s: %v (SkipInvalid passes such records over)", e.Table, e.Topic, e.Partition, e.Offset, e.Part, e.Err)
}

// Unwrap returns the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// Loader makes a table of the records of its topics. It has two phases: until Boot all records are those that were there at the start, of
// which only each key's last one counts; afterwards each counts as it comes. It belongs to one goroutine; Entries and
// Stats' results are for all.
type Loader struct {
	spec    *Spec
	entries *Entries
	booted  bool
	buf     []byte
	// suspects are keys whose last record cannot be decoded, with that, until Boot.
	suspects map[string]suspect
	stats    Stats
}

// suspect is a record whose value cannot be decoded. Its value is kept if it may be substituted.
type suspect struct {
	err   *RecordError
	value []byte
}

// Stats is what a table has read.
type Stats struct {
	// Rows is the number of rows, Bytes the size of their keys and values and Memory what they occupy.
	Rows, Bytes, Memory int64
	// Read is the number of records that were read, Invalid of those that were passed over and Substituted of those whose value was replaced.
	Read, Invalid, Substituted int64
	// NullKeys is the number of records without a key: they are those of the empty key.
	NullKeys int64
}

// NewLoader returns one with an empty table.
func NewLoader(spec *Spec) *Loader {
	return &Loader{spec: spec, entries: NewEntries(), suspects: map[string]suspect{}, buf: make([]byte, 0, 256)}
}

// Entries is the table.
func (l *Loader) Entries() *Entries { return l.entries }

// Stats returns what was read.
func (l *Loader) Stats() Stats {
	s := l.stats
	snap := l.entries.Snapshot()
	s.Rows, s.Bytes, s.Memory = snap.Len(), snap.Size(), l.entries.Memory()
	return s
}

// Apply takes a record. It is seen by snapshots taken after the next Publish, or after Boot.
func (l *Loader) Apply(r *Record) error {
	l.stats.Read++
	key := r.Key
	if key == nil {
		l.stats.NullKeys++
		key = []byte{}
	}
	if err := l.spec.key(key); err != nil { // also of those that delete, and of those that are not the last: it cannot be told what they are of
		return l.invalid(l.errorOf(r, "key", err))
	}
	if l.spec.deletes(r.Value) {
		delete(l.suspects, string(key))
		return l.entries.Delete(key)
	}
	if err := l.spec.value(r.Value); err != nil {
		e := l.errorOf(r, "value", err)
		if l.booted {
			return l.substitute(key, suspect{e, r.Value})
		}
		s := suspect{err: e}
		if l.spec.instead != nil {
			s.value = bytes.Clone(r.Value)
		}
		l.suspects[string(key)] = s
		return nil
	}
	if !l.booted {
		delete(l.suspects, string(key))
	}
	return l.put(key, r)
}

// put makes the key's row of a record whose value can be decoded.
func (l *Loader) put(key []byte, r *Record) error {
	if l.spec.enrich == nil {
		return l.entries.Put(key, r.Value)
	}
	if !l.booted {
		l.buf = l.place(l.buf[:0], r)
		l.buf = append(l.buf, r.Value...)
		return l.entries.Put(key, l.buf)
	}
	value, err := l.spec.enrich(l.buf[:0], key, r.Value)
	if err != nil {
		return l.errorOf(r, "value", err)
	}
	if value == nil {
		return l.entries.Delete(key)
	}
	l.buf = value
	return l.entries.Put(key, value)
}

// Boot ends the first phase: all that was there at the start has been given to Apply. The rows are enriched and visible then.
func (l *Loader) Boot() error {
	for key, s := range l.suspects { // one of them, if they are not to be passed over
		if err := l.substitute([]byte(key), s); err != nil {
			return err
		}
	}
	l.suspects, l.booted = nil, true
	if l.spec.enrich != nil {
		var at Record
		err := l.entries.Rewrite(func(key, value []byte) ([]byte, error) {
			value = l.placeOf(&at, value)
			enriched, err := l.spec.enrich(l.buf[:0], key, value)
			if err != nil {
				return nil, l.errorOf(&at, "value", err)
			}
			if enriched != nil {
				l.buf = enriched
			}
			return enriched, nil
		})
		if err != nil {
			return err
		}
	}
	l.entries.Publish()
	return nil
}

// Publish shows lookups what was applied.
func (l *Loader) Publish() { l.entries.Publish() }

// place writes where a record is in front of its value, since it is enriched when it has been read long since; placeOf takes
// that off again.
func (l *Loader) place(b []byte, r *Record) []byte {
	b = binary.AppendUvarint(b, uint64(slices.Index(l.spec.Topics, r.Topic)))
	b = binary.AppendUvarint(b, uint64(r.Partition))
	return binary.AppendUvarint(b, uint64(r.Offset))
}

func (l *Loader) placeOf(r *Record, b []byte) (value []byte) {
	number := func() uint64 {
		n, size := binary.Uvarint(b)
		b = b[size:]
		return n
	}
	r.Topic = l.spec.Topics[number()]
	r.Partition = int32(number())
	r.Offset = int64(number())
	return b
}

// Row returns the row that a record of the table's topic makes of its key, nil if it deletes that. The result is the caller's.
func (s *Spec) Row(key, value []byte) ([]byte, error) {
	switch {
	case s.deletes(value):
		return nil, nil
	case s.enrich == nil:
		return append([]byte{}, value...), nil
	}
	return s.enrich([]byte{}, bytes.Clone(key), bytes.Clone(value))
}

// deletes says whether a value takes its key out of the table.
func (s *Spec) deletes(value []byte) bool {
	return len(value) == 0 || s.object && len(value) == 2 && value[0] == '{' && value[1] == '}'
}

func (l *Loader) errorOf(r *Record, part string, err error) *RecordError {
	return &RecordError{l.spec.Name, part, r.Topic, r.Partition, r.Offset, err}
}

// substitute replaces the value of a record that cannot be decoded, if the table does that, and passes it over otherwise.
func (l *Loader) substitute(key []byte, s suspect) error {
	if l.spec.instead == nil {
		return l.invalid(s.err)
	}
	e := s.err
	value, ok, err := l.spec.instead(&InvalidRecord{e.Topic, e.Partition, e.Offset, key, s.value, e.Err})
	switch {
	case err != nil:
		return &RecordError{e.Table, e.Part, e.Topic, e.Partition, e.Offset, err}
	case !ok:
		l.stats.Invalid++
		return nil
	}
	l.stats.Substituted++
	if l.spec.deletes(value) {
		return l.entries.Delete(key)
	}
	return l.put(key, &Record{e.Topic, e.Partition, e.Offset, key, value})
}

// invalid is for a record that cannot be decoded.
func (l *Loader) invalid(e *RecordError) error {
	if !l.spec.Skip {
		return e
	}
	l.stats.Invalid++
	return nil
}
