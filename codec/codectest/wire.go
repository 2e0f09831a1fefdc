package codectest

import (
	"bytes"
	"errors"
	"strings"

	"github.com/wickerwork/wicker/codec"
)

// The checks of what is written and read, against what the author gave.

func (s *suite[T]) golden(t failer) {
	t.Helper()
	for i, g := range s.Golden {
		got, ok := s.encode(t, i, g.Value)
		if !ok {
			continue
		}
		if !same(got, g.Bytes) {
			t.Errorf("value %d (%+v): append wrote %s, want %s", i, g.Value, show(got), show(g.Bytes))
		}
		s.decodes(t, i, g)
	}
}

func (s *suite[T]) accepts(t failer) {
	t.Helper()
	for i, g := range s.Accepts {
		s.decodes(t, i, g)
	}
}

func (s *suite[T]) decodes(t failer, i int, g Golden[T]) {
	t.Helper()
	v, err := s.codec.Decode(clone(g.Bytes))
	switch {
	case err != nil:
		t.Errorf("bytes %d (%s): decode: %v", i, show(g.Bytes), err)
	case !s.Equal(v, g.Value):
		t.Errorf("bytes %d (%s): decode read %+v, want %+v", i, show(g.Bytes), v, g.Value)
	}
}

func (s *suite[T]) invalid(t failer) {
	t.Helper()
	for i, c := range s.Invalid {
		v, err := s.codec.Decode(clone(c.Src))
		if err == nil {
			t.Errorf("invalid %d (%s): decode read %+v, want an error", i, show(c.Src), v)
			continue
		}
		if c.Err != nil && !errors.Is(err, c.Err) {
			t.Errorf("invalid %d (%s): decode: %v, want one that is %q", i, show(c.Src), err, c.Err)
		}
		var zero T
		if !s.Equal(v, zero) {
			t.Errorf("invalid %d (%s): decode returned %+v beside an error, want the zero value", i, show(c.Src), v)
		}
		hides(t, "invalid", i, err, c.Hidden)
	}
}

func (s *suite[T]) refused(t failer) {
	t.Helper()
	for i, c := range s.Refused {
		dst := append(make([]byte, 0, 64), "before"...)
		out, err := s.codec.Append(dst, c.Value)
		if err == nil {
			t.Errorf("refused %d (%+v): append wrote %s, want an error", i, c.Value, show(out))
			continue
		}
		if c.Err != nil && !errors.Is(err, c.Err) {
			t.Errorf("refused %d (%+v): append: %v, want one that is %q", i, c.Value, err, c.Err)
		}
		if string(out) != "before" {
			t.Errorf("refused %d (%+v): append gave back %s beside an error, want dst", i, c.Value, show(out))
		}
		hides(t, "refused", i, err, c.Hidden)
	}
}

// hides reports a text of err, or of anything in its tree, that holds content.
func hides(t failer, what string, i int, err error, content string) {
	t.Helper()
	if content == "" || err == nil {
		return
	}
	if strings.Contains(err.Error(), content) {
		t.Errorf("%s %d: the error tells content %q: %v", what, i, content, err)
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		hides(t, what, i, e.Unwrap(), content)
	case interface{ Unwrap() []error }:
		for _, e := range e.Unwrap() {
			hides(t, what, i, e, content)
		}
	}
}

func (s *suite[T]) null(t failer) {
	t.Helper()
	atNull, err := s.codec.Decode(nil)
	if err != nil && !errors.Is(err, codec.ErrNull) {
		t.Errorf("null: decode: %v, want one that is codec.ErrNull", err)
	}
	for i, v := range s.values {
		b, ok := s.encode(t, i, v)
		if !ok || b != nil {
			continue
		}
		switch {
		case err != nil:
			t.Errorf("value %d (%+v) encodes to null, which decode refuses: %v", i, v, err)
		case !s.Equal(v, atNull):
			t.Errorf("value %d (%+v) encodes to null, which decodes to %+v", i, v, atNull)
		}
	}
}

func (s *suite[T]) description(t failer) {
	t.Helper()
	text := codec.Describe(s.codec)
	if text == "" || len(text) > 200 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Errorf("codec.Describe: %q, want a short line of ASCII", text)
	}
	if again := codec.Describe(s.codec); again != text {
		t.Errorf("codec.Describe: %q, and then %q", text, again)
	}
	if err := codec.Check(s.codec); err != nil {
		t.Errorf("codec.Check: %v", err)
	}
}

// same reports whether a and b are the same bytes, null or not.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// clone copies b, keeping null and with nothing behind its end.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}
