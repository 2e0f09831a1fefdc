package codec_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/codec/codectest"
)

// leg and document have a member of each kind that json/v2 treats in its own way.
type leg struct {
	Dest  string  `json:"dest"`
	Delay float64 `json:"delay,omitzero"`
}

type document struct {
	leg              // embedded: its members are document's
	Count   int64    `json:"count"`
	Small   int8     `json:"small,omitzero"`
	Quoted  int      `json:"quoted,string"`
	Flag    bool     `json:"flag,omitzero"`
	Text    string   `json:"te/x~t,omitzero"`
	Bin     []byte   `json:"bin,omitempty"`
	Pair    [2]int   `json:"pair"`
	Legs    []leg    `json:"legs"`
	Next    *leg     `json:"next,omitzero"`
	Named   counters `json:"named"`
	ByNum   map[int]leg
	Any     any            `json:"any,omitzero"`
	Raw     jsontext.Value `json:"raw,omitzero"`
	At      time.Time      `json:"at,omitzero"`
	Loud    loud           `json:"loud,omitzero"`
	Ignored chan int       `json:"-"`
}

type counters map[string]int64

// loud is a type whose methods quote what they refuse.
type loud struct{ text string }

func (l loud) MarshalJSON() ([]byte, error) {
	if strings.HasPrefix(l.text, "secret") {
		return nil, fmt.Errorf("loud refuses %q", l.text)
	}
	return jsontext.AppendQuote(nil, l.text)
}

func (l *loud) UnmarshalJSON(src []byte) error {
	text, err := jsontext.AppendUnquote(nil, src)
	if err != nil || strings.HasPrefix(string(text), "secret") {
		return fmt.Errorf("loud refuses %s: %w", src, errors.Join(err, errors.New(string(src))))
	}
	l.text = string(text)
	return nil
}

func full() document {
	return document{
		leg: leg{Dest: "IAH", Delay: -1.5}, Count: math.MinInt64, Small: -128, Quoted: 7, Flag: true, Text: "<\u2028&\u00fc",
		Bin: []byte{0, 255}, Pair: [2]int{1, 2}, Legs: []leg{{Dest: "EWR"}, {}}, Next: &leg{Delay: 1e300},
		Named: counters{"b": 2, "a": 1, "": 3}, ByNum: map[int]leg{10: {}, 9: {}},
		Any: map[string]any{"y": []any{nil, true, 1.0}, "x": "z"}, Raw: jsontext.Value(`{"n":1.10}`),
		At: time.Date(2013, 1, 1, 10, 0, 0, 5, time.UTC), Loud: loud{"ok"},
	}
}

const fullJSON = `{"dest":"IAH","delay":-1.5,"count":-9223372036854775808,"small":-128,"quoted":"7","flag":true,` +
	"\"te/x~t\":\"<\u2028&\u00fc\"," + `"bin":"AP8=","pair":[1,2],"legs":[{"dest":"EWR"},{"dest":""}],"next":{"dest":"","delay":1e+300},` +
	`"named":{"":3,"a":1,"b":2},"ByNum":{"10":{"dest":""},"9":{"dest":""}},"any":{"x":"z","y":[null,true,1]},"raw":{"n":1.10},` +
	`"at":"2013-01-01T10:00:00.000000005Z","loud":"ok"}`

