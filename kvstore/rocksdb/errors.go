package rocksdb

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wickerwork/wicker/kvstore"
)

// statusError makes an error of a RocksDB status text. Damage is
// kvstore.ErrCorrupt. What follows the word key is left out: some texts go on
// with the bytes of one.
func statusError(text string) error {
	if i := strings.Index(strings.ToLower(text), "key"); i >= 0 {
		text = strings.TrimSpace(text[:i]) + " (rest withheld, it may hold a key)"
	}
	if strings.HasPrefix(text, "Corruption") {
		return fmt.Errorf("%s: %w", text, kvstore.ErrCorrupt)
	}
	return errors.New(text)
}
