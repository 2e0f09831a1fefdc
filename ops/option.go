package ops

import (
	"errors"
	"fmt"
)

// Option adjusts one operator. Which options an operator takes is said in its own doc; one
// that it does not take is an error of Build.
type Option func(*Options)

// Options is what the options of one operator set. Zero fields mean the operator's default.
type Options struct {
	// Name is a label for logs, metrics and plan text.
	Name string
	// Partitions is the partition count of a repartition topic; 0 means as its co-partition group.
	Partitions int
	// AbsentKey is what Rekey does without a key.
	AbsentKey AbsentKeyPolicy
	// KeyCodec and ValueCodec are a codec.Codec of the operator's result types.
	KeyCodec, ValueCodec any
	// Concurrency bounds Memo's calls in flight.
	Concurrency int
	// OnLost is what a source does when input is lost.
	OnLost LostPolicy
	// OnInvalid is what a source does with records that cannot be decoded, and an operator with those that its function finds invalid.
	OnInvalid InvalidPolicy
	// Partitioner is by which rule a source's records lie in their partitions, OnMisplaced what it does with those that do not.
	Partitioner Partitioner
	OnMisplaced MisplacedPolicy
	// OnTimestamp is what a source does with records without a timestamp.
	OnTimestamp TimestampPolicy
	// Remember is how many rows written to a global table's topic the task's own lookups see at once.
	Remember int
	// Given lists the options by name in the order they were given.
	Given []string
	// Err is the first option with an invalid argument.
	Err error
}

// Collect applies the options to a zero Options.
func Collect(opts []Option) Options {
	var o Options
	for _, opt := range opts {
		if opt == nil {
			o.fail(fmt.Errorf("option is nil"))
			continue
		}
		opt(&o)
	}
	return o
}

func (o *Options) fail(err error) {
	if o.Err == nil {
		o.Err = err
	}
}

// Name labels a stateless operator in logs, metrics and plan text. It names nothing durable:
// it may change at any time. Every operator takes it.
func Name(name string) Option {
	return func(o *Options) {
		o.Given = append(o.Given, "Name")
		if o.Name = name; name == "" {
			o.fail(fmt.Errorf("Name (%q) must not be empty", name))
		}
	}
}

// Partitions fixes the partition count of the repartition topic that a Rekey needs. Without
// it the topic has as many partitions as the sources it is co-partitioned with, or else as the
// sources it is fed from.
func Partitions(n int) Option {
	return func(o *Options) {
		o.Given = append(o.Given, "Partitions")
		if o.Partitions = n; n < 1 || n > 100_000 {
			o.fail(fmt.Errorf("Partitions (%d) must be from 1 to 100000", n))
		}
	}
}

// AbsentKeyPolicy says what Rekey does with a record whose new key is absent: encoded as null
// or as zero bytes.
type AbsentKeyPolicy int8

const (
	// Fail ends the run with the record's coordinates. It is the default.
	Fail AbsentKeyPolicy = iota
	// Drop leaves the record out and counts it.
	Drop
	// Keep takes the empty key for a key like any other. A null key is still refused.
	Keep
)

// AbsentKey sets what a Rekey does with a record whose new key is absent.
func AbsentKey(p AbsentKeyPolicy) Option {
	return func(o *Options) {
		o.Given = append(o.Given, "AbsentKey")
		if o.AbsentKey = p; p < Fail || p > Keep {
			o.fail(fmt.Errorf("AbsentKey (%d) must be Fail, Drop or Keep", p))
		}
	}
}

// LostPolicy says how a source goes on when the log no longer holds the record that it would
// read next: retention has deleted it before it was processed, or the log ends before it, as after its
// topic was created again. It says nothing of partitions without a committed offset: those begin at the
// earliest record under every policy, and are refused if the group had an offset that is gone.
type LostPolicy int8

const (
	// EndRun ends the run with an error that says which records are lost. It is the default.
	EndRun LostPolicy = iota
	// FromEarliest goes on at the earliest record that is there.
	FromEarliest
	// FromLatest goes on behind the latest record, leaving out what is there as well.
	FromLatest
)

// String returns the policy's name in Go.
func (p LostPolicy) String() string {
	switch p {
	case EndRun:
		return "EndRun"
	case FromEarliest:
		return "FromEarliest"
	case FromLatest:
		return "FromLatest"
	}
	return fmt.Sprintf("LostPolicy(%d)", int8(p))
}

// OnLost sets what a Source does when records that it has not read are no longer there. Under FromEarliest and
// FromLatest each gap is logged as a warning, and its offsets count as CountLost.
func OnLost(p LostPolicy) Option {
	return func(o *Options) {
		o.Given = append(o.Given, "OnLost")
		if o.OnLost = p; p < EndRun || p > FromLatest {
			o.fail(fmt.Errorf("OnLost (%d) must be EndRun, FromEarliest or FromLatest", p))
		}
	}
}

// TimestampPolicy says what a source does with a record that has no timestamp: -1 in Kafka, or any other negative number.
type TimestampPolicy int8

