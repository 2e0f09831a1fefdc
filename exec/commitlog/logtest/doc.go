// Package logtest is the conformance suite of the seam in exec/commitlog: black-box cases for
// every promise L1 to L8, which each implementation passes before the executor runs on it.
//
// An implementation's test makes a [Target] and hands it to [Run]:
//
//	func TestConformance(t *testing.T) {
//		cluster := startCluster(t)
//		connect := func(t testing.TB) commitlog.Log {
//			l, err := kafkalog.Open(context.Background(), kafkalog.Config{Brokers: cluster.Addrs()})
//			require.NoError(t, err)
//			return l
//		}
//		shared := connect(t)
//		t.Cleanup(func() { shared.Close() })
//		logtest.Run(t, func(t *testing.T) logtest.Target {
//			return logtest.Target{
//				Log:     shared,
//				Connect: connect,
//				Append:  appendWithAnotherClient, // independent of the implementation under test
//				Read:    readWithAnotherClient,   // likewise, read_committed
//				Compressions:  []string{"gzip", "snappy", "lz4", "zstd"},
//				DeleteRecords: deleteRecords,
//				Elapse:        time.Sleep,
//			}
//		})
//	}
//
// open is called once for each case and may return the same target each time: every case
// makes topics, groups and transactional ids of its own, with random names, so that one
// broker serves all cases, runs and processes.
//
// # Features
//
// Log, Connect and Append are required. What a cluster cannot do is left nil: the cases that
// need it are then skipped, each with a line that names the missing field. A skipped case has
// not passed.
//
// # Time
//
// No case sleeps in order to be right. Cases wait for what must come and fail after
// [Target.Patience]. That something does not come (an open transaction's records) is shown by what
// comes after it instead. Where the passing of time is the subject (sessions), it is
// [Target.Elapse] that lets it pass: time.Sleep for a broker, a clock moved by hand for a log
// in memory. A marker may reach the log shortly after Commit returned; the cases allow for it
// by asking for end offsets until no transaction is open.
//
// # Randomness
//
// Two cases run random interleavings of producers' transactions and compare what is seen with
// a plain oracle. They print their seed; [Target.Seeds] replays one.
//
// # Concurrency
//
// Cases run one after the other. Run counts goroutines of the implementation's package in one of
// them: run nothing of it beside the suite.
package logtest
