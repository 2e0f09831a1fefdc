package codec

import (
	"cmp"
	"encoding/json/jsontext"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// AnyKind: any JSON value but null at the top, for what the program only passes on or looks into by hand.
//
// It is read as nil, bool, string, int64 (*big.Int where that does not hold it), float64, []any and map[string]any: a number with a
// fraction or an exponent is a float, one without is an integer.
//
// It is written from those, from every other type of integer, float, string and bool, and of slice, array and map of such, and
// from [Record], time.Time, [Date], [TimeOfDay] and jsontext.Value. A map to struct{} is a set, written as [SetKind] does. Nothing
// else is: bytes and durations have no form here that another program could know, and structs have [JSONKind] (AT-15). 64
// levels deep at most.
var AnyKind = Kind[any]{name: "any", append: appendAny, parse: parseAny}

// maxAny is how deep AnyKind writes; a value may contain itself.
const maxAny = 64

func appendAny(dst []byte, v any) ([]byte, error) {
	out, err := appendAnyAt(dst, v, 0)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func appendAnyAt(dst []byte, v any, depth int) ([]byte, error) {
	if depth > maxAny {
		return dst, badForm("any", fmt.Sprintf("more than %d levels deep", maxAny))
	}
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case string:
		return appendString(dst, v)
	case map[string]any:
		return appendAnyMap(dst, reflect.ValueOf(v), depth)
	case *big.Int:
		return BigIntKind.appendValue(dst, v)
	case time.Time:
		return DateTimeKind.appendValue(dst, v)
	case Date:
		return DateKind.appendValue(dst, v)
	case TimeOfDay:
		return TimeOfDayKind.appendValue(dst, v)
	case Record:
		return RecordKind.appendValue(dst, v)
	case jsontext.Value:
		return RawKind.appendValue(dst, v)
	case []byte, time.Duration:
		return dst, unsupportedAny(v)
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(dst, r.Bool()), nil
	case reflect.String:
		return appendString(dst, r.String())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(dst, r.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(dst, r.Uint(), 10), nil
	case reflect.Float32, reflect.Float64:
		return FloatKind.appendValue(dst, r.Float())
	case reflect.Slice, reflect.Array:
		if r.Type().Elem().Kind() == reflect.Uint8 {
			return dst, unsupportedAny(v)
		}
		return appendAnyList(dst, r, depth)
	case reflect.Map:
		if e := r.Type().Elem(); e.Kind() == reflect.Struct && e.NumField() == 0 {
			return appendAnySet(dst, r, depth)
		}
		return appendAnyMap(dst, r, depth)
	}
	return dst, unsupportedAny(v)
}

func unsupportedAny(v any) error {
	return fmt.Errorf("%w: go %s is no value of kind any", ErrUnsupported, goType(reflect.TypeOf(v)))
}

func appendAnyList(dst []byte, r reflect.Value, depth int) ([]byte, error) {
	dst = append(dst, '[')
	for i := range r.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendAnyAt(dst, r.Index(i).Interface(), depth+1); err != nil {
			return dst, withinIndex(i, err)
		}
	}
	return append(dst, ']'), nil
}

// appendAnySet writes the keys sorted: numbers as numbers, text as text.
func appendAnySet(dst []byte, r reflect.Value, depth int) ([]byte, error) {
	keys := r.MapKeys()
	slices.SortFunc(keys, compareKeys)
	dst = append(dst, '[')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendAnyAt(dst, key.Interface(), depth+1); err != nil {
			return dst, withinIndex(i, err)
		}
	}
	return append(dst, ']'), nil
}

// compareKeys orders what has an order; the rest is refused when it is written, unless there is one only.
func compareKeys(a, b reflect.Value) int {
	switch {
	case a.Kind() != b.Kind():
		return cmp.Compare(a.Kind(), b.Kind())
	case a.CanInt():
		return cmp.Compare(a.Int(), b.Int())
	case a.CanUint():
		return cmp.Compare(a.Uint(), b.Uint())
	case a.CanFloat():
		return cmp.Compare(a.Float(), b.Float())
	case a.Kind() == reflect.String:
		return cmp.Compare(a.String(), b.String())
	}
	if t, ok := a.Interface().(time.Time); ok {
		return t.Compare(b.Interface().(time.Time))
	}
	return cmp.Compare(fmt.Sprint(a.Interface()), fmt.Sprint(b.Interface())) // dates, times, booleans
}

func appendAnyMap(dst []byte, r reflect.Value, depth int) ([]byte, error) {
	if r.Type().Key().Kind() != reflect.String {
		return dst, fmt.Errorf("%w: go %s: names of fields are strings", ErrUnsupported, goType(r.Type()))
	}
	byName := make(map[string]reflect.Value, r.Len())
	for key, v := range r.Seq2() {
		byName[key.String()] = v
	}
	dst = append(dst, '{')
	for i, name := range slices.Sorted(maps.Keys(byName)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendString(dst, name); err == nil {
			dst, err = appendAnyAt(append(dst, ':'), byName[name].Interface(), depth+1)
		}
		if err != nil {
			return dst, within("*", err)
		}
	}
	return append(dst, '}'), nil
}

// parseAny reads a valid value without space around it, of as many levels as its reader took.
func parseAny(raw string) (any, error) {
	r := anyReader{s: raw}
	v := r.value()
	if r.err != nil {
		return nil, r.err
	}
	return v, nil
}

// anyReader goes through valid JSON once, up to the first error.
type anyReader struct {
	s   string
	i   int
	err error
}

func (r *anyReader) value() any {
	switch start := r.i; r.s[start] {
	case '[':
		return r.array()
	case '{':
		return r.object()
	case '"':
		r.i = textEnd(r.s, start)
		return anyOf(r, plain, r.s[start:r.i])
	default:
		r.i = valueEnd(r.s, start)
		return r.scalar(r.s[start:r.i])
	}
}

func (r *anyReader) scalar(raw string) any {
	switch {
	case raw == "null":
		return nil
	case !isNumber(raw):
		return raw == "true"
	case !isWhole(raw):
		return anyOf(r, func(raw, _ string) (float64, error) { return FloatKind.parse(raw) }, raw)
	}
	if n, err := IntKind.parse(raw); err == nil {
		return n
	}
	return anyOf(r, func(raw, _ string) (*big.Int, error) { return BigIntKind.parse(raw) }, raw)
}

func anyOf[T any](r *anyReader, parse func(raw, kind string) (T, error), raw string) any {
	v, err := parse(raw, "any")
	if err != nil && r.err == nil {
		r.err = err
	}
	return v
}

// next passes a comma, or the bracket that ends an object or an array.
func (r *anyReader) next(end byte) bool {
	r.i = skipSpace(r.s, r.i)
	b := r.s[r.i]
	if b == ',' || b == end {
		r.i = skipSpace(r.s, r.i+1)
	}
	return b != end && r.err == nil
}

func (r *anyReader) array() any {
	out := []any{}
	for r.i++; r.next(']'); {
		if out = append(out, r.value()); r.err != nil {
			r.err = withinIndex(len(out)-1, r.err)
		}
	}
	return out
}

func (r *anyReader) object() any {
	out := map[string]any{}
	for r.i++; r.next('}'); {
		start := r.i
		r.i = textEnd(r.s, start)
		name, _ := plain(r.s[start:r.i], "any")
		r.i = skipSpace(r.s, skipSpace(r.s, r.i)+1) // the colon
		if out[name] = r.value(); r.err != nil {
			r.err = within("*", r.err)
		}
	}
	return out
}
