package rocksdb

import (
	"fmt"
	"strings"

	"github.com/wickerwork/wicker/kvstore"
)

// maxDirName is the longest name of a directory entry on the usual file systems.
const maxDirName = 255

// dirName returns the directory entry for a store's name: ASCII letters, digits,
// '-', '_', and '.' except at the front, stand for themselves, every other byte
// is %XX. That leaves every legal topic name as it is, maps different names to
// different entries, and makes none that is hidden, "." or "..".
//
// Upper and lower case are kept, so a file system that ignores case can mix up
// two names; the name in the store's format mark uncovers that (checkMark).
func dirName(name string) (string, error) {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; plain(c) && (c != '.' || i > 0) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if name == "" || b.Len() > maxDirName {
		return "", fmt.Errorf("store name of %d bytes, %d when escaped, must be 1 to %d: %w", len(name), b.Len(), maxDirName, kvstore.ErrName)
	}
	return b.String(), nil
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}

// storeName undoes dirName; ok=false for an entry that dirName does not make.
func storeName(dir string) (name string, ok bool) {
	b := make([]byte, 0, len(dir))
	for i := 0; i < len(dir); i++ {
		c := dir[i]
		if c == '%' {
			if i+2 >= len(dir) {
				return "", false
			}
			if _, err := fmt.Sscanf(dir[i+1:i+3], "%02X", &c); err != nil {
				return "", false
			}
			i += 2
		}
		b = append(b, c)
	}
	// Encoding again tells whether it was canonical.
	again, err := dirName(string(b))
	return string(b), err == nil && again == dir
}
