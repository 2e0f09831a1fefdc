package ops

// FilterOp lets the records through for which F holds and counts the others.
type FilterOp[K, V any] struct {
	Label string
	F     func(K, V) bool
}

// Traits describes the operator.
func (o FilterOp[K, V]) Traits() Traits { return Traits{Op: "Filter", Name: o.Label} }

// Wire makes the operator for one task. What it leaves out is counted as "dropped".
func (o FilterOp[K, V]) Wire(site *Site, down Emit[K, V]) (Emit[K, V], error) {
	m, at, f, dropped := site.Meta(), site.At, o.F, site.Counter(site.At, CountDropped)
	return func(k K, v V) error {
		m.At = at
		if !f(k, v) {
			dropped.Add(1)
			return nil
		}
		return down(k, v)
	}, nil
}

// BranchOp sends each record one of two ways.
type BranchOp[K, V any] struct {
	Label string
	F     func(K, V) bool
}

// Traits describes the operator.
func (o BranchOp[K, V]) Traits() Traits { return Traits{Op: "Branch", Name: o.Label} }

// Wire makes the operator for one task: yes takes the records for which F holds, no the others.
func (o BranchOp[K, V]) Wire(site *Site, yes, no Emit[K, V]) (Emit[K, V], error) {
	m, at, f := site.Meta(), site.At, o.F
	return func(k K, v V) error {
		m.At = at
		if f(k, v) {
			return yes(k, v)
		}
		return no(k, v)
	}, nil
}

// PeekOp calls F with each record and passes it on.
type PeekOp[K, V any] struct {
	Label string
	F     func(K, V)
}

// Traits describes the operator.
func (o PeekOp[K, V]) Traits() Traits { return Traits{Op: "Peek", Name: o.Label} }

// Wire makes the operator for one task.
func (o PeekOp[K, V]) Wire(site *Site, down Emit[K, V]) (Emit[K, V], error) {
	m, at, f := site.Meta(), site.At, o.F
	return func(k K, v V) error {
		m.At = at
		f(k, v)
		return down(k, v)
	}, nil
}

// Names of the counters that operators keep.
const (
	// CountDropped counts records that an operator left out on purpose.
	CountDropped = "dropped"
	// CountAsked counts the calls that Memo made, CountSaved the records that it answered
	// without one.
	CountAsked = "asked"
	CountSaved = "saved"
	// CountLost counts, at a source, the offsets that were gone before they were read (see OnLost). Not each need
	// have been a record: markers and aborted records have offsets too.
	CountLost = "lost"
	// CountSkipped, CountSubstituted and CountDeadLettered count, at a source, records that could not be decoded (see OnInvalid).
	CountSkipped      = "skipped"
	CountSubstituted  = "substituted"
	CountDeadLettered = "dead-lettered"
	// CountMissed counts the records of a Lookup or LeftLookup for which the table had no row.
	CountMissed = "missed"
	// CountMisplacedKeys counts, at a source, records that did not lie in the partition of their keys (see OnMisplaced).
	CountMisplacedKeys = "misplaced"
)
