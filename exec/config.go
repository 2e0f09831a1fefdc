package exec

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/exec/kafkalog"
	"github.com/wickerwork/wicker/kvstore"
)

// Config is how and where a plan runs. The zero value of a field is its default; Brokers is
// the only one that must be set.
type Config struct {
	// Brokers are the addresses, host:port, of some brokers of the cluster.
	Brokers []string
	// ClientID names this process in the brokers' logs. Default: the plan's name.
	ClientID string
	// TLS, if not nil, encrypts all connections; it is cloned, not changed.
	TLS *tls.Config
	// SASL, if not nil, authenticates all connections: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
	SASL *kafkalog.SASL

	// InstanceID makes this process's membership of the group static (KIP-345): restarted
	// within SessionTimeout it gets its tasks back without a rebalance, and at once. It must be
	// unique in the group: of two processes that share one, either may be ended by the other, also the one that was there first. The
	// group keeps a static member for SessionTimeout after it ended, and Kafka's tools change no offsets until then.
	// Default: empty, dynamic membership.
	InstanceID string
	// StayInGroup keeps the membership when Run ends, to come back within SessionTimeout.
	// Static members always stay. Default: dynamic members leave, which hands their tasks over at once.
	StayInGroup bool
	// SessionTimeout is how long the group waits for a silent member. Default 45 s, at least 100 ms; brokers take 6 s to
	// 30 min unless they are set otherwise.
	SessionTimeout time.Duration
	// HeartbeatInterval is how often this process tells the group that it lives, and so how long it takes to
	// hear of a rebalance; nothing that a task does delays it. Default 100 ms, or a third of SessionTimeout or
	// RebalanceTimeout if that is less, which is also the most.
	HeartbeatInterval time.Duration
	// RebalanceTimeout is how long the group waits for its members to join again. Default 60 s, at least
	// DrainTimeout. Like SessionTimeout and TransactionTimeout at most 2^31-1 milliseconds.
	RebalanceTimeout time.Duration

	// State is the engine of local state; Run opens and closes it, and a closed engine stays closed: each Run needs a new one. Default: memory, which is
	// restored from the changelog at each start.
	State kvstore.Engine
	// StateMemory bounds the bytes of state that this process keeps above its engine, shared out
	// among its tasks: values of recently used keys, and changes that are not in the engine yet. It does not
	// count what the engine takes itself. Default 256 MiB, at least 1 MiB.
	StateMemory int64
	// FlushInterval is how often committed state goes to the engine with its checkpoint. Default
	// 1 s. A process that is killed replays what its changelogs got since the engine has written
	// to disk, which may be longer ago: RocksDB collects batches in memory first.
	FlushInterval time.Duration
	// RestoreParallelism is how many tasks read and write at once when they have much state to restore; the others
	// wait for them, those with little do not. Tasks whose state is complete work meanwhile. Default 4.
	RestoreParallelism int

	// CommitInterval is how long a transaction stays open under load; it closes earlier when
	// there is nothing more to read. Default 100 ms, at most half of TransactionTimeout.
	CommitInterval time.Duration
	// IdleCommitInterval is the least time between two transactions of a task that close early
	// because there is nothing more to read: it bounds what a light but steady load costs.
	// Default 10 ms, at most CommitInterval; negative means none.
	IdleCommitInterval time.Duration
	// IdleWait is how long a task that has records of one of its input partitions waits for another one of which it has none: it may get one with a
	// lower timestamp. Records that are known to be there are waited for in any case, for at most a second; IdleWait is for those that may be written. Each
	// lull of a partition costs the others at most that much. Default 0; negative means that nothing is waited for.
	IdleWait time.Duration
	// TransactionTimeout is how long the brokers let a transaction stay open. Default 60 s, at least 1 s; brokers take
	// up to 15 min unless they are set otherwise. At half of it a
	// transaction closes, whatever CommitInterval says and even if few records of a batch have been processed: so
	// a single call of a function may take half of it without harm. One that takes longer may cost the transaction, which is
	// then processed again, record by record.
	TransactionTimeout time.Duration
	// MaxBatch is how many records a task processes in one go, and from how many Memo gathers
	// its questions. Default 500.
	MaxBatch int
	// MaxRecordBytes is the largest record written, with its headers. Default 1,000,000, what
	// brokers take by default, from 1,024 to 2^30; topics must have a max.message.bytes above it.
	MaxRecordBytes int
	// Compression of what is written: "none", "gzip", "snappy", "lz4" or "zstd". Default none.
	Compression string
	// DrainTimeout bounds what the end of Run takes, whatever functions do, and what a task takes that moves to
	// another process: finishing the batch in hand, committing, closing. What is not finished by half of it is
	// aborted, and contexts of Memo's calls end; a function that has not returned by the end of it is left behind, with an
	// error: at the end of Run, and while it runs also for a task that moved or whose membership was lost, which ends Run. Default 10 s.
	DrainTimeout time.Duration

	// LockFile is a file that holds what of the plan is durable (topology.Lock). Run refuses a plan that does not go on from it, with a
	// *topology.LockError, and writes that of a plan that does, also if there is no file yet. Without it Run still refuses a plan that lacks
	// a store that the group's offsets say holds state, but does not know how that was encoded. Default: none.
	LockFile string

	// Replication is the replica count of the topics that Run creates. Default -1, the broker's default.
	Replication int

	// Logger takes what happens. Default: nothing is logged.
	Logger *slog.Logger
	// Log runs the plan on another log than Kafka, as testkit does. Run does not close it.
	// Brokers, TLS and SASL are then not used.
	Log commitlog.Log
	// Clock tells the time that intervals, transactions' age and Stats go by; the waiting that DrainTimeout and back-off bound goes
	// by the system's. Default: the system's.
	Clock Clock
}

