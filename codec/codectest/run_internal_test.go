package codectest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
)

// recorder is a failer that notes failures instead of failing.
type recorder struct{ failures []string }

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// failing returns the names of the checks that c does not pass. That of concurrency is left out, as the
// broken codecs here are not safe for it.
func failing[T any](c codec.Codec[T], cases Cases[T]) []string {
	var names []string
	for _, check := range newSuite(c, cases).checks() {
		if check.name == "concurrency" {
			continue
		}
		var r recorder
		check.run(&r)
		if len(r.failures) > 0 {
			names = append(names, check.name)
		}
	}
	return names
}

// words is a codec of text that works, with ways to break it.
type words struct {
	append func(dst []byte, v string) ([]byte, error)
	decode func(src []byte) (string, error)
	name   string
}

func (w words) Append(dst []byte, v string) ([]byte, error) {
	if w.append != nil {
		return w.append(dst, v)
	}
	return codec.String.Append(dst, v)
}

func (w words) Decode(src []byte) (string, error) {
	if w.decode != nil {
		return w.decode(src)
	}
	return codec.String.Decode(src)
}

func (w words) Describe() string { return w.name }

// A suite that passes everything proves nothing: each way to break a codec is caught by the check that is
// there for it.
func TestSuiteCatches(t *testing.T) {
	var kept []byte
	shared := make([]byte, 0, 1024)
	calls := 0
	cases := []struct {
		name   string
		broken words
		want   string
	}{
		{"otherBytes", words{append: func(dst []byte, v string) ([]byte, error) { return append(dst, v+" "...), nil }}, "golden"},
		{"appendRefuses", words{append: func(dst []byte, v string) ([]byte, error) { return dst, errors.New("no") }}, "roundtrip"},
		{"lenient", words{decode: func(src []byte) (string, error) { return string(src), nil }}, "invalid"},
		{"talkative", words{decode: func(src []byte) (string, error) {
			v, err := codec.String.Decode(src)
			if err != nil {
				err = fmt.Errorf("%q: %w", src, err)
			}
			return v, err
		}}, "invalid"},
		{"talkativeWithin", words{decode: func(src []byte) (string, error) {
			v, err := codec.String.Decode(src)
			if err != nil {
				err = fmt.Errorf("%w%.0w", err, fmt.Errorf("%q", src))
			}
			return v, err
		}}, "invalid"},
		{"valueBesideError", words{decode: func(src []byte) (string, error) {
			_, err := codec.String.Decode(src)
			return string(src), err
		}}, "invalid"},
		{"writesBesideError", words{append: func(dst []byte, v string) ([]byte, error) {
			_, err := codec.String.Append(dst, v)
			return append(dst, v...), err
		}}, "refused"},
		{"random", words{append: func(dst []byte, v string) ([]byte, error) {
			calls++
			return append(dst, v+strings.Repeat(" ", calls%2)...), nil
		}}, "roundtrip"},
		{"ignoresPrefix", words{append: func(_ []byte, v string) ([]byte, error) { return []byte(v), nil }}, "prefix"},
		{"writesBeforeDst", words{append: func(dst []byte, v string) ([]byte, error) {
			if len(dst) > 0 {
				dst[0] = '!'
			}
			return codec.String.Append(dst, v)
		}}, "prefix"},
		{"retainsResult", words{append: func(dst []byte, v string) ([]byte, error) {
			if len(dst) > 0 {
				return codec.String.Append(dst, v)
			}
			return append(shared[:0], v...), nil
		}}, "retention"},
		{"writesSource", words{decode: func(src []byte) (string, error) {
			v, err := codec.String.Decode(src)
			if len(src) > 0 {
				src[0] ^= 1
			}
			return v, err
		}}, "source"},
		{"writesBehindSource", words{decode: func(src []byte) (string, error) {
			_ = append(src, '.')
			return codec.String.Decode(src)
		}}, "source"},
		{"nullOtherwise", words{decode: func(src []byte) (string, error) {
			if src == nil {
				return "", errors.New("no")
			}
			return codec.String.Decode(src)
		}}, "null"},
		{"emptyIsNull", words{append: func(dst []byte, v string) ([]byte, error) {
			if v == "" {
				return nil, nil
			}
			return codec.String.Append(dst, v)
		}, decode: func(src []byte) (string, error) {
			if src == nil {
				return "absent", nil
			}
			return codec.String.Decode(src)
		}}, "null"},
		{"panics", words{decode: func(src []byte) (string, error) {
			if string(src) == "wor" { // what is left of "word" or "words" when it is cut
				panic("broken")
			}
			return codec.String.Decode(src)
		}}, "damaged"},
		{"trustsLength", words{decode: func(src []byte) (string, error) {
			if len(src) >= 4 {
				kept = make([]byte, binary.BigEndian.Uint32(src)%(1<<20))
			}
			return codec.String.Decode(src)
		}}, "allocation"},
		{"twoLines", words{name: "two\nlines"}, "description"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.broken.name == "" {
				c.broken.name = "words"
			}
			require.Contains(t, failing(c.broken, wordCases()), c.want)
		})
	}
	require.NotNil(t, kept)
	require.Empty(t, failing(words{name: "words"}, wordCases()))
}

// A codec that works for one goroutine only. The first caller waits for another to come in, so that the
// two meet every time.
func TestSuiteCatchesConcurrency(t *testing.T) {
	var mu sync.Mutex
	in, met := 0, make(chan struct{})
	alone := words{name: "words", append: func(dst []byte, v string) ([]byte, error) {
		mu.Lock()
		if in++; in == 2 {
			close(met)
		}
		mu.Unlock()
		<-met
		return dst, errors.New("called twice at once")
	}}
	var r recorder
	newSuite(codec.Codec[string](alone), wordCases()).concurrency(&r)
	require.NotEmpty(t, r.failures)

	r = recorder{}
	newSuite(codec.Codec[string](words{name: "words"}), wordCases()).concurrency(&r)
	require.Empty(t, r.failures)
}

func wordCases() Cases[string] {
	return Cases[string]{
		Golden:  []Golden[string]{{"word", []byte("word")}, {"", []byte{}}, {"words", []byte("words")}},
		Values:  []string{"another", "no", "yes"},
		Accepts: []Golden[string]{{"", nil}},
		Invalid: []Invalid{{Src: []byte("secret\xff"), Err: codec.ErrUTF8, Hidden: "secret"}},
		Refused: []Refused[string]{{Value: "secret\xff", Err: codec.ErrUTF8, Hidden: "secret"}},
	}
}

// A codec that shares must say so.
func TestSuiteCatchesSharing(t *testing.T) {
	cases := Cases[[]byte]{
		Golden: []Golden[[]byte]{{[]byte("word"), []byte("word")}, {nil, nil}, {[]byte{}, []byte{}}},
		Equal:  slices.Equal[[]byte],
	}
	require.Equal(t, []string{"source"}, failing(codec.Codec[[]byte](codec.Bytes), cases))
	cases.Shares = true
	require.Empty(t, failing(codec.Codec[[]byte](codec.Bytes), cases))

	// And one whose encoding is the value's own memory does not pass.
	require.Contains(t, failing(codec.Codec[[]byte](lender{}), cases), "retention")
}

// lender returns parts of the value.
type lender struct{ codec.BytesCodec }

func (lender) Append(dst, v []byte) ([]byte, error) {
	if len(dst) == 0 {
		return v, nil
	}
	return codec.Bytes.Append(dst, v)
}
