package memlog

import (
	"errors"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// ErrNoMembers is returned by [Log.AwaitIdle] when the group's last member is gone.
var ErrNoMembers = errors.New("memlog: the group has no members")

// code is one of Kafka's errors as this log answers them.
type code struct {
	number int16
	name   string
	class  commitlog.Class
}

// Read-only.
var (
	offsetOutOfRange    = code{1, "OFFSET_OUT_OF_RANGE", commitlog.Fatal}
	unknownTopic        = code{3, "UNKNOWN_TOPIC_OR_PARTITION", commitlog.Fatal}
	messageTooLarge     = code{10, "MESSAGE_TOO_LARGE", commitlog.Fatal}
	invalidTopic        = code{17, "INVALID_TOPIC_EXCEPTION", commitlog.Fatal}
	illegalGeneration   = code{22, "ILLEGAL_GENERATION", commitlog.Fenced}
	inconsistentGroup   = code{23, "INCONSISTENT_GROUP_PROTOCOL", commitlog.Fatal}
	invalidGroup        = code{24, "INVALID_GROUP_ID", commitlog.Fatal}
	unknownMember       = code{25, "UNKNOWN_MEMBER_ID", commitlog.Fenced}
	invalidSession      = code{26, "INVALID_SESSION_TIMEOUT", commitlog.Fatal}
	invalidPartitions   = code{37, "INVALID_PARTITIONS", commitlog.Fatal}
	invalidReplication  = code{38, "INVALID_REPLICATION_FACTOR", commitlog.Fatal}
	invalidConfig       = code{40, "INVALID_CONFIG", commitlog.Fatal}
	invalidTxnTimeout   = code{50, "INVALID_TRANSACTION_TIMEOUT", commitlog.Fatal}
	fencedInstance      = code{82, "FENCED_INSTANCE_ID", commitlog.Fenced}
	invalidRecord       = code{87, "INVALID_RECORD", commitlog.Fatal}
	producerFenced      = code{90, "PRODUCER_FENCED", commitlog.Fenced}
	unknownTopicID      = code{100, "UNKNOWN_TOPIC_ID", commitlog.Fatal}
	errConcurrentCalls  = errors.New("called by two goroutines at once")
	errEmptyBatch       = errors.New("batch without records")
	errNoAssignor       = errors.New("no assignor")
	errNoTransactionID  = errors.New("no transactional id")
	errNoSuchMember     = errors.New("memlog: no such member")
	errNullKeyCompacted = errors.New("record without a key in a compacted topic")
)

func kafkaError(op string, tp commitlog.TopicPartition, c code, cause error) *commitlog.Error {
	return &commitlog.Error{Op: op, Topic: tp.Topic, Partition: tp.Partition, Code: c.number, Name: c.name, Class: c.class, Err: cause}
}

// recreated is what reading a topic meets that is another one by now.
func recreated(tp commitlog.TopicPartition, was, is commitlog.TopicID) *commitlog.Error {
	return kafkaError("fetch", tp, unknownTopicID, commitlog.Recreated(was, is))
}

func topicError(op, topic string, c code, cause error) *commitlog.Error {
	return kafkaError(op, commitlog.TopicPartition{Topic: topic, Partition: -1}, c, cause)
}

func groupError(op, group string, c code, cause error) *commitlog.Error {
	e := topicError(op, "", c, cause)
	e.Group = group
	return e
}

func closedError(op string) error {
	return &commitlog.Error{Op: op, Partition: -1, Class: commitlog.Fatal, Err: commitlog.ErrClosed}
}

func contextError(op string, err error) error {
	return &commitlog.Error{Op: op, Partition: -1, Class: commitlog.Retriable, Err: err}
}
