package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ClusterOptions says how a cluster is to be. The zero value is three nodes in a directory that goes with them, on
// free ports of the loopback.
type ClusterOptions struct {
	// Nodes is how many brokers there are. Default 3. Each of them is a controller too, so that a majority
	// has to live.
	Nodes int
	// Partitions is the count of a topic that is created without one. Default 1. Topics have as many replicas as
	// there are nodes, at most 3, of which one may be missing when a record is acknowledged.
	Partitions int
	// Properties are further settings of the servers, by their names in server.properties. They win over
	// what this package sets.
	Properties map[string]string
	// Dir is where the cluster keeps its data and logs; it must be empty. Default: a temporary directory that
	// Close removes.
	Dir string
	// HeapBytes is the heap of each JVM. Default 256 MiB.
	HeapBytes int64
	// JVM is as in Options.
	JVM []string
	// StartTimeout bounds how long it may take until all nodes serve, and until one does after a restart.
	// Default 2 minutes; on two idle cores it takes 15 s.
	StartTimeout time.Duration
	// Advertise, if not nil, gives each node a second listener: it is called once for each, from 0 on, with the
	// listener's address before anything listens there, and returns the address that the node tells clients
	// who come through this listener. It is for a proxy in between. Brokers talk to each other, and [Cluster.Dial] to
	// them, past it.
	Advertise func(node int, addr string) (string, error)
}

func (o ClusterOptions) withDefaults() ClusterOptions {
	if o.Nodes == 0 {
		o.Nodes = 3
	}
	if o.HeapBytes == 0 {
		o.HeapBytes = 256 << 20
	}
	return o
}

// node returns the options of one node.
func (o ClusterOptions) node(dir string) Options {
	return Options{Partitions: o.Partitions, Properties: o.Properties, Dir: dir, HeapBytes: o.HeapBytes, JVM: o.JVM, StartTimeout: o.StartTimeout}
}

// Validate reports every field whose value cannot work, joined.
func (o ClusterOptions) Validate() error {
	o = o.withDefaults()
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Nodes >= 1 && o.Nodes <= 9, "Nodes (%d) must be from 1 to 9", o.Nodes)
	return errors.Join(append(errs, o.node(o.Dir).Validate())...)
}

// Cluster is a Kafka of several nodes, each a process of its own that ends with this one, however that ends. Nodes are
// numbered from 0; Kafka's ids of them are one more. It is safe for concurrent use.
type Cluster struct {
	opts   ClusterOptions // with defaults
	dir    string
	temp   bool
	locked *os.File
	nodes  []*clusterNode
}

// clusterNode is one of the cluster's.
type clusterNode struct {
	proc *process
	// mu is held during each call that changes the following.
	mu     sync.Mutex
	killed bool // since it last ran
	paused bool
	closed bool
}

// OpenCluster starts a cluster of Apache Kafka, of the version [Version], and returns when all of it serves. ctx
// bounds the start only. The caller has to call Close. The error is [ErrUnavailable] if Java or Maven is missing.
func OpenCluster(ctx context.Context, o ClusterOptions) (*Cluster, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("testkit/kafka: %w", err)
	}
	c, err := newCluster(ctx, o.withDefaults())
	if err == nil {
		err = c.start(ctx)
	}
	if err != nil {
		err = fmt.Errorf("testkit/kafka: start cluster: %w", err)
		if c != nil {
			err = errors.Join(err, c.Close())
		}
		return nil, err
	}
	return c, nil
}

