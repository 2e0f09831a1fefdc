package codec_test

import (
	"bytes"
	jsonv1 "encoding/json"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
)

// telling is everything that an error about a document may say (C6): a text put together from this and
// nothing else cannot hold content, however the document is made. The names are those of document's members.
var telling = regexp.MustCompile(`^codec: json document` +
	`(: (/(\*|\.\.\.|[0-9]+|dest|delay|count|small|quoted|flag|te~1x~0t|bin|pair|legs|next|named|ByNum|any|raw|at|loud))+)?` +
	`(: byte [0-9]+)?` +
	`: (invalid utf-8|invalid json|byte order mark|data after the document|duplicate member name|unknown member` +
	`|too large: [0-9]+ bytes, must be <= 4096` +
	`|null: the type has no null \(is codec\.Nullable or codec\.OmitZero wanted\?\)` +
	`|value does not fit: (out of range, )?(json (null|boolean|string|number|object|array) for )?` +
	`go (codec_test\.(document|leg|counters|loud)|map\[int\]codec_test\.leg|\[\]codec_test\.leg|\[\]uint8|\[2\]int|time\.Time|jsontext\.Value|string|bool|int|int8|int64|float64|interface \{\}|any))$`)

// causes are the closed set that an error wraps one of.
var causes = []error{
	codec.ErrNull, codec.ErrLength, codec.ErrSize, codec.ErrUTF8, codec.ErrBOM, codec.ErrSyntax, codec.ErrTrailing,
	codec.ErrDuplicate, codec.ErrUnknownMember, codec.ErrType, codec.ErrForm, codec.ErrMissing, codec.ErrVersion, codec.ErrUpgrade, codec.ErrUnsupported,
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		"", " ", "null", "{}", "[]", "1", `"x"`, "{", fullJSON, "\xef\xbb\xbf{}", "{}{}", "{} x", "{\"\xff\":1}",
		`{"count":1,"count":2}`, `{"secret":{"a":1,"a":2}}`, `{"legs":[{"dest":1}]}`, `{"named":{"secret":""}}`,
		`{"ByNum":{"secret":{}}}`, `{"next":null,"any":[null,{"x":[]}]}`, `{"raw": { "a" : 1 } }`, `{"loud":"secret"}`,
		`{"at":"2024-02-30T00:00:00Z"}`, `{"at":"2024-02-29T00:00:00+23:59"}`, `{"pair":[1,2,3]}`, `{"quoted":"1e3"}`,
		`{"count":1e400}`, `{"delay":-0.0}`, `{"bin":"AP8"}`, `{"dest":"\ud800"}`, `{"te/x~t":[]}`, `{"small":-129}`,
		strings.Repeat("[", 5000), `{"next":` + strings.Repeat(`{"x":`, 30) + "1" + strings.Repeat("}", 31),
	} {
		f.Add([]byte(seed))
	}
	lenient := codec.JSON[document](codec.MaxBytes(4096))
	strict := codec.JSON[document](codec.MaxBytes(4096), codec.RejectUnknown())
	f.Fuzz(func(t *testing.T, src []byte) {
		before := bytes.Clone(src)
		v, err := lenient.Decode(src)
		_, strictErr := strict.Decode(src)
		require.Equal(t, before, src)
		tells(t, src, err)
		tells(t, src, strictErr)
		if err != nil {
			require.Error(t, strictErr, "strict accepts what lenient refuses: %v", err)
			return
		}
		if strictErr != nil && !errors.Is(strictErr, codec.ErrUnknownMember) {
			t.Fatalf("lenient accepts what strict refuses: %v", strictErr)
		}
		require.True(t, utf8.Valid(src) && jsonv1.Valid(src) && len(src) <= 4096, "accepted: %q", src)

		// What was read can be written, and what was written is read as the same value (C1, C2).
		out, err := codec.JSON[document](codec.MaxBytes(-1)).Append([]byte("dst"), v)
		require.NoError(t, err)
		back, err := codec.JSON[document](codec.MaxBytes(-1)).Decode(out[3:])
		require.NoError(t, err)
		again, err := codec.JSON[document](codec.MaxBytes(-1)).Append([]byte("dst"), back)
		require.NoError(t, err)
		require.Equal(t, string(out), string(again))
	})
}

