package codec

import (
	"encoding/json/jsontext"
	"fmt"
	"iter"
	"log/slog"
)

// Record is a JSON object whose fields are kept as they were written: a program that reads a few of them by
// [Attribute], changes one and passes the rest on, changes nothing else, neither the digits of a number nor a field
// that it does not know. The zero value is the empty record.
//
// A Record is a value: a copy is cheap, and setting a field of the copy leaves the other as it was. Nothing that was handed
// out is ever written to, so that any number of goroutines may read one record, and copies of it, at once. Reading
// a field costs that field's length, and so does setting it; neither depends on how many others there are.
//
// It prints and logs as the number of its fields only, as they are content. It is not comparable, and so no map's
// key and no record's; see [Record.Equal], and [CanonicalJSON] for keys.
type Record struct {
	_     [0]func() // not comparable
	text  string    // what it was read from, while nothing is changed
	edits *edit     // the latest changes, newest first
	few   int       // how many edits
	top   *layer    // what is below them, nil if nothing
	n     int       // fields
}

// edit is one change. It is never written to again, as copies of the record share it.
type edit struct {
	field
	next *edit
}

// field is a member of an object, both parts as in the text.
type field struct {
	name string
	// quoted is the name with quotation marks, as it was written; raw the value, empty for a field that was deleted.
	quoted, raw string
}

// layer is a set of fields, of which the last is what was read, and those above are changes, each at most half as long
// as the one below. So few of them are ever looked at, and each field is copied few times. It is never changed.
type layer struct {
	fields []field
	index  map[string]int // nil where there are few
	below  *layer
}

const (
	// maxEdits is how many changes are kept in a list.
	maxEdits = 8
	// fewFields is how many fields are looked through one by one.
	fewFields = 12
)

func newLayer(fields []field, below *layer) *layer {
	l := &layer{fields: fields, below: below}
	if len(fields) > fewFields {
		l.index = make(map[string]int, len(fields))
		for i, f := range fields {
			l.index[f.name] = i
		}
	}
	return l
}

func (l *layer) find(name string) (raw string, ok bool) {
	if l.index != nil {
		i, ok := l.index[name]
		if !ok {
			return "", false
		}
		return l.fields[i].raw, true
	}
	for i := range l.fields {
		if l.fields[i].name == name {
			return l.fields[i].raw, true
		}
	}
	return "", false
}

// look returns a field's text and whether there is one.
func (r *Record) look(name string) (string, bool) {
	for e := r.edits; e != nil; e = e.next {
		if e.name == name {
			return e.raw, e.raw != ""
		}
	}
	return lookBelow(r.top, name)
}

func lookBelow(l *layer, name string) (string, bool) {
	for ; l != nil; l = l.below {
		if raw, ok := l.find(name); ok {
			return raw, raw != ""
		}
	}
	return "", false
}

// put changes a field, or deletes it where raw is empty. raw is valid JSON.
func (r *Record) put(name, raw string) {
	_, was := r.look(name)
	switch {
	case raw != "" && !was:
		r.n++
	case raw == "" && was:
		r.n--
	}
	r.text = ""
	r.edits = &edit{field{name: name, raw: raw}, r.edits}
	if r.few++; r.few > maxEdits {
		r.top = pushed(r.listed(), r.top)
		r.edits, r.few = nil, 0
	}
}

