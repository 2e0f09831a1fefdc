package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// noLeader is the id of the leader of a partition that has none at the moment.
const noLeader = int32(-1)

// cluster knows the brokers and who leads what. What it knows may be out of date: brokers
// answer NOT_LEADER_OR_FOLLOWER then, and the caller refreshes. It is safe for concurrent use.
type cluster struct {
	cfg   *Config
	conns *pool // shared by the calls that hold a connection for short only

	mu         sync.Mutex // guards what follows
	brokers    map[int32]string
	failed     map[int32]time.Time // when a broker last gave no answer to askAny
	controller int32
	leaders    map[commitlog.TopicPartition]int32
	topicIDs   map[string]commitlog.TopicID // as last heard of; none of them zero
}

func newCluster(cfg *Config) *cluster {
	c := &cluster{cfg: cfg, controller: noLeader, brokers: map[int32]string{}, failed: map[int32]time.Time{}, leaders: map[commitlog.TopicPartition]int32{},
		topicIDs: map[string]commitlog.TopicID{}}
	c.conns = c.newPool()
	return c
}

// addr returns a broker's address, if it is known.
func (c *cluster) addr(id int32) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.brokers[id]
	return a, ok
}

// leader returns who leads tp as far as is known, noLeader if nobody.
func (c *cluster) leader(tp commitlog.TopicPartition) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, ok := c.leaders[tp]; ok {
		return id
	}
	return noLeader
}

// id returns the id of the topic that had the name when it was last heard of, zero if it is not known.
func (c *cluster) id(topic string) commitlog.TopicID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.topicIDs[topic]
}

// forget drops what is known of a partition's leader.
func (c *cluster) forget(tp commitlog.TopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.leaders, tp)
}

// locate returns the leaders of tps, asking the cluster if one is unknown. A partition without
// a leader is an error.
func (c *cluster) locate(ctx context.Context, tps []commitlog.TopicPartition) (map[int32][]commitlog.TopicPartition, error) {
	var missing []string
	for _, tp := range tps {
		if c.leader(tp) == noLeader && !slices.Contains(missing, tp.Topic) {
			missing = append(missing, tp.Topic)
		}
	}
	if len(missing) > 0 {
		if _, err := c.refresh(ctx, missing); err != nil {
			return nil, err
		}
	}
	by := make(map[int32][]commitlog.TopicPartition)
	for _, tp := range tps {
		id := c.leader(tp)
		if id == noLeader {
			return nil, at(kafkaErr("find leader", inCall, codeLeaderNotAvailable), tp)
		}
		by[id] = append(by[id], tp)
	}
	return by, nil
}

// refresh asks any broker about the topics and remembers brokers and leaders. The first topic
// with an error is returned as one; UNKNOWN_TOPIC_OR_PARTITION among them.
func (c *cluster) refresh(ctx context.Context, topics []string) (*description, error) {
	d, err := c.describe(ctx, topics)
	if err != nil {
		return nil, err
	}
	for i := range d.topics {
		if e := kafkaErr("describe topic", inCall, d.topics[i].code); e != nil {
			e.Topic = d.topics[i].name
			return nil, e
		}
	}
	return d, nil
}

