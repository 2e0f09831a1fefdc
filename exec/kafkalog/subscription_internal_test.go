package kafkalog

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// What members write for each other is what another client reads, and the other way round.
func TestConsumerProtocol(t *testing.T) {
	owned := []commitlog.TopicPartition{{Topic: "b", Partition: 2}, {Topic: "a", Partition: 0}, {Topic: "b", Partition: 1}}
	var theirs kmsg.ConsumerMemberMetadata
	require.NoError(t, theirs.ReadFrom(appendSubscription(nil, []string{"a", "b"}, []byte("data"), owned)))
	require.Equal(t, []string{"a", "b"}, theirs.Topics)
	require.Equal(t, []byte("data"), theirs.UserData)
	require.Len(t, theirs.OwnedPartitions, 2)
	require.Equal(t, "b", theirs.OwnedPartitions[0].Topic)
	require.Equal(t, []int32{2, 1}, theirs.OwnedPartitions[0].Partitions)

	for version := int16(0); version <= 3; version++ { // later versions have more behind
		theirs.Version = version
		m, err := readSubscription(theirs.AppendTo(nil))
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b"}, m.Topics)
		require.Equal(t, "data", string(m.UserData))
		if version > 0 {
			require.ElementsMatch(t, owned, m.Owned)
		}
	}

	var assignment kmsg.ConsumerMemberAssignment
	require.NoError(t, assignment.ReadFrom(appendAssignment(nil, owned)))
	require.Len(t, assignment.Topics, 2)
	got, err := readAssignment(assignment.AppendTo(nil))
	require.NoError(t, err)
	require.ElementsMatch(t, owned, got)
	got, err = readAssignment(nil)
	require.NoError(t, err)
	require.Empty(t, got)
}

// Cut short anywhere, a subscription or assignment is an error.
func TestConsumerProtocolCutShort(t *testing.T) {
	tps := []commitlog.TopicPartition{{Topic: "topic", Partition: 2}, {Topic: "a", Partition: 0}}
	s, a := appendSubscription(nil, []string{"topic"}, []byte("x"), tps), appendAssignment(nil, tps)
	for n := range s {
		_, err := readSubscription(s[:n])
		require.ErrorIs(t, err, errShort, "%d bytes", n)
	}
	for n := 1; n < len(a)-4; n++ { // the user data behind the partitions is not read
		_, err := readAssignment(a[:n])
		require.ErrorIs(t, err, errShort, "%d bytes", n)
	}
}

// Heartbeat and LeaveGroup are as another client reads and writes them.
func TestMembershipMessages(t *testing.T) {
	body := func(b []byte) []byte {
		require.Equal(t, len(b)-4, int(binary.BigEndian.Uint32(b)))
		return b[4+8+2+len("me"):]
	}
	for _, instance := range []string{"", "instance"} {
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.SetVersion(3)
		require.NoError(t, beat.ReadFrom(body(appendHeartbeat(nil, "me", "g", "m", instance, 7))))
		require.Equal(t, []any{"g", "m", int32(7)}, []any{beat.Group, beat.MemberID, beat.Generation})
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.SetVersion(3)
		require.NoError(t, leave.ReadFrom(body(appendLeave(nil, "me", "g", "m", instance))))
		require.Equal(t, []any{"g", "m"}, []any{leave.Group, leave.Members[0].MemberID})
		if instance == "" {
			require.Nil(t, beat.InstanceID)
			require.Nil(t, leave.Members[0].InstanceID)
		} else {
			require.Equal(t, instance, *beat.InstanceID)
			require.Equal(t, instance, *leave.Members[0].InstanceID)
		}
	}
	beat := kmsg.NewPtrHeartbeatResponse()
	beat.Version, beat.ThrottleMillis, beat.ErrorCode = 3, 5, codeRebalanceInProgress
	code, err := readHeartbeat(beat.AppendTo(nil))
	require.NoError(t, err)
	require.Equal(t, int16(codeRebalanceInProgress), code)
	leave := kmsg.NewPtrLeaveGroupResponse()
	leave.Version, leave.ThrottleMillis = 3, 5
	member := kmsg.NewLeaveGroupResponseMember()
	member.MemberID, member.ErrorCode = "m", codeUnknownMember
	leave.Members = append(leave.Members, member)
	code, err = readLeave(leave.AppendTo(nil))
	require.NoError(t, err)
	require.Equal(t, int16(codeUnknownMember), code)
	leave.ErrorCode = codeNotCoordinator
	code, err = readLeave(leave.AppendTo(nil))
	require.NoError(t, err)
	require.Equal(t, int16(codeNotCoordinator), code)
}
