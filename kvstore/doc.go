// Package kvstore keeps the local state of stream tasks: bytes in, bytes out.
//
// An [Engine] makes the stores of one process, one [Store] per task. A store
// maps opaque keys to opaque values in key order and records, in the same
// atomic [Batch], up to which offset of a changelog topic it has come. That is
// all a task needs to reuse its state after a restart or a crash: read the
// checkpoint, replay the changelog from there.
//
// Two engines pass the same conformance suite, package kvstoretest:
//
//   - [NewMemory], in this package: no files; a closed store is gone and is
//     restored from its changelog.
//   - kvstore/rocksdb, in a package of its own because it needs cgo and
//     librocksdb: a store survives restarts and crashes.
//
// The package is not a database: no transactions over several batches, no
// secondary indexes, no expiry, no types (those are a layer above), and
// nothing of Kafka beyond the word offset. The changelog is the durable copy of
// what a store holds; an engine may lose the newest batches in a crash, as long
// as it loses their checkpoints with them.
//
// # What every engine guarantees
//
// S1 Order. Scan visits keys in ascending order of bytes.Compare. Every byte
// string is a key, the empty one included.
//
// S2 Presence. A value of length zero is present. Absent is a different answer.
//
// S3 Atomic batches. Write applies puts, deletes, checkpoints and metadata
// together or not at all, also across a crash. Within a batch the last entry for
// a key wins.
//
// S4 Prefix after a crash. A store that was not closed reopens as it was after
// some earlier Write, with all batches up to that one and none after it. Flush
// and Close say up to where at least: what was written before they returned
// without error survives a crash of the process or the machine.
//
// S5 Read your writes. Get sees every Write that returned before it.
//
// S6 Snapshots. Scan visits the store as it was when Scan began. Writes made
// meanwhile, from within the visit function, are not seen.
//
// S7 Arguments are the caller's. No engine keeps a slice or a Batch it is given:
// when the call returns, the caller may change or reuse them. No engine changes
// them either, except that Get appends to dst.
//
// S8 Results of Get and Meta are the caller's, for ever. Slices handed to a
// visit function belong to the engine: they are valid, and must not be changed,
// during that call; what is to be kept is to be copied.
//
// S9 After Close every method of a store answers [ErrClosed], and Close answers
// nil. Closing an engine closes its stores; it waits for calls in flight. Close
// from within a visit function of the same store is refused with [ErrInUse].
//
// S10 One owner. A store name is open at most once per engine ([ErrInUse]), and
// the directory of an engine is open in at most one process ([ErrLocked]).
//
// S11 Names. Any string of 1 to 255 bytes that is not more than 255 bytes when
// escaped names a store; so does every legal topic name. Different names are
// different stores.
//
// S12 Nothing foreign is touched. A directory, a store or a format that the
// engine did not write is refused ([ErrFormat]), never overwritten or deleted.
//
// S13 A Snapshot answers as the store did when it was taken, from any goroutine,
// whatever is written meanwhile. Closing the store waits for calls in flight on
// its snapshots; those that come later are answered [ErrClosed].
//
// # Concurrency
//
// An Engine is safe for concurrent use. A Store and a Batch belong to one
// goroutine at a time, the task's; handing them over needs a happens-before
// edge, as for any value. Different stores may be used at the same time. The
// exceptions are on the methods concerned: [Store.Stats] may be called from
// anywhere, a [Snapshot] may be read from anywhere, and [Engine.Close] may meet a
// store in use.
//
// # Errors
//
// Errors name the engine, the store or directory and the cause, never the
// bytes of a key or value. [ErrClosed], [ErrInUse], [ErrLocked], [ErrFormat],
// [ErrName], [ErrCorrupt] and [ErrUnavailable] are found by errors.Is;
// [LockedError] and [FormatError] carry details for errors.As. After any other
// error of Write, Flush or Scan a store is to be closed: its content is that of
// S4.
package kvstore
