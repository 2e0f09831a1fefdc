package commitlog

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"time"
)

// TopicPartition names one partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns "topic/partition".
func (tp TopicPartition) String() string { return fmt.Sprintf("%s/%d", tp.Topic, tp.Partition) }

// Topic is what the cluster says of a topic.
type Topic struct {
	Name       string
	Partitions int
	// ID is the topic's own (KIP-516): a topic that is deleted and created again has another one. It is
	// zero if the log does not tell.
	ID TopicID
}

// TopicID tells apart topics that had the same name at different times (KIP-516).
type TopicID [16]byte

// String returns the id as Kafka's tools print it, in URL-safe base64.
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// IsZero says that the log does not tell the id.
func (id TopicID) IsZero() bool { return id == TopicID{} }

// Differs says that both ids are known and of two topics.
func (id TopicID) Differs(other TopicID) bool { return !id.IsZero() && !other.IsZero() && id != other }

// TopicSpec is a topic to create.
type TopicSpec struct {
	Name       string
	Partitions int
	// Replication is the number of replicas; -1 leaves it to the broker's default.
	Replication int
	// Config holds topic settings by Kafka's names, for example "cleanup.policy".
	Config map[string]string
}

// Isolation says what a reader or an end offset sees.
type Isolation int8

const (
	// ReadCommitted ends at the last stable offset and leaves out aborted records.
	ReadCommitted Isolation = iota
	// ReadUncommitted ends at the high watermark. Reading with it delivers records of open
	// and aborted transactions; the executor uses it for end offsets only.
	ReadUncommitted
)

// Log is a connection to one cluster. It is safe for concurrent use.
type Log interface {
	// Topics describes the named topics. Those that do not exist are absent from the result;
	// it never creates one.
	Topics(ctx context.Context, names ...string) (map[string]Topic, error)

	// TopicConfigs returns the settings in force (defaults included) of existing topics, by
	// topic and by Kafka's setting name.
	TopicConfigs(ctx context.Context, names ...string) (map[string]map[string]string, error)

	// CreateTopics creates the topics and returns when their partitions have leaders. A topic
	// that exists already is not an error and is left as it is: the caller verifies.
	CreateTopics(ctx context.Context, specs []TopicSpec) error

	// StartOffsets returns the first offset still in the log, by partition.
	StartOffsets(ctx context.Context, tps []TopicPartition) (map[TopicPartition]int64, error)

	// EndOffsets returns the offset after the last record: the high watermark with
	// ReadUncommitted, the last stable offset with ReadCommitted.
	EndOffsets(ctx context.Context, tps []TopicPartition, iso Isolation) (map[TopicPartition]int64, error)

	// CommittedOffsets returns the group's committed offsets. Partitions without one are
	// absent from the result.
	CommittedOffsets(ctx context.Context, group string, tps []TopicPartition) (map[TopicPartition]int64, error)

	// CommittedNotes returns what was committed along with the group's offsets (GroupMetadata.Note), of partitions of which
	// that is not empty: of offsets that CommittedOffsets would return without waiting for those that an open transaction has
	// pending.
	CommittedNotes(ctx context.Context, group string, tps []TopicPartition) (map[TopicPartition]string, error)

	// DeleteRecords deletes the records below an offset, by partition (KIP-107). An offset at or below
	// the log's start changes nothing; one beyond the high watermark is an error that wraps a RangeError.
	// On error some partitions may have been done; asking again is harmless.
	DeleteRecords(ctx context.Context, below map[TopicPartition]int64) error

	// OpenTransactions returns the transactions that are open on the partitions, in no order (KIP-664): what
	// keeps the last stable offset below the high watermark. It answers at once and may miss one that
	// has just begun.
	OpenTransactions(ctx context.Context, tps []TopicPartition) ([]OpenTransaction, error)

	// OpenProducer fences earlier producers of the same transactional id (InitProducerId) and
	// returns one that is ready for its first transaction.
	OpenProducer(ctx context.Context, cfg ProducerConfig) (Producer, error)

	// OpenReader starts reading. Errors met later end the reader's channel.
	OpenReader(ctx context.Context, cfg ReaderConfig) (Reader, error)

	// OpenMember makes a member of a consumer group, which joins with its first Join.
	OpenMember(ctx context.Context, cfg MemberConfig) (Member, error)

	// Close closes what is open. It is idempotent.
	Close() error
}

// OpenTransaction is a transaction that a partition waits for.
type OpenTransaction struct {
	TopicPartition
	// ProducerID is whose it is, -1 if the log does not tell; TransactionalID the same by name, empty if it does not.
	ProducerID      int64
	TransactionalID string
	// Start is the offset of its first record in the partition.
	Start int64
	// Since is when the producer wrote last to the partition, as far as the log tells: zero if it does not.
	Since time.Time
}

