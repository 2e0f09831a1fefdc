package codec

import (
	"cmp"
	"maps"
	"slices"
)

// ListKind: a JSON array of one kind's values, none of them null. A nil slice is written as an empty array, and an empty array is
// read as an empty slice.
func ListKind[T any](elem Kind[T]) Kind[[]T] {
	name := "list of " + elem.name
	return Kind[[]T]{
		name:   name,
		append: func(dst []byte, v []T) ([]byte, error) { return appendList(dst, elem, v) },
		parse:  func(raw string) ([]T, error) { return parseList(raw, name, elem) },
	}
}

func appendList[T any](dst []byte, elem Kind[T], v []T) ([]byte, error) {
	out := append(dst, '[')
	for i, e := range v {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = appendElement(out, elem, e); err != nil {
			return dst, withinIndex(i, err)
		}
	}
	return append(out, ']'), nil
}

// appendElement is append for what may not be null.
func appendElement[T any](dst []byte, elem Kind[T], v T) ([]byte, error) {
	out, err := elem.appendValue(dst, v)
	if err == nil && string(out[len(dst):]) == "null" {
		return dst, ErrNull
	}
	return out, err
}

func parseList[T any](raw, name string, elem Kind[T]) ([]T, error) {
	if raw[0] != '[' {
		return nil, wrongKind(raw, name)
	}
	out := []T{}
	for i, e := range elements(raw) {
		v, err := elem.parseValue(e)
		if err != nil {
			return nil, withinIndex(i, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// SetKind: a JSON array without order and repetition, as a sorted slice. It is written sorted by the Go values, each once: 2, 9, 10. It
// is read in any order, repetitions collapse, and the slice is sorted.
func SetKind[T cmp.Ordered](elem Kind[T]) Kind[[]T] { return SetFuncKind(elem, cmp.Compare[T]) }

// SetFuncKind is SetKind of what has no order of its own, as time.Time.Compare gives one.
func SetFuncKind[T any](elem Kind[T], compare func(a, b T) int) Kind[[]T] {
	name := "set of " + elem.name
	once := func(v []T) []T {
		slices.SortFunc(v, compare)
		return slices.CompactFunc(v, func(a, b T) bool { return compare(a, b) == 0 })
	}
	return Kind[[]T]{
		name:   name,
		append: func(dst []byte, v []T) ([]byte, error) { return appendList(dst, elem, once(slices.Clone(v))) },
		parse: func(raw string) ([]T, error) {
			v, err := parseList(raw, name, elem)
			if err != nil {
				return nil, err
			}
			return once(v), nil
		},
	}
}

// Pair is a tuple of two, see [PairKind].
type Pair[A, B any] struct {
	First  A
	Second B
}

// Triple is a tuple of three, see [TripleKind].
type Triple[A, B, C any] struct {
	First  A
	Second B
	Third  C
}

// PairKind: a JSON array of exactly two values, each of its kind.
func PairKind[A, B any](first Kind[A], second Kind[B]) Kind[Pair[A, B]] {
	name := "tuple of " + first.name + ", " + second.name
	return Kind[Pair[A, B]]{
		name: name,
		append: func(dst []byte, v Pair[A, B]) ([]byte, error) {
			w := tupleWriter{out: dst}
			addTo(&w, first, v.First)
			addTo(&w, second, v.Second)
			return w.end(dst)
		},
		parse: func(raw string) (v Pair[A, B], err error) {
			parts, err := tuple(raw, name, 2)
			if err != nil {
				return Pair[A, B]{}, err
			}
			if v.First, err = first.parseValue(parts[0]); err != nil {
				return Pair[A, B]{}, withinIndex(0, err)
			}
			if v.Second, err = second.parseValue(parts[1]); err != nil {
				return Pair[A, B]{}, withinIndex(1, err)
			}
			return v, nil
		},
	}
}

// TripleKind: a JSON array of exactly three values, each of its kind.
func TripleKind[A, B, C any](first Kind[A], second Kind[B], third Kind[C]) Kind[Triple[A, B, C]] {
	name := "tuple of " + first.name + ", " + second.name + ", " + third.name
	return Kind[Triple[A, B, C]]{
		name: name,
		append: func(dst []byte, v Triple[A, B, C]) ([]byte, error) {
			w := tupleWriter{out: dst}
			addTo(&w, first, v.First)
			addTo(&w, second, v.Second)
			addTo(&w, third, v.Third)
			return w.end(dst)
		},
		parse: func(raw string) (v Triple[A, B, C], err error) {
			parts, err := tuple(raw, name, 3)
			if err != nil {
				return Triple[A, B, C]{}, err
			}
			if v.First, err = first.parseValue(parts[0]); err != nil {
				return Triple[A, B, C]{}, withinIndex(0, err)
			}
			if v.Second, err = second.parseValue(parts[1]); err != nil {
				return Triple[A, B, C]{}, withinIndex(1, err)
			}
			if v.Third, err = third.parseValue(parts[2]); err != nil {
				return Triple[A, B, C]{}, withinIndex(2, err)
			}
			return v, nil
		},
	}
}

// tupleWriter writes an array of values of different kinds, up to the first error.
type tupleWriter struct {
	out []byte
	n   int
	err error
}

func addTo[T any](w *tupleWriter, kind Kind[T], v T) {
	if w.err != nil {
		return
	}
	w.out = append(w.out, "[,,"[w.n])
	if w.out, w.err = appendElement(w.out, kind, v); w.err != nil {
		w.err = withinIndex(w.n, w.err)
	}
	w.n++
}

func (w *tupleWriter) end(dst []byte) ([]byte, error) {
	if w.err != nil {
		return dst, w.err
	}
	return append(w.out, ']'), nil
}

// tuple returns the n elements of an array.
func tuple(raw, name string, n int) ([3]string, error) {
	var parts [3]string
	if raw[0] != '[' {
		return parts, wrongKind(raw, name)
	}
	found := 0
	for i, e := range elements(raw) {
		if found++; i < n {
			parts[i] = e
		}
	}
	if found != n {
		return parts, badForm(name, "an array of another length")
	}
	return parts, nil
}

// DictKind: a JSON object whose values are of one kind, none of them null, under any names. It is written sorted by name. A nil map
// is written as an empty object, and an empty object is read as an empty map.
func DictKind[T any](elem Kind[T]) Kind[map[string]T] {
	name := "dict of " + elem.name
	return Kind[map[string]T]{
		name: name,
		append: func(dst []byte, v map[string]T) ([]byte, error) {
			out := append(dst, '{')
			for i, key := range slices.Sorted(maps.Keys(v)) {
				if i > 0 {
					out = append(out, ',')
				}
				var err error
				if out, err = appendString(out, key); err == nil {
					out, err = appendElement(append(out, ':'), elem, v[key])
				}
				if err != nil {
					return dst, within("*", err)
				}
			}
			return append(out, '}'), nil
		},
		parse: func(raw string) (map[string]T, error) {
			if raw[0] != '{' {
				return nil, wrongKind(raw, name)
			}
			out := map[string]T{}
			for quoted, e := range members(raw) {
				key, err := plain(quoted, name)
				if err != nil {
					return nil, err
				}
				if out[key], err = elem.parseValue(e); err != nil {
					return nil, within("*", err)
				}
			}
			return out, nil
		},
	}
}
