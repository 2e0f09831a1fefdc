package codec_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"math"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/codec/codectest"
)

// AT-01, AT-02: the spellings of the table.
func TestCanonicalForm(t *testing.T) {
	for _, c := range [][2]string{
		{` { "b" : 1 , "a" : [ true , null , { } , [ ] ] } `, `{"a":[true,null,{},[]],"b":1}`},
		{`{"z":{"y":1,"x":2},"A":false}`, `{"A":false,"z":{"x":2,"y":1}}`},
		{`"` + "\u00e9" + `\u00e9\ud83d\ude00"`, `"` + "\u00e9\u00e9\U0001f600" + `"`},
		{`"\"\\\/\b\f\n\r\t\u0001\u001F"`, `"\"\\/\b\f\n\r\t\u0001\u001f"`},
		{`"\u003c>&/\u007f\u2028\u2029"`, "\"<>&/\x7f\u2028\u2029\""},
		// By code points: U+FFFD is before U+1F600, whose UTF-16 begins with a lower unit.
		{`{"\ud83d\ude00":1,"\ufffd":2}`, `{"` + "\ufffd" + `":2,"` + "\U0001f600" + `":1}`},
		// "\n" is U+000A and before "!", though its escape begins with a backslash; "\"" is before "a".
		{`{"a":1,"!":2,"\n":3,"\"":4,"":5}`, `{"":5,"\n":3,"!":2,"\"":4,"a":1}`},
		{`{"a\nb":1,"a!b":2}`, `{"a\nb":1,"a!b":2}`},
		{`1.0`, `1.0`}, {`100`, `100`}, {`1e2`, `100.0`}, {`1.10`, `1.1`}, {`1e16`, `1e+16`}, {`1e15`, `1000000000000000.0`},
		{`0.00001`, `1e-05`}, {`0.0001`, `0.0001`}, {`-0.0`, `-0.0`}, {`-0`, `0`}, {`1E+2`, `100.0`}, {`1e-7`, `1e-07`},
		{`1e100`, `1e+100`}, {`5e-324`, `5e-324`}, {`0e5`, `0.0`}, {`1e-400`, `0.0`}, {`9007199254740993`, `9007199254740993`},
		{`123456789012345678901234567890`, `123456789012345678901234567890`}, {`-12`, `-12`}, {`0.1`, `0.1`},
	} {
		got, err := codec.AppendCanonical([]byte("dst"), []byte(c[0]))
		require.NoError(t, err, c[0])
		require.Equal(t, "dst"+c[1], string(got))
		again, err := codec.AppendCanonical(nil, got[3:])
		require.NoError(t, err)
		require.Equal(t, c[1], string(again), "not a fixed point")
	}
}

// AT-01, AT-02: what is refused, and where.
func TestCanonicalRefuses(t *testing.T) {
	for src, want := range map[string]error{
		``: codec.ErrSyntax, ` `: codec.ErrSyntax, `NaN`: codec.ErrSyntax, `Infinity`: codec.ErrSyntax, `{"a":1}{`: codec.ErrTrailing,
		`{"a":1} null`: codec.ErrTrailing, `{"a":1,"a":2}`: codec.ErrDuplicate, "\"\xff\"": codec.ErrUTF8, "\"\xed\xa0\x80\"": codec.ErrUTF8,
		`"\ud800"`: codec.ErrSyntax, "\xef\xbb\xbf1": codec.ErrBOM, `01`: codec.ErrTrailing, `1e400`: codec.ErrType, `[-1e400]`: codec.ErrType,
		strings.Repeat("[", 20_000): codec.ErrSyntax,
	} {
		got, err := codec.AppendCanonical([]byte("dst"), []byte(src))
		require.ErrorIs(t, err, want, src)
		require.Equal(t, "dst", string(got))
	}
	_, err := codec.AppendCanonical(nil, []byte(`{"secret":[1,1e999]}`))
	require.EqualError(t, err, "codec: canonical json: byte 13: value does not fit: number out of range of a float64")
}

// AT-01: any two spellings of a document have one form, which means the same.
func TestCanonicalFormOfSpellings(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		v := randomJSON(rng, 4)
		one, err := codec.AppendCanonical(nil, []byte(spell(rng, v)))
		require.NoError(t, err)
		two, err := codec.AppendCanonical(nil, []byte(spell(rng, v)))
		require.NoError(t, err)
		require.Equal(t, string(one), string(two))
		var got any
		require.NoError(t, json.Unmarshal(one, &got))
		require.Equal(t, v, got)
	}
}

func randomJSON(rng *rand.Rand, depth int) any {
	switch n := rng.IntN(7); {
	case n == 0 && depth > 0:
		m := map[string]any{}
		for range rng.IntN(6) {
			m[randomLetters(rng)] = randomJSON(rng, depth-1)
		}
		return m
	case n <= 1 && depth > 0:
		a := []any{}
		for range rng.IntN(5) {
			a = append(a, randomJSON(rng, depth-1))
		}
		return a
	case n == 2:
		return nil
	case n == 3:
		return rng.IntN(2) == 0
	case n == 4:
		for {
			if f := math.Float64frombits(rng.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
				return f
			}
		}
	default:
		return randomLetters(rng)
	}
}