// ProducerConfig describes a transactional producer.
type ProducerConfig struct {
	TransactionalID string
	// TransactionTimeout is how long the broker lets a transaction stay open. 0 means DefaultTransactionTimeout.
	TransactionTimeout time.Duration
	// Compression of record batches: "none" (or empty), "gzip", "snappy", "lz4" or "zstd".
	Compression string
	// MaxUnacked bounds the bytes handed over and not yet acknowledged; Produce waits beyond
	// it. 0 means DefaultMaxUnacked, 8 MiB.
	MaxUnacked int
}

// Producer writes the transactions of one task, one after the other.
//
// Produce, Commit and Abort are called by one goroutine at a time, and no Produce is called
// while a Commit runs.
type Producer interface {
	// Produce hands a batch to the open transaction, beginning one if none is open, and takes
	// ownership of it. It returns once the batch is queued: the producer adds the partition to
	// the transaction, stamps producer id, epoch and sequence, and sends it in the background.
	// An error is one met by this or an earlier batch of the transaction; the transaction can
	// then only be aborted.
	Produce(ctx context.Context, tp TopicPartition, b *Batch) error

	// Commit waits until every batch is acknowledged, adds the consumed offsets under the
	// identity's metadata (KIP-447) and ends the transaction. While a group rebalances, its generation
	// may be raised under a member that keeps its place: Commit then takes the new one
	// from the identity and goes on; it fails with class Fenced if the identity has none. It returns the offset after the
	// last record of the transaction, by partition written to. With no batch and no offset it does
	// nothing. After an error the outcome is as its class says, and the producer must be closed.
	Commit(ctx context.Context, offsets map[TopicPartition]int64, as Identity) (map[TopicPartition]int64, error)

	// Abort ends the open transaction so that nothing of it is ever seen. Without an open
	// transaction it does nothing.
	Abort(ctx context.Context) error

	// Close releases the producer. An open transaction is left to its timeout or to the next
	// OpenProducer with the same id. It is idempotent.
	Close() error
}

// ReaderConfig describes a reader.
type ReaderConfig struct {
	// From holds the partitions to read and the offset of the first record wanted from each.
	From map[TopicPartition]int64
	// IDs are those of the topics that the offsets are of. A topic that is another one, or becomes another one while it is
	// read, ends the reader with ErrTopicRecreated: none of its records is delivered. A topic that has none here, or a zero
	// one, is the one that the reader finds first. A log that tells no ids cannot tell topics apart.
	IDs map[string]TopicID
	// Isolation is ReadCommitted by default.
	Isolation Isolation
	// FetchBytes bounds one fetch of one partition. 0 means DefaultFetchBytes, 1 MiB. A single larger batch is delivered all the same.
	FetchBytes int
	// Ahead bounds the bytes read ahead of the consumer, over all partitions. 0 means DefaultAhead, 8 MiB.
	Ahead int
	// MaxWait bounds how long the broker holds a fetch that finds nothing. 0 means DefaultMaxWait, 500 ms.
	MaxWait time.Duration
}

// Reader reads partitions from given offsets on, in the background.
type Reader interface {
	// Chunks delivers what was read, each partition in order. It is closed after an error and
	// by Close; Err then tells which.
	Chunks() <-chan Chunk
	// Err returns why Chunks was closed, nil after Close.
	Err() error
	// Close stops reading and returns when no goroutine is left. It is idempotent.
	Close() error
}

// Chunk is a piece of one partition.
type Chunk struct {
	TopicPartition
	// Base is the reader's position before the chunk, Next the one after it. Batches may begin
	// before Base (Kafka returns whole batches): records below it are not part of the chunk.
	Base, Next int64
	// Batches are the data batches in offset order, none of them control or aborted. It may be
	// empty: the position moved over records that nobody may see.
	Batches []RecordBatch
	// Size is the bytes that the chunk occupies.
	Size int
	// LogStart, LastStable and HighWatermark are the partition's at the time of the fetch.
	LogStart, LastStable, HighWatermark int64
}

