package ops_test

import (
	"bufio"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/ops"
)

// Each rule puts keys where the clients do that it is named after (TX-31, EX-19): the vectors come from those clients.
func TestPartitionersAreThoseOfClients(t *testing.T) {
	f, err := os.Open("testdata/partitioners.txt")
	require.NoError(t, err)
	defer f.Close()
	rules := []ops.Partitioner{ops.Murmur2, ops.CRC32, ops.FNV1a, ops.FNV1aReference}
	lines := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		lines++
		words := strings.Fields(s.Text())
		require.Len(t, words, 1+len(rules))
		key, err := hex.DecodeString(strings.TrimPrefix(words[0], "-"))
		require.NoError(t, err)
		for i, rule := range rules {
			for j, text := range strings.Split(words[1+i], ",") {
				n := []int32{2, 3, 8, 100}[j]
				want, err := strconv.Atoi(text)
				require.NoError(t, err)
				if i == 1 && len(key) == 0 {
					want = -1 // consistent_random, the default, puts it anywhere
				}
				require.EqualValues(t, want, rule.Partition(key, n), "%s of %q of %d", rule, key, n)
			}
		}
	}
	require.Equal(t, 40, lines)
}

// The zero value is the default, and RoundRobin puts no key anywhere.
func TestPartitionersByName(t *testing.T) {
	require.Equal(t, "Murmur2", ops.Partitioner{}.String())
	require.True(t, ops.Partitioner{}.Keyed())
	require.Equal(t, ops.Murmur2.Partition([]byte("k"), 100), ops.Partitioner{}.Partition([]byte("k"), 100))
	require.False(t, ops.RoundRobin.Keyed())
	require.EqualValues(t, -1, ops.RoundRobin.Partition([]byte("k"), 100))
	own := ops.NewPartitioner("first byte", func(key []byte, n int32) int32 { return int32(key[0]) % n })
	require.True(t, own.Keyed())
	require.Equal(t, "first byte", own.String())
	require.EqualValues(t, 7, own.Partition([]byte("k"), 10))
	for _, c := range []struct {
		rule ops.Partitioner
		says string
	}{
		{ops.NewPartitioner("", func([]byte, int32) int32 { return 0 }), "PartitionedBy: the partitioner's name is empty"},
		{ops.NewPartitioner("nothing", nil), "PartitionedBy: the function of partitioner nothing is nil"},
	} {
		require.EqualError(t, ops.Collect([]ops.Option{ops.PartitionedBy(c.rule)}).Err, c.says)
	}
}

// The default is Java's murmur2 over 2, 3 and 8 partitions (TX-31, EX-19).
func TestTheDefaultPartitionerIsJavas(t *testing.T) {
	for key, want := range map[string][3]int32{
		"": {1, 0, 1}, "a": {0, 1, 4}, "k1": {1, 2, 1}, "k2": {1, 0, 1}, "tenant/channel": {0, 1, 0}, "tenant-a": {1, 0, 3},
		"key42": {1, 2, 7}, "\u00fctf-8 \u2713": {1, 1, 1}, strings.Repeat("x", 100): {0, 1, 4},
		"cfg0": {0, 1, 6}, "cfg1": {1, 0, 7}, "cfg2": {1, 0, 7}, "cfg3": {0, 2, 4},
	} {
		for i, n := range []int32{2, 3, 8} {
			require.Equal(t, want[i], ops.Murmur2.Partition([]byte(key), n), "%q of %d", key, n)
		}
	}
}
