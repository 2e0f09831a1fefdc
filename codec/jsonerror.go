package codec

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// json/v2's own errors quote values, text and names, and those of a type's methods quote what they
// please. So they end here: what goes on is a cause, a place in the type, an offset, a kind of JSON value
// and a Go type.

// errInvalidUTF8 is json/v2's unexported sentinel, as it hands it out.
var errInvalidUTF8 = func() error {
	_, err := jsontext.AppendQuote(nil, "\xff")
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err
}()

var bom = []byte("\xef\xbb\xbf")

// jsonDecodeError turns err, from json.Unmarshal of src into a t, into an *Error.
func jsonDecodeError(t reflect.Type, src []byte, err error) error {
	out := &Error{Codec: "json", Type: typeName(t), Offset: -1}
	var sem *json.SemanticError
	var syn *jsontext.SyntacticError
	switch {
	case bytes.HasPrefix(src, bom):
		out.Offset, out.Err = 0, ErrBOM
	case errors.As(err, &sem):
		out.Offset = sem.ByteOffset
		out.Pointer = knownPointer(t, sem.JSONPointer)
		out.Err = semanticCause(sem)
	case errors.As(err, &syn):
		out.Offset = syn.ByteOffset
		out.Pointer = knownPointer(t, syn.JSONPointer)
		out.Err = syntacticCause(syn)
		if out.Err == ErrSyntax {
			if end := documentEnd(src); end >= 0 && syn.ByteOffset >= int64(end) {
				out.Err = ErrTrailing
			}
		}
	default:
		out.Err = ErrSyntax
	}
	return out
}

// jsonEncodeError turns err, from json.MarshalWrite of a t, into an *Error.
func jsonEncodeError(t reflect.Type, err error) error {
	out := &Error{Codec: "json", Type: typeName(t), Offset: -1}
	var sem *json.SemanticError
	var syn *jsontext.SyntacticError
	switch {
	case errors.As(err, &sem):
		out.Pointer = knownPointer(t, sem.JSONPointer)
		out.Err = semanticCause(sem)
	case errors.As(err, &syn):
		out.Pointer = knownPointer(t, syn.JSONPointer)
		out.Err = syntacticCause(syn)
	default:
		out.Err = ErrType
	}
	return out
}

func syntacticCause(err *jsontext.SyntacticError) error {
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return ErrDuplicate
	case errors.Is(err, errInvalidUTF8):
		return ErrUTF8
	default:
		return ErrSyntax
	}
}

func semanticCause(err *json.SemanticError) error {
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return ErrUnknownMember
	case errors.Is(err, jsontext.ErrDuplicateName):
		return ErrDuplicate
	case errors.Is(err, errInvalidUTF8):
		return ErrUTF8
	}
	t := err.GoType
	if t == nil {
		return ErrType
	}
	if problem := typeProblem(t); problem != "" {
		return unsupported(t, problem)
	}
	var note string
	if errors.Is(err, strconv.ErrRange) {
		note = "out of range, "
	}
	if kind := kindName(err.JSONKind); kind != "" {
		return fmt.Errorf("%w: %sjson %s for go %s", ErrType, note, kind, goType(t))
	}
	return fmt.Errorf("%w: %sgo %s", ErrType, note, goType(t))
}

func kindName(k jsontext.Kind) string {
	switch k {
	case jsontext.KindNull:
		return "null"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "boolean"
	case jsontext.KindString:
		return "string"
	case jsontext.KindNumber:
		return "number"
	case jsontext.KindBeginObject, jsontext.KindEndObject:
		return "object"
	case jsontext.KindBeginArray, jsontext.KindEndArray:
		return "array"
	default:
		return ""
	}
}

// documentEnd returns the offset after the first JSON value in src, or -1 when there is none.
func documentEnd(src []byte) int {
	d := jsontext.NewDecoder(bytes.NewBuffer(src))
	if d.SkipValue() != nil {
		return -1
	}
	return int(d.InputOffset())
}

// knownPointer returns the part of p that the type t tells, with "*" for the rest: a map's key is content,
// and so is the name of a member that no field has. After such a name nothing is known any more, and the
// pointer ends. It also ends, with "...", after maxPointer steps: a recursive type may be nested deeply.
func knownPointer(t reflect.Type, p jsontext.Pointer) string {
	var b strings.Builder
	steps := 0
	for tok := range p.Tokens() {
		if steps++; steps > maxPointer {
			b.WriteString("/...")
			break
		}
		next, known := member(t, tok)
		if !known {
			b.WriteString("/*")
		} else {
			b.WriteByte('/')
			b.WriteString(pointerEscaper.Replace(tok))
		}
		if next == nil {
			break
		}
		t = next
	}
	return b.String()
}

// maxPointer is how many steps of a JSON pointer an error tells.
const maxPointer = 16

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// member returns the type behind a token of a JSON pointer into a t, nil if it is not known, and whether
// the token is part of the type rather than of the content.
func member(t reflect.Type, tok string) (next reflect.Type, known bool) {
	for t.Kind() == reflect.Pointer && !hasMethods(t) {
		t = t.Elem()
	}
	if hasMethods(t) {
		return nil, false
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if _, err := strconv.ParseUint(tok, 10, 64); err != nil {
			return nil, false
		}
		return t.Elem(), true
	case reflect.Map:
		return t.Elem(), false
	case reflect.Struct:
		for f := range jsonFields(t) {
			if f.name == tok {
				return f.typ, true
			}
		}
	}
	return nil, false
}
