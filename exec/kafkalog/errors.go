package kafkalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// scope is the kind of call that an error code answered: the same code may mean different
// things in different calls.
type scope int8

const (
	inCall    scope = iota // metadata, offsets, topic management
	inProduce              // Produce
	inTxn                  // InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn
	inCommit               // TxnOffsetCommit
	inGroup                // JoinGroup, SyncGroup, Heartbeat, LeaveGroup
	inFetch                // Fetch
	scopes
)

// Codes that the code branches on.
const (
	codeOffsetOutOfRange       = 1
	codeUnknownTopic           = 3
	codeLeaderNotAvailable     = 5
	codeNotLeader              = 6
	codeMessageTooLarge        = 10
	codeNotCoordinator         = 16
	codeRecordListTooLarge     = 18
	codeNotEnoughReplicas      = 19
	codeIllegalGeneration      = 22
	codeUnknownMember          = 25
	codeRebalanceInProgress    = 27
	codeTopicExists            = 36
	codeNotController          = 41
	codeOutOfOrderSequence     = 45
	codeRequestTimedOut        = 7
	codeNotEnoughReplicasAfter = 20
	codeInvalidEpoch           = 47
	codeInvalidTxnState        = 48
	codeInvalidIDMapping       = 49
	codeTxnCoordinatorFenced   = 52
	codeProducerFenced         = 90
	codeDuplicateSequence      = 46
	codeConcurrentTxns         = 51
	codeOperationNotAttempt    = 55
	codeGroupNotFound          = 69
	codeMemberIDRequired       = 79
	codeFencedInstance         = 82
	codeCoordinatorLoading     = 14
	codeCoordinatorNotAvail    = 15
	codeUnsupportedVersion     = 35
	codeTopicUnauthorized      = 29
	codeClusterUnauthorized    = 31
	codeUnknownTopicID         = 100
)

type override struct {
	scope scope
	class commitlog.Class
}

// kafkaError is one line of the classification: the class, and the scopes where it differs.
type kafkaError struct {
	code  int16
	name  string
	class commitlog.Class
	but   []override
}

