package commitlog

import (
	"fmt"
	"math"
	"time"
)

// What the times of a MemberConfig and a ProducerConfig are that are 0.
const (
	// DefaultSessionTimeout is that of Kafka's own consumers (KIP-735).
	DefaultSessionTimeout = 45 * time.Second
	// DefaultRebalanceTimeout is that of Kafka Connect's workers; consumers wait for max.poll.interval.ms, which there is not here.
	DefaultRebalanceTimeout = 60 * time.Second
	// DefaultTransactionTimeout is that of Kafka's own producers.
	DefaultTransactionTimeout = 60 * time.Second
)

// SessionBeats is how many heartbeats have to fit into a session, so that one that is late does not cost the membership, and into
// a rebalance timeout, so that members that hear of a rebalance by heartbeat are in time for it.
const SessionBeats = 3

// DefaultHeartbeatInterval is the longest that leaves room for SessionBeats of them, but at most 100 ms: it is how late a
// member hears of a rebalance.
func DefaultHeartbeatInterval(session, rebalance time.Duration) time.Duration {
	return max(time.Millisecond, min(100*time.Millisecond, session/SessionBeats, rebalance/SessionBeats))
}

// MaxTimeout is the longest time that a request of Kafka's protocol can name: milliseconds in 32 bits.
const MaxTimeout = math.MaxInt32 * time.Millisecond

// CheckTimeout returns an error if the value of a field is longer than MaxTimeout.
func CheckTimeout(field string, value time.Duration) error {
	if value > MaxTimeout {
		return fmt.Errorf("%s (%v) must be <= %v, the most that brokers can be told", field, value, MaxTimeout)
	}
	return nil
}
