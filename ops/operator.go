package ops

import "context"

// Emit passes a record along one edge. It returns the error that ends the transaction, from
// whatever lies behind the edge; whoever gets it returns it at once. It is called by the task's goroutine only.
type Emit[K, V any] func(key K, value V) error

// Operator turns a stream of K and V into one of K2 and V2.
type Operator[K, V, K2, V2 any] interface {
	// Traits says what the operator is and needs. It is constant.
	Traits() Traits
	// Wire makes the operator's instance for one task: the edge that leads into it.
	Wire(site *Site, down Emit[K2, V2]) (Emit[K, V], error)
}

// Traits is what a planner must know of an operator.
type Traits struct {
	// Op is the operator's kind as the user knows it, for example "Aggregate".
	Op string
	// Name is its durable name if it has one, else its label or empty.
	Name string
	// ChangesKey says that result keys need not be the input's.
	ChangesKey bool
	// NeedsKey says that all records of a key must be in one partition.
	NeedsKey bool
	// Gated says that records may wait in it (see Gate).
	Gated bool
	// Store is the durable name of its state, empty without.
	Store string
	// StateCodec describes the state's codec, see codec.Describe. StateKey is that of its keys, empty if they are the record's.
	StateCodec, StateKey string
	// Table is the name of the global table that it looks up in, empty without.
	Table string
}

// String returns kind and name, for example `Aggregate "routes"`.
func (t *Traits) String() string {
	if t.Name == "" {
		return t.Op
	}
	return t.Op + ` "` + t.Name + `"`
}

// Meta is what a task knows of the record in process beside its key and value. Timestamp and
// headers go along to whatever the record becomes.
type Meta struct {
	// Topic, Partition and Offset are where the record was read.
	Topic     string
	Partition int32
	Offset    int64
	// Timestamp is in ms since the epoch, -1 if there is none.
	Timestamp int64
	// Headers are the record's headers in wire format, HeaderCount how many.
	Headers     []byte
	HeaderCount int
	// Key and Value are the bytes that were read, nil for null; they are immutable.
	Key, Value []byte
	// At is the operator entered last: where an error or a panic comes from.
	At *Traits
}

// Env is what a task offers to the operators wired into it. It belongs to the task's
// goroutine, except for Context.
type Env interface {
	// Context ends when the task stops; calls to the outside take it.
	Context() context.Context
	// Meta is the record in process. The pointer is the same for the task's whole life.
	Meta() *Meta
	// Store returns the task's state of that name.
	Store(name string) (Store, error)
	// Output returns the way into a topic, or into a repartition topic by its full name.
	Output(topic string) (Output, error)
	// Gate returns the task's gate of that level.
	Gate(level int) *Gate
	// Counter returns the task's counter of that name at an operator.
	Counter(at *Traits, name string) *Counter
	// Lookups returns the global table of that name.
	Lookups(table string) (Lookups, error)
	// Remember returns what has the task's lookups in a global table see rows at once that it writes to the table's topic, the latest so many of them.
	Remember(table string, rows int) (func(key, value []byte) error, error)
	// Asker returns the process's asker for the Memo of that name.
	Asker(name string, concurrency int) *Asker
}

// Site is where an operator is wired: a task, and the operator's place in its plan.
type Site struct {
	Env
	// At is the operator's traits.
	At *Traits
	// Level is the gate that the operator uses, 0 being the first.
	Level int
}

// Store is one state of one task: the values of the keys in the task's partition. Reads see
// the writes of the open transaction. It belongs to the task's goroutine.
type Store interface {
	// Get returns the key's value, nil if it has none. The value is immutable.
	Get(key []byte) ([]byte, error)
	// Put sets the key's value; nil deletes it. Key and value are copied.
	Put(key, value []byte) error
}

// Output is the way into one topic within the task's open transaction.
type Output interface {
	// Write adds a record with m's timestamp and headers. A nil key or value is null. The
	// partition is that of Kafka's default partitioner (murmur2 of the key's bytes). Key and
	// value are copied.
	Write(m *Meta, key, value []byte) error
}

// Counter counts what an operator did. It is owned by the task's goroutine, which publishes it.
type Counter struct{ n int64 }

// Add adds n.
func (c *Counter) Add(n int64) { c.n += n }

// Value returns the count so far.
func (c *Counter) Value() int64 { return c.n }
