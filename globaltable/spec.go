package globaltable

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/wickerwork/wicker/codec"
)

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
	// Cache is how many decoded rows a task may keep.
	Cache int
	// Disk says that the rows are kept in a store, Version what names the functions that make them.
	Disk    bool
	Version string

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
		Cache: d.cache, Disk: d.disk, Version: d.version, definition: d, object: codec.IsObject(d.value)}
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
	case d.cache < 0:
		return fmt.Errorf("CacheRows (%d) must be >= 0", d.cache)
	case d.disk && d.version == "" && (d.enrich != nil || d.instead != nil):
		return errors.New("the table is on disk and makes its rows by Enrich or SubstituteInvalid: OnDisk needs a version, which names what these functions do")
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