func TestJSON(t *testing.T) {
	empty := document{Legs: []leg{}, Named: counters{}, ByNum: map[int]leg{}}
	const emptyJSON = `{"dest":"","count":0,"quoted":"0","pair":[0,0],"legs":[],"named":{},"ByNum":{}}`
	codectest.Run(t, codec.JSON[document](), codectest.Cases[document]{
		Golden: []codectest.Golden[document]{
			{Value: full(), Bytes: []byte(fullJSON)},
			{Value: empty, Bytes: []byte(emptyJSON)},
		},
		Accepts: []codectest.Golden[document]{
			{Value: document{Count: 1}, Bytes: []byte(" \t\r\n{ \"count\" : 1 } \n")},
			{Value: document{Count: 2}, Bytes: []byte(`{"secret":{"x":[1,{"y":null}]},"count":2}`)}, // unknown
			{Value: document{}, Bytes: []byte(`{"COUNT":3,"Count":4}`)},                             // names are exact
			{Value: document{}, Bytes: []byte(`{"count":null,"legs":null,"dest":null}`)},
			{Value: document{leg: leg{Dest: "\U0001f6e9"}}, Bytes: []byte(`{"dest":"\ud83d\udee9"}`)},
		},
		Invalid: []codectest.Invalid{
			{Src: nil, Err: codec.ErrNull},
			{Src: []byte(" null\n"), Err: codec.ErrNull},
			{Src: []byte{}, Err: codec.ErrSyntax},
			{Src: []byte("\xef\xbb\xbf" + emptyJSON), Err: codec.ErrBOM},
			{Src: []byte(emptyJSON + "secret"), Err: codec.ErrTrailing, Hidden: "secret"},
			{Src: []byte(emptyJSON + emptyJSON), Err: codec.ErrTrailing},
			{Src: []byte(emptyJSON + "\x00"), Err: codec.ErrTrailing},
			{Src: []byte(`{"loud":"secret"}`), Err: codec.ErrType, Hidden: "secret"},
			{Src: []byte("{\"secret\xff\":1}"), Err: codec.ErrUTF8, Hidden: "secret"},
			{Src: []byte("{\"dest\":\"secret\xed\xa0\x80\"}"), Err: codec.ErrUTF8, Hidden: "secret"}, // AT-07
			{Src: []byte(`{"dest":"secret\ud800"}`), Err: codec.ErrSyntax, Hidden: "secret"},
		},
		Refused: []codectest.Refused[document]{
			{Value: document{leg: leg{Delay: math.NaN()}}, Err: codec.ErrType},
			{Value: document{leg: leg{Delay: math.Inf(1)}}, Err: codec.ErrType},
			{Value: document{Text: "secret\xff"}, Err: codec.ErrUTF8, Hidden: "secret"},
			{Value: document{Named: counters{"secret\xff": 1}}, Err: codec.ErrUTF8, Hidden: "secret"},
			{Value: document{Loud: loud{"secret"}}, Err: codec.ErrType, Hidden: "secret"},
			{Value: document{Raw: jsontext.Value(`{"secret":1,"secret":2}`)}, Err: codec.ErrDuplicate, Hidden: "secret"},
			{Value: document{Raw: jsontext.Value(`secret`)}, Err: codec.ErrType, Hidden: "secret"},
			{Value: document{Any: make(chan int)}, Err: codec.ErrUnsupported},
			{Value: document{At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, Err: codec.ErrType},
		},
		Equal: sameDocument,
	})
}

// sameDocument takes nil and empty for the same, as JSON does.
func sameDocument(a, b document) bool {
	x, err := json.Marshal(a, json.Deterministic(true))
	y, err2 := json.Marshal(b, json.Deterministic(true))
	return err == nil && err2 == nil && string(x) == string(y)
}

// Types that are no structs, and what null is for each.
func TestJSONOfOtherTypes(t *testing.T) {
	t.Run("pointer", func(t *testing.T) {
		codectest.Run(t, codec.JSON[*leg](), codectest.Cases[*leg]{
			Golden:  []codectest.Golden[*leg]{{Value: &leg{Dest: "x"}, Bytes: []byte(`{"dest":"x"}`)}, {Value: nil, Bytes: []byte("null")}},
			Accepts: []codectest.Golden[*leg]{{Value: nil, Bytes: nil}},
		})
	})
	t.Run("map", func(t *testing.T) {
		codectest.Run(t, codec.JSON[counters](), codectest.Cases[counters]{
			Golden:  []codectest.Golden[counters]{{Value: counters{"b": 1, "a": 2}, Bytes: []byte(`{"a":2,"b":1}`)}},
			Accepts: []codectest.Golden[counters]{{Value: nil, Bytes: nil}, {Value: nil, Bytes: []byte("null")}},
			Equal:   maps.Equal[counters, counters], // nil comes back empty
			Invalid: []codectest.Invalid{{Src: []byte(`{"secret":1,"secret":2}`), Err: codec.ErrDuplicate, Hidden: "secret"}},
		})
	})
	t.Run("slice", func(t *testing.T) {
		codectest.Run(t, codec.JSON[[]leg](), codectest.Cases[[]leg]{
			Golden:  []codectest.Golden[[]leg]{{Value: []leg{{Dest: "x"}}, Bytes: []byte(`[{"dest":"x"}]`)}, {Value: []leg{}, Bytes: []byte("[]")}},
			Accepts: []codectest.Golden[[]leg]{{Value: nil, Bytes: nil}, {Value: []leg{{}}, Bytes: []byte("[null]")}},
			Equal:   slices.Equal[[]leg], // nil comes back empty
		})
	})
	t.Run("text", func(t *testing.T) {
		codectest.Run(t, codec.JSON[string](), codectest.Cases[string]{
			Golden:  []codectest.Golden[string]{{Value: "a\n\"", Bytes: []byte(`"a\n\""`)}, {Value: "", Bytes: []byte(`""`)}},
			Invalid: []codectest.Invalid{{Err: codec.ErrNull}, {Src: []byte("null"), Err: codec.ErrNull}, {Src: []byte("1"), Err: codec.ErrType}},
		})
	})
	t.Run("time", func(t *testing.T) {
		codectest.Run(t, codec.JSON[time.Time](), codectest.Cases[time.Time]{
			Golden:  []codectest.Golden[time.Time]{{Value: time.Date(2024, 1, 1, 0, 0, 0, 123e6, time.UTC), Bytes: []byte(`"2024-01-01T00:00:00.123Z"`)}},
			Equal:   time.Time.Equal,
			Invalid: []codectest.Invalid{{Src: []byte(`"2024-13-01T00:00:00Z"`), Err: codec.ErrType, Hidden: "2024"}, {Src: []byte("null"), Err: codec.ErrNull}},
		})
	})
	t.Run("any", func(t *testing.T) {
		codectest.Run(t, codec.JSON[any](), codectest.Cases[any]{
			Golden:  []codectest.Golden[any]{{Value: map[string]any{"b": 1.5, "a": nil}, Bytes: []byte(`{"a":null,"b":1.5}`)}, {Value: nil, Bytes: []byte("null")}},
			Accepts: []codectest.Golden[any]{{Value: nil, Bytes: nil}},
		})
	})
}

// Where in the document, of what kind, and never what.
func TestJSONErrors(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{`{"count":"secret"}`, `/count: byte 9: value does not fit: json string for go int64`},
		{`{"count":1.5}`, `/count: byte 9: value does not fit: json number for go int64`},
		{`{"count":9223372036854775808}`, `/count: byte 9: value does not fit: out of range, json number for go int64`},
		{`{"small":128}`, `/small: byte 9: value does not fit: out of range, json number for go int8`},
		{`{"delay":1e999}`, `/delay: byte 9: value does not fit: out of range, json number for go float64`},
		{`{"quoted":7}`, `/quoted: byte 10: value does not fit: json number for go int`},
		{`{"quoted":"secret"}`, `/quoted: byte 10: value does not fit: json string for go int`},
		{`{"flag":"true"}`, `/flag: byte 8: value does not fit: json string for go bool`},
		{`{"te/x~t":1}`, `/te~1x~0t: byte 10: value does not fit: json number for go string`},
		{`{"bin":"secret!"}`, `/bin: byte 7: value does not fit: json string for go []uint8`},
		{`{"pair":[1]}`, `/pair: byte 10: value does not fit: json array for go [2]int`},
		{`{"pair":[1,2,3]}`, `/pair: byte 14: value does not fit: json array for go [2]int`},
		{`{"legs":[{},{"dest":{}}]}`, `/legs/1/dest: byte 20: value does not fit: json object for go string`},
		{`{"next":{"delay":"secret"}}`, `/next/delay: byte 17: value does not fit: json string for go float64`},
		{`{"named":{"secret":"x"}}`, `/named/*: byte 19: value does not fit: json string for go int64`},
		{`{"ByNum":{"secret":{}}}`, `/ByNum/*: byte 10: value does not fit: json string for go int`},
		{`{"ByNum":{"1":{"dest":2}}}`, `/ByNum/*/dest: byte 22: value does not fit: json number for go string`},
		{`{"at":"secret"}`, `/at: byte 6: value does not fit: json string for go time.Time`},
		{`{"loud":"secret"}`, `/loud: byte 8: value does not fit: json string for go codec_test.loud`},
		{`[]`, `byte 0: value does not fit: json array for go codec_test.document`},
		{`"secret"`, `byte 0: value does not fit: json string for go codec_test.document`},

		{`{"count":1,"count":2}`, `/count: byte 11: duplicate member name`},
		{`{"secret":1,"secret":2}`, `/*: byte 12: duplicate member name`},
		{`{"named":{"secret":1,"secret":2}}`, `/named/*: byte 21: duplicate member name`},
		{`{"any":{"secret":{"a":1,"a":2}}}`, `/any/*: byte 24: duplicate member name`},
		{`{"raw":{"secret":{"a":1,"a":2}}}`, `/raw/*: byte 24: duplicate member name`},
		{`{"secret":{"a":1,"\u0061":2}}`, `/*: byte 17: duplicate member name`},

		{"{\"dest\":\"secret\xff\"}", `/dest: byte 15: invalid utf-8`},
		{"{\"secret\":tru", `/*: byte 13: invalid json`},
		{`{"secret`, `byte 8: invalid json`},
		{`{"count":01}`, `byte 10: invalid json`},
		{`{"count":1,}`, `byte 10: invalid json`},
		{`{'secret':1}`, `byte 1: invalid json`},
		{`{"count":NaN}`, `/count: byte 9: invalid json`},
		{`{} // secret`, `byte 3: data after the document`},
		{`{"count":1}{"secret":2}`, `byte 11: data after the document`},
		{`nullsecret`, `byte 4: data after the document`},
		{"\xef\xbb\xbf{}", `byte 0: byte order mark`},
		{"", `byte 0: invalid json`},
		{"  ", `byte 2: invalid json`},
		{`null`, `null: the type has no null (is codec.Nullable or codec.OmitZero wanted?)`},
	} {
		v, err := codec.JSON[document]().Decode([]byte(c.src))
		assert.EqualError(t, err, "codec: json document: "+c.want, c.src)
		assert.Equal(t, document{}, v, c.src)
	}
}

