package exec

import (
	"fmt"
	"strconv"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

// input holds what was read for one task and not processed yet, by partition, and the
// positions that its next commit may carry. It belongs to the task's goroutine.
type input struct {
	sources []*source
	waits   choice
}

// source is one partition of a task's input.
type source struct {
	tp   commitlog.TopicPartition
	spec topology.SourceSpec
	emit ops.Emit[[]byte, []byte]
	// placement checks the keys, nil if where they lie does not matter.
	placement *placement
	// queue are the chunks behind the one that cur walks.
	queue []commitlog.Chunk
	chunk commitlog.Chunk
	cur   commitlog.Cursor
	head  commitlog.Record
	ready bool // head holds the next record
	// arrived is where the next chunk must begin, position the offset after the last record
	// taken, and after what lies behind it that nobody may see.
	arrived, position int64
	// committed is the position of the last commit that was handed to the producer.
	committed int64
	// known says that the group has an offset of it, note is what was committed with that when the task started, and was the id of the
	// topic that it is of if that is another one by now.
	known bool
	note  string
	was   commitlog.TopicID
	// processed says, of a repartition topic, that a note has told that a record was.
	processed bool
	// stable is the last stable offset as last heard of.
	stable int64
	// late says that it was waited for in vain, see choice.go.
	late  bool
	taken int64
}

// newSource returns a partition whose input goes on at an offset, and whose position there is committed.
func newSource(tp commitlog.TopicPartition, spec topology.SourceSpec, at int64) *source {
	return &source{tp: tp, spec: spec, chunk: commitlog.Chunk{Next: at}, arrived: at, position: at, committed: at}
}

// jump passes over what the log has lost: behind what was read already, reading goes on at next, which may be lower
// than before in a log that is another one.
func (s *source) jump(next int64) {
	s.queue = append(s.queue, commitlog.Chunk{TopicPartition: s.tp, Base: s.arrived, Next: next})
	s.arrived, s.stable = next, next
}

// add queues a chunk. Its position must follow the one before (E6).
func (in *input) add(c commitlog.Chunk) error {
	for _, s := range in.sources {
		if s.tp != c.TopicPartition {
			continue
		}
		if c.Base != s.arrived {
			return fmt.Errorf("topic %s partition %d: read on at offset %d, want %d: positions must be contiguous", c.Topic, c.Partition, c.Base, s.arrived)
		}
		s.arrived, s.stable, s.late = c.Next, c.LastStable, false
		s.queue = append(s.queue, c)
		return nil
	}
	return fmt.Errorf("topic %s partition %d: read but not asked for", c.Topic, c.Partition)
}

// peek makes s.head the next record of the partition, if one is there.
func (s *source) peek() (bool, error) {
	for !s.ready {
		if s.cur.Next(&s.head) {
			s.ready = true
			break
		}
		if err := s.cur.Err(); err != nil {
			return false, fmt.Errorf("topic %s partition %d: %w", s.tp.Topic, s.tp.Partition, err)
		}
		s.position = s.chunk.Next
		if len(s.queue) == 0 {
			s.chunk = commitlog.Chunk{Next: s.position}
			s.cur.Reset(&s.chunk)
			return false, nil
		}
		s.chunk = s.queue[0]
		s.queue[0] = commitlog.Chunk{}
		if s.queue = s.queue[1:]; len(s.queue) == 0 {
			s.queue = nil
		}
		s.cur.Reset(&s.chunk)
	}
	return true, nil
}

// take moves the partition's position behind its head.
func (s *source) take() {
	s.ready = false
	s.position = s.head.Offset + 1
	s.taken++
}

// buffered says whether a record may be there.
func (in *input) buffered() bool {
	for _, s := range in.sources {
		if s.ready || s.position != s.arrived || len(s.queue) > 0 {
			return true
		}
	}
	return false
}

// idle says whether everything that may be read has been taken, as far as was heard.
func (in *input) idle() bool {
	for _, s := range in.sources {
		if s.position < s.stable {
			return false
		}
	}
	return true
}

// moved says whether a position is not committed yet, if only over what nobody may see: once
// the log has lost that as well, a committed position before it would look like lost records (E7).
func (in *input) moved() bool {
	for _, s := range in.sources {
		if s.position != s.committed {
			return true
		}
	}
	return false
}

// committed tells the offsets at which another process would go on, as "topic/partition@offset".
func (in *input) committed() []string {
	at := make([]string, len(in.sources))
	for i, s := range in.sources {
		at[i] = s.tp.String() + "@" + strconv.FormatInt(s.committed, 10)
	}
	return at
}

// offsets returns the positions to commit, by partition, and notes them as committed.
func (in *input) offsets() map[commitlog.TopicPartition]int64 {
	m := make(map[commitlog.TopicPartition]int64, len(in.sources))
	for _, s := range in.sources {
		if s.position != s.committed {
			m[s.tp] = s.position
			s.committed = s.position
		}
	}
	return m
}
