package exec

import (
	"errors"
	"fmt"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Every time of this package that is not a field of Config itself, the fields' defaults, and how the fields relate; those that
// the group and producers have are commitlog's. explainTimes says which bounds the brokers have.

const (
	defaultFlushInterval      = time.Second
	defaultCommitInterval     = 100 * time.Millisecond
	defaultIdleCommitInterval = 10 * time.Millisecond
	defaultDrainTimeout       = 10 * time.Second

	// maxSetbacks is how often in a row a task may come to nothing, fenced or aborted without
	// a commit or setbackPeace in between, or a Join may fail; Run gives up at one more. The waits between, of backOff, are half
	// a minute in all; what each try takes comes to it, which is more if a broker does not answer.
	maxSetbacks = 12

	// setbackPeace is how long a task must have lasted for what ends it not to be in a row with what ended those before.
	setbackPeace = 10 * time.Minute

	// fencePeace is how long a member must have been left alone until it takes its instance id back once more.
	fencePeace = time.Minute

	// checkInterval is how often the plan's topics are looked at for changes, checkTimeout bounds one look.
	checkInterval = 30 * time.Second
	checkTimeout  = 2 * time.Second

	// purgeInterval is how often repartition topics are purged, purgeTimeout bounds one purge, lastPurge the one at
	// the end of a run (E12).
	purgeInterval = 30 * time.Second
	purgeTimeout  = 10 * time.Second
	lastPurge     = time.Second

	// positionInterval is the least time between two commits of a task that carry nothing but a position which has moved over
	// what nobody may see: markers and aborted records. Without them a group would seem to lag behind for ever,
	// and what retention deletes would seem lost (E7).
	positionInterval = time.Second

	// reportInterval is how often a restore's progress is logged, and how long a restore may stand still until it is asked
	// why. rateWindow is the time over which its rate is measured.
	reportInterval = 10 * time.Second
	rateWindow     = 2 * time.Second

	// durableInterval is how long what is written to a store may be in its engine's memory alone. It must be much less than
	// delete.retention.ms, a day by default.
	durableInterval = time.Hour

	// latestInput is how long a task that has records of one input partition waits for those of another one that are known to be there.
	latestInput = time.Second

	// farOff is what a timer is made with that is set when there is something to wait for.
	farOff = time.Hour

	// endRetry and endTries are for a log that ends before a committed offset or a store's checkpoint: a leader that is new may not know better yet.
	endRetry = 500 * time.Millisecond
	endTries = 4
)

// setback counts one more in a row and returns how long to wait until the next try; ok is false if it was one too many.
func setback(inARow *int) (pause time.Duration, ok bool) {
	*inARow++
	return backOff(*inARow), *inARow <= maxSetbacks
}

// backOff is how long to wait after so many setbacks in a row.
func backOff(setbacks int) time.Duration {
	return min(5*time.Second, 50*time.Millisecond<<min(setbacks, 10))
}

// DrainTimeout is shared out like this, from when a task is asked to end, or all of them at the end of Run:
//
//	0          1/2            3/4           7/8          1
//	| batch in hand, commit    | abort       |            |
//	|          ^ cut: contexts end, no commit is waited for
//	|                                        ^ Run leaves behind what has not ended
//	|                                        | leave group|
//	|                                                     ^ a task that was to move is left behind, and Run ends
func cutAfter(c *Config) time.Duration        { return c.DrainTimeout / 2 }
func abortTimeout(c *Config) time.Duration    { return c.DrainTimeout / 4 }
func shutdownTimeout(c *Config) time.Duration { return c.DrainTimeout / 8 * 7 }
func leaveTimeout(c *Config) time.Duration    { return c.DrainTimeout / 8 }

// settleTimeout bounds the wait for the commit in flight of a task that has failed: it may still succeed.
func settleTimeout(c *Config) time.Duration { return c.DrainTimeout / 2 }

// earlyClose is when a transaction closes whatever its task is doing, after it took its first record: no function
// is called with another record in it. The other half of the timeout is for the call that has begun, the calls
// of Memo that are waited for, and the commit.
func earlyClose(c *Config) time.Duration { return c.TransactionTimeout / 2 }

// timeProblems returns what is wrong with the times of a Config that has its defaults, a sentence each. A field
// that is out of its own bounds is not compared with others.
func (c *Config) timeProblems() []error {
	var errs []error
	wrong := map[string]bool{}
	least := func(name string, value, bound time.Duration) {
		if value < bound {
			wrong[name] = true
			errs = append(errs, fmt.Errorf("%s (%v) must be >= %v", name, value, bound))
		}
	}
	most := func(name string, value time.Duration, share int, of string, whole time.Duration, why string) {
		if !wrong[name] && !wrong[of] && value > whole/time.Duration(share) {
			part := [...]string{1: "", 2: "half of ", 3: "a third of "}[share]
			errs = append(errs, fmt.Errorf("%s (%v) must be <= %s%s (%v): %s", name, value, part, of, whole, why))
		}
	}
	told := func(name string, value time.Duration) {
		if err := commitlog.CheckTimeout(name, value); err != nil {
			wrong[name] = true
			errs = append(errs, err)
		}
	}
	told("SessionTimeout", c.SessionTimeout)
	told("RebalanceTimeout", c.RebalanceTimeout)
	told("TransactionTimeout", c.TransactionTimeout)
	least("SessionTimeout", c.SessionTimeout, 100*time.Millisecond)
	least("HeartbeatInterval", c.HeartbeatInterval, time.Millisecond)
	least("RebalanceTimeout", c.RebalanceTimeout, 100*time.Millisecond)
	least("TransactionTimeout", c.TransactionTimeout, time.Second)
	least("CommitInterval", c.CommitInterval, time.Microsecond)
	least("FlushInterval", c.FlushInterval, time.Microsecond)
	least("DrainTimeout", c.DrainTimeout, time.Millisecond)
	most("HeartbeatInterval", c.HeartbeatInterval, commitlog.SessionBeats, "SessionTimeout", c.SessionTimeout, "one heartbeat that is late must not cost the membership")
	most("HeartbeatInterval", c.HeartbeatInterval, commitlog.SessionBeats, "RebalanceTimeout", c.RebalanceTimeout, "members hear of a rebalance by heartbeat, and must be in time for it")
	most("DrainTimeout", c.DrainTimeout, 1, "RebalanceTimeout", c.RebalanceTimeout, "a task that moves is to be given up before the group stops waiting")
	most("CommitInterval", c.CommitInterval, 2, "TransactionTimeout", c.TransactionTimeout, "a transaction closes then whatever happens")
	most("IdleCommitInterval", c.IdleCommitInterval, 1, "CommitInterval", c.CommitInterval, "a transaction closes then also when input is not idle")
	return errs
}

// explainTimes names the field behind an error with which brokers refuse a time that they have bounds for.
func (c *Config) explainTimes(err error) error {
	switch {
	case errors.Is(err, commitlog.ErrTransactionTimeoutRefused):
		return fmt.Errorf("TransactionTimeout (%v) must be <= the brokers' transaction.max.timeout.ms (15m0s by default): %w", c.TransactionTimeout, err)
	case errors.Is(err, commitlog.ErrSessionTimeoutRefused):
		return fmt.Errorf("SessionTimeout (%v) must be from the brokers' group.min.session.timeout.ms to group.max.session.timeout.ms (6s and 30m0s by default): %w", c.SessionTimeout, err)
	}
	return err
}
