package kafka

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// membership is what makes a broker a node of a cluster.
type membership struct {
	dir        string // of the cluster
	id         int    // from 1
	voters     string
	replicas   int
	second     int    // port of the second listener, 0 if there is none
	advertised string // what the second listener tells
}

// properties returns what differs from a broker that is alone.
func (m *membership) properties(p *process) map[string]string {
	inSync := strconv.Itoa(max(1, m.replicas-1))
	replicas := strconv.Itoa(m.replicas)
	props := map[string]string{
		"node.id":                                          strconv.Itoa(m.id),
		"controller.quorum.voters":                         m.voters,
		"default.replication.factor":                       replicas,
		"min.insync.replicas":                              inSync,
		"offsets.topic.replication.factor":                 replicas,
		"transaction.state.log.replication.factor":         replicas,
		"transaction.state.log.min.isr":                    inSync,
		"share.coordinator.state.topic.replication.factor": replicas,
		"share.coordinator.state.topic.min.isr":            inSync,
		// Kafka's defaults are for networks and for machines of their own.
		"controller.quorum.election.timeout.ms":     "500",
		"controller.quorum.fetch.timeout.ms":        "1500",
		"controller.quorum.election.backoff.max.ms": "500",
		"replica.lag.time.max.ms":                   "4000",
		"replica.fetch.wait.max.ms":                 "200",
		"leader.imbalance.check.interval.seconds":   "5",
		"num.network.threads":                       "2",
		"num.io.threads":                            "4",
		"log.cleaner.dedupe.buffer.size":            "4194304",
	}
	if m.second != 0 {
		base := p.ports
		props["listeners"] = fmt.Sprintf("CLIENT://127.0.0.1:%d,SECOND://127.0.0.1:%d,INTERNAL://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d",
			base[0], m.second, base[1], base[2])
		props["advertised.listeners"] = fmt.Sprintf("CLIENT://127.0.0.1:%d,SECOND://%s,INTERNAL://127.0.0.1:%d", base[0], m.advertised, base[1])
		props["listener.security.protocol.map"] = "CLIENT:PLAINTEXT,SECOND:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
	}
	return props
}

// plan decides who the nodes are and where they listen.
func (c *Cluster) plan() error {
	n := c.opts.Nodes
	ports, err := freePorts(4 * n)
	if err != nil {
		return err
	}
	var voters []string
	for i := range n {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", i+1, ports[4*i+2]))
	}
	for i := range n {
		dir := filepath.Join(c.dir, fmt.Sprintf("node-%d", i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		m := &membership{dir: c.dir, id: i + 1, voters: strings.Join(voters, ","), replicas: min(3, n)}
		if c.opts.Advertise != nil {
			m.second = ports[4*i+3]
			if m.advertised, err = c.opts.Advertise(i, fmt.Sprintf("127.0.0.1:%d", m.second)); err != nil {
				return fmt.Errorf("advertise node %d: %w", i, err)
			}
		}
		p := &process{opts: c.opts.node(dir).withDefaults(), temp: c.temp, locked: c.locked, cluster: m}
		copy(p.ports[:], ports[4*i:])
		c.nodes = append(c.nodes, &clusterNode{proc: p})
	}
	return nil
}

var (
	nodeID      = regexp.MustCompile(`(?m)^node\.id=.*$`)
	directoryID = regexp.MustCompile(`(?m)^directory\.id=.*$`)
)

// format makes the directories those of one Kafka. StorageTool takes seconds: it makes the first node's, and the
// others are copies with ids of their own.
func (c *Cluster) format(ctx context.Context) error {
	first := c.nodes[0].proc
	props, err := first.writeProperties("server.properties", first.serverProperties())
	if err != nil {
		return err
	}
	if err := first.format(ctx, props); err != nil {
		return err
	}
	for _, n := range c.nodes[1:] {
		if err := os.CopyFS(n.proc.dataDir(), os.DirFS(first.dataDir())); err != nil {
			return err
		}
		path := filepath.Join(n.proc.dataDir(), "meta.properties")
		meta, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !nodeID.Match(meta) || !directoryID.Match(meta) {
			return fmt.Errorf("%s has no node.id or directory.id", path)
		}
		meta = nodeID.ReplaceAll(meta, fmt.Appendf(nil, "node.id=%d", n.proc.cluster.id))
		meta = directoryID.ReplaceAll(meta, []byte("directory.id="+uuid()))
		if err := os.WriteFile(path, meta, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// uuid returns a random id as Kafka writes them.
func uuid() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	id[0] &= 0x7f        // no '-' in front, which would be taken for an option
	return base64.RawURLEncoding.EncodeToString(id)
}

// freePorts returns ports that nobody listens on. They are below those that the system gives to outgoing connections, one of
// which would else sooner or later hold the port of a node that is down.
func freePorts(n int) ([]int, error) {
	const from, to = 10_000, 32_000
	ports := make([]int, 0, n)
	for tries := 0; len(ports) < n; tries++ {
		r, err := rand.Int(rand.Reader, big.NewInt(to-from))
		if err != nil {
			return nil, err
		}
		port := from + int(r.Int64())
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			if tries > 100*n {
				return nil, errors.Join(errors.New("no free ports"), err)
			}
			continue
		}
		defer l.Close() // all are held until the last is chosen, so that they differ
		ports = append(ports, port)
	}
	return ports, nil
}