// MemberConfig describes a group member.
type MemberConfig struct {
	Group string
	// InstanceID makes the membership static (KIP-345); empty means dynamic.
	InstanceID string
	ClientID   string
	// Protocol is the assignor's name, which all members of a group must share.
	Protocol string
	// Version, if not empty, tells apart assignors of one Protocol that have other things to assign. A group can have
	// members of several versions. While all are of one, a static member that comes back with it gets its old assignment
	// (KIP-345), and one that comes back with another makes the group rebalance.
	Version string
	// Topics are subscribed to, in the standard consumer format.
	Topics []string
	// SessionTimeout is how long the broker waits for a heartbeat, RebalanceTimeout how long
	// for members to rejoin. HeartbeatInterval is how long it takes at most to hear of a rebalance. 0 means
	// DefaultSessionTimeout, DefaultRebalanceTimeout and DefaultHeartbeatInterval of them.
	SessionTimeout, RebalanceTimeout, HeartbeatInterval time.Duration
	// Assign is called on the member that leads the group.
	Assign Assignor
}

// Assignor distributes partitions over members: a pure function.
type Assignor func(members []GroupMember) (map[string][]TopicPartition, error)

// GroupMember is what the leader knows of a member.
type GroupMember struct {
	ID         string
	InstanceID string
	Topics     []string
	// Owned is what the member said it held when it joined, Generation the one of its last assignment, -1 if it
	// had none or does not tell: of two members that claim a partition the later one is right (KIP-792).
	Owned      []TopicPartition
	Generation int32
	// UserData is what it sent along.
	UserData []byte
}

// GroupMetadata identifies a membership within a generation (KIP-447). It is an Identity that
// does not change.
type GroupMetadata struct {
	Group      string
	MemberID   string
	InstanceID string
	Generation int32
	// Note is kept with every offset that is committed under it (OffsetCommit's metadata). Brokers take 4096 bytes by
	// default (offset.metadata.max.bytes).
	Note string
}

// Identity tells as whom offsets are committed. It is safe for concurrent use.
type Identity interface {
	// Current returns the membership's metadata of the latest generation that the member has heard of, if that
	// is above after. If not it waits until the member has heard of one, or fails: with class
	// Fenced when the membership was lost, so that what it held may belong to others, and with ctx's error.
	// AnyGeneration never waits.
	Current(ctx context.Context, after int32) (GroupMetadata, error)
}

// AnyGeneration is below every generation, also that of no member, which is -1.
const AnyGeneration = math.MinInt32

// Current implements Identity: g, as long as its generation is above after.
func (g GroupMetadata) Current(_ context.Context, after int32) (GroupMetadata, error) {
	if g.Generation > after {
		return g, nil
	}
	return g, &Error{Op: "commit offsets", Partition: -1, Group: g.Group, Class: Fenced,
		Err: fmt.Errorf("the group has left generation %d behind", g.Generation)}
}

// Assignment is what a member may work on in a generation.
type Assignment struct {
	GroupMetadata
	Partitions []TopicPartition
	// Withheld are the partitions that the member said it holds and was not assigned: they may be kept from others until
	// it has given them up and joined again. A static member that takes the place of a process that has ended is told what
	// that one was (KIP-345), and has to join again for it.
	Withheld []TopicPartition
	// Identity is the membership's, for commits of what it holds: the same value in every assignment as long as the
	// membership lasts. Its generation moves on when the group has agreed on a new one, which is before Join
	// returns; it answers Fenced for ever once the membership is known to be lost.
	Identity Identity
	// Fresh says that the membership is a new one: none before it, or one that was lost. What was held under an
	// older one may belong to others already.
	Fresh bool
}

// Withheld returns the partitions that are owned and not assigned: those of an Assignment.
func Withheld(owned, assigned []TopicPartition) []TopicPartition {
	has := make(map[TopicPartition]bool, len(assigned))
	for _, tp := range assigned {
		has[tp] = true
	}
	var out []TopicPartition
	for _, tp := range owned {
		if !has[tp] {
			out = append(out, tp)
		}
	}
	return out
}

// Member is a member of a consumer group. Its heartbeats run in the background from the first
// Join to Close and wait for nothing (L6).
type Member interface {
	// Join joins the group, or joins again, and returns the assignment of the new generation. owned are the partitions
	// that the member holds, with which it goes on working meanwhile; userData goes to the leader with them. If the
	// membership turns out to be lost, Join comes back as a new member that owns nothing, and the
	// assignment is Fresh. When ctx ends first the membership is as it was, but the group may
	// wait for another Join: the caller joins again or closes.
	Join(ctx context.Context, owned []TopicPartition, userData []byte) (Assignment, error)
	// Rebalance receives a value when the group wants its members to join again, or when this
	// membership was lost; the latter is no error until Join fails too.
	Rebalance() <-chan struct{}
	// Close ends the membership: with leave the group is told (and rebalances at once),
	// without it the session times out, or a static member comes back. It is idempotent.
	Close(ctx context.Context, leave bool) error
}
