package globaltable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/wickerwork/wicker/ops"
)

// Record is one record of a table's topics. Nil keys and values are null. The loader copies what it keeps.
type Record struct {
	Topic      string
	Partition  int32
	Offset     int64
	Key, Value []byte
}

// RecordError is a record of a table that cannot be made into a row.
type RecordError struct {
	Table string
	// Part is "key" or "value" if that cannot be decoded, and "function" if one that was given to the table failed or panicked.
	Part      string
	Topic     string
	Partition int32
	Offset    int64
	// Err is the codec's error, what the function returned, or an ops.PanicError.
	Err error
}

// Error names table, part and coordinates, never the content.
func (e *RecordError) Error() string {
	text := fmt.Sprintf("table %s: topic %s partition %d offset %d: %s: %v", e.Table, e.Topic, e.Partition, e.Offset, e.Part, e.Err)
	if e.Part == "function" {
		return text
	}
	return text + " (SkipInvalid passes such records over)"
}

// Unwrap returns the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// Loader makes a table of the records of its topics. It has two phases: until Boot all records are those that were there at the start, of
// which only each key's last one counts; afterwards each counts as it comes. It belongs to one goroutine; Snapshot is for all.
type Loader struct {
	spec *Spec
	// One of these has the rows.
	entries *Entries
	disk    *disk
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
	// fatal says that it can be decoded, and made into no row.
	fatal bool
}

// Stats is what a table has read.
type Stats struct {
	// Rows is the number of rows, Bytes the size of their keys and values and Memory what they occupy. Of a table on disk they are estimates: of the store's
	// keys, its files and the memory that is its own.
	Rows, Bytes, Memory int64
	// Read is the number of records that were read, Invalid of those that were passed over and Substituted of those whose value was replaced.
	Read, Invalid, Substituted int64
	// NullKeys is the number of records without a key: they are those of the empty key.
	NullKeys int64
}

// NewLoader returns one with an empty table. That of a table on disk has to be opened.
func NewLoader(spec *Spec) *Loader {
	l := &Loader{spec: spec, suspects: map[string]suspect{}, buf: make([]byte, 0, 256)}
	if spec.Disk {
		l.disk = &disk{reached: map[string]int64{}}
	} else {
		l.entries = NewEntries()
	}
	return l
}

// Snapshot returns the table as it is, without rows before Boot. It may be called from any goroutine.
func (l *Loader) Snapshot() Snapshot {
	if l.disk != nil {
		return l.disk.snapshot()
	}
	return l.entries.Snapshot()
}

// Stats returns what was read.
func (l *Loader) Stats() Stats {
	s := l.stats
	snap := l.Snapshot()
	defer snap.Release()
	s.Rows, s.Bytes = snap.Len(), snap.Size()
	if snap.disk != nil {
		s.Memory = snap.disk.stats.MemoryBytes
	} else if l.entries != nil {
		s.Memory = l.entries.Memory()
	}
	return s
}

// Apply takes a record. It is seen by snapshots taken after the next Publish, or after Boot. After an error the loader is not to be used any more.
func (l *Loader) Apply(r *Record) (err error) {
	defer func() {
		if thrown := recover(); thrown != nil { // by a codec
			err = l.panicked(r, thrown)
		}
	}()
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
		return l.remove(key)
	}
	if err := l.spec.value(r.Value); err != nil {
		e := l.errorOf(r, "value", err)
		if l.booted {
			return l.substitute(key, suspect{err: e, value: r.Value})
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
		return l.set(key, r.Value)
	}
	if !l.booted && l.disk == nil { // it is enriched when it is known to be the last
		l.buf = l.place(l.buf[:0], r)
		l.buf = append(l.buf, r.Value...)
		return l.entries.Put(key, l.buf)
	}
	value, fault := l.enrich(key, r)
	switch {
	case fault != nil && l.booted:
		return fault
	case fault != nil:
		l.suspects[string(key)] = suspect{err: fault, fatal: true}
		return nil
	case value == nil:
		return l.remove(key)
	}
	return l.set(key, value)
}

