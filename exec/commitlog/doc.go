// Package commitlog is the seam between the executor and the log it runs on: what the
// executor asks of Kafka, in the executor's own words.
//
// Two implementations exist: exec/kafkalog speaks Kafka's wire protocol, and testkit has a
// log in memory. Both pass the conformance suite in commitlog/logtest, so that a topology
// seen to work on one is not surprised by the other.
//
// The seam is cut at record batches, not at records. A [Builder] lays records out in the
// format of Kafka's record batch v2 (KIP-98), a [Producer] stamps the header and sends the
// bytes, a [Reader] returns batches as they lie in the log, and a [Cursor] walks their
// records without allocating. What a record costs is therefore the same on both logs.
//
// # What an implementation promises
//
//   - L1 Reads are read_committed unless asked otherwise: records of aborted and of open
//     transactions are never delivered, and neither are control records.
//   - L2 A reader's position is contiguous: each [Chunk] begins where the one before it ended,
//     and what lies between its records is control records, aborted batches or compaction.
//   - L3 Opening a producer with a transactional id fences every earlier one with that id and
//     ends its open transaction; afterwards a [Log.EndOffsets] shows the end of all it wrote.
//   - L4 Batches of one producer reach a partition in the order they were handed over, each
//     exactly once, or the transaction they belong to does not commit.
//   - L5 Records and offsets of a committed transaction become visible together, those of an
//     aborted one never.
//   - L6 Heartbeats of a group member wait for nothing: not for its owner, not for a Join that is held. A member
//     keeps its place, and what commits under its [Identity] goes through, until the group says otherwise or the session is
//     over; then nothing commits under it any more.
//   - L7 An error is an [*Error] with a [Class]; retriable errors are retried inside, with
//     bounded back-off and a deadline, and are seen outside only after it.
//   - L8 Nothing creates a topic but [Log.CreateTopics].
//
// # Memory
//
// Bytes that a reader delivered are never written to again and may be kept; a kept slice
// keeps the whole chunk alive. A batch handed to a producer belongs to it.
package commitlog
