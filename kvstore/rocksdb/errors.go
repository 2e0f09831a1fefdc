package rocksdb

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/wickerwork/wicker/kvstore"
)

// noSpace is what RocksDB adds to its text on a full disk.
const noSpace = ": No space left on device"

// statusError makes an error of a RocksDB status text. Damage is
// kvstore.ErrCorrupt, a full disk syscall.ENOSPC. What follows the word key is left out: some texts go on
// with the bytes of one.
func statusError(text string) error {
	full := strings.HasSuffix(text, noSpace)
	if i := strings.Index(strings.ToLower(text), "key"); i >= 0 {
		text = strings.TrimSpace(text[:i]) + " (rest withheld, it may hold a key)"
	}
	if strings.HasPrefix(text, "Corruption") {
		return fmt.Errorf("%s: %w", text, kvstore.ErrCorrupt)
	}
	if full {
		return fmt.Errorf("%s: %w", strings.ReplaceAll(text, noSpace, ""), syscall.ENOSPC)
	}
	return errors.New(text)
}
