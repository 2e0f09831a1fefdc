// Command bench measures Wicker beside Kafka Streams, on one real broker, with the same topics
// and data, in the same run.
//
//	go run ./bench                       # map, count and memo: three runs of each side
//	go run ./bench -runs 1 map           # one scenario, once
//	go run ./bench -sides wicker memo    # without Kafka Streams
//	go run ./bench -brokers host:9092    # on a broker that runs already
//	go run ./bench -cpuprofile prof map  # and where the time goes
//
// # Scenarios
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
// # What is measured
//
// Each run is a process of its own with a new application id, output topic and state directory;
// the sides take turns. The window begins when the first task runs (Kafka Streams: when it
// first reports RUNNING) and ends when the group's committed offsets have reached the end of the input, and of
// the repartition topic, looked at every 50 ms. CPU is user and system time of the process over the window;
// peak memory is VmHWM at its end. Machines are noisy: compare ratios, and CPU per record before records per second.
//
// After each run a read_committed reader compares the output with what the input calls for: the
// number of records, a sum of hashes of all keys and values, and for map and count their order within
// each partition. A run that lost, doubled, changed or reordered a record is reported and fails the benchmark.
//
// # Results
//
// One JSON object per scenario goes to -out/NAME.json: settings, versions, every run, and the medians. A table with
// the ratios to Kafka Streams beside the targets goes to standard output. Without Java and Maven the Kafka Streams side is left
// out, which is said; a real broker needs Java in any case, unless -brokers names one.
//
// Linux only: CPU and memory of processes are read from /proc.
package main
