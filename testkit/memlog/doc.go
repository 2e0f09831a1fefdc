// Package memlog is a log in memory: the second implementation of the seam in
// exec/commitlog, for tests of topologies and of the executor itself.
//
// [New] makes an empty cluster and a connection to it; [Log.Session] makes further
// connections to the same data, as other processes would have. Closing a connection is what
// killing its process is to Kafka: open transactions stay open until their timeout or the
// next producer with their id, members stay in their group until their session times out.
// The data outlives every connection, and the methods that look at it work after Close.
//
// # What it does as Kafka does
//
//   - A transaction's marker occupies an offset in every partition it wrote to. An open
//     transaction holds the last stable offset back; aborted records keep their offsets and are
//     seen by nobody who reads read_committed (L1, L2).
//   - OpenProducer fences: the older producer's next call is answered PRODUCER_FENCED, and what it
//     had open is aborted before OpenProducer returns (L3). A transaction that outlives its timeout
//     is aborted and its producer fenced as well.
//   - Offsets of a transaction are checked against the group's members and generation
//     (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID) and become visible with its
//     records, in one step (L5).
//   - Groups follow the classic protocol: a Join waits until every known member has joined again
//     or the rebalance timeout is over; the leader assigns; static members come back to
//     their assignment without a rebalance. Members go on working while they join again: a commit takes the
//     membership's latest generation from its identity, which is fenced once the member is out.
//   - Topics have Kafka's settings and defaults. cleanup.policy=compact refuses records without
//     a key, message.timestamp.type=LogAppendTime sets timestamps, max.message.bytes bounds
//     uncompressed batches. [Log.Compact] and [Log.Truncate] run when they are told to.
//
// # What it does not
//
// There are no replicas, quotas, access rights, segments or retention, and no record is ever
// late: a batch is in the log when Produce returns, and a commit is seen in every partition at
// once. Heartbeats are implied: a member is alive until it is closed or [Log.PauseMember]
// stops its heartbeats. Compression is accepted and not done.
//
// # Tests
//
// [Log.Append] and [Log.Records] write and read directly. [Log.AwaitIdle] returns when a group
// has consumed everything, through every topic it writes to and reads again; [Log.Await]
// waits for any other condition. Neither polls. [Faults] makes calls fail, before they had
// an effect or after, and may block to hold a call at that point.
//
// # Time
//
// Timeouts are measured on [Options.Now]. They are checked by timers of package time and by
// [Log.Tick], which a test calls after it moved a clock of its own. A log made inside a
// testing/synctest bubble works there: it never blocks while it holds a lock.
//
// # Concurrency
//
// A Log is safe for concurrent use. The only goroutines are one per open reader; its
// Close, or the log's, ends it.
//
// Errors are [*commitlog.Error] with Kafka's code and name, but for the sentinels of this
// package.
package memlog
