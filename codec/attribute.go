package codec

import (
	"errors"
	"fmt"
	"strconv"
)

// Attribute is a named, typed handle on a field of a [Record]:
//
//	var Amount = codec.Attr("amount", codec.IntKind)
//
//	n, err := Amount.Get(r)
//	err = Amount.Set(&r, n+1)
//
// The kind's encoding runs with every Get and Set: a field of another type is an error where it is read (AT-14), and stays in
// the record untouched where it is not. A required attribute, as this is, is never null: Get fails on a null field as
// on an absent one, with [ErrMissing]. What may be null is [Attribute.Optional].
//
// Two attributes of one name are two views of one field. An Attribute is immutable and safe for concurrent use; the zero
// value has no kind and fails with [ErrUnsupported].
//
// Errors are [*Error] with the attribute's name as pointer, and for what is inside a list, tuple or record, where.
type Attribute[T any] struct {
	name string
	kind Kind[T]
}

// Attr returns the required attribute of that name and kind.
func Attr[T any](name string, kind Kind[T]) Attribute[T] { return Attribute[T]{name, kind} }

// Name returns the field's name.
func (a Attribute[T]) Name() string { return a.name }

// Kind returns the attribute's kind.
func (a Attribute[T]) Kind() Kind[T] { return a.kind }

// Optional returns the attribute for a field that may be null.
func (a Attribute[T]) Optional() OptionalAttribute[T] { return OptionalAttribute[T]{a} }

// Get returns the field's value. An absent or null field is [ErrMissing], one of another type [ErrType] (AT-09).
func (a Attribute[T]) Get(r Record) (T, error) {
	raw, ok := r.look(a.name)
	switch {
	case !ok:
		return a.fails(ErrMissing)
	case raw == "null":
		return a.fails(errNullField)
	}
	return a.parse(raw)
}

// errNullField is what is wrong with a null field, for those who ask for either.
var errNullField = fmt.Errorf("%w: it is null", ErrMissing)

// GetOr is Get with a default for an absent or null field (AT-09).
func (a Attribute[T]) GetOr(r Record, def T) (T, error) {
	if raw, ok := r.look(a.name); !ok || raw == "null" {
		return def, nil
	}
	return a.Get(r)
}

// Set sets the field. r is unchanged if v cannot be encoded; copies of r are unchanged in any case.
func (a Attribute[T]) Set(r *Record, v T) error {
	raw, err := a.kind.appendValue(make([]byte, 0, 32), v)
	if err == nil && string(raw) == "null" {
		err = fmt.Errorf("%w: the attribute is required", ErrNull)
	}
	if err == nil {
		err = checkName(a.name)
	}
	if err != nil {
		return within(a.name, err)
	}
	r.put(a.name, string(raw))
	return nil
}

// Has says whether there is such a field; it may be null (AT-12).
func (a Attribute[T]) Has(r Record) bool { return r.Has(a.name) }

// Delete removes the field; there must be one (AT-12).
func (a Attribute[T]) Delete(r *Record) error { return r.Delete(a.name) }

// Pop removes the field and returns its value. An absent field is [ErrMissing]. A null one is removed, and ok is false. On an
// error r is unchanged (AT-10).
func (a Attribute[T]) Pop(r *Record) (v T, ok bool, err error) {
	raw, ok := r.look(a.name)
	switch {
	case !ok:
		v, err = a.fails(ErrMissing)
		return v, false, err
	case raw == "null":
		r.put(a.name, "")
		return v, false, nil
	}
	if v, err = a.parse(raw); err != nil {
		return v, false, err
	}
	r.put(a.name, "")
	return v, true, nil
}

// PopOr is Pop with a default for an absent field. For a null one it is not used: ok is false then (AT-10).
func (a Attribute[T]) PopOr(r *Record, def T) (v T, ok bool, err error) {
	if !r.Has(a.name) {
		return def, true, nil
	}
	return a.Pop(r)
}

func (a Attribute[T]) parse(raw string) (T, error) {
	v, err := a.kind.parseValue(raw)
	if err != nil {
		return a.fails(err)
	}
	return v, nil
}

func (a Attribute[T]) fails(err error) (T, error) {
	var zero T
	return zero, within(a.name, err)
}

// OptionalAttribute is an attribute whose field may be null. Absent and null are both read as no value.
type OptionalAttribute[T any] struct{ of Attribute[T] }

// Name returns the field's name.
func (a OptionalAttribute[T]) Name() string { return a.of.name }

// Get returns the field's value; ok is false for an absent or a null field.
func (a OptionalAttribute[T]) Get(r Record) (v T, ok bool, err error) {
	raw, ok := r.look(a.of.name)
	if !ok || raw == "null" {
		return v, false, nil
	}
	v, err = a.of.parse(raw)
	return v, err == nil, err
}

// GetOr is Get with a default for an absent or null field.
func (a OptionalAttribute[T]) GetOr(r Record, def T) (T, error) { return a.of.GetOr(r, def) }

// Set is as [Attribute.Set].
func (a OptionalAttribute[T]) Set(r *Record, v T) error { return a.of.Set(r, v) }

// SetNull sets the field to null; the kind has no part in it (AT-11).
func (a OptionalAttribute[T]) SetNull(r *Record) error {
	if err := checkName(a.of.name); err != nil {
		return err
	}
	r.put(a.of.name, "null")
	return nil
}

// Has is as [Attribute.Has].
func (a OptionalAttribute[T]) Has(r Record) bool { return a.of.Has(r) }

// Delete is as [Attribute.Delete].
func (a OptionalAttribute[T]) Delete(r *Record) error { return a.of.Delete(r) }

// Pop is as [Attribute.Pop].
func (a OptionalAttribute[T]) Pop(r *Record) (v T, ok bool, err error) { return a.of.Pop(r) }

// Coalesce returns the first of the attributes' values that is neither absent nor null; ok is false if there is none. A
// field of another type is an error (AT-18).
func Coalesce[T any](r Record, attrs ...Attribute[T]) (v T, ok bool, err error) {
	for _, a := range attrs {
		if v, ok, err = a.Optional().Get(r); ok || err != nil {
			return v, ok, err
		}
	}
	return v, false, nil
}

// within is the error of what is a step deeper: the name of an attribute, an index, or "*" for a name that is content.
func within(step string, err error) error {
	out := &Error{Codec: "record", Pointer: "/" + pointerEscaper.Replace(step), Offset: -1, Err: err}
	if e, ok := errors.AsType[*Error](err); ok {
		out.Pointer = shortened(out.Pointer + e.Pointer)
		out.Err = e.Err
	}
	return out
}

// shortened ends a pointer after maxPointer steps.
func shortened(pointer string) string {
	steps := 0
	for i := range len(pointer) {
		if pointer[i] == '/' {
			if steps++; steps > maxPointer {
				return pointer[:i] + "/..."
			}
		}
	}
	return pointer
}

func withinIndex(i int, err error) error { return within(strconv.Itoa(i), err) }