const (
	// KeepTimestamp processes the record as it is: before all others that are there, as one of the lowest timestamp, and what it becomes has none either. It is the
	// default.
	KeepTimestamp TimestampPolicy = iota
	// RefuseTimestamp ends the run with the record's coordinates.
	RefuseTimestamp
	// SkipTimestamp passes the record over and counts it as CountSkipped.
	SkipTimestamp
)

// ErrTimestamp says that a record has no timestamp, and that its source refuses such.
var ErrTimestamp = errors.New("the record has no timestamp, which the source refuses (ops.OnTimestamp)")

// OnTimestamp sets what a Source does with records without a timestamp.
func OnTimestamp(p TimestampPolicy) Option {
	return func(o *Options) {
		o.Given = append(o.Given, "OnTimestamp")
		if o.OnTimestamp = p; p < KeepTimestamp || p > SkipTimestamp {
			o.fail(fmt.Errorf("OnTimestamp (%d) must be KeepTimestamp, RefuseTimestamp or SkipTimestamp", p))
		}
	}
}

// timeless is what becomes of records without a timestamp in one task: it says whether the record in process goes on.
func (p TimestampPolicy) timeless(site *Site) func() (bool, error) {
	m := site.Meta()
	var skipped *Counter
	if p == SkipTimestamp {
		skipped = site.Counter(site.At, CountSkipped)
	}
	return func() (bool, error) {
		switch {
		case m.Timestamp >= 0 || p == KeepTimestamp:
			return true, nil
		case p == SkipTimestamp:
			skipped.Add(1)
			return false, nil
		}
		return false, ErrTimestamp
	}
}

// PartitionedBy declares by which rule whoever writes a Source's topic chooses partitions. Without it the rule is Murmur2,
// that of Java's clients. Sources whose keys meet in state must have one rule, and one that goes by the key; others need
// Repartition in between. Records that feed state are checked as they are read, see OnMisplaced.
func PartitionedBy(p Partitioner) Option {
	return func(o *Options) {
		o.Given = append(o.Given, "PartitionedBy")
		o.Partitioner = p
		if err := p.check(); err != nil {
			o.fail(fmt.Errorf("PartitionedBy: %w", err))
		}
	}
}

// MisplacedPolicy says what a source whose records feed state by key does with one that does not lie in the partition
// where its key belongs (see PartitionedBy): the key's other records are, or will be, in another partition, and what is kept
// by key would be split between two tasks without a word.
type MisplacedPolicy int8

const (
	// RefuseMisplaced ends the run with an error that says where the key belongs, and which rule would explain the records
	// seen so far. It is the default.
	RefuseMisplaced MisplacedPolicy = iota
	// CountMisplaced processes the record where it lies, and counts it as CountMisplacedKeys: for topics of which it is known that
	// all records of a key lie together, by whatever rule.
	CountMisplaced
)

// OnMisplaced sets what a Source does with records that do not lie where their keys belong. To have them brought there, put
// Repartition in front of the state.
func OnMisplaced(p MisplacedPolicy) Option {
	return func(o *Options) {
		o.Given = append(o.Given, "OnMisplaced")
		if o.OnMisplaced = p; p < RefuseMisplaced || p > CountMisplaced {
			o.fail(fmt.Errorf("OnMisplaced (%d) must be RefuseMisplaced or CountMisplaced", p))
		}
	}
}

// Remember has the lookups of a task in a global table see the rows that it writes to the table's topic itself, before the table has read them there: the latest
// n of them. It is a bridge over some milliseconds and no more: a row that is not remembered, since there were more, since another task wrote it, or since the process died, is
// seen when it has come back. What a transaction that is aborted wrote is never seen.
func Remember(n int) Option {
	return func(o *Options) {
		o.Given = append(o.Given, "Remember")
		if o.Remember = n; n < 1 || n > 10_000_000 {
			o.fail(fmt.Errorf("Remember (%d) must be from 1 to 10000000", n))
		}
	}
}

// KeyCodec sets the codec of an operator's result keys, a codec.Codec[K2], for the
// repartition topic and the state behind it. Without it the codec is codec.Default's.
func KeyCodec(c any) Option {
	return func(o *Options) {
		o.Given = append(o.Given, "KeyCodec")
		if o.KeyCodec = c; c == nil {
			o.fail(fmt.Errorf("KeyCodec is nil"))
		}
	}
}

// ValueCodec sets the codec of an operator's result values, a codec.Codec[V2], for a
// repartition topic behind it. Without it the codec is codec.Default's.
func ValueCodec(c any) Option {
	return func(o *Options) {
		o.Given = append(o.Given, "ValueCodec")
		if o.ValueCodec = c; c == nil {
			o.fail(fmt.Errorf("ValueCodec is nil"))
		}
	}
}

// Concurrency bounds the calls that one Memo has in flight in a process, over all its tasks.
// The default is 64.
func Concurrency(n int) Option {
	return func(o *Options) {
		o.Given = append(o.Given, "Concurrency")
		if o.Concurrency = n; n < 1 || n > 1_000_000 {
			o.fail(fmt.Errorf("Concurrency (%d) must be from 1 to 1000000", n))
		}
	}
}
