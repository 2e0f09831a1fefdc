package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// nature is what the workers of a run are set to. Seeds differ in it, as what a fault does depends on it: a pause
// may outlast the session, a transaction's timeout, or both.
type nature struct {
	session     time.Duration // timeout of the membership
	transaction time.Duration // timeout of a transaction
	commit      time.Duration // interval
	static      string        // which workers have a static membership: all, some or none
}

// natureOf draws the nature of a seed.
func natureOf(seed uint64) nature {
	r := rand.New(rand.NewPCG(seed, 3))
	ms := func(of ...int) time.Duration { return time.Duration(of[r.IntN(len(of))]) * time.Millisecond }
	return nature{
		session: ms(2000, 3000, 6000), transaction: ms(3000, 60_000, 60_000), commit: ms(50, 100, 100, 500),
		static: []string{"all", "some", "none"}[r.IntN(3)],
	}
}

// isStatic says whether a slot's worker has a static membership.
func (n nature) isStatic(slot int) bool {
	return n.static == "all" || n.static == "some" && slot%2 == 0
}

func (n nature) String() string {
	return fmt.Sprintf("session %v, transactions %v, commits every %v, static ids: %s", n.session, n.transaction, n.commit, n.static)
}