// StartCluster is [OpenCluster] for a test, which it ends with. Where there can be none the test is skipped, or fails, as
// with [StartReal].
func StartCluster(tb testing.TB, o ClusterOptions) *Cluster {
	tb.Helper()
	c, err := OpenCluster(context.Background(), o)
	unavailable(tb, err)
	tb.Cleanup(func() {
		if tb.Failed() {
			for i := range c.nodes {
				tb.Logf("log of node %d:\n%s", i, c.Log(i))
			}
		}
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// start starts all nodes at once and waits until they are one cluster.
func (c *Cluster) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.nodes[0].proc.opts.StartTimeout)
	defer cancel()
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() {
			if err := n.proc.start(ctx); err != nil {
				errs[i] = fmt.Errorf("node %d: %w", i, err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.awaitReady(ctx, len(c.nodes), nil)
}

func (c *Cluster) awaitReady(ctx context.Context, brokers int, died <-chan struct{}) error {
	cl, err := c.Dial()
	if err != nil {
		return err
	}
	defer cl.Close()
	return cl.awaitReady(ctx, brokers, died)
}

// Addrs returns the nodes' addresses, host:port, past the proxy if there is one. They stay the same over restarts.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addrs[i] = n.proc.addr()
	}
	return addrs
}

// Dir is where the nodes keep their data and logs.
func (c *Cluster) Dir() string { return c.dir }

// Log returns the last lines of a node's log, at most 16 KiB.
func (c *Cluster) Log(node int) string { return tail(c.nodes[node].proc.logPath()) }

// Dial returns a client of the cluster that goes past the proxy. The caller has to call Close.
func (c *Cluster) Dial() (*Client, error) { return dial(c.Addrs(), nil, "", "", "") }

// Client returns a client of the cluster that ends with the test.
func (c *Cluster) Client(tb testing.TB) *Client {
	tb.Helper()
	cl, err := c.Dial()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(cl.Close)
	return cl
}

// Kill ends a node as kill -9 does and returns when it is gone. [Cluster.Restart] starts it again.
func (c *Cluster) Kill(node int) error {
	return c.change(node, "kill", func(n *clusterNode) error {
		n.killed, n.paused = true, false
		return n.proc.kill()
	})
}

// Stop ends a node in order, which hands its partitions over, and returns when it is gone.
func (c *Cluster) Stop(node int) error {
	return c.change(node, "stop", func(n *clusterNode) error { return errors.Join(n.resume(), n.proc.stop()) })
}

// Pause stops a node in its tracks (SIGSTOP): its connections stay, and nothing moves on them. It is for Unix.
func (c *Cluster) Pause(node int) error {
	return c.change(node, "pause", func(n *clusterNode) error {
		if n.proc.run == nil {
			return errors.New("it does not run")
		}
		n.paused = true
		return suspend(n.proc.run.cmd.Process)
	})
}

// Resume lets a node that was paused go on; one that was not is left alone.
func (c *Cluster) Resume(node int) error { return c.change(node, "resume", (*clusterNode).resume) }

func (n *clusterNode) resume() error {
	if !n.paused {
		return nil
	}
	n.paused = false
	return resume(n.proc.run.cmd.Process)
}

// Restart starts a node that was killed or stopped, on its address and data; one that runs is stopped first. It
// returns when the node takes part again: when it is among the brokers that clients are told of. A node that
// was killed is started only once the others have noticed: before that it would take itself for what it was, and could complete
// transactions without their markers.
func (c *Cluster) Restart(ctx context.Context, node int) error {
	return c.change(node, "restart", func(n *clusterNode) error {
		ctx, cancel := context.WithTimeout(ctx, n.proc.opts.StartTimeout)
		defer cancel()
		if err := errors.Join(n.resume(), n.proc.stop()); err != nil {
			return err
		}
		cl, err := c.Dial()
		if err != nil {
			return err
		}
		defer cl.Close()
		if n.killed && len(c.nodes) > 2 {
			if err := cl.awaitBroker(ctx, int32(node+1), false); err != nil {
				return fmt.Errorf("the others have not noticed that it is gone: %w", err)
			}
		}
		if err := n.proc.start(ctx); err != nil {
			return err
		}
		n.killed = false
		if err := cl.awaitBroker(ctx, int32(node+1), true); err != nil {
			return fmt.Errorf("it is not ready: %w; its log ends:\n%s", err, c.Log(node))
		}
		return nil
	})
}

func (c *Cluster) change(node int, what string, f func(*clusterNode) error) error {
	if node < 0 || node >= len(c.nodes) {
		return fmt.Errorf("testkit/kafka: %s node %d: there are %d, from 0 on", what, node, len(c.nodes))
	}
	n := c.nodes[node]
	n.mu.Lock()
	defer n.mu.Unlock()
	err := errClosed
	if !n.closed {
		err = f(n)
	}
	if err != nil {
		return fmt.Errorf("testkit/kafka: %s node %d: %w", what, node, err)
	}
	return nil
}

// AwaitInSync returns when every partition, those of Kafka's own topics too, has a leader and all its replicas: from then
// on any one node may be killed and nothing stands still for longer than an election takes.
func (c *Cluster) AwaitInSync(ctx context.Context) error {
	cl, err := c.Dial()
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		missing, err := cl.outOfSync(ctx)
		if err == nil && missing == "" {
			return nil
		}
		if err == nil {
			err = errors.New(missing)
		}
		if err := pause(ctx, err); err != nil {
			return fmt.Errorf("testkit/kafka: await all replicas: %w", err)
		}
	}
}

// Close ends all nodes and, if the directory is a temporary one, removes it. The nodes are killed: nobody will read what
// they leave, unless Dir was given. It may be called again.
func (c *Cluster) Close() error {
	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.closed {
				return
			}
			n.closed = true
			if c.temp {
				errs[i] = n.proc.kill()
			} else {
				errs[i] = errors.Join(n.resume(), n.proc.stop())
			}
		})
	}
	wg.Wait()
	if c.temp {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	if c.locked != nil {
		errs = append(errs, c.locked.Close())
		c.locked = nil
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("testkit/kafka: close cluster: %w", err)
	}
	return nil
}

