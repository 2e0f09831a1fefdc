package codec

import (
	"bytes"
	"encoding/json/v2"
	"reflect"
	"sync"
)

// DefaultMaxBytes is the limit of a JSON document without [MaxBytes]: 1 MiB, which is what a Kafka
// producer sends at most by default (max.request.size), uncompressed.
const DefaultMaxBytes = 1 << 20

// JSONOption changes what [JSON] reads and writes.
type JSONOption struct{ apply func(*jsonConfig) }

type jsonConfig struct {
	rejectUnknown bool
	maxBytes      int // 0 default, below 0 none
}

// RejectUnknown makes a member that the type does not have an error, [ErrUnknownMember]: for topics whose
// producers are all one's own. A struct that collects them (an embedded map[string]T or jsontext.Value,
// with the tag ",embed") has every member.
func RejectUnknown() JSONOption { return JSONOption{func(c *jsonConfig) { c.rejectUnknown = true }} }

// IgnoreUnknown skips members that the type does not have. It is the default, since producers add members
// all the time; skipped members are still checked to be JSON, without duplicates.
func IgnoreUnknown() JSONOption { return JSONOption{func(c *jsonConfig) { c.rejectUnknown = false }} }

// MaxBytes sets the largest document to n bytes, read or written; a larger one is [ErrSize]. 0 means
// [DefaultMaxBytes]; below 0 there is no limit.
func MaxBytes(n int) JSONOption { return JSONOption{func(c *jsonConfig) { c.maxBytes = n }} }

// JSON makes a codec of JSON documents for T: a struct with or without json tags, a map, a slice,
// whatever encoding/json/v2 has a representation for; [Check] tells whether it has. Later options win.
//
// Reading is strict: one document in valid UTF-8, with white space around it at most, without a byte
// order mark, without duplicate member names at any depth, member names compared exactly. The text null
// and a Kafka null are errors unless T is a pointer, slice, map or interface, which become nil. Inside
// of a document null sets a field to its zero value, as encoding/json/v2 has it.
//
// Writing is deterministic: members in the order of the struct's fields, map keys sorted, no white space.
// A nil slice is [] and a nil map {}; a nil pointer as T itself is the text null. It never is a Kafka
// null: that is what [Nullable] and [OmitZero] are for.
//
// Methods of T such as MarshalJSON and UnmarshalJSON are honoured. They must not retain their receiver,
// which is used for the next value too, nor what UnmarshalJSON is given.
func JSON[T any](opts ...JSONOption) *JSONCodec[T] {
	var cfg jsonConfig
	for _, o := range opts {
		if o.apply != nil {
			o.apply(&cfg)
		}
	}
	c := &JSONCodec[T]{
		typ:   reflect.TypeFor[T](),
		limit: cfg.maxBytes,
		opts:  []json.Options{json.JoinOptions(json.Deterministic(true), json.RejectUnknownMembers(cfg.rejectUnknown))},
	}
	if c.limit == 0 {
		c.limit = DefaultMaxBytes
	}
	switch c.typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		c.nullable = true
	}
	return c
}

// JSONCodec is the type of [JSON], which makes it; the zero value is not usable. Safe for concurrent use.
type JSONCodec[T any] struct {
	typ      reflect.Type
	limit    int  // bytes; below 0 none
	nullable bool // T can be nil
	opts     []json.Options
	pool     sync.Pool // *jsonScratch[T]
	check    struct {
		sync.Once
		err error
	}
}

// jsonScratch is what json/v2 works on, pooled so that neither the value nor the buffer is allocated for
// each record: both are passed as interfaces and would escape. It is owned by one call, holds nothing
// between calls, and is not returned to the pool when a method of T panics.
type jsonScratch[T any] struct {
	v   T
	buf bytes.Buffer
}

func (c *JSONCodec[T]) scratch() *jsonScratch[T] {
	if s, ok := c.pool.Get().(*jsonScratch[T]); ok {
		return s
	}
	return new(jsonScratch[T])
}

// Append implements [Codec]. The result is never nil without an error. Errors are [ErrType], [ErrUTF8],
// [ErrDuplicate], [ErrSize], [ErrUnsupported], [ErrNull] where a method of T wrote null that Decode
// would refuse, and [ErrSyntax] where one wrote what is not JSON.
func (c *JSONCodec[T]) Append(dst []byte, v T) ([]byte, error) {
	s := c.scratch()
	s.v = v
	s.buf = *bytes.NewBuffer(dst)
	err := json.MarshalWrite(&s.buf, &s.v, c.opts...)
	out := s.buf.Bytes()
	clear1(&s.v)
	s.buf = bytes.Buffer{}
	c.pool.Put(s)

	if err != nil {
		return dst, jsonEncodeError(c.typ, err)
	}
	doc := out[len(dst):]
	if c.limit >= 0 && len(doc) > c.limit {
		return dst, c.fault("", -1, sizeError(len(doc), c.limit))
	}
	if !c.nullable && string(doc) == "null" {
		return dst, nullError("json", typeName(c.typ))
	}
	return out, nil
}

// Decode implements [Codec]. Every cause but [ErrLength] may be the error's.
func (c *JSONCodec[T]) Decode(src []byte) (T, error) {
	var v T
	if src == nil {
		if c.nullable {
			return v, nil
		}
		return v, nullError("json", typeName(c.typ))
	}
	if c.limit >= 0 && len(src) > c.limit {
		return v, c.fault("", -1, sizeError(len(src), c.limit))
	}
	s := c.scratch()
	err := json.Unmarshal(src, &s.v, c.opts...)
	if err == nil {
		v = s.v
	}
	clear1(&s.v)
	c.pool.Put(s)

	if err != nil {
		return v, jsonDecodeError(c.typ, src, err)
	}
	if !c.nullable && startsNull(src) {
		var zero T
		return zero, nullError("json", typeName(c.typ))
	}
	return v, nil
}

// Describe implements [Described]: "json Flight".
func (c *JSONCodec[T]) Describe() string { return "json " + typeName(c.typ) }

// Check implements [Checked]. The error is an [Error] with [ErrUnsupported] and where in the type.
func (c *JSONCodec[T]) Check() error {
	c.check.Do(func() { c.check.err = checkJSON(c.typ) })
	return c.check.err
}

func (c *JSONCodec[T]) fault(pointer string, offset int64, err error) error {
	return &Error{Codec: "json", Type: typeName(c.typ), Pointer: pointer, Offset: offset, Err: err}
}

// clear1 zeroes *v, so that the pool holds on to nothing.
func clear1[T any](v *T) {
	var zero T
	*v = zero
}

// startsNull reports whether the valid document src is the text null.
func startsNull(src []byte) bool {
	for _, b := range src {
		switch b {
		case ' ', '\t', '\r', '\n':
		default:
			return b == 'n'
		}
	}
	return false
}

// Objects implements [Objects]: true of structs and maps, and of pointers to them.
func (c *JSONCodec[T]) Objects() bool {
	t := c.typ
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Map
}
