package rocksdb

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
)

func TestStatusError(t *testing.T) {
	err := statusError("IO error: No space left on device: While appending to file: /d/000012.sst")
	require.EqualError(t, err, "IO error: No space left on device: While appending to file: /d/000012.sst")
	require.NotErrorIs(t, err, kvstore.ErrCorrupt)
	err = statusError("Corruption: block checksum mismatch: stored = 1, computed = 2")
	require.EqualError(t, err, "Corruption: block checksum mismatch: stored = 1, computed = 2: corrupt")
	require.ErrorIs(t, err, kvstore.ErrCorrupt)
	err = statusError("Corruption: corrupted internal Key secret")
	require.EqualError(t, err, "Corruption: corrupted internal (rest withheld, it may hold a key): corrupt")
}

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
