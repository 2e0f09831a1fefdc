package exec

import (
	"errors"
	"fmt"
	"strings"
)

// ConfigError holds everything that is wrong with a Config, joined.
type ConfigError struct{ Err error }

// Error lists the problems in one line.
func (e *ConfigError) Error() string {
	return "config: " + strings.ReplaceAll(e.Err.Error(), "\n", "; ")
}

// Unwrap returns the joined problems.
func (e *ConfigError) Unwrap() error { return e.Err }

// RecordError is a record that could not be processed: it could not be decoded, a function
// given to an operator failed or panicked, or a result could not be encoded or written. Nothing
// of the transaction is committed.
type RecordError struct {
	// Operator is the operator where it happened, kind and name.
	Operator string
	// Topic, Partition and Offset are where the record was read.
	Topic     string
	Partition int32
	Offset    int64
	// Err is the cause: an ops.DecodeError, ops.PanicError, what a function returned, ...
	Err error
}

// Error names operator, coordinates and cause.
func (e *RecordError) Error() string {
	return fmt.Sprintf("%s: topic %s partition %d offset %d: %v", e.Operator, e.Topic, e.Partition, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// TopicsError lists every topic that is not as the plan needs it.
type TopicsError struct {
	// Problems holds one sentence a topic, with the command that mends it.
	Problems []string
}

// Error lists the problems, one after the other.
func (e *TopicsError) Error() string {
	return "topics are not as planned: " + strings.Join(e.Problems, "; ")
}

// ErrDrainTimeout says that Run ended before all of its work could be finished in order: the
// open transaction was aborted and will be processed again.
var ErrDrainTimeout = errors.New("not drained within DrainTimeout")
