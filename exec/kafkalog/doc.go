// Package kafkalog is the log of exec/commitlog on Apache Kafka. It is the only package that
// imports a Kafka client: it uses segmentio/kafka-go's protocol messages on connections of its own,
// and frames by itself what is hot (Produce, Fetch) or what kafka-go lacks or gets wrong
// (JoinGroup v7, SyncGroup v5, Heartbeat, LeaveGroup, OffsetFetch v7, Metadata v10, DeleteRecords,
// DescribeProducers, ListTransactions). Brokers from Kafka 2.5 on are served; topic ids need 2.8, the producers of
// open transactions 3.0.
//
//	l, err := kafkalog.Open(ctx, kafkalog.Config{Brokers: []string{"localhost:9092"}})
//
// What it is not: a general client. It has no producer without transactions, no consumer that
// commits by itself, and no calls that the executor does not make.
//
// # Guarantees
//
// It promises L1 to L8 of package commitlog, and is tested for them on a real broker and on an embedded one:
//
//   - K1 Batches of one partition are sent in order, at most five unanswered, and after a
//     retriable error again with the sequence numbers they had, so that the broker drops what it
//     has (KIP-98). The first batch of a transaction travels alone: a broker that still verifies
//     the transaction (KIP-890) would refuse those behind it too.
//   - K2 A commit whose answer was lost is asked for again. If that fails too, the error says
//     that the outcome is unknown; the next producer with the same transactional id settles it.
//   - K3 Records of aborted transactions are left out by the list that each fetch carries. The
//     list is complete for what was fetched, so that nothing is remembered between fetches.
//   - K4 Every batch's checksum is verified before it is handed out.
//   - K5 A position moves only over what is known to be there for nobody: whole batches,
//     markers, or, in a compacted topic, an answer that has nothing up to the end though it had
//     room. Of others a broker may answer so when tiered storage is slow.
//   - K6 A member has its place from the first Join to Close, or loses it for one of three reasons: the
//     coordinator says so (UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND), another member has its instance id
//     (FENCED_INSTANCE_ID), or nothing that the coordinator answered was asked within the session timeout, by this
//     process's own clock. Heartbeats go on while a Join is held and while the owner works; a Join that is given up
//     changes nothing. What commits under a lost membership is fenced, for ever; a Join comes back as a new member that owns nothing.
//   - K7 A commit that meets ILLEGAL_GENERATION takes the membership's next generation and goes on: a rebalance that
//     a member survives aborts nothing.
//
// # Connections
//
// A connection carries requests in order, and a broker works on one of them at a time. So
// whatever may be held or is large has connections of its own: each reader (fetches wait for
// data), each producer (batches; another one for its coordinators), each member (joins wait for
// others; heartbeats wait for nothing, L6). All else shares one connection per broker.
//
// # Errors
//
// An error code of the broker has one class per kind of call, in one closed table
// (errors.go), beside which is written what is done about each class and about each code that is treated by name. Every
// bound in time is in timeouts.go or in Config. Retriable errors are retried inside: at once up to 50 ms for what the broker
// settles within milliseconds (CONCURRENT_TRANSACTIONS), otherwise from 20 ms to 1 s, with
// jitter, for Config.RetryTimeout counted from the first error; a topic that does not exist for
// 5 s. A fence that is really a timeout wraps commitlog.ErrTransactionTimeout, and an offset out of range a commitlog.RangeError. What leaves is a [commitlog.Error] that says what was done, where, Kafka's name of the
// error and the cause. Open says in one sentence what is wrong with an address, with TLS or with credentials.
// No error and no log line has a record's content or a password.
//
// # Concurrency
//
// A [Log] is safe for concurrent use. Producers, readers and members are for one goroutine at
// a time; their Close may be called from any. Close returns when their goroutines have ended.
// An identity that a Join returned is safe for concurrent use.
//
// Lock order: Log.mu before nothing; member.turn before member.mu before an identity's; a producer's or
// reader's mu before the cluster's and the coordinators', which are never held while a request
// is under way; conn.wmu before conn.mu. Functions called with an answer (conn.send) run on
// the connection's goroutine and take the producer's mu: nothing that holds it waits for a connection.
//
// # Memory
//
// A batch handed to Produce is sent from where it lies, and goes back to its pool when it is
// acknowledged. An answer to Fetch is one piece of memory that the batches handed out refer to; it is
// the garbage collector's when none of them is kept. Compressed batches are unpacked into memory
// of their own, one after another as they are taken: ReaderConfig.Ahead counts them as they were sent. Nothing is allocated
// per record.
package kafkalog