// listed is the edits, oldest first, each field once.
func (r *Record) listed() []field {
	out := make([]field, 0, r.few)
	for e := r.edits; e != nil; e = e.next {
		out = append(out, e.field)
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return merged(nil, out, false)
}

// pushed puts fields on top of l, and merges the layers that are not twice as long.
func pushed(fields []field, l *layer) *layer {
	for l != nil && 2*len(fields) > len(l.fields) {
		fields = merged(l.fields, fields, l.below == nil)
		l = l.below
	}
	return newLayer(fields, l)
}

// merged is the fields of both, in the order of their first occurrence with the text of their last; last says that there is
// nothing below, so that deleted fields can go.
func merged(older, newer []field, last bool) []field {
	out := make([]field, 0, len(older)+len(newer))
	at := make(map[string]int, len(older)+len(newer))
	for _, fields := range [][]field{older, newer} {
		for _, f := range fields {
			if i, ok := at[f.name]; ok {
				out[i].raw = f.raw
				continue
			}
			at[f.name] = len(out)
			out = append(out, f)
		}
	}
	if !last {
		return out
	}
	kept := out[:0]
	for _, f := range out {
		if f.raw != "" {
			kept = append(kept, f)
		}
	}
	return kept
}

// Len returns the number of fields, null ones included.
func (r Record) Len() int { return r.n }

// IsZero says that there are no fields.
func (r Record) IsZero() bool { return r.n == 0 }

// Has says that there is a field of that name, which may be null.
func (r Record) Has(name string) bool {
	_, ok := r.look(name)
	return ok
}

// Raw returns a copy of a field's text, as it was written, and whether there is such a field.
func (r Record) Raw(name string) (jsontext.Value, bool) {
	raw, ok := r.look(name)
	if !ok {
		return nil, false
	}
	return jsontext.Value(raw), true
}

// SetRaw sets a field to a JSON value, which is kept as it is written and copied. The error, of a raw that is no single valid
// JSON value or a name that is not UTF-8, is an [*Error]; r is unchanged then.
func (r *Record) SetRaw(name string, raw jsontext.Value) error {
	if !raw.IsValid() {
		return syntaxError("record", raw)
	}
	if err := checkName(name); err != nil {
		return err
	}
	r.put(name, string(trimSpace(raw)))
	return nil
}

// Delete removes a field. The error, with [ErrMissing], says that there is none.
func (r *Record) Delete(name string) error {
	if !r.Has(name) {
		return within(name, ErrMissing)
	}
	r.put(name, "")
	return nil
}

// Fields returns the names of the fields with copies of their text, in the order in which they are written: that of the
// text that was read, then that in which they were added.
func (r Record) Fields() iter.Seq2[string, jsontext.Value] {
	return func(yield func(string, jsontext.Value) bool) {
		for f := range r.fields() {
			if !yield(f.name, jsontext.Value(f.raw)) {
				return
			}
		}
	}
}

// fields goes over the layers, the last one first, and then the edits. A field is where it was first, with its newest text.
func (r *Record) fields() iter.Seq[field] {
	return func(yield func(field) bool) {
		var layers []*layer
		if r.few > 0 {
			layers = append(layers, &layer{fields: r.listed(), below: r.top})
		}
		for l := r.top; l != nil; l = l.below {
			layers = append(layers, l)
		}
		for i := len(layers) - 1; i >= 0; i-- {
			for _, f := range layers[i].fields {
				if len(layers) > 1 {
					if known(layers[i].below, f.name) {
						continue
					}
					f.raw, _ = r.look(f.name)
				}
				if f.raw != "" && !yield(f) {
					return
				}
			}
		}
	}
}

// known says that a layer has the field, deleted or not.
func known(l *layer, name string) bool {
	for ; l != nil; l = l.below {
		if _, ok := l.find(name); ok {
			return true
		}
	}
	return false
}

// appendTo appends the object's text.
func (r *Record) appendTo(dst []byte) []byte {
	if r.text != "" {
		return append(dst, r.text...)
	}
	dst = append(dst, '{')
	first := true
	for f := range r.fields() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if f.quoted != "" {
			dst = append(dst, f.quoted...)
		} else {
			dst = appendText(dst, f.name)
		}
		dst = append(dst, ':')
		dst = append(dst, f.raw...)
	}
	return append(dst, '}')
}

// Equal says that both have the same fields with the same values, however they are spelled and in whatever order. A float
// is no integer: 1 and 1.0 differ, 1.0 and 1.00 do not (AT-02).
func (r Record) Equal(other Record) bool {
	if r.n != other.n {
		return false
	}
	var a, b []byte
	for f := range r.fields() {
		raw, ok := other.look(f.name)
		if !ok {
			return false
		}
		if raw == f.raw {
			continue
		}
		var errA, errB error
		a, errA = AppendCanonical(a[:0], []byte(f.raw))
		b, errB = AppendCanonical(b[:0], []byte(raw))
		if errA != nil || errB != nil || string(a) != string(b) {
			return false // a float that float64 does not hold equals its own spelling only
		}
	}
	return true
}

// Merge returns a record with the fields of all, null ones included, each as it was written; a later record's wins. The
// arguments are unchanged.
func Merge(records ...Record) Record {
	var out Record
	for i, r := range records {
		if i == 0 {
			out = r
			continue
		}
		for f := range r.fields() {
			out.put(f.name, f.raw)
		}
	}
	return out
}

// String tells the number of fields: "record of 3 fields".
func (r Record) String() string {
	if r.n == 1 {
		return "record of 1 field"
	}
	return fmt.Sprintf("record of %d fields", r.n)
}

// Format writes what String returns, whatever the verb: no part of the content.
func (r Record) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(r.String())) }

// LogValue implements slog.LogValuer as String.
func (r Record) LogValue() slog.Value { return slog.StringValue(r.String()) }
