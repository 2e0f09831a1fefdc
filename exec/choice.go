package exec

import "time"

// A task with several input partitions takes, of the next records that it has of each, the one with the lowest timestamp; of equal ones that of a
// table, then that of the topic that sorts first. What it does not have yet it cannot choose, so while one of the partitions has no record here it may wait
// for it, with those of the others:
//
//	the partition                              waits for at most
//	----------------------------------------   -----------------------------------------
//	has more, as far as was heard              latestInput, or Config.IdleWait if that is more
//	has no more, as far as was heard           Config.IdleWait
//
// and not at all if IdleWait is negative. A partition that was waited for in vain is not waited for again before something of it arrives. Nor does the task wait
// when it holds much of the others already, or when reading has ended.

// choice is what a task waits for. It belongs to the task's goroutine.
type choice struct {
	// since is when it began to wait, until when it ends; both are zero unless it waits.
	since, until time.Time
}

// maxWaiting is how many chunks a task holds for each of its partitions while it waits for one of them, in place of maxQueued.
const maxWaiting = 16

// pick returns the partition whose head is the next record, nil if there is none, or none yet.
func (t *task) pick() (*source, error) {
	in := &t.in
	for {
		best, missing, err := in.lowest()
		if best == nil || missing == nil || err != nil {
			in.waits = choice{}
			return best, err
		}
		patience := t.app.cfg.IdleWait
		if patience >= 0 && missing.position < missing.stable {
			patience = max(patience, latestInput)
		}
		now := t.app.cfg.Clock.Now()
		if in.waits.since.IsZero() {
			in.waits.since = now
		}
		in.waits.until = in.waits.since.Add(patience)
		if now.Before(in.waits.until) && t.lost == nil && !in.full() {
			return nil, nil
		}
		missing.late = true
	}
}

// lowest returns the partition whose next record has the lowest timestamp, and one that has none and is to be waited for. Each is nil
// if there is none.
func (in *input) lowest() (best, missing *source, err error) {
	for _, s := range in.sources {
		ok, err := s.peek()
		switch {
		case err != nil:
			return nil, nil, err
		case !ok:
			if !s.late && (missing == nil || s.position < s.stable) { // those that have more are waited for longest
				missing = s
			}
		case best == nil || s.head.Timestamp < best.head.Timestamp:
			best = s
		}
	}
	return best, missing, nil
}

// waiting returns in how long the task stops waiting for a partition's records; 0 if it does not wait.
func (in *input) waiting(now time.Time) time.Duration {
	if in.waits.until.IsZero() {
		return 0
	}
	return max(time.Nanosecond, in.waits.until.Sub(now))
}
