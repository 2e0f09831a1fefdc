package rocksdb

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A full disk is told also where the text is cut off for what may be a key.
func TestStatusOfAFullDisk(t *testing.T) {
	for text, want := range map[string]string{
		"IO error: No space left on device: While appending to file: /d/a/1.sst: No space left on device": "IO error: While appending to file: /d/a/1.sst: no space left on device",
		"IO error: While appending to file: /d/app-by-key-0/1.sst: No space left on device":               "IO error: While appending to file: /d/app-by- (rest withheld, it may hold a key): no space left on device",
	} {
		err := statusError(text)
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.EqualError(t, err, want)
	}
}
