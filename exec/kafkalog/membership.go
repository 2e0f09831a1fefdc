package kafkalog

import (
	"encoding/binary"
	"fmt"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// The calls of the classic group protocol. They are this package's own: kafka-go writes the flexible
// versions of JoinGroup and SyncGroup with arrays and strings of the old form, and reads the answers to Heartbeat
// and LeaveGroup with their first two fields in the wrong order, so that no error is ever seen.

// joinRequest is what a member says in JoinGroup v7.
type joinRequest struct {
	group, memberID, instanceID string
	sessionMS, rebalanceMS      int32
	protocols                   []string // the one that is preferred first
	subscription                []byte
}

func appendJoin(b []byte, clientID string, j *joinRequest) []byte {
	be := binary.BigEndian
	b = appendHeader(b, protocol.JoinGroup, 7, clientID)
	b = append(b, 0) // no tagged fields in the header
	b = appendCompactString(b, j.group)
	b = be.AppendUint32(b, uint32(j.sessionMS))
	b = be.AppendUint32(b, uint32(j.rebalanceMS))
	b = appendCompactString(b, j.memberID)
	b = appendCompactNullString(b, j.instanceID)
	b = appendCompactString(b, groupProtocolType)
	b = append(b, byte(len(j.protocols)+1))
	for _, p := range j.protocols {
		b = appendCompactString(b, p)
		b = appendCompactBytes(b, j.subscription)
		b = append(b, 0)
	}
	b = append(b, 0)
	finish(b, len(b))
	return b
}

// joinResponse is the answer to JoinGroup v7. members has those of the group if the member leads it.
type joinResponse struct {
	code             int16
	generation       int32
	protocol         string // the one that the group has agreed on
	leader, memberID string
	members          []commitlog.GroupMember
}

// readJoin decodes the body of an answer to JoinGroup v7, members' subscriptions included.
func readJoin(body []byte) (joinResponse, error) {
	var j joinResponse
	r := wireReader{b: body}
	r.tags()
	r.int32() // throttle time
	j.code = r.int16()
	j.generation = r.int32()
	r.compactString() // protocol type
	j.protocol = string(r.compactString())
	j.leader = string(r.compactString())
	j.memberID = string(r.compactString())
	for range r.compactArray(4) {
		id, instance, subscription := string(r.compactString()), string(r.compactString()), r.compactString()
		r.tags()
		if r.bad {
			break
		}
		m, err := readSubscription(subscription)
		if err != nil {
			return j, unreadable("join group", fmt.Errorf("subscription of member %s is malformed: %v", id, err))
		}
		m.ID, m.InstanceID = id, instance
		j.members = append(j.members, m)
	}
	r.tags()
	return j, r.err()
}

// syncRequest is what a member says in SyncGroup v5; the leader's has everyone's assignment, by member id.
type syncRequest struct {
	group, memberID, instanceID, protocol string
	generation                            int32
	assignments                           map[string]share
}

func appendSync(b []byte, clientID string, s *syncRequest) []byte {
	b = appendHeader(b, protocol.SyncGroup, 5, clientID)
	b = append(b, 0)
	b = appendCompactString(b, s.group)
	b = binary.BigEndian.AppendUint32(b, uint32(s.generation))
	b = appendCompactString(b, s.memberID)
	b = appendCompactNullString(b, s.instanceID)
	b = appendCompactString(b, groupProtocolType)
	b = appendCompactString(b, s.protocol)
	b = binary.AppendUvarint(b, uint64(len(s.assignments))+1)
	for id, given := range s.assignments {
		b = appendCompactString(b, id)
		b = appendCompactBytes(b, appendAssignment(nil, given))
		b = append(b, 0)
	}
	b = append(b, 0)
	finish(b, len(b))
	return b
}

// readSync decodes the body of an answer to SyncGroup v5.
func readSync(body []byte) (code int16, assigned share, err error) {
	r := wireReader{b: body}
	r.tags()
	r.int32() // throttle time
	code = r.int16()
	r.compactString() // protocol type
	r.compactString() // protocol name
	assignment := r.compactString()
	r.tags()
	if err := r.err(); err != nil {
		return code, assigned, err
	}
	if assigned, err = readAssignment(assignment); err != nil {
		err = unreadable("sync group", fmt.Errorf("assignment is malformed: %v", err))
	}
	return code, assigned, err
}

// unreadable is for what another member wrote: asking again does not help.
func unreadable(op string, err error) error {
	return &commitlog.Error{Op: op, Partition: -1, Class: commitlog.Fatal, Err: err}
}

// appendHeartbeat encodes Heartbeat v4.
func appendHeartbeat(b []byte, clientID, group, id, instance string, generation int32) []byte {
	b = appendHeader(b, protocol.Heartbeat, 4, clientID)
	b = append(b, 0)
	b = appendCompactString(b, group)
	b = binary.BigEndian.AppendUint32(b, uint32(generation))
	b = appendCompactString(b, id)
	b = appendCompactNullString(b, instance)
	b = append(b, 0)
	finish(b, len(b))
	return b
}

// readHeartbeat decodes the body of an answer to Heartbeat v4 and returns its error code.
func readHeartbeat(body []byte) (int16, error) {
	r := wireReader{b: body}
	r.tags()
	r.int32() // throttle time
	code := r.int16()
	r.tags()
	return code, r.err()
}

// appendLeave encodes LeaveGroup v4 for one member.
func appendLeave(b []byte, clientID, group, id, instance string) []byte {
	b = appendHeader(b, protocol.LeaveGroup, 4, clientID)
	b = append(b, 0)
	b = appendCompactString(b, group)
	b = append(b, 2) // one member
	b = appendCompactString(b, id)
	b = appendCompactNullString(b, instance)
	b = append(b, 0, 0)
	finish(b, len(b))
	return b
}

// readLeave decodes the body of an answer to LeaveGroup v4 and returns its error code.
func readLeave(body []byte) (int16, error) {
	r := wireReader{b: body}
	r.tags()
	r.int32() // throttle time
	code := r.int16()
	for range r.compactArray(5) {
		r.compactString()
		r.compactString()
		if c := r.int16(); code == 0 {
			code = c
		}
		r.tags()
	}
	r.tags()
	return code, r.err()
}
