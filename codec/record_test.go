package codec_test

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/codec/codectest"
)

func record(t *testing.T, text string) codec.Record {
	t.Helper()
	r, err := codec.ParseRecord([]byte(text))
	require.NoError(t, err)
	return r
}

func textOf(t *testing.T, r codec.Record) string {
	t.Helper()
	out, err := codec.Records.Append(nil, r)
	require.NoError(t, err)
	return string(out)
}

// AT-07: what is a record, and what is not.
func TestRecords(t *testing.T) {
	invalid := []codectest.Invalid{
		{Src: []byte("null"), Err: codec.ErrNull}, {Src: []byte(" "), Err: codec.ErrSyntax}, {Src: []byte("1"), Err: codec.ErrType},
		{Src: []byte(`"secret"`), Err: codec.ErrType, Hidden: "secret"}, {Src: []byte(`["secret"]`), Err: codec.ErrType, Hidden: "secret"},
		{Src: []byte("{}{}"), Err: codec.ErrTrailing}, {Src: []byte("{} secret"), Err: codec.ErrTrailing, Hidden: "secret"},
		{Src: []byte("\xef\xbb\xbf{}"), Err: codec.ErrBOM}, {Src: []byte("{\"a\":\"\xed\xa0\x80\"}"), Err: codec.ErrUTF8},
		{Src: []byte("{\"a\":\"\xff\"}"), Err: codec.ErrUTF8}, {Src: []byte(`{"secret":1,"secret":2}`), Err: codec.ErrDuplicate, Hidden: "secret"},
		{Src: []byte(`{"a":01}`), Err: codec.ErrSyntax}, {Src: []byte(`{"a":NaN}`), Err: codec.ErrSyntax}, {Src: []byte(`{"a":"\ud800"}`), Err: codec.ErrSyntax},
		{Src: []byte("{\"a\":\"x\ny\"}"), Err: codec.ErrSyntax}, {Src: []byte("{"), Err: codec.ErrSyntax}, {Src: []byte("{'a':1}"), Err: codec.ErrSyntax},
	}
	verbatim := ` {"b" : 1.50, "a":[ 1 , 2 ],"\u0063":"\u00e9", "n":123456789012345678901234567890, "z":null}` + "\n"
	codectest.Run(t, codec.Records, codectest.Cases[codec.Record]{
		Golden: []codectest.Golden[codec.Record]{
			{Value: record(t, verbatim), Bytes: []byte(verbatim)},
			{Value: codec.Record{}, Bytes: []byte("{}")},
			{Value: record(t, `{"a":1e400}`), Bytes: []byte(`{"a":1e400}`)},
		},
		Accepts:      []codectest.Golden[codec.Record]{{Value: codec.Record{}, Bytes: nil}, {Value: codec.Record{}, Bytes: []byte{}}},
		Invalid:      invalid,
		Equal:        codec.Record.Equal,
		BytesPerByte: 200,
	})
	codectest.Run(t, codec.Records.Canonical().EmptyIsNull(), codectest.Cases[codec.Record]{
		Golden: []codectest.Golden[codec.Record]{
			{Value: record(t, verbatim), Bytes: []byte(`{"a":[1,2],"b":1.5,"c":"` + "\u00e9" + `","n":123456789012345678901234567890,"z":null}`)},
			{Value: codec.Record{}, Bytes: nil},
		},
		Accepts:      []codectest.Golden[codec.Record]{{Value: codec.Record{}, Bytes: []byte("{}")}},
		Invalid:      append(invalid, codectest.Invalid{Src: []byte(`{"a":1e400}`), Err: codec.ErrType}), // D-04
		Equal:        codec.Record.Equal,
		BytesPerByte: 400,
	})
	require.True(t, codec.IsObject(codec.Records))
	_, err := codec.Records.Decode(append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), codec.DefaultMaxBytes)...))
	require.ErrorIs(t, err, codec.ErrSize)
}