// enrich returns the row that is made of a record, nil for none, in the loader's buffer.
func (l *Loader) enrich(key []byte, r *Record) (row []byte, fault *RecordError) {
	defer func() {
		if thrown := recover(); thrown != nil {
			fault = l.panicked(r, thrown)
		}
	}()
	row, err := l.spec.enrich(l.buf[:0], key, r.Value)
	if err != nil {
		return nil, l.errorOf(r, "function", err)
	}
	if row != nil {
		l.buf = row
	}
	return row, nil
}

// set sets a row, remove takes one out.
func (l *Loader) set(key, value []byte) error {
	if l.disk != nil {
		l.disk.batch.Put(key, value)
		return nil
	}
	return l.entries.Put(key, value)
}

func (l *Loader) remove(key []byte) error {
	if l.disk != nil {
		l.disk.batch.Delete(key)
		return nil
	}
	return l.entries.Delete(key)
}

// Boot ends the first phase: all that was there at the start has been given to Apply. The rows are enriched and visible then.
func (l *Loader) Boot() error {
	for _, s := range l.suspects { // one of them
		if s.fatal {
			return s.err
		}
	}
	l.booted = l.disk != nil // the replacements are enriched at once
	for key, s := range l.suspects {
		if err := l.substitute([]byte(key), s); err != nil {
			return err
		}
	}
	l.suspects = nil
	if l.disk != nil {
		if err := l.disk.write(false, true); err != nil {
			return l.wrap(err)
		}
		if err := l.disk.boot(); err != nil {
			return l.wrap(err)
		}
		return l.wrap(l.disk.publish())
	}
	l.booted = true
	if l.spec.enrich != nil {
		var at Record
		err := l.entries.Rewrite(func(key, value []byte) ([]byte, error) {
			at.Value = l.placeOf(&at, value)
			row, fault := l.enrich(key, &at)
			if fault != nil {
				return nil, fault
			}
			return row, nil
		})
		if err != nil {
			return err
		}
	}
	l.entries.Publish()
	return nil
}

// Publish shows lookups what was applied, after Boot. Before, it has a table on disk write it: positions too, as long as all records of them have been
// dealt with.
func (l *Loader) Publish() error {
	if l.disk == nil {
		if l.booted {
			l.entries.Publish()
		}
		return nil
	}
	if err := l.disk.write(l.booted, len(l.suspects) == 0); err != nil || !l.booted {
		return l.wrap(err)
	}
	return l.wrap(l.disk.publish())
}

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

func (l *Loader) errorOf(r *Record, part string, err error) *RecordError {
	return &RecordError{l.spec.Name, part, r.Topic, r.Partition, r.Offset, err}
}

// panicked is the error for a function that has panicked when it was called for a record.
func (l *Loader) panicked(r *Record, thrown any) *RecordError {
	return l.errorOf(r, "function", ops.Panicked(thrown))
}

// substitute replaces the value of a record that cannot be decoded, if the table does that, and passes it over otherwise.
func (l *Loader) substitute(key []byte, s suspect) error {
	if l.spec.instead == nil {
		return l.invalid(s.err)
	}
	e := s.err
	r := &Record{e.Topic, e.Partition, e.Offset, key, s.value}
	value, ok, fault := l.instead(r, e.Err)
	switch {
	case fault != nil:
		return fault
	case !ok:
		l.stats.Invalid++
		return nil
	}
	l.stats.Substituted++
	if l.spec.deletes(value) {
		return l.remove(key)
	}
	r.Value = value
	return l.put(key, r)
}

// instead returns a value in place of one that cannot be decoded, for which the codec has given err.
func (l *Loader) instead(r *Record, cause error) (value []byte, ok bool, fault *RecordError) {
	defer func() {
		if thrown := recover(); thrown != nil {
			fault = l.panicked(r, thrown)
		}
	}()
	value, ok, err := l.spec.instead(&InvalidRecord{r.Topic, r.Partition, r.Offset, r.Key, r.Value, cause})
	if err != nil {
		return nil, false, l.errorOf(r, "function", err)
	}
	return value, ok, nil
}

// invalid is for a record that cannot be decoded.
func (l *Loader) invalid(e *RecordError) error {
	if !l.spec.Skip {
		return e
	}
	l.stats.Invalid++
	return nil
}
