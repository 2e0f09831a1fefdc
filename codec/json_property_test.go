package codec_test

import (
	"encoding/json/jsontext"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
)

// randomText is valid UTF-8 of any runes; those of JSON's own syntax come often.
func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(12) {
		switch r.IntN(4) {
		case 0:
			b.WriteByte("\"\\/\b\n\t<>&'{}[]:,\x00\x1f\x7f"[r.IntN(19)])
		case 1:
			if c := rune(r.Int32N(0x110000)); c < 0xd800 || c > 0xdfff {
				b.WriteRune(c)
			}
		default:
			b.WriteByte(byte('a' + r.IntN(26)))
		}
	}
	return b.String()
}

func randomNumber(r *rand.Rand) float64 {
	for {
		if f := math.Float64frombits(r.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
	}
}

func randomDocument(r *rand.Rand) document {
	d := document{
		leg: leg{Dest: randomText(r), Delay: randomNumber(r)}, Count: int64(r.Uint64()), Small: int8(r.Uint32()), Quoted: r.Int(),
		Flag: r.IntN(2) == 0, Text: randomText(r), Pair: [2]int{r.Int(), -r.Int()}, Legs: []leg{}, Named: counters{}, ByNum: map[int]leg{},
		At: time.Unix(r.Int64N(1<<36)-(1<<35), r.Int64N(1e9)).UTC(), Loud: loud{"!" + randomText(r)},
	}
	for range r.IntN(4) {
		d.Bin = append(d.Bin, byte(r.Uint32()))
		d.Legs = append(d.Legs, leg{Dest: randomText(r)})
		d.Named[randomText(r)] = int64(r.Uint64())
		d.ByNum[r.IntN(100)-50] = leg{Delay: float64(r.IntN(9))}
	}
	if r.IntN(2) == 0 {
		d.Next = &leg{Dest: randomText(r)}
		d.Any = map[string]any{randomText(r): []any{nil, true, randomNumber(r), randomText(r), map[string]any{}}}
		d.Raw = jsontext.Value(`[1.10,{"":null}]`)
	}
	return d
}

// C1 and C2: a value survives, to the last bit, and equal values have equal bytes.
func TestJSONProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	j := codec.JSON[document]()
	for range 2000 {
		v := randomDocument(r)
		b, err := j.Append(nil, v)
		require.NoError(t, err)
		back, err := j.Decode(b)
		require.NoError(t, err)
		require.Equal(t, v, back)
		again, err := j.Append(nil, back)
		require.NoError(t, err)
		require.Equal(t, string(b), string(again))
	}
}

// C6: whatever is done to a document, what the error says is put together from the type alone.
func TestJSONErrorsTellNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	pieces := []string{`"secret"`, `{"secret":1,"secret":2}`, `{"secret":[`, "secret", `\ud800`, "\xff", "\xef\xbb\xbf", "null", "1e999", `,"secret":{"count":{}}`,
		`"count":1,`, "[", "]", "{", "}", `"`, ":", ",", "0", "-"}
	lenient := codec.JSON[document](codec.MaxBytes(4096))
	strict := codec.JSON[document](codec.MaxBytes(4096), codec.RejectUnknown())
	seen := map[string]int{}
	for range 1500 {
		src := fullJSON
		for range 1 + r.IntN(2) {
			at, to := r.IntN(len(src)+1), 0
			to = at + r.IntN(min(12, len(src)-at)+1)
			src = src[:at] + pieces[r.IntN(len(pieces))] + src[to:]
		}
		for _, c := range []*codec.JSONCodec[document]{lenient, strict} {
			_, err := c.Decode([]byte(src))
			tells(t, []byte(src), err)
			if err != nil {
				for _, cause := range causes {
					if strings.Contains(err.Error(), cause.Error()) {
						seen[cause.Error()]++
					}
				}
				require.NotContains(t, err.Error(), "secret")
			}
		}
	}
	for _, cause := range []error{codec.ErrSyntax, codec.ErrType, codec.ErrUTF8, codec.ErrDuplicate, codec.ErrUnknownMember, codec.ErrTrailing} {
		require.Positive(t, seen[cause.Error()], fmt.Sprint("never met: ", cause))
	}
}