// A record against a map and a list of names, with copies that must not see each other's changes (AT-17, AT-18).
func TestRecordIsAMap(t *testing.T) {
	type world struct {
		r    codec.Record
		want map[string]string
	}
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		names := 3 + rng.IntN(60)
		base := map[string]string{}
		for range rng.IntN(names) {
			base["f"+strconv.Itoa(rng.IntN(names))] = strconv.Itoa(rng.IntN(1000))
		}
		var text strings.Builder
		for name, raw := range base {
			fmt.Fprintf(&text, `%s"%s":%s`, []string{",", ""}[btoi(text.Len() == 0)], name, raw)
		}
		worlds := []world{{record(t, "{"+text.String()+"}"), base}}
		for range 400 {
			w := &worlds[rng.IntN(len(worlds))]
			name := "f" + strconv.Itoa(rng.IntN(names))
			raw, there := w.want[name]
			switch op := rng.IntN(12); {
			case op == 0 && len(worlds) < 6:
				worlds = append(worlds, world{w.r, maps.Clone(w.want)})
			case op == 1:
				other := worlds[rng.IntN(len(worlds))]
				w.r = codec.Merge(w.r, other.r)
				merged := maps.Clone(w.want)
				maps.Copy(merged, other.want)
				w.want = merged
			case op <= 4:
				err := w.r.Delete(name)
				if !there {
					require.ErrorIs(t, err, codec.ErrMissing)
				} else {
					require.NoError(t, err)
				}
				w.want = maps.Clone(w.want)
				delete(w.want, name)
			case op <= 9:
				raw := strconv.Itoa(rng.IntN(1000))
				require.NoError(t, w.r.SetRaw(name, jsontext.Value(raw)))
				w.want = maps.Clone(w.want)
				w.want[name] = raw
			default:
				got, ok := w.r.Raw(name)
				require.Equal(t, there, ok)
				require.Equal(t, raw, string(got))
			}
			for _, w := range worlds {
				require.Equal(t, len(w.want), w.r.Len())
				got := map[string]string{}
				for name, raw := range w.r.Fields() {
					require.NotContains(t, got, name)
					got[name] = string(raw)
				}
				require.Equal(t, w.want, got)
			}
		}
		for _, w := range worlds {
			back := record(t, textOf(t, w.r))
			require.True(t, back.Equal(w.r) && w.r.Equal(back))
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A changed field stays where it was, a new one comes last, and nothing else is spelled otherwise.
func TestRecordKeepsWhatItDoesNotChange(t *testing.T) {
	r := record(t, `{ "id": 12345678901234567890, "\u0070rice": 1.50, "tags":[ "a" ], "x": null }`)
	require.NoError(t, r.SetRaw("price", jsontext.Value(" 2.00 ")))
	require.NoError(t, codec.Attr("seen", codec.BoolKind).Set(&r, true))
	require.Equal(t, `{"id":12345678901234567890,"\u0070rice":2.00,"tags":[ "a" ],"x":null,"seen":true}`, textOf(t, r))
	require.NoError(t, r.Delete("tags"))
	require.Equal(t, `{"id":12345678901234567890,"\u0070rice":2.00,"x":null,"seen":true}`, textOf(t, r))
}

// AT-16: equality knows the kinds of numbers, and no order and no spelling.
func TestRecordEqual(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":"` + "\u00e9" + `"}`, `{ "b":"\u00e9", "a":1 }`, true}, {`{"a":1}`, `{"a":1.0}`, false}, {`{"a":1.0}`, `{"a":1.00}`, true},
		{`{"a":1}`, `{"a":true}`, false}, {`{"a":null}`, `{}`, false}, {`{"a":null}`, `{"b":null}`, false}, {`{}`, `{}`, true},
		{`{"a":{"x":1,"y":2}}`, `{"a":{"y":2,"x":1}}`, true}, {`{"a":1e400}`, `{"a":1e400}`, true}, {`{"a":1e400}`, `{"a":1e401}`, false},
		{`{"a":[1,2]}`, `{"a":[2,1]}`, false},
	} {
		require.Equal(t, c.want, record(t, c.a).Equal(record(t, c.b)), "%s and %s", c.a, c.b)
	}
	require.True(t, codec.Record{}.IsZero())
	require.False(t, record(t, `{"a":null}`).IsZero())
}

// AT-17: merging keeps nulls and every value's own spelling, and the later wins.
func TestMerge(t *testing.T) {
	a, b := record(t, `{"a":1.50,"b":2,"c":null}`), record(t, `{"b":null,"d":"flenc:jwe:x"}`)
	require.Equal(t, `{"a":1.50,"b":null,"c":null,"d":"flenc:jwe:x"}`, textOf(t, codec.Merge(a, b)))
	require.Equal(t, `{"a":1.50,"b":2,"c":null}`, textOf(t, a))
	require.Zero(t, codec.Merge().Len())
}

// AT-15: a record of Go values takes what has a form, and refuses the rest.
func TestRecordOf(t *testing.T) {
	r, err := codec.RecordOf(map[string]any{
		"n": nil, "i": 7, "u": uint8(200), "f": 1.0, "s": "\u00e9", "set": map[int]struct{}{10: {}, 9: {}, 2: {}}, "l": []string{"x"},
		"r": record(t, `{"k": 1.50}`), "m": map[string]int{"b": 1, "a": 2}, "raw": jsontext.Value(` 1.50 `), "d": codec.Date{2024, 2, 29},
	})
	require.NoError(t, err)
	require.Equal(t, `{"d":"2024-02-29","f":1.0,"i":7,"l":["x"],"m":{"a":2,"b":1},"n":null,"r":{"k": 1.50},"raw":1.50,"s":"`+"\u00e9"+`","set":[2,9,10],"u":200}`, textOf(t, r))
	loop := []any{nil}
	loop[0] = loop
	for name, v := range map[string]any{"bytes": []byte("secret"), "duration": 5 * time.Second, "struct": struct{ A int }{1}, "func": func() {}, "chan": make(chan int), "loop": loop, "map": map[int]int{1: 1}, "pointer": new(int)} {
		_, err := codec.RecordOf(map[string]any{"secret": v})
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "secret")
	}
}

