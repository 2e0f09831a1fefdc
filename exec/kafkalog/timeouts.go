package kafkalog

import "time"

// Every bound in time that this package has, but for those that a Config or a call sets: see Config for
// RequestTimeout, OpenTimeout and RetryTimeout.
const (
	// A member's session, if its config has none: how long the coordinator, and the member itself, wait for a
	// heartbeat. Kafka's own default.
	defaultSessionTimeout = 45 * time.Second
	// A member's rebalance timeout, if its config has none: how long the coordinator waits for members to join.
	defaultRebalanceTimeout = time.Minute
	// A member's heartbeat interval, if its config has none, is a third of its session, but no longer than this: it
	// is how late a member hears of a rebalance.
	maxHeartbeatInterval = 100 * time.Millisecond
	// An answer to a heartbeat is waited for a third of the session, but no shorter than this, nor longer than
	// RequestTimeout: on a connection that swallows what is sent, more than one try has to fit into a session.
	minHeartbeatTimeout = time.Second

	// A topic that does not exist may be one that the asked broker has not heard of yet.
	missingTopicTimeout = 5 * time.Second

	// A call is repeated after firstBackoff, doubling up to maxBackoff, with a fifth of jitter.
	firstBackoff = 20 * time.Millisecond
	maxBackoff   = time.Second
	// What the broker settles within milliseconds is asked for again sooner.
	firstShortBackoff = time.Millisecond
	maxShortBackoff   = 50 * time.Millisecond

	// A transaction's timeout, if a producer's config has none.
	defaultTxnTimeout = 60 * time.Second
	// How long the broker holds a fetch that finds nothing, if a reader's config does not say.
	defaultMaxWait = 500 * time.Millisecond
	// Keep-alive of connections that the default dialer makes.
	keepAlive = 30 * time.Second
)
