package kafkalog

import (
	"encoding/binary"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// The formats that members of a consumer group write for each other, as Kafka's own tools
// read them: ConsumerProtocolSubscription and ConsumerProtocolAssignment.

// appendSubscription encodes what a member says when it joins, in version 2, the first with
// owned partitions and the generation that it has them from (KIP-792).
func appendSubscription(b []byte, topics []string, userData []byte, owned []commitlog.TopicPartition, generation int32) []byte {
	be := binary.BigEndian
	b = be.AppendUint16(b, 2)
	b = be.AppendUint32(b, uint32(len(topics)))
	for _, t := range topics {
		b = appendString(b, t)
	}
	b = appendBytes(b, userData)
	b = appendPartitions(b, owned)
	return be.AppendUint32(b, uint32(generation))
}

// readSubscription decodes what a member said, in version 0 or later.
func readSubscription(b []byte) (commitlog.GroupMember, error) {
	m := commitlog.GroupMember{Generation: -1}
	r := wireReader{b: b}
	version := r.int16()
	for range r.array(2) {
		m.Topics = append(m.Topics, string(r.string()))
	}
	m.UserData = r.bytes()
	if version >= 1 {
		m.Owned = r.partitions()
	}
	if version >= 2 {
		m.Generation = r.int32()
	}
	return m, r.err() // later versions go on
}

// share is what a member is given, and what is kept from others because it holds it.
type share struct{ partitions, withheld []commitlog.TopicPartition }

// keptFrom returns what is withheld for a member that has said it holds owned. It knows that itself, whatever the leader
// writes; only of a member whose place it has taken the leader knows more.
func (s share) keptFrom(owned []commitlog.TopicPartition) []commitlog.TopicPartition {
	if own := commitlog.Withheld(owned, s.partitions); len(own) > 0 {
		return own
	}
	return s.withheld
}

// appendAssignment encodes what a member is given, in version 0. What is withheld is its user data: a format of
// our own, in version 0.
func appendAssignment(b []byte, s share) []byte {
	b = binary.BigEndian.AppendUint16(b, 0)
	b = appendPartitions(b, s.partitions)
	var data []byte
	if len(s.withheld) > 0 {
		data = appendPartitions([]byte{0, 0}, s.withheld)
	}
	return appendBytes(b, data)
}

// readAssignment decodes what a member is given. Nothing at all is no partition, and user data that is not ours is none:
// a static member would be given the same bytes again after each start.
func readAssignment(b []byte) (s share, err error) {
	if len(b) == 0 {
		return s, nil
	}
	r := wireReader{b: b}
	r.int16() // version: later ones go on
	s.partitions = r.partitions()
	if err := r.err(); err != nil {
		return s, err
	}
	data := wireReader{b: r.bytes()}
	if version := data.int16(); version != 0 {
		return s, nil
	}
	if tps := data.partitions(); data.err() == nil {
		s.withheld = tps
	}
	return s, nil
}

// appendBytes writes an INT32 length and as many bytes; nil is null.
func appendBytes(b, v []byte) []byte {
	if v == nil {
		return binary.BigEndian.AppendUint32(b, 0xffffffff)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
	return append(b, v...)
}

// appendPartitions writes partitions by topic, topics in order of first appearance.
func appendPartitions(b []byte, tps []commitlog.TopicPartition) []byte {
	by := byTopic(tps)
	b = binary.BigEndian.AppendUint32(b, uint32(len(by)))
	for _, tp := range tps {
		partitions, ok := by[tp.Topic]
		if !ok {
			continue
		}
		delete(by, tp.Topic)
		b = appendString(b, tp.Topic)
		b = binary.BigEndian.AppendUint32(b, uint32(len(partitions)))
		for _, p := range partitions {
			b = binary.BigEndian.AppendUint32(b, uint32(p))
		}
	}
	return b
}

// partitions reads what appendPartitions wrote.
func (r *wireReader) partitions() []commitlog.TopicPartition {
	var tps []commitlog.TopicPartition
	for range r.array(6) {
		topic := string(r.string())
		for range r.array(4) {
			tps = append(tps, commitlog.TopicPartition{Topic: topic, Partition: r.int32()})
		}
	}
	return tps
}
