package codec_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/codec/codectest"
)

func TestString(t *testing.T) {
	codectest.Run(t, codec.String, codectest.Cases[string]{
		Golden: []codectest.Golden[string]{ // AT-03: never quoted
			{Value: "", Bytes: []byte{}},
			{Value: "N14228", Bytes: []byte("N14228")},
			{Value: `"quoted"`, Bytes: []byte(`"quoted"`)},
			{Value: "\x00", Bytes: []byte{0}},
			{Value: "\u00fc\U0001f6e9\ufeff", Bytes: []byte("\xc3\xbc\xf0\x9f\x9b\xa9\xef\xbb\xbf")},
		},
		Values:  []string{"a", strings.Repeat("long ", 1000), "\ufffd"},
		Accepts: []codectest.Golden[string]{{Value: "", Bytes: nil}}, // AT-05
		Invalid: []codectest.Invalid{
			{Src: []byte("secret\xff"), Err: codec.ErrUTF8, Hidden: "secret"},
			{Src: []byte("secret\xed\xa0\x80"), Err: codec.ErrUTF8, Hidden: "secret"}, // a surrogate
			{Src: []byte("secret\xc0\x80"), Err: codec.ErrUTF8, Hidden: "secret"},     // an overlong NUL
			{Src: []byte("secret\xe2\x82"), Err: codec.ErrUTF8, Hidden: "secret"},     // cut short
		},
		Refused: []codectest.Refused[string]{{Value: "secret\xff", Err: codec.ErrUTF8, Hidden: "secret"}},
	})
}

func TestBytes(t *testing.T) {
	codectest.Run(t, codec.Bytes, codectest.Cases[[]byte]{
		Golden: []codectest.Golden[[]byte]{
			{Value: nil, Bytes: nil},
			{Value: []byte{}, Bytes: []byte{}},
			{Value: []byte("\x00\xff"), Bytes: []byte("\x00\xff")},
		},
		Values: [][]byte{bytes.Repeat([]byte{7}, 10_000)},
		Equal:  func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) },
		Shares: true,
	})
}

// What Bytes decodes shares its source, and appending to it leaves what is behind alone.
func TestBytesCapacity(t *testing.T) {
	src := []byte("valuebehind")
	v, err := codec.Bytes.Decode(src[:5])
	require.NoError(t, err)
	require.Same(t, &src[0], &v[0])
	require.Equal(t, 5, cap(v))
	_ = append(v, '!')
	require.Equal(t, "valuebehind", string(src))
}

// Text is refused exactly where unicode/utf8 refuses it, and the offset is that of the first bad byte.
func TestStringProperties(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		var src []byte
		for range rnd.IntN(12) {
			switch rnd.IntN(8) {
			case 0:
				src = append(src, byte(rnd.UintN(256)))
			case 1:
				src = utf8.AppendRune(src, rune(rnd.Int32N(0x110000)))
			default:
				src = append(src, byte(rnd.UintN(128)))
			}
		}
		v, err := codec.String.Decode(src)
		_, refused := codec.String.Append(nil, string(src))
		if utf8.Valid(src) {
			require.NoError(t, err)
			require.NoError(t, refused)
			require.Equal(t, string(src), v)
			continue
		}
		require.ErrorIs(t, refused, codec.ErrUTF8)
		require.ErrorIs(t, err, codec.ErrUTF8)
		var e *codec.Error
		require.ErrorAs(t, err, &e)
		require.True(t, utf8.Valid(src[:e.Offset]), "offset %d of %q", e.Offset, src)
		r, n := utf8.DecodeRune(src[e.Offset:])
		require.True(t, r == utf8.RuneError && n == 1, "offset %d of %q", e.Offset, src)
	}
}
