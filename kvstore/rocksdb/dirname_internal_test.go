package rocksdb

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
)

// TestDirName is the escape's golden text: it is on disk.
func TestDirName(t *testing.T) {
	for name, want := range map[string]string{
		"orders-0":     "orders-0",
		"App.sub_1-12": "App.sub_1-12",
		".":            "%2E",
		"..":           "%2E.",
		".x.":          "%2Ex.",
		"a/b":          "a%2Fb",
		"100%":         "100%25",
		"\x00\xff":     "%00%FF",
		" ":            "%20",
		"gr\u00fc":     "gr%C3%BC",
	} {
		got, err := dirName(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
		back, ok := storeName(got)
		require.True(t, ok)
		require.Equal(t, name, back)
	}
	for _, name := range []string{"", strings.Repeat("x", 256), strings.Repeat("/", 86)} {
		_, err := dirName(name)
		require.ErrorIs(t, err, kvstore.ErrName)
	}
	// What dirName does not make names no store.
	for _, dir := range []string{"", ".", "..", ".x", "%", "%4", "%zz", "%41", "%2e", "a b", "lost+found", "%2", "a/b", "% 2", "%+1"} {
		_, ok := storeName(dir)
		require.False(t, ok, "%q", dir)
	}
}

// FuzzDirName: the escape is safe and reversible, and its inverse accepts
// nothing else.
func FuzzDirName(f *testing.F) {
	for _, s := range []string{"", "orders-0", "..", "a/b", "%41", "%2Ex", "\x00\xff", "100%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if dir, err := dirName(s); err == nil {
			require.NotEmpty(t, dir)
			require.LessOrEqual(t, len(dir), 255)
			require.NotEqual(t, byte('.'), dir[0])
			for i := range len(dir) {
				require.True(t, plain(dir[i]) || dir[i] == '%', "%q", dir)
			}
			back, ok := storeName(dir)
			require.True(t, ok)
			require.Equal(t, s, back)
		}
		if name, ok := storeName(s); ok {
			dir, err := dirName(name)
			require.NoError(t, err)
			require.Equal(t, s, dir)
		}
	})
}
