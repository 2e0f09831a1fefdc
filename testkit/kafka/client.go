package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Record is a record of a topic, as it was read or is to be written.
type Record struct {
	Topic string
	// Partition and Offset say where a record was read; Produce does not heed them.
	Partition int32
	Offset    int64
	// Key and Value are nil if the record has none.
	Key, Value []byte
	Headers    []Header
	// Timestamp is in whole milliseconds. Written as zero it is the time of writing.
	Timestamp time.Time
}

// Header is a header of a record. Records may have several of one key.
type Header struct {
	Key   string
	Value []byte
}

// Partition is a partition of a topic.
type Partition struct {
	Topic     string
	Partition int32
}

// Offsets are positions in partitions.
type Offsets map[Partition]int64

// Isolation says what of transactions a read sees.
type Isolation int8

const (
	// ReadUncommitted sees everything: also what is not committed yet, and what was aborted.
	ReadUncommitted Isolation = 0
	// ReadCommitted sees what was committed, and ends before the first open transaction.
	ReadCommitted Isolation = 1
)

// Client asks a broker on a test's behalf. It shares no code with the executor: it is
// twmb/franz-go. It is safe for concurrent use.
type Client struct {
	kgo  *kgo.Client
	opts []kgo.Opt // that it was made with
}

// Dial returns a client of the broker, as its first user if it has any. Connections are made
// when they are needed. The caller has to call Close.
func (b *Broker) Dial() (*Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dialLocked()
}

func (b *Broker) dialLocked() (*Client, error) {
	if len(b.opts.Users) > 0 {
		u := b.opts.Users[0]
		return dial([]string{b.at}, b.TLS(), Plain, u.Name, u.Password)
	}
	return dial([]string{b.at}, b.TLS(), "", "", "")
}

// DialAs is [Broker.Dial] with a mechanism and credentials that the broker may refuse, which the
// first call then reports. An empty mechanism is none.
func (b *Broker) DialAs(mechanism, user, password string) (*Client, error) {
	return dial([]string{b.Addr()}, b.TLS(), mechanism, user, password)
}

func dial(seeds []string, tlsConfig *tls.Config, mechanism, user, password string) (*Client, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.DialTimeout(5 * time.Second),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // Java's
		kgo.ProducerLinger(0),
		kgo.MetadataMinAge(10 * time.Millisecond), // topics are created and used at once
	}
	if tlsConfig != nil {
		opts = append(opts, kgo.DialTLSConfig(tlsConfig))
	}
	if mechanism != "" {
		m := map[string]sasl.Mechanism{
			Plain:       plain.Auth{User: user, Pass: password}.AsMechanism(),
			ScramSHA256: scram.Auth{User: user, Pass: password}.AsSha256Mechanism(),
			ScramSHA512: scram.Auth{User: user, Pass: password}.AsSha512Mechanism(),
		}[mechanism]
		if m == nil {
			return nil, fmt.Errorf("testkit/kafka: mechanism (%q) must be %s, %s or %s", mechanism, Plain, ScramSHA256, ScramSHA512)
		}
		opts = append(opts, kgo.SASL(m))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("testkit/kafka: %w", err)
	}
	return &Client{kgo: cl, opts: opts}, nil
}

// Close closes the connections.
func (c *Client) Close() { c.kgo.Close() }

// Ping returns nil if the broker answers within the time that ctx gives.
func (c *Client) Ping(ctx context.Context) error { return c.kgo.Ping(ctx) }

// Produce writes records, each on the partition that Java's default partitioner gives its key,
// and returns when all are acknowledged.
func (c *Client) Produce(ctx context.Context, records ...Record) error {
	if err := produce(ctx, c.kgo, records); err != nil {
		return fmt.Errorf("testkit/kafka: produce: %w", err)
	}
	return nil
}

// ProduceTo is Produce, but each record goes to its Partition.
func (c *Client) ProduceTo(ctx context.Context, records ...Record) error {
	cl, err := kgo.NewClient(append(slices.Clone(c.opts), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err == nil {
		defer cl.Close()
		err = produce(ctx, cl, records)
	}
	if err != nil {
		return fmt.Errorf("testkit/kafka: produce: %w", err)
	}
	return nil
}

func produce(ctx context.Context, cl *kgo.Client, records []Record) error {
	rs := make([]*kgo.Record, len(records))
	for i, r := range records {
		rs[i] = &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
		for _, h := range r.Headers {
			rs[i].Headers = append(rs[i].Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
	}
	return cl.ProduceSync(ctx, rs...).FirstErr()
}

// Txn is a transaction. It is for one goroutine.
type Txn struct {
	kgo *kgo.Client
}

// Begin begins a transaction of a transactional id, and so fences who else has it. It stays
// open, for at most 60 s, until one of Commit, Abort and Abandon is called, which must be. A coordinator that does not answer
// is looked up anew every 15 s until ctx ends, one that cannot be reached, which may be another's task in a moment, for a minute.
func (c *Client) Begin(ctx context.Context, id string) (*Txn, error) {
	for start := time.Now(); ; {
		txn, err := c.begin(ctx, id)
		if err == nil {
			return txn, nil
		}
		unanswered := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
		_, unreachable := errors.AsType[*net.OpError](err)
		if unreachable && !unanswered && time.Since(start) < time.Minute {
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
			}
			unanswered = true
		}
		if !unanswered || ctx.Err() != nil {
			return nil, fmt.Errorf("testkit/kafka: begin %s: %w", id, err)
		}
	}
}

// begin is one try, with a client of its own: one client asks the same coordinator for ever if it does not answer.
func (c *Client) begin(ctx context.Context, id string) (*Txn, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(append(slices.Clone(c.opts), kgo.TransactionalID(id), kgo.TransactionTimeout(60*time.Second))...)
	if err != nil {
		return nil, err
	}
	if _, _, err = cl.ProducerID(ctx); err == nil {
		err = cl.BeginTransaction()
	}
	if err != nil {
		cl.Close()
		return nil, err
	}
	return &Txn{kgo: cl}, nil
}

// Produce is [Client.Produce] within the transaction.
func (t *Txn) Produce(ctx context.Context, records ...Record) error {
	if err := produce(ctx, t.kgo, records); err != nil {
		return fmt.Errorf("testkit/kafka: produce in a transaction: %w", err)
	}
	return nil
}

// Commit commits the transaction.
func (t *Txn) Commit(ctx context.Context) error { return t.end(ctx, kgo.TryCommit) }

// Abort aborts the transaction.
func (t *Txn) Abort(ctx context.Context) error { return t.end(ctx, kgo.TryAbort) }

// Abandon leaves the transaction open, as a process that dies does.
func (t *Txn) Abandon() { t.kgo.Close() }

func (t *Txn) end(ctx context.Context, how kgo.TransactionEndTry) error {
	defer t.kgo.Close()
	if err := t.kgo.EndTransaction(ctx, how); err != nil {
		return fmt.Errorf("testkit/kafka: end transaction: %w", err)
	}
	return nil
}

func comparePartitions(a, b Partition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}
