// Package exec runs a plan: it turns sub-topologies into tasks, and each task into a chain of
// Kafka transactions over local state.
//
//	err := exec.Run(ctx, plan, exec.Config{Brokers: []string{"localhost:9092"}})
//
// A task is one partition of one sub-topology. It takes what is buffered of its partitions in
// batches of up to Config.MaxBatch records, runs the operators, and closes a transaction every
// Config.CommitInterval, or as soon as there is nothing more to read, but not more often than
// every Config.IdleCommitInterval then. The transaction holds
// the outputs, the changelog records of the state that changed and the positions consumed; after
// it has committed, the state goes to the engine together with its checkpoint.
//
// What this package is not: a client for Kafka (the log it runs on is a [commitlog.Log]; exec/kafkalog is
// Kafka's), nor a store (see package kvstore).
//
// # Guarantees
//
//   - E1 Nothing that a user's function emits leaves outside the task's transaction.
//   - E2 Outputs keep input order within a task, whatever ran at the same time.
//   - E3 Two fences keep former owners of a task from committing: its transactional id,
//     <app>-<sub-topology>-<partition>, with which its producer is opened before its state is restored, and
//     member and generation of the group in each commit. A task that was fenced closes, and comes back through the group
//     if at all; the process goes on.
//   - E4 The engine is never ahead of the committed changelog: state goes to it after the
//     commit, in one batch with the checkpoint. After any crash the changelog's tail makes it exact. A store is rebuilt
//     only for a reason that the log names.
//   - E5 Restore reads by position to the end captured after the fence.
//   - E6 Positions are contiguous; a reader that skips stops the task.
//   - E7 An offset that is no longer in the log is an error that names what is lost, or what the source's policy says
//     (ops.OnLost), counted; never a silent reset.
//   - E8 A rebalance stops only tasks that move, and a task that moves is given up before it is taken. Heartbeats wait
//     for nothing.
//   - E9 All reads are read_committed.
//   - E10 An error or a panic of a user's function ends Run with the record's coordinates
//     (a [RecordError]), and nothing of the open transaction is committed. Only the broker's own passing errors are retried.
//   - E11 When its context ends, Run finishes the batch in hand, commits, and returns within
//     Config.DrainTimeout, whatever a user's function does.
//   - E12 Repartition topics are purged up to the committed offsets.
//
// Delivery is exactly once for what stays in Kafka: outputs, state and positions. Readers
// must read with isolation.level=read_committed.
//
// # Several instances
//
// Instances of one plan share its tasks through the consumer group named as the plan. When instances come or go,
// the group's leader assigns tasks anew: as evenly as can be, to those that run them first, then to those that have
// their state on disk. Everybody goes on with the tasks it keeps (KIP-429).
//
// # State that outlives a process
//
// With an engine that has files a task's store is used again after any end of the process, and only the changelog's tail
// is replayed. It is destroyed and read from the changelog's start if it is damaged, of another format, or of a store
// that the plan no longer has; if its changelog was created again (by topic id), ends before the store's checkpoint or
// starts behind it; and if it is older than the deletions that its changelog keeps (delete.retention.ms), which
// might be missing in the tail. A changelog that is empty although the group's offsets were committed with state in it ends
// the run (a [DeletedError]). Restores with much to read load in bulk, Config.RestoreParallelism at once; [Stats] and the
// log show how far they are, and what keeps them.
//
// # Concurrency
//
// One goroutine owns a task. [App.Run] owns all goroutines; none outlives it but those of functions that
// did not return within DrainTimeout, which its error tells. The locks of the
// package guard memory only: they are held one at a time, and never across a call out of it.
package exec
