// Package testkit runs a plan in memory, for tests: the production executor, operators,
// transactions, state and changelogs, on a log in memory in place of Kafka.
//
//	kit := testkit.New(t, plan)
//	in, out := kit.In(Orders), kit.Out(Placed)
//	in.Push("o-1", Order{City: "Oslo"})
//	out.Read() // everything committed since the last Read
//	kit.Table(Tiers).Put("c-1", Tier{Rate: 2})
//
// It is synchronous: Read, State and Settle wait until everything that was pushed has been
// processed, through all repartition topics, and committed. It has a virtual clock: a record
// is stamped with it, and each push moves it on by a millisecond, [Kit.Advance] by more.
// Topics have four partitions unless [Partitions] says otherwise, and a key's partition is
// that of Kafka's default partitioner, so that what goes wrong with several partitions goes
// wrong here.
//
// [Kit.Restart] ends the executor in order and starts it again, [Kit.Crash] ends it as kill -9
// would; the log stays as it is. State is in memory, goes with the executor and is restored from
// its changelog, unless [Config] sets an engine that keeps it.
//
// # What it does not do
//
// Nothing here takes time: no latency, no time-outs of a broker that does not answer, no
// network. What concerns those is tested on a real broker, see testkit/kafka.
//
// # Failure
//
// An executor that ends with an error fails the test at the next call, with the error and the
// plan's text, unless [Kit.Err] asks for it. A Kit is for one goroutine, the test's.
package testkit
