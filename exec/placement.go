package exec

import (
	"fmt"
	"strings"

	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

// maxExplained is how many records of a partition are looked at for which rule would explain them, from the first one on.
const maxExplained = 256

// placement checks that the records of a partition that feed state lie where their keys belong (P4). It belongs to the
// task's goroutine.
type placement struct {
	rule                  ops.Partitioner
	partition, partitions int32
	policy                ops.MisplacedPolicy
	misplaced             *ops.Counter
	known                 []ops.Partitioner
	// explains has a bit for each of known that would have put all records seen so far where they are, as far as
	// they were looked at.
	explains uint
	// seen counts the records with a key.
	seen int64
}

// placementOf returns the check of a source in a task, nil if where its records lie does not matter.
func (t *task) placementOf(spec topology.SourceSpec) *placement {
	n := int32(t.app.partitions[spec.Topic])
	if !spec.Keyed || n == 0 {
		return nil
	}
	return &placement{rule: spec.Partitioner, partition: t.partition, partitions: n, policy: spec.OnMisplaced,
		misplaced: t.env.Counter(spec.At, ops.CountMisplacedKeys), known: ops.KnownPartitioners(), explains: ^uint(0)}
}

// check returns a *MisplacedError for a key that does not belong here, unless such are counted. What becomes of a null key
// is the operators' business.
func (p *placement) check(key []byte) error {
	if key == nil {
		return nil
	}
	want := p.rule.Partition(key, p.partitions)
	if p.policy == ops.CountMisplaced {
		if want != p.partition {
			p.misplaced.Add(1)
		}
		return nil
	}
	if p.seen++; p.seen <= maxExplained || want != p.partition {
		for i, rule := range p.known {
			if at := rule.Partition(key, p.partitions); at != p.partition && at >= 0 { // -1: anywhere, so here too
				p.explains &^= 1 << i
			}
		}
	}
	if want == p.partition {
		return nil
	}
	e := &MisplacedError{Partitioner: p.rule.String(), Partition: want, Partitions: p.partitions, Seen: p.seen}
	for i, rule := range p.known {
		if p.explains&(1<<i) != 0 {
			e.Explained = append(e.Explained, rule.String())
		}
	}
	return e
}

// MisplacedError is the cause of a RecordError: the record feeds state, but does not lie in the partition where its key
// belongs by the rule that its source declares. Other records of the key lie elsewhere, so that another task would
// have a state of its own for it.
type MisplacedError struct {
	// Partitioner is the rule that the source declares, by which the key belongs in Partition of Partitions; -1 if
	// it may lie anywhere.
	Partitioner           string
	Partition, Partitions int32
	// Explained are known rules by which this record and those seen before it in this partition lie where they should. Seen is
	// how many those are, this one included, of which at most the first 256 and this one were looked at.
	Explained []string
	Seen      int64
}

// Error says where the key belongs, what would explain where it is, and what can be done.
func (e *MisplacedError) Error() string {
	text := fmt.Sprintf("the key belongs in partition %d of %d by %s, as which the topic is declared", e.Partition, e.Partitions, e.Partitioner)
	if e.Partition < 0 {
		text = fmt.Sprintf("the key may lie in any of %d partitions by %s, as which the topic is declared", e.Partitions, e.Partitioner)
	}
	if len(e.Explained) > 0 {
		names := make([]string, len(e.Explained))
		for i, name := range e.Explained {
			names[i] = "ops." + name
		}
		text += fmt.Sprintf("; by %s this and the %d before it in the partition lie where they should: declare that with ops.PartitionedBy, or", strings.Join(names, " or "), e.Seen-1)
	} else {
		text += "; no known partitioner explains this and those before it in the partition (were partitions added to the topic?):"
	}
	return text + " put Repartition(\"name\") in front of the state"
}
