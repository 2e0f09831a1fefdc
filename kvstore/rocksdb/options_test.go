package rocksdb_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore/rocksdb"
)

func TestValidate(t *testing.T) {
	tests := []struct {
		name string
		opts rocksdb.Options
		want string // "" for none
	}{
		{"defaults", rocksdb.Options{Dir: "d"}, ""},
		{"least", rocksdb.Options{Dir: "d", MemoryBytes: 1 << 20, WriteBufferBytes: 64 << 10}, ""},
		{"most", rocksdb.Options{Dir: "d", MemoryBytes: 1 << 30, WriteBufferBytes: 768 << 20}, ""},
		{"zero", rocksdb.Options{}, "rocksdb: Dir must not be empty"},
		{"memory", rocksdb.Options{Dir: "d", MemoryBytes: 1<<20 - 1}, "rocksdb: MemoryBytes (1048575) must be >= 1048576, or 0 for 268435456"},
		{"buffer-small", rocksdb.Options{Dir: "d", WriteBufferBytes: 1}, "rocksdb: WriteBufferBytes (1) must be from 65536 to 201326592, or 0 for a quarter of MemoryBytes"},
		{"buffer-large", rocksdb.Options{Dir: "d", MemoryBytes: 4 << 20, WriteBufferBytes: 4 << 20}, "rocksdb: WriteBufferBytes (4194304) must be from 65536 to 3145728, or 0 for a quarter of MemoryBytes"},
		{"all", rocksdb.Options{MemoryBytes: -1, WriteBufferBytes: -1}, "rocksdb: Dir must not be empty\n" +
			"rocksdb: MemoryBytes (-1) must be >= 1048576, or 0 for 268435456\n" +
			"rocksdb: WriteBufferBytes (-1) must be from 65536 to 786432, or 0 for a quarter of MemoryBytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.opts.Validate()
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tt.want)
			require.EqualError(t, rocksdb.New(tt.opts).Open(), tt.want, "Open validates")
		})
	}
}
