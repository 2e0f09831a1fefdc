package commitlog_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Java's murmur2 over 2, 3 and 8 partitions (TX-31, EX-19).
func TestPartitionIsJavas(t *testing.T) {
	for key, want := range map[string][3]int32{
		"": {1, 0, 1}, "a": {0, 1, 4}, "k1": {1, 2, 1}, "k2": {1, 0, 1}, "tenant/channel": {0, 1, 0}, "tenant-a": {1, 0, 3},
		"key42": {1, 2, 7}, "\u00fctf-8 \u2713": {1, 1, 1}, strings.Repeat("x", 100): {0, 1, 4},
		"cfg0": {0, 1, 6}, "cfg1": {1, 0, 7}, "cfg2": {1, 0, 7}, "cfg3": {0, 2, 4},
	} {
		for i, n := range []int32{2, 3, 8} {
			require.Equal(t, want[i], commitlog.Partition([]byte(key), n), "%q of %d", key, n)
		}
	}
}