// tells checks what an error about src says, with everything that it wraps.
func tells(t *testing.T, src []byte, err error) {
	t.Helper()
	if err == nil {
		return
	}
	require.Regexp(t, telling, err.Error())
	var e *codec.Error
	require.ErrorAs(t, err, &e)
	require.True(t, e.Offset >= -1 && e.Offset <= int64(len(src)), "offset %d of %d", e.Offset, len(src))
	n := 0
	for _, c := range causes {
		if errors.Is(err, c) {
			n++
		}
	}
	require.Equal(t, 1, n, "causes of %v", err)
	for err := errors.Unwrap(err); err != nil; err = errors.Unwrap(err) {
		require.True(t, strings.HasSuffix(e.Error(), err.Error()) || strings.HasPrefix(e.Err.Error(), err.Error()), "wrapped: %v", err)
	}
}

// FuzzBinary: the codecs that are not JSON take any bytes, and what one accepts it writes again as it was.
func FuzzBinary(f *testing.F) {
	for _, seed := range []string{
		"", "\x00", "\x01", "\x02", "text", "\xff", "\x00\x00\x01\x8c\xc2\x51\xf4\x00", "\x80\x00\x00\x00\x00\x00\x00\x00",
		"\x7f\xff\xff\xff\xff\xff\xff\xff", "\x7f\xf0\x00\x00\x00\x00\x00\x01", "ninebytes",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		copies(t, codec.String, src, utf8.Valid(src))
		copies(t, codec.Bytes, src, true)
		copies(t, codec.Int64, src, len(src) == 8)
		copies(t, codec.Float64, src, len(src) == 8)
		copies(t, codec.Int16, src, len(src) == 2)
		copies(t, codec.LittleEndian(codec.Int32), src, len(src) == 4)
		copies(t, codec.Float32, src, len(src) == 4)
		copies(t, codec.Time, src, len(src) == 8)
		copies(t, codec.Bool, src, len(src) == 1 && src[0] <= 1)
		copies(t, codec.Nullable(codec.String), src, utf8.Valid(src))
		copies(t, codec.Limit(codec.Bytes, 4), src, len(src) <= 4)
	})
}

func copies[T any](t *testing.T, c codec.Codec[T], src []byte, valid bool) {
	t.Helper()
	before := bytes.Clone(src)
	v, err := c.Decode(src)
	require.Equal(t, before, src)
	if !valid {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	out, err := c.Append([]byte("dst"), v)
	require.NoError(t, err)
	require.Equal(t, "dst"+string(src), string(out))
}

// FuzzCanonical: a document has one form, which means the same, and is what CanonicalJSON reads.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{
		"", "1", "-0", "-0.0", "1e400", "1e-400", "1.50", `"\u00e9\/\n\u0000"`, `{"b":1,"a":[]}`, `{"\n":1,"!":2,"\"":3}`, "[[[[", "[1,2",
		`{"a":{"c":1,"b":2},"":null}`, `"\ud83d\ude00"`, `"\ud800"`, "\xef\xbb\xbf1", `{"a":1,"\u0061":2}`, "123456789012345678901234567890",
	} {
		f.Add([]byte(seed))
	}
	form := codec.CanonicalJSON[jsontext.Value](codec.MaxBytes(-1))
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := codec.AppendCanonical([]byte("dst"), src)
		require.Equal(t, "dst", string(got[:3]))
		if err != nil {
			require.Len(t, got, 3)
			require.True(t, !jsontext.Value(src).IsValid() || errors.Is(err, codec.ErrType), "refused: %q", src)
			return
		}
		got = got[3:]
		again, err := codec.AppendCanonical(nil, got)
		require.NoError(t, err)
		require.Equal(t, string(got), string(again))
		var was, is any
		if json.Unmarshal(src, &was) == nil { // which takes no integer of 400 digits
			require.NoError(t, json.Unmarshal(got, &is))
			require.Equal(t, was, is)
		}
		if string(got) != "null" {
			_, err = form.Decode(got)
			require.NoError(t, err)
			_, err = form.Decode(src)
			require.Equal(t, bytes.Equal(src, got), err == nil, "%v", err)
		}
	})
}

