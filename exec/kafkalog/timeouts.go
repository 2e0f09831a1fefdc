package kafkalog

import (
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Every bound in time that this package has, and the defaults of those that a Config or a call sets.
const (
	// Config.RequestTimeout: one request, from the moment it is written to its answer. It is also how late a broker
	// that swallows requests is noticed.
	defaultRequestTimeout = 10 * time.Second
	// Config.OpenTimeout: making one connection, and finding a first broker that answers; Open itself ends openGrace later.
	defaultOpenTimeout = 5 * time.Second
	openGrace          = time.Second
	// Config.RetryTimeout: repeating a call, from its first retriable error.
	defaultRetryTimeout = 60 * time.Second

	// An answer to a heartbeat is waited for no shorter than this.
	minHeartbeatTimeout = time.Second
	// A goroutine that waits for a session's end looks again no sooner than this.
	leastWait = time.Millisecond

	// A JoinGroup is asked for again when heartbeats have heard for so long that the group is in a later generation.
	answerLost = time.Second

	// How long Close waits for an answer that others wait for too, before it leaves: to the question for a member's id,
	// or to a SyncGroup, which may be that of the leader.
	leaveGrace = 500 * time.Millisecond

	// A topic that does not exist may be one that the asked broker has not heard of yet.
	missingTopicTimeout = 5 * time.Second

	// A call is repeated after firstBackoff, doubling up to maxBackoff, and up to a jitterShare-th of it more by chance.
	firstBackoff = 20 * time.Millisecond
	maxBackoff   = time.Second
	jitterShare  = 5
	// How often in a row a Join goes on at once with what is no trouble (joinAgain), before it is repeated like a call.
	promptJoins = 3
	// What the broker settles within milliseconds is asked for again sooner.
	firstShortBackoff = time.Millisecond
	maxShortBackoff   = 50 * time.Millisecond

	// Keep-alive of connections that the default dialer makes.
	keepAlive = 30 * time.Second
	// A connection is made anew after this many hundredths of its SASL session.
	sessionShare = 80
	// How long a goroutine sleeps that has nothing due and is woken when it has.
	nothingDue = time.Hour
)

// heartbeatTimeout is how long an answer to a heartbeat is waited for: on a connection that swallows what is sent, more than one
// try has to fit into a session.
func heartbeatTimeout(session, request time.Duration) time.Duration {
	return min(request, max(session/commitlog.SessionBeats, minHeartbeatTimeout))
}

// joinTimeout is how long an answer to a JoinGroup is waited for, which the coordinator holds until all members have joined.
func joinTimeout(rebalance, request time.Duration) time.Duration { return rebalance + request }

// fetchTimeout is how long an answer to a Fetch is waited for, which the broker holds while there is nothing.
func fetchTimeout(maxWait, request time.Duration) time.Duration { return maxWait + request }

// brokersShare is the part of a request's timeout that the broker may take to do what it is asked: what is left is for
// its answer, which says more than silence.
func brokersShare(timeout time.Duration) time.Duration { return timeout * 3 / 4 }