// A record shows no content wherever it is printed.
func TestRecordHidesContent(t *testing.T) {
	r := record(t, `{"secretname":"secretvalue"}`)
	require.NoError(t, r.SetRaw("secretother", jsontext.Value(`"secretmore"`)))
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "r", r)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "r", r)
	for _, s := range []string{fmt.Sprint(r), fmt.Sprintf("%+v %#v %s %q %d %x %v", r, r, r, r, r, r, []any{r, &r, struct{ R codec.Record }{r}}), log.String()} {
		require.NotContains(t, s, "secret")
		require.Contains(t, s, "record of 2 fields")
	}
}

// In a struct a record is the object itself.
func TestRecordInStruct(t *testing.T) {
	type envelope struct {
		ID   int          `json:"id"`
		Body codec.Record `json:"body"`
	}
	c := codec.JSON[envelope](codec.RejectUnknown())
	v, err := c.Decode([]byte(`{"id":1,"body":{"n":1.50,"m":12345678901234567890}}`))
	require.NoError(t, err)
	require.Equal(t, 2, v.Body.Len())
	out, err := c.Append(nil, v)
	require.NoError(t, err)
	require.Equal(t, `{"id":1,"body":{"n":1.50,"m":12345678901234567890}}`, string(out))
	v, err = c.Decode([]byte(`{"id":1,"body":null}`))
	require.NoError(t, err)
	require.True(t, v.Body.IsZero())
	_, err = c.Decode([]byte(`{"id":1,"body":["secret"]}`))
	require.ErrorIs(t, err, codec.ErrType)
	require.NotContains(t, err.Error(), "secret")
	_, err = json.Marshal(map[string]codec.Record{"x": {}})
	require.NoError(t, err)
}
