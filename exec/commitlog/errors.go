package commitlog

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Class says what an error means for the one who met it. The set is closed.
type Class int8

const (
	// Fatal errors end the process's run: settings, authorization, missing topics, corrupt data.
	Fatal Class = iota
	// Retriable errors were retried inside the log until their deadline; trying later may help.
	Retriable
	// Abort errors concern the transaction: it is aborted and its input processed again.
	Abort
	// Fenced errors say that another producer or member has taken over: the task closes and
	// comes back, if at all, through the group.
	Fenced
)

// String returns the class's name in lower case.
func (c Class) String() string {
	switch c {
	case Fatal:
		return "fatal"
	case Retriable:
		return "retriable"
	case Abort:
		return "abort"
	case Fenced:
		return "fenced"
	}
	return fmt.Sprintf("class(%d)", int8(c))
}

// Sentinels that an Error wraps where a caller branches on them.
var (
	// ErrOffsetOutOfRange: the wanted offset is no longer, or not yet, in the log. See RangeError.
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrUnreachable: no broker answered.
	ErrUnreachable = errors.New("no broker answered")
	// ErrTooLarge: a record does not fit into a record batch that the broker takes.
	ErrTooLarge = errors.New("record too large")
	// ErrTransactionTimeout: the transaction was open for longer than its timeout, and the broker has aborted it. It is
	// what a broker calls fenced, without another producer.
	ErrTransactionTimeout = errors.New("transaction timed out")
	// ErrTopicRecreated: the topic was deleted, and another one has its name by now, to which the wanted offset
	// does not belong (KIP-516).
	ErrTopicRecreated = errors.New("the topic was deleted and created again")
	// ErrClosed: the log, reader, producer or member was closed.
	ErrClosed = errors.New("closed")
)

// Sentinels that an Error is by the code that the broker sent.
var (
	// ErrInstanceFenced: another member has joined with the same instance id.
	ErrInstanceFenced = errors.New("another member has the instance id")
	// ErrSessionTimeoutRefused: the brokers' settings allow no such session timeout.
	ErrSessionTimeoutRefused = errors.New("session timeout refused")
	// ErrTransactionTimeoutRefused: the brokers' settings allow no such transaction timeout.
	ErrTransactionTimeoutRefused = errors.New("transaction timeout refused")
)

var codeSentinels = map[int16]error{
	26: ErrSessionTimeoutRefused,     // INVALID_SESSION_TIMEOUT
	50: ErrTransactionTimeoutRefused, // INVALID_TRANSACTION_TIMEOUT
	82: ErrInstanceFenced,            // FENCED_INSTANCE_ID
}

// Recreated returns an error that wraps ErrTopicRecreated and tells the ids of the topic that was meant and of the one there is.
func Recreated(was, is TopicID) error {
	return fmt.Errorf("%w: its id was %v and is %v", ErrTopicRecreated, was, is)
}

// TimedOut returns an error that wraps ErrTransactionTimeout and tells how long the transaction was open.
func TimedOut(open, timeout time.Duration) error {
	return fmt.Errorf("%w: open for %v, longer than the transaction timeout of %v", ErrTransactionTimeout, seconds(open), seconds(timeout))
}

// seconds prints a duration as people count it: 61s, 1.5s.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + "s"
}

// RangeError is the cause of an error that wraps ErrOffsetOutOfRange: what was wanted, and what the log holds.
type RangeError struct {
	// Offset is the one that was wanted.
	Offset int64
	// Start is the first offset in the log and End the high watermark. Both are -1 if the log could not be asked.
	Start, End int64
}

// Error returns one sentence with the offsets.
func (e *RangeError) Error() string {
	if e.Start < 0 {
		return fmt.Sprintf("%v: want offset %d", ErrOffsetOutOfRange, e.Offset)
	}
	return fmt.Sprintf("%v: want offset %d, the log holds %d to %d", ErrOffsetOutOfRange, e.Offset, e.Start, e.End)
}

// Unwrap returns ErrOffsetOutOfRange.
func (e *RangeError) Unwrap() error { return ErrOffsetOutOfRange }

// Error is an error met at the log. It holds no record content.
type Error struct {
	// Op is what was being done, for example "produce" or "join group".
	Op string
	// Topic and Partition are where; Partition is -1 when it concerns no single one.
	Topic     string
	Partition int32
	// Group, TransactionalID name what it concerned, if anything.
	Group, TransactionalID string
	// Code is Kafka's error code and Name its name, 0 and empty when the broker sent none.
	Code int16
	Name string
	// Class is what it means for the caller.
	Class Class
	// Err is the cause; it may wrap a sentinel of this package.
	Err error
}

// Error returns one line: what was done, where, Kafka's name of the error and the cause.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Topic != "" {
		b.WriteString(" " + e.Topic)
		if e.Partition >= 0 {
			fmt.Fprintf(&b, "/%d", e.Partition)
		}
	}
	if e.Group != "" {
		fmt.Fprintf(&b, " (group %s)", e.Group)
	}
	if e.TransactionalID != "" {
		fmt.Fprintf(&b, " (transactional id %s)", e.TransactionalID)
	}
	if e.Name != "" {
		fmt.Fprintf(&b, ": %s (%d)", e.Name, e.Code)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Is says whether target is the sentinel of e's code.
func (e *Error) Is(target error) bool {
	sentinel, ok := codeSentinels[e.Code]
	return ok && sentinel == target
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of the first Error in err's chain, and Fatal for any other error.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return Fatal
}