// kafkaErrors is the closed classification of the error codes of Apache Kafka 4.4.0, in order of code. What is done
// about an error is a matter of its class:
//
//	retriable  the call is repeated, with back-off, until RetryTimeout has passed since the first error (retry.go)
//	abort      the transaction can only be aborted; its producer goes on, its input is processed again
//	fenced     the producer or membership is not what it was: the task closes and comes back through the group
//	fatal      nothing here or in the executor helps: the run ends
//
// and, before its class, of some codes:
//
//	NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE
//	    and whatever else a partition is refused with: its leader is looked up again. A topic that stays missing, or another
//	    one (UNKNOWN_TOPIC_ID), for missingTopicTimeout is fatal. Asked for by name to be described, a missing topic is an
//	    answer; right after it was created it is not there yet.
//	NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT of a Produce: sent again to the same leader.
//	MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE of a Produce: fatal, with the batch's size and the setting (ErrTooLarge).
//	NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE: the coordinator is looked up again (coordinator.go).
//	COORDINATOR_LOAD_IN_PROGRESS, CONCURRENT_TRANSACTIONS, NOT_ENOUGH_REPLICAS, OPERATION_NOT_ATTEMPTED
//	    are asked again within milliseconds: it is what brokers answer while they verify or end a transaction.
//	NOT_CONTROLLER: the controller is looked up again.
//	DUPLICATE_SEQUENCE_NUMBER of a Produce: the batch is in the log.
//	OUT_OF_ORDER_SEQUENCE_NUMBER of a Produce behind one that failed: sent again with it.
//	MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS of a JoinGroup or SyncGroup: JoinGroup again at once, the first three
//	    times, as with ILLEGAL_GENERATION and when the membership is lost; of a heartbeat the latter asks the owner to
//	    join; of a commit it is repeated.
//	ILLEGAL_GENERATION of a commit: the next generation of the identity is taken, or the commit is fenced if the
//	    membership is lost; of a heartbeat: nothing if a newer one is known, else the owner is asked to join.
//	UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND (the group was deleted): the membership is lost. Its identity is fenced for
//	    ever, and a Join goes on as a new member that owns nothing.
//	FENCED_INSTANCE_ID: the membership is lost, and the member with it: another one has its instance id.
//	PRODUCER_FENCED, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED: the producer can do nothing more. If its
//	    transaction was open for longer than its timeout it is that, and said so (ErrTransactionTimeout); so with
//	    INVALID_TXN_STATE, which is a transaction that somebody else has ended; of an abort with nothing added it is none.
//	INVALID_PRODUCER_ID_MAPPING: likewise; the transactional id has expired at the broker.
//	OFFSET_OUT_OF_RANGE of a fetch or DeleteRecords: the log's range is asked for and told (RangeError).
//	GROUP_ID_NOT_FOUND of an OffsetFetch: no offsets.
//	TOPIC_ALREADY_EXISTS: no error.
//	INVALID_SESSION_TIMEOUT, INVALID_TRANSACTION_TIMEOUT, FENCED_INSTANCE_ID: by commitlog's sentinels of these codes
//	    the executor tells which of its fields to change.
//	UNSUPPORTED_VERSION, TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED of DescribeProducers: less is told.
//
// A server's unexpected error is worth another try where a repetition is harmless.
var kafkaErrors = [...]kafkaError{
	{-1, "UNKNOWN_SERVER_ERROR", commitlog.Fatal, []override{{inProduce, commitlog.Retriable}, {inTxn, commitlog.Retriable}, {inCommit, commitlog.Retriable}, {inGroup, commitlog.Retriable}, {inFetch, commitlog.Retriable}}},
	{0, "NONE", commitlog.Fatal, nil},
	{1, "OFFSET_OUT_OF_RANGE", commitlog.Fatal, nil},
	{2, "CORRUPT_MESSAGE", commitlog.Retriable, nil},
	{3, "UNKNOWN_TOPIC_OR_PARTITION", commitlog.Retriable, nil},
	{4, "INVALID_FETCH_SIZE", commitlog.Fatal, nil},
	{5, "LEADER_NOT_AVAILABLE", commitlog.Retriable, nil},
	{6, "NOT_LEADER_OR_FOLLOWER", commitlog.Retriable, nil},
	{7, "REQUEST_TIMED_OUT", commitlog.Retriable, nil},
	{8, "BROKER_NOT_AVAILABLE", commitlog.Retriable, nil},
	{9, "REPLICA_NOT_AVAILABLE", commitlog.Retriable, nil},
	{10, "MESSAGE_TOO_LARGE", commitlog.Fatal, nil},
	{11, "STALE_CONTROLLER_EPOCH", commitlog.Fatal, nil},
	{12, "OFFSET_METADATA_TOO_LARGE", commitlog.Fatal, nil},
	{13, "NETWORK_EXCEPTION", commitlog.Retriable, nil},
	{14, "COORDINATOR_LOAD_IN_PROGRESS", commitlog.Retriable, nil},
	{15, "COORDINATOR_NOT_AVAILABLE", commitlog.Retriable, nil},
	{16, "NOT_COORDINATOR", commitlog.Retriable, nil},
	{17, "INVALID_TOPIC_EXCEPTION", commitlog.Fatal, nil},
	{18, "RECORD_LIST_TOO_LARGE", commitlog.Fatal, nil},
	{19, "NOT_ENOUGH_REPLICAS", commitlog.Retriable, nil},
	{20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", commitlog.Retriable, nil},
	{21, "INVALID_REQUIRED_ACKS", commitlog.Fatal, nil},
	{22, "ILLEGAL_GENERATION", commitlog.Fenced, []override{{inGroup, commitlog.Retriable}}},
	{23, "INCONSISTENT_GROUP_PROTOCOL", commitlog.Fatal, nil},
	{24, "INVALID_GROUP_ID", commitlog.Fatal, nil},
	{25, "UNKNOWN_MEMBER_ID", commitlog.Fenced, []override{{inGroup, commitlog.Retriable}}},
	{26, "INVALID_SESSION_TIMEOUT", commitlog.Fatal, nil},
	{27, "REBALANCE_IN_PROGRESS", commitlog.Fenced, []override{{inGroup, commitlog.Retriable}, {inCommit, commitlog.Retriable}}},
	{28, "INVALID_COMMIT_OFFSET_SIZE", commitlog.Fatal, nil},
	{29, "TOPIC_AUTHORIZATION_FAILED", commitlog.Fatal, nil},
	{30, "GROUP_AUTHORIZATION_FAILED", commitlog.Fatal, nil},
	{31, "CLUSTER_AUTHORIZATION_FAILED", commitlog.Fatal, nil},
	{32, "INVALID_TIMESTAMP", commitlog.Fatal, nil},
	{33, "UNSUPPORTED_SASL_MECHANISM", commitlog.Fatal, nil},
	{34, "ILLEGAL_SASL_STATE", commitlog.Fatal, nil},
	{35, "UNSUPPORTED_VERSION", commitlog.Fatal, nil},
	{36, "TOPIC_ALREADY_EXISTS", commitlog.Fatal, nil},
	{37, "INVALID_PARTITIONS", commitlog.Fatal, nil},
	{38, "INVALID_REPLICATION_FACTOR", commitlog.Fatal, nil},
	{39, "INVALID_REPLICA_ASSIGNMENT", commitlog.Fatal, nil},
	{40, "INVALID_CONFIG", commitlog.Fatal, nil},
	{41, "NOT_CONTROLLER", commitlog.Retriable, nil},
	{42, "INVALID_REQUEST", commitlog.Fatal, nil},
	{43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", commitlog.Fatal, nil},
	{44, "POLICY_VIOLATION", commitlog.Fatal, nil},
	{45, "OUT_OF_ORDER_SEQUENCE_NUMBER", commitlog.Abort, nil},
	{46, "DUPLICATE_SEQUENCE_NUMBER", commitlog.Abort, nil},
	{47, "INVALID_PRODUCER_EPOCH", commitlog.Fenced, nil},
	{48, "INVALID_TXN_STATE", commitlog.Abort, []override{{inProduce, commitlog.Fenced}}},
	{49, "INVALID_PRODUCER_ID_MAPPING", commitlog.Fenced, nil},
	{50, "INVALID_TRANSACTION_TIMEOUT", commitlog.Fatal, nil},
	{51, "CONCURRENT_TRANSACTIONS", commitlog.Retriable, nil},
	{52, "TRANSACTION_COORDINATOR_FENCED", commitlog.Fenced, nil},
	{53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", commitlog.Fatal, nil},
	{54, "SECURITY_DISABLED", commitlog.Fatal, nil},
	{55, "OPERATION_NOT_ATTEMPTED", commitlog.Retriable, nil},
	{56, "KAFKA_STORAGE_ERROR", commitlog.Retriable, nil},
	{57, "LOG_DIR_NOT_FOUND", commitlog.Fatal, nil},
	{58, "SASL_AUTHENTICATION_FAILED", commitlog.Fatal, nil},
	{59, "UNKNOWN_PRODUCER_ID", commitlog.Abort, nil},
	{60, "REASSIGNMENT_IN_PROGRESS", commitlog.Fatal, nil},
	{61, "DELEGATION_TOKEN_AUTH_DISABLED", commitlog.Fatal, nil},
	{62, "DELEGATION_TOKEN_NOT_FOUND", commitlog.Fatal, nil},
	{63, "DELEGATION_TOKEN_OWNER_MISMATCH", commitlog.Fatal, nil},
	{64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", commitlog.Fatal, nil},
	{65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", commitlog.Fatal, nil},
	{66, "DELEGATION_TOKEN_EXPIRED", commitlog.Fatal, nil},
	{67, "INVALID_PRINCIPAL_TYPE", commitlog.Fatal, nil},
	{68, "NON_EMPTY_GROUP", commitlog.Fatal, nil},
	{69, "GROUP_ID_NOT_FOUND", commitlog.Fatal, []override{{inGroup, commitlog.Retriable}, {inCommit, commitlog.Fenced}}},
	{70, "FETCH_SESSION_ID_NOT_FOUND", commitlog.Retriable, nil},
	{71, "INVALID_FETCH_SESSION_EPOCH", commitlog.Retriable, nil},
	{72, "LISTENER_NOT_FOUND", commitlog.Retriable, nil},
	{73, "TOPIC_DELETION_DISABLED", commitlog.Fatal, nil},
	{74, "FENCED_LEADER_EPOCH", commitlog.Retriable, nil},
	{75, "UNKNOWN_LEADER_EPOCH", commitlog.Retriable, nil},
	{76, "UNSUPPORTED_COMPRESSION_TYPE", commitlog.Fatal, nil},
	{77, "STALE_BROKER_EPOCH", commitlog.Fatal, nil},
	{78, "OFFSET_NOT_AVAILABLE", commitlog.Retriable, nil},
	{79, "MEMBER_ID_REQUIRED", commitlog.Retriable, nil},
	{80, "PREFERRED_LEADER_NOT_AVAILABLE", commitlog.Retriable, nil},
	{81, "GROUP_MAX_SIZE_REACHED", commitlog.Fatal, nil},
	{82, "FENCED_INSTANCE_ID", commitlog.Fenced, nil},
	{83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", commitlog.Retriable, nil},
	{84, "ELECTION_NOT_NEEDED", commitlog.Retriable, nil},
	{85, "NO_REASSIGNMENT_IN_PROGRESS", commitlog.Fatal, nil},
	{86, "GROUP_SUBSCRIBED_TO_TOPIC", commitlog.Fatal, nil},
	{87, "INVALID_RECORD", commitlog.Fatal, nil},
	{88, "UNSTABLE_OFFSET_COMMIT", commitlog.Retriable, nil},
	{89, "THROTTLING_QUOTA_EXCEEDED", commitlog.Retriable, nil},
	{90, "PRODUCER_FENCED", commitlog.Fenced, nil},
	{91, "RESOURCE_NOT_FOUND", commitlog.Fatal, nil},
	{92, "DUPLICATE_RESOURCE", commitlog.Fatal, nil},
	{93, "UNACCEPTABLE_CREDENTIAL", commitlog.Fatal, nil},
	{94, "INCONSISTENT_VOTER_SET", commitlog.Fatal, nil},
	{95, "INVALID_UPDATE_VERSION", commitlog.Fatal, nil},
	{96, "FEATURE_UPDATE_FAILED", commitlog.Fatal, nil},
	{97, "PRINCIPAL_DESERIALIZATION_FAILURE", commitlog.Fatal, nil},
	{98, "SNAPSHOT_NOT_FOUND", commitlog.Fatal, nil},
	{99, "POSITION_OUT_OF_RANGE", commitlog.Fatal, nil},
	{100, "UNKNOWN_TOPIC_ID", commitlog.Retriable, nil},
	{101, "DUPLICATE_BROKER_REGISTRATION", commitlog.Fatal, nil},
	{102, "BROKER_ID_NOT_REGISTERED", commitlog.Fatal, nil},
	{103, "INCONSISTENT_TOPIC_ID", commitlog.Retriable, nil},
	{104, "INCONSISTENT_CLUSTER_ID", commitlog.Fatal, nil},
	{105, "TRANSACTIONAL_ID_NOT_FOUND", commitlog.Fatal, nil},
	{106, "FETCH_SESSION_TOPIC_ID_ERROR", commitlog.Retriable, nil},
	{107, "INELIGIBLE_REPLICA", commitlog.Fatal, nil},
	{108, "NEW_LEADER_ELECTED", commitlog.Fatal, nil},
	{109, "OFFSET_MOVED_TO_TIERED_STORAGE", commitlog.Fatal, nil},
	{110, "FENCED_MEMBER_EPOCH", commitlog.Fatal, nil},
	{111, "UNRELEASED_INSTANCE_ID", commitlog.Fatal, nil},
	{112, "UNSUPPORTED_ASSIGNOR", commitlog.Fatal, nil},
	{113, "STALE_MEMBER_EPOCH", commitlog.Fatal, nil},
	{114, "MISMATCHED_ENDPOINT_TYPE", commitlog.Fatal, nil},
	{115, "UNSUPPORTED_ENDPOINT_TYPE", commitlog.Fatal, nil},
	{116, "UNKNOWN_CONTROLLER_ID", commitlog.Fatal, nil},
	{117, "UNKNOWN_SUBSCRIPTION_ID", commitlog.Fatal, nil},
	{118, "TELEMETRY_TOO_LARGE", commitlog.Fatal, nil},
	{119, "INVALID_REGISTRATION", commitlog.Fatal, nil},
	{120, "TRANSACTION_ABORTABLE", commitlog.Abort, nil},
	{121, "INVALID_RECORD_STATE", commitlog.Fatal, nil},
	{122, "SHARE_SESSION_NOT_FOUND", commitlog.Retriable, nil},
	{123, "INVALID_SHARE_SESSION_EPOCH", commitlog.Retriable, nil},
	{124, "FENCED_STATE_EPOCH", commitlog.Fatal, nil},
	{125, "INVALID_VOTER_KEY", commitlog.Fatal, nil},
	{126, "DUPLICATE_VOTER", commitlog.Fatal, nil},
	{127, "VOTER_NOT_FOUND", commitlog.Fatal, nil},
	{128, "INVALID_REGULAR_EXPRESSION", commitlog.Fatal, nil},
	{129, "REBOOTSTRAP_REQUIRED", commitlog.Fatal, nil},
	{130, "STREAMS_INVALID_TOPOLOGY", commitlog.Fatal, nil},
	{131, "STREAMS_INVALID_TOPOLOGY_EPOCH", commitlog.Fatal, nil},
	{132, "STREAMS_TOPOLOGY_FENCED", commitlog.Fatal, nil},
	{133, "SHARE_SESSION_LIMIT_REACHED", commitlog.Retriable, nil},
	{134, "GROUP_DELETION_FAILED", commitlog.Fatal, nil},
	{135, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", commitlog.Fatal, nil},
	{136, "CONTROLLER_ID_NOT_REGISTERED", commitlog.Fatal, nil},
}

// lookup returns the name and class of a code; a code that is not in the table is fatal.
func lookup(code int16, s scope) (name string, class commitlog.Class) {
	i := int(code) + 1
	if i < 0 || i >= len(kafkaErrors) {
		return "UNKNOWN_ERROR_CODE", commitlog.Fatal
	}
	e := &kafkaErrors[i]
	for _, o := range e.but {
		if o.scope == s {
			return e.name, o.class
		}
	}
	return e.name, e.class
}

// membershipLost says of a code inGroup that the coordinator does not know the member any more, or not as this one.
func membershipLost(code int16) bool {
	switch code {
	case codeUnknownMember, codeFencedInstance, codeGroupNotFound:
		return true
	}
	return false
}

// producerLost says of a code inTxn or inProduce that the producer can do nothing more.
func producerLost(code int16) bool {
	switch code {
	case codeInvalidEpoch, codeProducerFenced, codeInvalidIDMapping, codeTxnCoordinatorFenced:
		return true
	}
	return false
}

// joinAgain says of a code inGroup that a JoinGroup is to follow at once: no trouble, but how the protocol goes.
func joinAgain(code int16) bool {
	switch code {
	case codeMemberIDRequired, codeRebalanceInProgress, codeIllegalGeneration, codeUnknownMember, codeGroupNotFound:
		return true
	}
	return false
}

// settling says of a code that brokers answer it while they verify (KIP-890) or end a transaction, which is a matter of milliseconds:
// CONCURRENT_TRANSACTIONS is met by most back-to-back transactions, NOT_ENOUGH_REPLICAS by batches and
// COORDINATOR_LOAD_IN_PROGRESS by offsets of one that is being verified.
func settling(code int16) bool {
	switch code {
	case codeConcurrentTxns, codeNotEnoughReplicas, codeOperationNotAttempt, codeCoordinatorLoading:
		return true
	}
	return false
}

// leaderStays says of a code inProduce that who answered it is the partition's leader.
func leaderStays(code int16) bool {
	switch code {
	case codeNotEnoughReplicas, codeNotEnoughReplicasAfter, codeRequestTimedOut:
		return true
	}
	return false
}

// coordinatorMoved says of a code that who answered it is not the coordinator.
func coordinatorMoved(code int16) bool {
	return code == codeNotCoordinator || code == codeCoordinatorNotAvail
}

// timedOutPerhaps says of a code inTxn or inProduce that the broker answers it also to a producer whose transaction it has
// ended because it was open for too long: to it that is the same as one that another has taken over from.
func timedOutPerhaps(code int16) bool {
	return code == codeProducerFenced || code == codeInvalidEpoch || code == codeInvalidTxnState
}

// tooLarge says of a code inProduce that the topic's max.message.bytes is less than the batch.
func tooLarge(code int16) bool { return code == codeMessageTooLarge || code == codeRecordListTooLarge }

// unauthorized says of a code that the call may not be made for a topic, or not at all.
func unauthorized(code int16) bool {
	return code == codeTopicUnauthorized || code == codeClusterUnauthorized
}

// name returns the name of a code.
func name(code int16) string {
	n, _ := lookup(code, inCall)
	return n
}

// kafkaErr makes the error of a code that a broker answered; nil for code 0.
func kafkaErr(op string, s scope, code int16) *commitlog.Error {
	if code == 0 {
		return nil
	}
	name, class := lookup(code, s)
	return &commitlog.Error{Op: op, Partition: -1, Code: code, Name: name, Class: class}
}

// at adds where it happened.
func at(e *commitlog.Error, tp commitlog.TopicPartition) *commitlog.Error {
	e.Topic, e.Partition = tp.Topic, tp.Partition
	return e
}

// graver returns which error tells of several partitions: the first that asking again does not mend, or else the last.
func graver(failed, e *commitlog.Error) *commitlog.Error {
	if failed == nil || failed.Class == commitlog.Retriable {
		return e
	}
	return failed
}

// message adds what the broker said in words, if anything.
func message(e *commitlog.Error, text string) *commitlog.Error {
	if text != "" {
		e.Err = errors.New(text)
	}
	return e
}

// code returns the Kafka error code in err's chain, 0 if there is none.
func code(err error) int16 {
	if e, ok := errors.AsType[*commitlog.Error](err); ok {
		return e.Code
	}
	return 0
}

// connError is a connection that could not be made or broke: retriable, unless trying again
// cannot help (fatal).
type connError struct {
	addr  string
	fatal bool
	err   error
}

func (e *connError) Error() string { return fmt.Sprintf("broker %s: %v", e.addr, e.err) }
func (e *connError) Unwrap() error { return e.err }

// classify says what err means for a retry loop.
func classify(err error) commitlog.Class {
	if e, ok := errors.AsType[*commitlog.Error](err); ok {
		return e.Class
	}
	if e, ok := errors.AsType[*connError](err); ok && !e.fatal {
		return commitlog.Retriable
	}
	return commitlog.Fatal
}

// wrap makes err an *commitlog.Error of op, as every error that leaves this package is.
// A context's end stays visible to errors.Is.
func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*commitlog.Error](err); ok {
		return e
	}
	class := classify(err)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		class = commitlog.Retriable
	}
	if e, ok := errors.AsType[*connError](err); ok && !e.fatal {
		err = fmt.Errorf("%w: %w", commitlog.ErrUnreachable, err)
	}
	return &commitlog.Error{Op: op, Partition: -1, Class: class, Err: err}
}