func TestJSONUnknownMembers(t *testing.T) {
	type collects struct {
		A    int                       `json:"a"`
		Rest map[string]jsontext.Value `json:",embed"`
	}
	strict := codec.JSON[document](codec.RejectUnknown())
	for _, c := range []struct{ src, want string }{
		{`{"count":1,"secret":2}`, `/*: byte 11: unknown member`},
		{`{"COUNT":1}`, `/*: byte 1: unknown member`},
		{`{"legs":[{"secret":2}]}`, `/legs/0/*: byte 10: unknown member`},
		{`{"named":{"secret":1},"ByNum":{"1":{"secret":2}}}`, `/ByNum/*/*: byte 36: unknown member`},
	} {
		_, err := strict.Decode([]byte(c.src))
		require.ErrorIs(t, err, codec.ErrUnknownMember)
		require.EqualError(t, err, "codec: json document: "+c.want, c.src)

		for _, opts := range [][]codec.JSONOption{nil, {codec.IgnoreUnknown()}, {codec.RejectUnknown(), codec.IgnoreUnknown()}} {
			_, err = codec.JSON[document](opts...).Decode([]byte(c.src))
			require.NoError(t, err, c.src)
		}
	}
	// A struct that collects them has every member, and keeps them as they were.
	codectest.Run(t, codec.JSON[collects](codec.RejectUnknown()), codectest.Cases[collects]{
		Golden: []codectest.Golden[collects]{{
			Value: collects{A: 1, Rest: map[string]jsontext.Value{"z": jsontext.Value("1.10")}},
			Bytes: []byte(`{"a":1,"z":1.10}`),
		}},
		Invalid: []codectest.Invalid{{Src: []byte(`{"secret":1,"secret":2}`), Err: codec.ErrDuplicate, Hidden: "secret"}},
	})
}

