package kafkalog

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// description is what a broker says of the cluster in an answer to Metadata.
type description struct {
	controller int32
	brokers    map[int32]string // addresses by id
	topics     []topicDescription
}

type topicDescription struct {
	name       string
	id         commitlog.TopicID
	code       int16
	partitions []partitionDescription
}

type partitionDescription struct{ index, leader int32 }

// metadataWithIDs is the version of Metadata from which on topics have ids (KIP-516), which kafka-go's message does
// not reach. Brokers before 2.8 are asked by kafka-go's, and topics have none.
const metadataWithIDs = 10

// describe asks this broker.
func (c *conn) describe(ctx context.Context, topics []string) (*description, error) {
	v, err := c.version(protocol.Metadata)
	if err != nil {
		return nil, err
	}
	if v < metadataWithIDs {
		return c.describeBefore(ctx, topics)
	}
	frame, err := c.exchange(ctx, appendMetadata(nil, c.clientID, topics), c.timeout)
	if err != nil {
		return nil, err
	}
	d, err := readMetadata(frame[frameHeader:])
	if err != nil {
		c.fail(err)
		return nil, &connError{addr: c.addr, err: fmt.Errorf("answer to Metadata: %w", err)}
	}
	return d, nil
}

// describeBefore is describe for brokers that know of no topic ids.
func (c *conn) describeBefore(ctx context.Context, topics []string) (*description, error) {
	if topics == nil {
		topics = []string{} // null would ask for all of them
	}
	msg, err := c.roundTrip(ctx, &metadata.Request{TopicNames: topics, AllowAutoTopicCreation: false})
	if err != nil {
		return nil, err
	}
	res := msg.(*metadata.Response)
	d := &description{controller: res.ControllerID, brokers: make(map[int32]string, len(res.Brokers))}
	for _, b := range res.Brokers {
		d.brokers[b.NodeID] = address(b.Host, b.Port)
	}
	for i := range res.Topics {
		t := topicDescription{name: res.Topics[i].Name, code: res.Topics[i].ErrorCode}
		for _, p := range res.Topics[i].Partitions {
			t.partitions = append(t.partitions, partitionDescription{index: p.PartitionIndex, leader: p.LeaderID})
		}
		d.topics = append(d.topics, t)
	}
	return d, nil
}

func address(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

// appendMetadata encodes Metadata v10, which creates no topic (L8).
func appendMetadata(b []byte, clientID string, topics []string) []byte {
	b = appendHeader(b, protocol.Metadata, metadataWithIDs, clientID)
	b = append(b, 0) // no tagged fields in the header
	b = binary.AppendUvarint(b, uint64(len(topics))+1)
	for _, t := range topics {
		b = append(b, make([]byte, len(commitlog.TopicID{}))...) // by name
		b = appendCompactString(b, t)
		b = append(b, 0)
	}
	b = append(b, 0, 0, 0, 0) // no auto-creation, no authorized operations, no tagged fields
	finish(b, len(b))
	return b
}

// readMetadata decodes the body of an answer to Metadata v10.
func readMetadata(body []byte) (*description, error) {
	d := &description{brokers: map[int32]string{}}
	r := wireReader{b: body}
	r.tags()
	r.int32() // throttle time
	for range r.compactArray(11) {
		id := r.int32()
		host := string(r.compactString())
		d.brokers[id] = address(host, r.int32())
		r.compactString() // rack
		r.tags()
	}
	r.compactString() // cluster id
	d.controller = r.int32()
	for range r.compactArray(26) {
		t := topicDescription{code: r.int16(), name: string(r.compactString())}
		copy(t.id[:], r.take(len(t.id)))
		r.take(1) // internal
		for range r.compactArray(18) {
			r.int16() // the leader's error: it has none then
			t.partitions = append(t.partitions, partitionDescription{index: r.int32(), leader: r.int32()})
			r.int32() // leader epoch
			for range 3 {
				r.take(4 * r.compactArray(4)) // replicas, those in sync, those offline
			}
			r.tags()
		}
		r.int32() // authorized operations
		r.tags()
		d.topics = append(d.topics, t)
	}
	r.int32() // authorized operations
	r.tags()
	return d, r.err()
}
