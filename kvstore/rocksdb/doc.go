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
//	dir/trash/          destroyed stores and files of a load, deleted at the latest by
//	                    the next Open
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
// # A full disk
//
// A write that finds no room answers an error that is syscall.ENOSPC and names the
// directory; so does each one after it. The store stays as it was after some
// earlier batch, as after a kill, and opens again when there is room. A call that
// waits for a merge that finds no room, which RocksDB tries again for ever, is
// ended with the same error after two seconds. RocksDB
// merges files by writing new ones before it deletes the old ones, so leave
// free what the largest stores take once more. No store has RocksDB's info log (LOG is
// empty): in a build with assertions, as Debian's, its writer aborts the process
// on a full disk.
//
// # Memory
//
// Options.MemoryBytes bounds what RocksDB holds for all stores of the engine,
// beside what loads are given: one LRU cache of blocks, indexes and filters, and a budget for unflushed writes
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
// # Loads
//
// A Loader collects batches in a chunk of half its memory, outside Go's heap.
// A full chunk is sorted by radix and written as a table file of its own, with
// its checkpoint and metadata, while the next one fills; RocksDB takes the file over
// by one record of its manifest. So after a kill the store is as it was after some
// chunk, which is some batch (S3, S4), and no chunk is lost that was taken over. A
// batch that is larger than a chunk, and what is left at the end up to 1 MiB, goes
// through Write's way.
//
// The files of scattered keys overlap, and are left so during the load: up to 64
// of them, then they are merged meanwhile. The merge begins when the Loader is
// closed and runs in the background. Until it is done a read asks each file's
// filter. Keys that come in order are never merged. Files are compressed unless
// that is in vain.
//
// 5,000,000 records with keys of 16 bytes and values of 200 that do not compress, on two
// cores that others kept busy, processor time per record, of all threads:
//
//	             load    merge   process at most
//	Write        8.1 us  0.6 us
//	32 MiB       0.9     2.4      82 MB
//	64 MiB       0.7     1.5     107
//	  in order   0.7     0        95
//	128 MiB      0.9     1.7     171
//	256 MiB      1.0     1.6     301
//
// So more than 64 MiB, the default, only means fewer files (34 of these 1.1 GB) until they
// are merged; much less costs more in merges. A restore of many tasks does better to load a few at a time.
//
// A store takes 2 to 4 ms of processor time to open; 64 of them, eight at once,
// open in 0.15 to 0.5 s and close in 0.25 to 0.5 s, with 100 kB each to flush.
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
