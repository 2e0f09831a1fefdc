// Package kafka runs brokers for tests, examples and benchmarks: an embedded one and a real one
// behind one type, so that one test runs on both.
//
//	b := kafka.StartEmbedded(t, kafka.Options{Partitions: 4}) // in this process, at once
//	b := kafka.StartReal(t, kafka.Options{TLS: true})         // Apache Kafka, in a few seconds
//	b := kafka.Shared(t)                                      // one real broker for all tests
//	kafka.Each(t, func(t *testing.T, b *kafka.Broker) { ... }) // embedded and shared real
//
// Programs that are not tests use [OpenEmbedded] and [OpenReal], and have to call
// [Broker.Close].
//
// # Embedded
//
// The embedded broker is twmb/franz-go's kfake: groups, transactions and isolation levels work
// as in Kafka, nothing has to be installed. It always keeps its data in files, so that it can be
// restarted; with [Options.Dir] they outlive the program. What was seen on it alone has not been
// seen: it is laxer than Kafka, and in other places stricter.
//
// # Real
//
// The real broker is Apache Kafka of [Version] in KRaft mode, one node that is broker and
// controller, on free ports of the loopback. Its jars are fetched by Maven the first time,
// from where the machine's settings say, into wicker/ in the user's cache directory
// ([os.UserCacheDir]); from then on Java alone is needed. Where Java or Maven is missing, tests
// are skipped and say why; with REQUIRE_KAFKA=1 in the environment they fail.
//
// A broker that was started is ready: it has bound its port and the coordinators of groups and
// transactions have loaded all their partitions. If it does not come up, the error has the last
// lines of its log. It ends with the test or with Close, and also when the process that started
// it is gone, killed or not (on Unix).
//
// # Several nodes
//
// [OpenCluster] and [StartCluster] run a [Cluster]: three nodes of the real Kafka by default, each of them broker and
// controller, with everything in three replicas of which two have to be there. Nodes are killed, stopped, paused (SIGSTOP)
// and restarted one by one. With [ClusterOptions.Advertise] clients reach them through ports of the
// caller's, where a proxy can disturb what passes, while the nodes reach each other directly.
//
//	c := kafka.StartCluster(t, kafka.ClusterOptions{})
//	err := c.Kill(2)
//
// # Asking it
//
// [Broker.Dial], and [Broker.Client] in tests, give a client that writes, in transactions or
// not, reads to the end as either isolation level sees it, and tells offsets and settings. It is
// twmb/franz-go and shares no code with the executor: an error that both ends make alike would
// not be found otherwise.
//
// # Errors and concurrency
//
// Errors begin with "testkit/kafka: ". [ErrUnavailable] says that a real broker cannot be run
// on this machine. Brokers and clients are safe for concurrent use, a [Txn] is not.
package kafka