// describe is refresh without looking at the topics' errors.
func (c *cluster) describe(ctx context.Context, topics []string) (*description, error) {
	var d *description
	err := c.askAny(ctx, c.conns, func(cn *conn) (err error) {
		d, err = cn.describe(ctx, topics)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.controller, c.brokers = d.controller, maps.Clone(d.brokers)
	for _, t := range d.topics {
		if !t.id.IsZero() {
			c.topicIDs[t.name] = t.id
		}
		for _, p := range t.partitions {
			tp := commitlog.TopicPartition{Topic: t.name, Partition: p.index}
			if _, alive := c.brokers[p.leader]; alive {
				c.leaders[tp] = p.leader
			} else {
				delete(c.leaders, tp)
			}
		}
	}
	return d, nil
}

// anyBroker is askAny with one of kafka-go's messages, on the shared connections.
func (c *cluster) anyBroker(ctx context.Context, req protocol.Message) (protocol.Message, error) {
	return c.anyBrokerOn(ctx, c.conns, req)
}

func (c *cluster) anyBrokerOn(ctx context.Context, p *pool, req protocol.Message) (msg protocol.Message, err error) {
	err = c.askAny(ctx, p, func(cn *conn) (err error) {
		msg, err = cn.roundTrip(ctx, req)
		return err
	})
	return msg, err
}

// askAny asks the first broker that answers: known ones, those last that gave no answer lately, so that one that
// swallows what is sent does not take everybody's time; then the configured
// addresses. If none does, the error names each and what it said. When ctx ends first the connection, unless it is a
// shared one, goes with it: whoever has its own has it in order to find out what no longer answers.
func (c *cluster) askAny(ctx context.Context, p *pool, ask func(cn *conn) error) error {
	ids := c.ids()
	c.mu.Lock()
	slices.SortStableFunc(ids, func(a, b int32) int { return c.failed[a].Compare(c.failed[b]) })
	c.mu.Unlock()
	addrs := map[string]bool{}
	var tried []string
	var last error
	// next is one try; it returns whether that was all.
	next := func(addr string, get func() (*conn, error)) (done bool, err error) {
		cn, err := get()
		if err == nil {
			if err = ask(cn); err != nil && ctx.Err() != nil && p != c.conns {
				cn.fail(ctx.Err())
			}
		}
		if err == nil {
			return true, nil
		}
		tried, last = append(tried, addr), err
		return ctx.Err() != nil || classify(err) == commitlog.Fatal, err
	}
	for _, id := range ids {
		addr, _ := c.addr(id)
		addrs[addr] = true
		done, err := next(addr, func() (*conn, error) { return p.get(ctx, id) })
		c.mu.Lock()
		if err == nil {
			delete(c.failed, id)
		} else {
			c.failed[id] = time.Now()
		}
		c.mu.Unlock()
		if done {
			return err
		}
	}
	for _, addr := range c.cfg.Brokers {
		if addrs[addr] {
			continue
		}
		if done, err := next(addr, func() (*conn, error) { return p.dialSeed(ctx, addr) }); done {
			return err
		}
	}
	if ce, ok := errors.AsType[*connError](last); ok {
		last = ce.err
	}
	return &connError{addr: strings.Join(tried, ", "), err: last}
}

// ids returns the brokers that are known, in order.
func (c *cluster) ids() []int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.brokers))
}

// anyController sends req to the controller, or to any broker if it is not known.
func (c *cluster) anyController(ctx context.Context, req protocol.Message) (protocol.Message, error) {
	c.mu.Lock()
	id := c.controller
	_, ok := c.brokers[id]
	c.mu.Unlock()
	if !ok {
		return c.anyBroker(ctx, req)
	}
	cn, err := c.conns.get(ctx, id)
	if err != nil {
		return nil, err
	}
	return cn.roundTrip(ctx, req)
}

// pool keeps one connection per broker. Whoever must not wait behind others' requests has a
// pool of its own: a broker works on one request of a connection at a time. It is safe for
// concurrent use.
type pool struct {
	cluster *cluster

	mu     sync.Mutex // guards what follows
	slots  map[string]*slot
	closed bool
}

type slot struct {
	mu sync.Mutex // held while dialling
	c  *conn
}

func (c *cluster) newPool() *pool { return &pool{cluster: c, slots: map[string]*slot{}} }

// get returns the connection to a broker, dialling if there is none that works.
func (p *pool) get(ctx context.Context, id int32) (*conn, error) {
	addr, ok := p.cluster.addr(id)
	if !ok {
		return nil, &connError{addr: fmt.Sprintf("with id %d", id), err: errors.New("not in the cluster's metadata")}
	}
	return p.open(ctx, strconv.Itoa(int(id)), addr)
}

// dialSeed returns the connection to one of the configured addresses.
func (p *pool) dialSeed(ctx context.Context, addr string) (*conn, error) {
	return p.open(ctx, "seed "+addr, addr)
}

func (p *pool) open(ctx context.Context, key, addr string) (*conn, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, &commitlog.Error{Op: "connect", Partition: -1, Err: commitlog.ErrClosed}
	}
	s := p.slots[key]
	if s == nil {
		s = &slot{}
		p.slots[key] = s
	}
	p.mu.Unlock()

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil && s.c.alive() && s.c.addr == addr && !s.c.aged() {
		return s.c, nil
	}
	if s.c != nil {
		// An aged connection ends with what is in flight on it; the calls are repeated.
		s.c.close()
		s.c = nil
	}
	cn, err := dial(ctx, p.cluster.cfg, addr)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		cn.close()
		return nil, &commitlog.Error{Op: "connect", Partition: -1, Err: commitlog.ErrClosed}
	}
	s.c = cn
	return cn, nil
}

// sever fails every connection that there is, for a reason. The next calls make new ones.
func (p *pool) sever(err error) {
	p.mu.Lock()
	slots := slices.Collect(maps.Values(p.slots))
	p.mu.Unlock()
	for _, s := range slots {
		if !s.mu.TryLock() {
			continue // it is being made
		}
		c := s.c
		s.mu.Unlock()
		if c != nil {
			c.fail(err)
		}
	}
}

// close closes every connection and refuses new ones.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	slots := p.slots
	p.slots = nil
	p.mu.Unlock()
	for _, s := range slots {
		s.mu.Lock()
		if s.c != nil {
			s.c.close()
			s.c = nil
		}
		s.mu.Unlock()
	}
}