func TestJSONSize(t *testing.T) {
	text := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	for _, c := range []struct {
		opts  []codec.JSONOption
		limit int
	}{
		{nil, codec.DefaultMaxBytes},
		{[]codec.JSONOption{codec.MaxBytes(0)}, codec.DefaultMaxBytes},
		{[]codec.JSONOption{codec.MaxBytes(10)}, 10},
		{[]codec.JSONOption{codec.MaxBytes(10), codec.MaxBytes(-1)}, -1},
	} {
		j := codec.JSON[string](c.opts...)
		fits := text(max(c.limit, 2*codec.DefaultMaxBytes*(c.limit>>62&1)))
		v, err := j.Decode([]byte(fits))
		require.NoError(t, err)
		out, err := j.Append(nil, v)
		require.NoError(t, err)
		require.Equal(t, fits, string(out))
		if c.limit < 0 {
			continue
		}
		_, err = j.Decode([]byte(text(c.limit + 1)))
		require.ErrorIs(t, err, codec.ErrSize)
		require.EqualError(t, err, fmt.Sprintf("codec: json string: too large: %d bytes, must be <= %d", c.limit+1, c.limit))
		out, err = j.Append([]byte("dst"), strings.Repeat("x", c.limit-1))
		require.ErrorIs(t, err, codec.ErrSize)
		require.Equal(t, "dst", string(out))
	}
}

