package codec

import (
	"encoding"
	"encoding/json/v2"
	"errors"
	"iter"
	"reflect"
	"strings"
	"time"
)

// A walk of Go types as json/v2 sees them, to tell before the first record what it cannot carry.

var (
	marshalers = []reflect.Type{
		reflect.TypeFor[json.MarshalerTo](), reflect.TypeFor[json.Marshaler](),
		reflect.TypeFor[encoding.TextAppender](), reflect.TypeFor[encoding.TextMarshaler](),
	}
	unmarshalers = []reflect.Type{
		reflect.TypeFor[json.UnmarshalerFrom](), reflect.TypeFor[json.Unmarshaler](),
		reflect.TypeFor[encoding.TextUnmarshaler](),
	}
	durationType = reflect.TypeFor[time.Duration]()
	timeType     = reflect.TypeFor[time.Time]()
)

func implements(t reflect.Type, any []reflect.Type) bool {
	for _, i := range any {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return true
		}
	}
	return false
}

// hasMethods reports whether t writes or reads its JSON itself.
func hasMethods(t reflect.Type) bool { return implements(t, marshalers) || implements(t, unmarshalers) }

// checkJSON returns an *Error with the first place in t, depth first, that JSON cannot carry.
func checkJSON(root reflect.Type) error {
	pointer, problem, at := findProblem(root, "", map[reflect.Type]bool{})
	if problem == "" {
		return nil
	}
	return &Error{Codec: "json", Type: typeName(root), Pointer: pointer, Offset: -1, Err: unsupported(at, problem)}
}

// findProblem returns where below t, if anywhere, json/v2 would give up. Map keys, values and slice
// elements are written "*".
func findProblem(t reflect.Type, pointer string, seen map[reflect.Type]bool) (string, string, reflect.Type) {
	if seen[t] {
		return "", "", nil
	}
	seen[t] = true
	if problem := typeProblem(t); problem != "" {
		return pointer, problem, t
	}
	if t == timeType || implements(t, marshalers) && implements(t, unmarshalers) {
		return "", "", nil // whatever is inside is its own affair
	}
	switch t.Kind() {
	case reflect.Pointer:
		return findProblem(t.Elem(), pointer, seen)
	case reflect.Slice, reflect.Array:
		return findProblem(t.Elem(), pointer+"/*", seen)
	case reflect.Map:
		if problem := keyProblem(t.Key()); problem != "" {
			return pointer + "/*", problem, t.Key()
		}
		return findProblem(t.Elem(), pointer+"/*", seen)
	case reflect.Struct:
		for f := range jsonFields(t) {
			at := pointer + "/" + pointerEscaper.Replace(f.name)
			if f.quoted && !numeric(f.typ) {
				return at, `tag option "string" on what is no number`, f.typ
			}
			if p, problem, culprit := findProblem(f.typ, at, seen); problem != "" {
				return p, problem, culprit
			}
		}
	}
	return "", "", nil
}

// typeProblem returns why json/v2 has no representation for t itself, or "".
func typeProblem(t reflect.Type) string {
	if t == durationType {
		return "has no json form (is an int64 or string member wanted?)"
	}
	if implements(t, marshalers) && implements(t, unmarshalers) && t.Kind() != reflect.Interface {
		return ""
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return "has no json form"
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return "cannot be decoded, as its concrete type is not known"
		}
	case reflect.Struct:
		if hasMethods(t) || t == timeType {
			return ""
		}
		// json/v2 looks at a struct's tags with the first object it reads. An empty one reaches no
		// field, and so no method of the user's; what it says is about the type alone.
		err := json.Unmarshal([]byte("{}"), reflect.New(t).Interface())
		if sem, ok := errors.AsType[*json.SemanticError](err); ok && sem.Err != nil {
			return "cannot be used: " + strings.TrimPrefix(strings.TrimPrefix(sem.Err.Error(), "Go "), "struct ")
		}
	}
	return ""
}

// keyProblem returns why t is no key of a JSON object, or "".
func keyProblem(t reflect.Type) string {
	if t != durationType && implements(t, marshalers) && implements(t, unmarshalers) {
		return ""
	}
	if t.Kind() == reflect.String || numeric(t) && t != durationType {
		return ""
	}
	if t.Kind() == reflect.Interface && t.NumMethod() == 0 {
		return ""
	}
	return "is no key of a json object"
}

func numeric(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64:
		return true
	}
	return false
}

// jsonField is a member of a struct's JSON object.
type jsonField struct {
	name   string
	typ    reflect.Type
	quoted bool // tag option "string"
}

// jsonFields returns the members that json/v2 gives a struct, embedded ones included. Of those hidden by
// another of the same name both are returned.
func jsonFields(t reflect.Type) iter.Seq[jsonField] {
	return func(yield func(jsonField) bool) { eachField(t, map[reflect.Type]bool{}, yield) }
}

func eachField(t reflect.Type, seen map[reflect.Type]bool, yield func(jsonField) bool) bool {
	if seen[t] {
		return true
	}
	seen[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		name, rest, _ := strings.Cut(tag, ",")
		options := strings.Split(rest, ",")
		has := func(option string) bool {
			for _, o := range options {
				if o == option {
					return true
				}
			}
			return false
		}
		in := f.Type
		if in.Kind() == reflect.Pointer && in.Name() == "" {
			in = in.Elem()
		}
		if f.Anonymous && name == "" && in.Kind() == reflect.Struct || has("embed") {
			if in.Kind() == reflect.Struct && !eachField(in, seen, yield) {
				return false
			}
			continue // a fallback's members are content
		}
		if name == "" {
			name = f.Name
		}
		if !yield(jsonField{name: name, typ: f.Type, quoted: has("string")}) {
			return false
		}
	}
	return true
}
