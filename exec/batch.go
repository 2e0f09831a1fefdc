package exec

import (
	"github.com/wickerwork/wicker/ops"
)

// maxQueued is how many chunks a task holds for each of its partitions, beside what its
// reader reads ahead.
const maxQueued = 2

// full says whether the task holds enough input.
func (in *input) full() bool {
	n := 0
	for _, s := range in.sources {
		n += len(s.queue)
	}
	most := maxQueued
	if !in.waits.since.IsZero() {
		most = maxWaiting
	}
	return n >= most*len(in.sources)
}

// room says whether another batch may be processed: while a transaction is being committed
// the next one's outputs and changes stay in memory, up to a bound each. That of the changes is where
// the transaction would close by itself, see due.
func (t *task) room() bool {
	if !t.opened.IsZero() && (t.overdue.Load() || t.careful > 0) {
		return false // the transaction closes as soon as the one before it has committed
	}
	return t.inflight == nil || t.heldBytes+t.out.open < t.app.holdBytes && !t.state.crowded()
}

// batch processes up to MaxBatch records, lowest timestamp first over the task's topics (see choice.go),
// and lets those that wait at gates go on (E2). It returns how many were taken. An error is a
// *RecordError unless the input itself is broken.
func (t *task) batch() (n int, err error) {
	m := &t.env.meta
	defer func() {
		for _, l := range t.env.lookups {
			l.release()
		}
		if r := recover(); r != nil {
			err = t.recordError(ops.Panicked(r))
		}
	}()
	single := len(t.in.sources) == 1
	most := t.app.cfg.MaxBatch
	if t.careful > 0 {
		most = 1
	}
	for _, l := range t.env.lookups {
		l.refresh()
	}
	for n < most && !(t.overdue.Load() && !t.opened.IsZero()) {
		var s *source
		if single {
			s = t.in.sources[0]
			ok, err := s.peek()
			if err != nil {
				return n, err
			}
			if !ok {
				break
			}
		} else if s, err = t.pick(); err != nil {
			return n, err
		} else if s == nil {
			break
		}
		if t.opened.IsZero() {
			t.open()
		}
		r := &s.head
		m.Topic, m.Partition, m.Offset = s.tp.Topic, s.tp.Partition, r.Offset
		m.Timestamp, m.Headers, m.HeaderCount = r.Timestamp, r.Headers, r.HeaderCount
		m.Key, m.Value = r.Key, r.Value
		if s.placement != nil {
			if err := s.placement.check(r.Key); err != nil {
				m.At = s.spec.At
				return n, t.recordError(err)
			}
		}
		if err := s.emit(r.Key, r.Value); err != nil {
			return n, t.recordError(err)
		}
		s.take()
		n++
	}
	if n == 0 {
		return 0, nil
	}
	for _, g := range t.env.gates {
		if err := g.Flush(); err != nil {
			return n, t.recordError(err)
		}
	}
	return n, nil
}

// recordError adds to an error the record that was in process and the operator it was in.
func (t *task) recordError(err error) error {
	m := &t.env.meta
	e := &RecordError{Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, Err: err}
	if m.At != nil {
		e.Operator = m.At.String()
	}
	return e
}