func randomLetters(rng *rand.Rand) string {
	const letters = "a\u00e9\"\\\n\x00\x1f/ <\u2028\U0001f600\ufffdzA"
	runes := []rune(letters)
	out := make([]rune, rng.IntN(5))
	for i := range out {
		out[i] = runes[rng.IntN(len(runes))]
	}
	return string(out)
}

// spell writes v in one of many ways.
func spell(rng *rand.Rand, v any) string {
	pad := func() string { return []string{"", "", " ", "\n", "\t\r"}[rng.IntN(5)] }
	text := func(s string) string {
		var b strings.Builder
		b.WriteByte('"')
		for _, r := range s {
			q, _ := jsontext.AppendQuote(nil, string(r))
			switch {
			case rng.IntN(3) == 0 && r < 0x10000:
				b.WriteString(`\u` + strconv.FormatInt(0x10000+int64(r), 16)[1:])
			default:
				b.Write(q[1 : len(q)-1])
			}
		}
		return b.String() + `"`
	}
	var b strings.Builder
	b.WriteString(pad())
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case float64:
		s := strconv.FormatFloat(v, []byte("eE")[rng.IntN(2)], -1, 64)
		b.WriteString(s)
	case string:
		b.WriteString(text(v))
	case []any:
		b.WriteString("[")
		for i, e := range v {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(spell(rng, e))
		}
		b.WriteString(pad() + "]")
	case map[string]any:
		b.WriteString("{")
		first := true
		for k, e := range v { // in any order
			if !first {
				b.WriteString(",")
			}
			first = false
			b.WriteString(pad() + text(k) + pad() + ":" + spell(rng, e))
		}
		b.WriteString(pad() + "}")
	}
	b.WriteString(pad())
	return b.String()
}

// AT-02: floats are spelled as Python's repr does, which the reference writes. Its own json is the oracle.
func TestCanonicalFormIsPythons(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	rng := rand.New(rand.NewPCG(3, 4))
	var docs []string
	for range 1000 {
		docs = append(docs, spell(rng, randomJSON(rng, 3)))
	}
	for e := -330; e < 300; e += 3 {
		docs = append(docs, "1.5e"+strconv.Itoa(e), "1e"+strconv.Itoa(e))
	}
	var in strings.Builder
	for _, d := range docs {
		in.WriteString(strings.NewReplacer("\n", " ", "\r", " ").Replace(d) + "\n")
	}
	run := exec.Command(python, "-c", `
import sys, json
for line in sys.stdin.buffer.read().split(b"\n")[:-1]:
    out = json.dumps(json.loads(line), ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    sys.stdout.buffer.write(out.encode() + b"\n")`)
	run.Stdin = strings.NewReader(in.String())
	out, err := run.Output()
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	require.Len(t, lines, len(docs))
	for i, d := range docs {
		got, err := codec.AppendCanonical(nil, []byte(d))
		require.NoError(t, err)
		require.Equal(t, lines[i], string(got), d)
	}
}

type place struct {
	Zone string `json:"zone"`
	Area int    `json:"area"`
}

func TestCanonicalJSON(t *testing.T) {
	codectest.Run(t, codec.CanonicalJSON[place](), codectest.Cases[place]{
		Golden: []codectest.Golden[place]{
			{Value: place{"\u00e9<", 3}, Bytes: []byte(`{"area":3,"zone":"` + "\u00e9" + `<"}`)},
			{Value: place{}, Bytes: []byte(`{"area":0,"zone":""}`)},
		},
		Invalid: []codectest.Invalid{
			{Src: nil, Err: codec.ErrNull},
			{Src: []byte(`{"zone":"secret","area":3}`), Err: codec.ErrForm, Hidden: "secret"},
			{Src: []byte(`{"area":3, "zone":"secret"}`), Err: codec.ErrForm, Hidden: "secret"},
			{Src: []byte(`{"area":3}`), Err: codec.ErrForm},
			{Src: []byte(`{"area":3,"zone":"\u0041"}`), Err: codec.ErrForm},
			{Src: []byte(`{"area":3,"new":1,"zone":"A"}`), Err: codec.ErrForm, Hidden: "new"},
			{Src: []byte(`{"area":-0,"zone":"A"}`), Err: codec.ErrForm},
			{Src: []byte(`{"area":"3","zone":"A"}`), Err: codec.ErrType},
			{Src: []byte(`{`), Err: codec.ErrSyntax},
		},
	})
	_, err := codec.CanonicalJSON[place]().Decode([]byte(`{"area":3,"zone":"\u0041"}`))
	require.EqualError(t, err, "codec: json place: byte 18: not in canonical form")
	require.Equal(t, "canonical json place", codec.Describe(codec.CanonicalJSON[place]()))
}
