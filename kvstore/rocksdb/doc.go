// Package rocksdb is the engine of package kvstore that keeps stores on disk, in
// RocksDB.
//
// Use [New] with a directory; see kvstore for what a store does and guarantees.
// This page says what is particular to this engine.
//
// # On disk
//
// One directory belongs to one process at a time, by a file lock that holds the
// process id and that the kernel gives up when the process ends. Each store is a
// RocksDB of its own in stores/, under its name with odd bytes escaped:
//
//	dir/LOCK            the lock
//	dir/FORMAT          "wicker state, format 1"
//	dir/stores/<name>/  one RocksDB
//	dir/trash/          destroyed stores, deleted at the latest by the next Open
//
// A directory with other content, a store of another format or name, and a
// RocksDB that was not made by this package are refused and left alone (S12).
// Inside a store there is one column family; keys have the prefixes of
// kvstore/internal/layout. The tables are RocksDB's ordinary ones, LZ4
// compressed, so its tools read them.
//
// # Crashes
//
// There is no write-ahead log: the changelog topic is the durable copy, and a
// log on disk would double the writing. A batch reaches the disk when its
// memtable is flushed: by Close and Flush, when the memtable is full, or when
// the write budget wants memory back. After a kill the store is as it was
// after some earlier batch, its checkpoint included (S4); the owner replays the
// changelog from there. How much that is, is how long the last flush is ago.
//
// # Memory
//
// Options.MemoryBytes bounds what RocksDB holds for all stores of the engine:
// one LRU cache of blocks, indexes and filters, and a budget for unflushed writes
// (Options.WriteBufferBytes) that flushes the largest memtable when all of them
// together pass it. The memory is not Go's: it counts neither for the garbage
// collector nor for GOMEMLIMIT.
//
// # Cost
//
// A Get is one call into C that copies the value into the caller's slice; a Write
// is one call with the batch as it is, as kvstore.Batch is kept in RocksDB's
// own layout; a Scan is one call per 32 KiB. None allocates in steady state.
//
// # Building
//
// The package needs cgo, a C++ compiler, and librocksdb with its headers in a
// version that fits grocksdb: v1.7.15 builds against RocksDB 7.8, which is
// Debian 12's librocksdb-dev. With CGO_ENABLED=0 it builds to an engine whose
// Open answers kvstore.ErrUnavailable.
//
// # Errors
//
// Beside the errors of kvstore, texts are RocksDB's own, with the store and the
// directory in front; of damage they tell which directory to delete. Text that may contain a key is cut off.
package rocksdb
