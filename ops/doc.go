// Package ops holds the operators of a topology as typed values. Each knows how to process
// one record and what it needs for that (state, the key's partition, answers from outside);
// none knows of graphs, plans or Kafka. Package topology composes them, and its methods are
// what most programs call; from here they take topics, sources, sinks, states, memos and options:
//
//	var Orders = ops.NewTopic("orders", codec.String, codec.JSON[Order]())
//
//	totals := ops.NewState("totals", codec.String, codec.Int64) // for Aggregate and Reduce
//	geo := ops.Memo("geo", codec.JSON[Geo](), geocoder.Resolve)
//	ops.Source(Orders), ops.Sink(Orders)
//	ops.Name("n"), ops.Partitions(12), ops.AbsentKey(ops.Drop)
//
// # Operators by group
//
//	stateless    Map MapValues Filter FlatMap Branch Merge Peek
//	may fail     TryMap TryMapValues (and Memo's question); see [Invalid]
//	key change   Rekey Repartition (and Map, FlatMap, which may change the key)
//	state        Memo Reduce Aggregate
//	keyed table  Table Join LeftJoin JoinTables
//	global table Lookup LeftLookup
//	ends         Source Sink
//
// Package topology has an example of each.
//
// # Functions given to operators
//
// One function serves all tasks of a process, and tasks run at the same time: it must be safe
// for concurrent calls and keep its state in an operator, not in a variable. It must give the
// same answer when it is called again with the same arguments, since a transaction that
// aborts is processed again. It must not keep or change a []byte it was given beyond its return,
// other than by passing it on. Memo's function is the exception to the second rule: its answer is stored, and
// it is asked again only if the process died before the answer was committed.
//
// An error, or a panic, of such a function ends the run; nothing of the open transaction is
// committed. An error that is [Invalid] is a matter of the operator's [OnInvalid], as a record that cannot be decoded is of its source's.
//
// # Processing
//
// A record enters at a source, runs depth first through the operators wired behind it, and
// leaves through sinks into the task's open transaction; there is no other way out. An [Emit] is
// one edge. Operators are wired once for each task, and nothing on an edge is boxed or
// allocated, so a stateless chain costs no allocation of its own.
//
// Everything a task wires is called by that task's goroutine only, except Memo's function.
//
// # Order
//
// Operators emit in the order they receive. A [Gate] keeps that true around Memo, which lets
// records wait for their answers: what arrives behind a waiting record waits as well, and
// all leave in their order.
//
// # Errors
//
// What cannot be decoded or encoded is a [DecodeError] or an [EncodeError]: it names the part and wraps the codec's
// error, and holds nothing of the content. [ErrNullKey] and [ErrAbsentKey] are records without a key where one is
// needed, [PanicError] is a panic of a user's function. But for what OnInvalid takes, none is handled here: an error travels up the edges, and
// the executor adds the record and the operator, which are in [Meta].
package ops