// Nesting is bounded, and so is what an error says of it.
func TestJSONDepth(t *testing.T) {
	_, err := codec.JSON[any]().Decode([]byte(strings.Repeat("[", 100_000)))
	require.ErrorIs(t, err, codec.ErrSyntax)

	type node struct {
		Next *node `json:"next"`
	}
	loop := &node{}
	loop.Next = loop
	_, err = codec.JSON[*node]().Append(nil, loop)
	require.EqualError(t, err, "codec: json *node: "+strings.Repeat("/next", 16)+"/...: value does not fit: go *codec_test.node")
}

// A value that was handed out is not touched by later calls, whatever is pooled.
func TestJSONValuesAreOwned(t *testing.T) {
	j := codec.JSON[document]()
	first, err := j.Decode([]byte(fullJSON))
	require.NoError(t, err)
	for range 100 {
		_, err := j.Decode([]byte(`{"legs":[{"dest":"other"},{}],"named":{"a":9},"bin":"AQEB","raw":[1,2,3],"pair":[8,9],"count":`))
		require.Error(t, err)
		_, err = j.Decode([]byte(`{"legs":[{"dest":"other"},{}],"named":{"a":9},"bin":"AQEB","raw":[1,2,3],"pair":[8,9],"any":{"x":1}}`))
		require.NoError(t, err)
	}
	require.Equal(t, full(), first)
}

// A method that panics leaves the codec usable.
func TestJSONPanickingMethod(t *testing.T) {
	j := codec.JSON[panicky]()
	require.Panics(t, func() { _, _ = j.Decode([]byte("1")) })
	require.Panics(t, func() { _, _ = j.Append(nil, panicky{1}) })
	v, err := j.Decode([]byte("0"))
	require.NoError(t, err)
	require.Zero(t, v)
}

type panicky struct{ n int }

func (p panicky) MarshalJSON() ([]byte, error) {
	if p.n > 0 {
		panic("panicky")
	}
	return []byte("0"), nil
}

func (p *panicky) UnmarshalJSON(src []byte) error {
	if string(src) != "0" {
		p.n = 1
		panic("panicky")
	}
	return nil
}
