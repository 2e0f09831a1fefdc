// Package globaltable has tables that every instance of an application holds in full: what a compacted topic says, for lookups by
// any key. A table is configuration, or reference data: the topics that it is read from are few and small enough for each
// process, and have any number of partitions.
//
//	var Tiers = globaltable.New("tiers", codec.String, codec.JSON[Tier]())
//
//	stream.Lookup(Tiers, func(_ string, o Order) string { return o.Customer }, withTier)
//
// An application that looks up in a table reads all of it before it joins its group, committed records only, and follows it from
// there; it commits no offsets for it. So every record that is processed has met a table that is at least as new as the start.
//
// Rows are in memory, or with Table.OnDisk in the engine of local state; there a start reads what has come since the last run.
//
// # Rules
//
//   - The last record of a key makes its row. Topics and partitions of a table share the keys; of records in several partitions it is
//     not said which is last.
//   - A null value, one of no bytes, and for codecs of JSON objects exactly {} delete the row. Only null lets Kafka's compaction remove
//     the record.
//   - A record without a key (null) is one of the empty key.
//   - Lookups see what was committed, some time later, and are no part of the transaction. All lookups of a batch of records
//     see the same table; after a crash a record may be processed again with a newer one.
//   - A record that cannot be decoded ends the run, unless it is to be skipped; then the key's previous valid row stands. At the start that
//     holds for records that have no later one only.
package globaltable