// awaitBroker returns when the cluster tells clients of a broker, or tells them of it no longer.
func (c *Client) awaitBroker(ctx context.Context, id int32, there bool) error {
	for {
		asked, cancel := context.WithTimeout(ctx, 5*time.Second)
		meta, err := kmsg.NewPtrMetadataRequest().RequestWith(asked, c.kgo)
		cancel()
		if err == nil {
			listed := false
			for _, b := range meta.Brokers {
				listed = listed || b.NodeID == id
			}
			if listed == there {
				return nil
			}
			err = fmt.Errorf("%d brokers are there", len(meta.Brokers))
		}
		if err := pause(ctx, err); err != nil {
			return err
		}
	}
}

// outOfSync names a partition that has no leader or misses replicas, if there is one.
func (c *Client) outOfSync(ctx context.Context) (string, error) {
	meta, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, c.kgo)
	if err != nil {
		return "", err
	}
	for _, t := range meta.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Sprintf("topic %s: %v", *t.Topic, err), nil
		}
		for _, p := range t.Partitions {
			if len(p.ISR) < len(p.Replicas) || p.Leader < 0 || len(p.OfflineReplicas) > 0 {
				return fmt.Sprintf("%s[%d]: leader %d, in sync %v of %v", *t.Topic, p.Partition, p.Leader, p.ISR, p.Replicas), nil
			}
		}
	}
	return "", nil
}

func newCluster(ctx context.Context, o ClusterOptions) (_ *Cluster, err error) {
	if err := lookForKafka(ctx); err != nil {
		return nil, err
	}
	c := &Cluster{opts: o, dir: o.Dir}
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "wicker-cluster-"); err != nil {
			return nil, err
		}
		c.temp = true
	} else if c.dir, err = filepath.Abs(c.dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return c, err
	}
	lockCtx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if c.locked, err = lock(lockCtx, filepath.Join(c.dir, "lock")); err != nil {
		return c, fmt.Errorf("Dir (%s) is in use: %w", c.dir, err)
	}
	err = c.plan()
	if err == nil {
		err = c.format(ctx)
	}
	return c, err
}
