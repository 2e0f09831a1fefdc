// Command bench measures Wicker beside Kafka Streams, on one real broker, with the same topics
// and data, in the same run.
//
//	go run ./bench                        # all scenarios, both sides
//	go run ./bench -runs 1 map            # one scenario, once
//	go run ./bench -sides wicker memo     # without Kafka Streams
//	go run ./bench -keys 500000 restore   # with less state
//	go run ./bench -brokers host:9092     # on a broker that runs already
//	go run ./bench -cpuprofile prof map   # and where the time goes
//
// # Throughput: map, count, memo
//
// The input is 4,000,000 records (map) or 2,000,000 (count, memo) in four partitions: keys are "k" and 15
// digits of a uniform number below 100,000, values 100 printable bytes of which the first four
// are digits; uncompressed. It is loaded once and kept with the broker's directory.
//
//	map    each value with one byte appended
//	count  records per key, kept in RocksDB with a changelog, every update forwarded
//	memo   rekeyed by the four digits (10,000 distinct) through a repartition topic; an answer of
//	       100 bytes is stored at a key's first sight; each record goes out under its own key, with
//	       the answer appended
//
// Both sides run exactly once and commit every 100 ms. Kafka Streams has exactly_once_v2, two
// threads, -Xmx4g and otherwise its defaults; its count runs a second time with its record
// cache off (count-nocache), since with it not every update is forwarded: that is the row to compare with.
//
// Each run is a process of its own with a new application id, output topic and state directory;
// the sides take turns. The window begins when the first task runs (Kafka Streams: when it
// first reports RUNNING) and ends when the group's committed offsets have reached the end of the input, and of
// the repartition topic, looked at every 50 ms.
//
// # State: restore, crash
//
// One task has a state of 5,000,000 keys (-keys) of 16 bytes with values of 200 bytes. Each input counts the first
// eight bytes of its key's value up by one and forwards the value, so that outputs tell what was restored and
// how often an input was processed. Nobody processes 5,000,000 inputs for it: a plain producer writes the changelog, one for each
// side, and the group's position, 0 of an empty input, is committed beside it. So its batches are of 64 KiB and it
// has no transaction markers in between, which both sides find. It is kept with the broker's directory; runs append some
// hundred records to it, and go on in its input, in which no key comes twice.
//
//	restore  an instance starts on an empty directory; the window is from its start (Kafka Streams: start()) until
//	         its tasks run. Work that is left, as compaction, goes on after it: settled_cpu_us_per_record in the results is all
//	         CPU of the process from its start until it is quiet (at most 30 s). 200 inputs then check the state.
//	crash    the same, then 100 inputs a second; after 10 s the process is killed (SIGKILL) and the next one starts at once on the
//	         same directory, while the input goes on. "Running" is as in restore, "output" is from the kill to the first
//	         output that arrives, and what is replayed are changelog records read. Wicker's member is static
//	         (exec.Config.InstanceID), as its documentation advises; crash-dynamic is without, as is Kafka Streams
//	         by default: then the group waits for the session timeout of the member that was killed, 45 s.
//
// # Two instances: rebalance
//
// count at 2,000 records/s in four partitions. A second instance starts after 15 s and is sent SIGTERM after another 20 s; the
// output is watched for 10 s from then, 50 s if Kafka Streams' instance ends by the close() that is its default, which does not
// leave the group, so that its partitions wait for the session timeout; rebalance-leave closes with LEAVE_GROUP. Gaps are between
// arrivals of committed records at a reader, by partition: before, while the second instance joins and runs, and from its end on;
// of partitions that move between the instances and of those that do not. A partition of the input goes to the same one
// of the output. The record cache of Kafka Streams is off, and acceptable.recovery.lag
// so high that tasks move at once. A gap under 100 ms or so is the pace of commits.
//
// # A global table: global
//
// A table of 1,000,000 rows, with keys of 20 bytes and values of 200, 191 MiB of them, is read from a topic of four partitions by an
// instance that has nothing else to do. "Ready" is when all of it has been read (Kafka Streams: when it first reports RUNNING, with
// the table in RocksDB, its default, or in memory; global-disk is Wicker's on disk, in RocksDB, of which the next start is measured too), with the CPU time of the process until then; resident memory is VmRSS and VmHWM at that
// moment, by nobody's collection of garbage but the library's own, in a program built without RocksDB, which tables do not need. Then 1,000,000 rows are looked up by keys chosen at random, made
// before, by one goroutine (Kafka Streams: thread), and by as many as there are processors, for the sum of what they do. Each must be there.
//
// # What is measured
//
// CPU is user and system time of the process over the window; peak memory is VmHWM at its end. Machines are noisy: compare
// ratios, and CPU per record before records per second. Of crash and rebalance there is one run, of the others three (-runs).
//
// After each run a read_committed reader compares the output with what the input calls for: the
// number of records, a sum of hashes of all keys and values, and but for memo their order within
// each partition. A run that lost, doubled, changed or reordered a record is reported and fails the benchmark.
//
// # Results
//
// One JSON object per scenario goes to -out/NAME.json: settings, versions, every run, and the medians. Tables with
// the ratios to Kafka Streams, or the figures, beside the targets go to standard output. Without Java and Maven the Kafka Streams side is left
// out, which is said; a real broker needs Java in any case, unless -brokers names one.
//
// Linux only: CPU and memory of processes are read from /proc.
package main
