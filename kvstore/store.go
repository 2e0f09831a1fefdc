package kvstore

// Engine makes the stores of one process. It is safe for concurrent use.
//
// The order of calls is Open, then any of the others, then Close. Before Open
// and after Close the others answer ErrClosed.
type Engine interface {
	// Open makes what the stores share and, for an engine with a directory,
	// creates the directory if it is absent and takes its process lock, without
	// waiting. A directory that another process or engine holds is refused with
	// a *LockedError, one with foreign content with a *FormatError, and one
	// that cannot be written with an error that names it. Open of an open
	// engine does nothing; an engine that was closed stays closed (ErrClosed).
	Open() error

	// OpenStore opens the store with this name, usually that of a task, and
	// creates it if it is absent. A name that is open already is ErrInUse, an
	// unusable one ErrName, damaged files ErrCorrupt.
	OpenStore(name string) (Store, error)

	// Stores returns, sorted, the names of the stores that are open and of those
	// that can be reopened with their content. The slice is the caller's.
	Stores() ([]string, error)

	// DestroyStore deletes the data of a closed store, so that the next
	// OpenStore makes an empty one. An open store is ErrInUse; an absent one is
	// no error. A crash in between leaves the store whole or absent.
	DestroyStore(name string) error

	// Close closes the stores still open, waiting for calls in flight on them,
	// then gives up the directory. It returns all errors joined. Called again
	// it returns nil.
	Close() error
}

// Store holds the state of one task. It is owned by one goroutine at a time;
// only Stats may be called from others, who may read through a Snapshot. Errors
// after Close are ErrClosed (S9).
type Store interface {
	// Get appends the value of key to dst and returns the result, which is the
	// caller's. found=false means absent, with dst returned as it was; a value
	// of length zero is found. dst may be nil; dst[:0] of an earlier result
	// makes reads free of allocation. key is not kept. On error the value is
	// dst.
	Get(dst, key []byte) (value []byte, found bool, err error)

	// Scan calls visit, on the calling goroutine, for each key with
	// from <= key < to in ascending order, over the store as it was when Scan
	// began (S1, S6). A nil from begins at the first key, a nil to ends after
	// the last; an empty to that is not nil ends before the first.
	// key and value are valid, and not to be changed, during the call of visit
	// (S8). An error of visit ends the scan and is returned as it is. visit may
	// call any method of the store but Close.
	Scan(from, to []byte, visit func(key, value []byte) error) error

	// Snapshot returns the store as it is, for any number of goroutines to read
	// while the owner goes on (S13). It holds on to what is replaced or deleted
	// meanwhile, and is to be closed. No snapshot may be open during a Load.
	Snapshot() (Snapshot, error)

	// Write applies the batch atomically (S3). b is unchanged and may be reused
	// when Write returns. An empty batch is fine. A batch that carries an error
	// of its own (Batch.Err) is refused whole.
	// Write does not wait for the disk (S4).
	Write(b *Batch) error

	// Load begins a bulk load, for restores: cheaper than Write by far when there
	// is much to write. memory bounds the bytes the Loader takes; 0 is the
	// engine's default (rocksdb: 64 MiB). Until the Loader is closed the other
	// methods but Stats and Close must not be called: what they would see is not
	// said. One load at a time.
	Load(memory int64) (Loader, error)

	// Checkpoint returns the offset that the last Write that had one for this
	// name recorded; ok=false if there was none. The name is usually a changelog
	// topic, the offset the next one to read.
	Checkpoint(name string) (offset int64, ok bool, err error)

	// Meta returns what the last Write that set this name's metadata recorded, in
	// a slice the caller owns; ok=false if there was none.
	Meta(name string) (value []byte, ok bool, err error)

	// Flush makes everything written so far durable, and waits for it (S4). An
	// engine without durable storage does nothing.
	Flush() error

	// Stats returns figures for metrics and progress. It may be called from any
	// goroutine at any time.
	Stats() (Stats, error)

	// Close flushes and gives up the store; its name may then be opened again.
	// On error the store is closed all the same, with the content of S4. Called
	// again it returns nil.
	Close() error
}

// Snapshot is a store as it was at one time (S13). It is safe for concurrent use.
// After its own Close, the store's or the engine's its methods answer ErrClosed.
type Snapshot interface {
	// Get is Store.Get of the store as it was.
	Get(dst, key []byte) (value []byte, found bool, err error)

	// Scan is Store.Scan of the store as it was. visit may call any method of the
	// snapshot but Close, and must not close its store.
	Scan(from, to []byte, visit func(key, value []byte) error) error

	// Close gives the snapshot up, and waits for calls in flight on it. Called
	// again it does nothing.
	Close()
}

// Loader takes batches as Store.Write does, one after the other, and writes
// several at once: in effect as if each had been written in turn, and whole
// prefixes of them atomically (S3, S4). It belongs to the goroutine that owns the
// store.
type Loader interface {
	// Write takes the batch's content. b is unchanged and may be reused when Write
	// returns. After an error the Loader is only to be closed; the store is then
	// as after some earlier batch. After Close it answers ErrClosed, also after
	// the store's or the engine's.
	Write(b *Batch) error

	// Close writes what is held and ends the load; the store is then as after the
	// last batch. After an error of Write it writes nothing and returns that error.
	// Called again it returns nil. Closing the store first drops what is held, and
	// the content is that of S4; Close then says so with ErrClosed.
	Close() error
}

// Stats are figures of one store. All are estimates unless the engine says
// otherwise.
type Stats struct {
	// Entries is the number of keys, without checkpoints and metadata.
	Entries int64
	// MemoryBytes is the memory the store alone takes; DiskBytes the size of
	// its files, 0 without any.
	MemoryBytes, DiskBytes int64
}
