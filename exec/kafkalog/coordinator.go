package kafkalog

import (
	"context"
	"errors"
	"sync"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// coordinatorKind is Kafka's key type of FindCoordinator.
type coordinatorKind int8

const (
	groupCoordinator coordinatorKind = 0
	txnCoordinator   coordinatorKind = 1
)

type coordinatorKey struct {
	kind coordinatorKind
	id   string
}

// coordinators remembers which broker coordinates a group or transactional id. An entry is
// right until a broker says NOT_COORDINATOR or cannot be reached. It is safe for concurrent use.
type coordinators struct {
	cluster *cluster

	mu sync.Mutex // guards at
	at map[coordinatorKey]int32
}

func newCoordinators(c *cluster) *coordinators {
	return &coordinators{cluster: c, at: map[coordinatorKey]int32{}}
}

// find returns the coordinator, asking the cluster over p if it is not known.
func (c *coordinators) find(ctx context.Context, p *pool, key coordinatorKey) (int32, error) {
	c.mu.Lock()
	id, ok := c.at[key]
	c.mu.Unlock()
	if ok {
		if _, known := c.cluster.addr(id); known {
			return id, nil
		}
	}
	msg, err := c.cluster.anyBrokerOn(ctx, p, &findcoordinator.Request{Key: key.id, KeyType: int8(key.kind)})
	if err != nil {
		return 0, err
	}
	res := msg.(*findcoordinator.Response)
	if e := kafkaErr("find coordinator", inCall, res.ErrorCode); e != nil {
		return 0, key.name(message(e, res.ErrorMessage))
	}
	c.cluster.mu.Lock()
	c.cluster.brokers[res.NodeID] = address(res.Host, res.Port)
	c.cluster.mu.Unlock()
	c.mu.Lock()
	c.at[key] = res.NodeID
	c.mu.Unlock()
	return res.NodeID, nil
}

// name adds the group or transactional id to an error.
func (k coordinatorKey) name(e *commitlog.Error) *commitlog.Error {
	if k.kind == groupCoordinator {
		e.Group = k.id
	} else {
		e.TransactionalID = k.id
	}
	return e
}

// call sends req to the coordinator over a connection of p.
func (c *coordinators) call(ctx context.Context, p *pool, key coordinatorKey, req protocol.Message) (protocol.Message, error) {
	cn, err := c.conn(ctx, p, key)
	if err != nil {
		return nil, err
	}
	msg, err := cn.roundTrip(ctx, req)
	if err != nil {
		c.lost(key, err)
	}
	return msg, err
}

// conn returns p's connection to the coordinator.
func (c *coordinators) conn(ctx context.Context, p *pool, key coordinatorKey) (*conn, error) {
	return c.connBy(ctx, c.cluster.conns, p, key)
}

// connBy is conn for whoever looks the coordinator up over a pool of its own.
func (c *coordinators) connBy(ctx context.Context, finder, p *pool, key coordinatorKey) (*conn, error) {
	id, err := c.find(ctx, finder, key)
	if err != nil {
		return nil, err
	}
	cn, err := p.get(ctx, id)
	if err != nil {
		c.lost(key, err)
	}
	return cn, err
}

// lost forgets the coordinator if err says that it is another broker now, or none.
func (c *coordinators) lost(key coordinatorKey, err error) {
	if _, broken := errors.AsType[*connError](err); broken || coordinatorMoved(code(err)) {
		c.mu.Lock()
		delete(c.at, key)
		c.mu.Unlock()
	}
}