// FuzzVersioned: whatever a stored version claims, it is read or refused.
func FuzzVersioned(f *testing.F) {
	for _, seed := range []string{"", "\xfe", "\xfe\x01{\"sum\":7}", "\xfe\x02{}", "\xfe\x03", "{\"sum\":1}", "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\xfe\x81\x00{}"} {
		f.Add([]byte(seed))
	}
	c := codec.Unversioned(codec.JSON[totals1]()).Next(codec.JSON[totals1](), func(v totals1) (totals1, error) { return v, nil }).Next(codec.JSON[totals2](), toTotals2)
	f.Fuzz(func(t *testing.T, src []byte) {
		v, err := c.Decode(src)
		if err != nil {
			require.Zero(t, v)
			return
		}
		out, err := c.Append([]byte("dst"), v)
		require.NoError(t, err)
		back, err := c.Decode(out[3:])
		require.NoError(t, err)
		require.Equal(t, v, back)
	})
}

// FuzzRecord: a record keeps what it read, and every kind reads any field or refuses it; what is read is written and read again as
// the same value.
func FuzzRecord(f *testing.F) {
	for _, seed := range []string{
		"", "{}", ` {"a" : 1.50, "b":[1,2]} `, `{"\u0061":1,"b":{"c":[null,true,"x"]}}`, `{"a":1e400}`, `{"a":"2024-01-31T07:05:09.5+02:00"}`, `{"a":"AP8="}`,
		`{"a":"2024-W05-3","b":"07:05"}`, `{"a":[["x",1]],"b":{"x":-0.0}}`, `{"a":"]}\"","b":[{}, [] ,"\\"]}`, `{"a":123456789012345678901234567890}`, "null", "[1]",
		`{"a":1,"a":2}`, "{\"\xff\":1}", `{"a":"flenc:jwe:x"}`, `{"":{"":{"":[]}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		r, err := codec.Records.Decode(src)
		if err != nil {
			var e *codec.Error
			require.ErrorAs(t, err, &e)
			require.Zero(t, r.Len())
			return
		}
		if len(src) > 0 {
			require.Equal(t, string(src), textOf(t, r))
		}
		var fields map[string]jsontext.Value
		if len(src) > 0 {
			require.NoError(t, json.Unmarshal(src, &fields))
		}
		require.Equal(t, len(fields), r.Len())
		changed := r
		for name, raw := range r.Fields() {
			require.Equal(t, string(fields[name]), string(raw))
			parsesAgain(t, codec.StringKind, raw, nil)
			parsesAgain(t, codec.IntKind, raw, nil)
			parsesAgain(t, codec.BigIntKind, raw, func(a, b *big.Int) bool { return a.Cmp(b) == 0 })
			parsesAgain(t, codec.FloatKind, raw, nil)
			parsesAgain(t, codec.BoolKind, raw, nil)
			parsesAgain(t, codec.BytesKind, raw, nil)
			parsesAgain(t, codec.DateKind, raw, nil)
			parsesAgain(t, codec.TimeOfDayKind, raw, nil)
			parsesAgain(t, codec.DateTimeKind, raw, time.Time.Equal)
			parsesAgain(t, codec.RecordKind, raw, codec.Record.Equal)
			parsesAgain(t, codec.AnyKind, raw, nil)
			parsesAgain(t, codec.ListKind(codec.AnyKind), raw, nil)
			parsesAgain(t, codec.SetKind(codec.StringKind), raw, nil)
			parsesAgain(t, codec.DictKind(codec.ListKind(codec.FloatKind)), raw, nil)
			parsesAgain(t, codec.PairKind(codec.StringKind, codec.IntKind), raw, nil)
			require.NoError(t, changed.SetRaw(name, raw))
		}
		require.True(t, changed.Equal(r))
		if len(fields) > 0 {
			back, err := codec.ParseRecord([]byte(textOf(t, changed)))
			require.NoError(t, err)
			require.True(t, back.Equal(r))
		}
	})
}

func parsesAgain[T any](t *testing.T, kind codec.Kind[T], raw jsontext.Value, equal func(a, b T) bool) {
	t.Helper()
	v, err := kind.Parse(raw)
	if err != nil {
		require.Zero(t, v)
		return
	}
	out, err := kind.Append([]byte("dst"), v)
	if kind.Name() == "any" || kind.Name() == "list of any" {
		if errors.Is(err, codec.ErrType) {
			return // deeper than it writes
		}
	}
	require.NoError(t, err)
	require.True(t, jsontext.Value(out[3:]).IsValid())
	back, err := kind.Parse(out[3:])
	require.NoError(t, err)
	if equal != nil {
		require.True(t, equal(v, back), "%v and %v", v, back)
		return
	}
	require.Equal(t, v, back)
}
