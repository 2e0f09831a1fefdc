package kafkalog

import (
	"encoding/binary"

	"github.com/segmentio/kafka-go/protocol"
)

// kafka-go's answers to Heartbeat and LeaveGroup have their first two fields in the wrong
// order, so that no error is ever seen: these are our own.

// appendHeartbeat encodes Heartbeat v3.
func appendHeartbeat(b []byte, clientID, group, id, instance string, generation int32) []byte {
	b = appendHeader(b, protocol.Heartbeat, 3, clientID)
	b = appendString(b, group)
	b = binary.BigEndian.AppendUint32(b, uint32(generation))
	b = appendString(b, id)
	b = appendNullString(b, instance)
	finish(b, len(b))
	return b
}

// readHeartbeat decodes the body of an answer to Heartbeat v3 and returns its error code.
func readHeartbeat(body []byte) (int16, error) {
	r := wireReader{b: body}
	r.int32() // throttle time
	code := r.int16()
	return code, r.err()
}

// appendLeave encodes LeaveGroup v3 for one member.
func appendLeave(b []byte, clientID, group, id, instance string) []byte {
	b = appendHeader(b, protocol.LeaveGroup, 3, clientID)
	b = appendString(b, group)
	b = binary.BigEndian.AppendUint32(b, 1)
	b = appendString(b, id)
	b = appendNullString(b, instance)
	finish(b, len(b))
	return b
}

// readLeave decodes the body of an answer to LeaveGroup v3 and returns its error code.
func readLeave(body []byte) (int16, error) {
	r := wireReader{b: body}
	r.int32() // throttle time
	code := r.int16()
	for range r.array(6) {
		r.string()
		r.string()
		if c := r.int16(); code == 0 {
			code = c
		}
	}
	return code, r.err()
}