// Clock tells the time. It is safe for concurrent use.
type Clock interface {
	// Now returns the time.
	Now() time.Time
	// NewTimer returns a timer that sends once on its channel after d.
	NewTimer(d time.Duration) Timer
}

// Timer is a time.Timer of a Clock.
type Timer interface {
	// C is where the timer sends the time when it fires.
	C() <-chan time.Time
	// Reset makes it fire once more, d from now; what it has sent and nobody took is dropped.
	Reset(d time.Duration)
	// Stop keeps it from firing.
	Stop()
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }
func (systemClock) NewTimer(d time.Duration) Timer {
	return systemTimer{time.NewTimer(d)}
}

type systemTimer struct{ t *time.Timer }

func (t systemTimer) C() <-chan time.Time   { return t.t.C }
func (t systemTimer) Reset(d time.Duration) { t.t.Reset(d) }
func (t systemTimer) Stop()                 { t.t.Stop() }

var instanceIDPattern = regexp.MustCompile(`^[a-zA-Z0-9._-]{0,249}$`)

// withDefaults returns c with its zero fields set.
func (c Config) withDefaults(app string) Config {
	def(&c.ClientID, app)
	def(&c.SessionTimeout, commitlog.DefaultSessionTimeout)
	def(&c.RebalanceTimeout, commitlog.DefaultRebalanceTimeout)
	def(&c.HeartbeatInterval, commitlog.DefaultHeartbeatInterval(c.SessionTimeout, c.RebalanceTimeout))
	def(&c.StateMemory, 256<<20)
	def(&c.FlushInterval, defaultFlushInterval)
	def(&c.RestoreParallelism, 4)
	def(&c.CommitInterval, defaultCommitInterval)
	def(&c.IdleCommitInterval, min(defaultIdleCommitInterval, c.CommitInterval))
	def(&c.TransactionTimeout, commitlog.DefaultTransactionTimeout)
	def(&c.MaxBatch, 500)
	def(&c.MaxRecordBytes, 1_000_000)
	def(&c.Compression, "none")
	def(&c.DrainTimeout, defaultDrainTimeout)
	def(&c.Replication, -1)
	if c.State == nil {
		c.State = kvstore.NewMemory()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	return c
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports every field whose value cannot work, joined.
func (c Config) Validate() error {
	d := c.withDefaults("app")
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if c.Log == nil {
		if err := (kafkalog.Config{Brokers: c.Brokers, ClientID: c.ClientID, SASL: c.SASL}).Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	check(instanceIDPattern.MatchString(c.InstanceID), "InstanceID (%q) must be at most 249 of a-z, A-Z, 0-9, '.', '_', '-'", c.InstanceID)
	errs = append(errs, d.timeProblems()...)
	check(d.StateMemory >= 1<<20, "StateMemory (%d) must be >= %d", d.StateMemory, 1<<20)
	check(d.RestoreParallelism >= 1, "RestoreParallelism (%d) must be >= 1", d.RestoreParallelism)
	check(d.MaxBatch >= 1, "MaxBatch (%d) must be >= 1", d.MaxBatch)
	check(d.MaxRecordBytes >= 1024 && d.MaxRecordBytes <= 1<<30, "MaxRecordBytes (%d) must be from 1024 to %d", d.MaxRecordBytes, 1<<30)
	check(d.Replication == -1 || d.Replication >= 1 && d.Replication <= 32767, "Replication (%d) must be -1 or from 1 to 32767", d.Replication)
	switch d.Compression {
	case "none", "gzip", "snappy", "lz4", "zstd":
	default:
		check(false, "Compression (%q) must be none, gzip, snappy, lz4 or zstd", d.Compression)
	}
	if err := errors.Join(errs...); err != nil {
		return &ConfigError{Err: err}
	}
	return nil
}
