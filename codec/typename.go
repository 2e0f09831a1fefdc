package codec

import (
	"reflect"
	"strings"
)

// typeName returns t's name without packages: "Flight", "[]Flight", "map[string]Stats", "Pair[int,Leg]".
// A struct without a name is "struct".
func typeName(t reflect.Type) string {
	if t.Name() == "" {
		switch t.Kind() {
		case reflect.Pointer:
			return "*" + typeName(t.Elem())
		case reflect.Slice:
			return "[]" + typeName(t.Elem())
		case reflect.Map:
			return "map[" + typeName(t.Key()) + "]" + typeName(t.Elem())
		case reflect.Struct:
			return "struct"
		case reflect.Interface:
			if t.NumMethod() == 0 {
				return "any"
			}
			return "interface"
		}
		return unqualified(t.String())
	}
	return unqualified(t.Name())
}

// unqualified removes package paths from the names in s, as "Pair[int,example.com/trips.Leg]" has them.
func unqualified(s string) string {
	const delimiters = "[](){}*,; "
	var b strings.Builder
	for len(s) > 0 {
		i := strings.IndexAny(s, delimiters)
		if i < 0 {
			i = len(s)
		}
		word := s[:i]
		word = word[strings.LastIndexByte(word, '.')+1:]
		word, _, _ = strings.Cut(word, "\u00b7") // how the compiler marks a type declared in a function
		b.WriteString(word)
		if i < len(s) {
			b.WriteByte(s[i])
			i++
		}
		s = s[i:]
	}
	return b.String()
}

// goType returns t as Go source has it, "time.Time"; its kind when that would be long, or a struct's text.
func goType(t reflect.Type) string {
	if t.Kind() == reflect.Struct && t.Name() == "" {
		return "struct"
	}
	if s := t.String(); len(s) <= 60 {
		return s
	}
	return t.Kind().String()
}
