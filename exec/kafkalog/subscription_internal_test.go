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
	require.NoError(t, theirs.ReadFrom(appendSubscription(nil, []string{"a", "b"}, []byte("data"), owned, 7)))
	require.Equal(t, int32(7), theirs.Generation)
	require.Equal(t, []string{"a", "b"}, theirs.Topics)
	require.Equal(t, []byte("data"), theirs.UserData)
	require.Len(t, theirs.OwnedPartitions, 2)
	require.Equal(t, "b", theirs.OwnedPartitions[0].Topic)
	require.Equal(t, []int32{2, 1}, theirs.OwnedPartitions[0].Partitions)

	for version := int16(0); version <= 3; version++ { // later versions have more behind
		theirs.Version, theirs.Generation = version, 9
		m, err := readSubscription(theirs.AppendTo(nil))
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b"}, m.Topics)
		require.Equal(t, "data", string(m.UserData))
		if version > 0 {
			require.ElementsMatch(t, owned, m.Owned)
		}
		if want := int32(9); version < 2 {
			require.Equal(t, int32(-1), m.Generation)
		} else {
			require.Equal(t, want, m.Generation)
		}
	}

	var assignment kmsg.ConsumerMemberAssignment
	require.NoError(t, assignment.ReadFrom(appendAssignment(nil, share{owned, owned[:1]})))
	require.Len(t, assignment.Topics, 2)
	got, err := readAssignment(assignment.AppendTo(nil))
	require.NoError(t, err)
	require.ElementsMatch(t, owned, got.partitions)
	require.Equal(t, owned[:1], got.withheld)
	assignment.UserData = nil
	got, err = readAssignment(assignment.AppendTo(nil))
	require.NoError(t, err)
	require.ElementsMatch(t, owned, got.partitions)
	require.Empty(t, got.withheld)
	for _, data := range [][]byte{{0, 1, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 9}, {0}} { // another version, and damaged
		assignment.UserData = data
		got, err = readAssignment(assignment.AppendTo(nil))
		require.NoError(t, err)
		require.ElementsMatch(t, owned, got.partitions)
		require.Empty(t, got.withheld)
	}
	got, err = readAssignment(nil)
	require.NoError(t, err)
	require.Empty(t, got)
}

// A member knows what it has to give up also from a leader that does not write it, and of the member before it what the leader
// writes.
func TestShareKeptFrom(t *testing.T) {
	tps := []commitlog.TopicPartition{{Topic: "in", Partition: 0}, {Topic: "in", Partition: 1}, {Topic: "in", Partition: 2}}
	require.Empty(t, share{partitions: tps}.keptFrom(tps))
	require.Equal(t, tps[1:], share{partitions: tps[:1]}.keptFrom(tps))
	require.Equal(t, tps[1:2], share{partitions: tps[:1], withheld: tps[2:]}.keptFrom(tps[:2]))
	require.Equal(t, tps[2:], share{partitions: tps[:1], withheld: tps[2:]}.keptFrom(nil))
	require.Equal(t, tps[2:], share{partitions: tps[:1], withheld: tps[2:]}.keptFrom(tps[:1]))
}

// Cut short anywhere, a subscription or assignment is an error.
func TestConsumerProtocolCutShort(t *testing.T) {
	tps := []commitlog.TopicPartition{{Topic: "topic", Partition: 2}, {Topic: "a", Partition: 0}}
	s, a := appendSubscription(nil, []string{"topic"}, []byte("x"), tps, 3), appendAssignment(nil, share{tps, tps[:1]})
	for n := range s {
		_, err := readSubscription(s[:n])
		require.ErrorIs(t, err, errShort, "%d bytes", n)
	}
	bare := len(appendAssignment(nil, share{tps, nil})) - 4 // user data that is cut short is none
	for n := 1; n < bare; n++ {
		_, err := readAssignment(a[:n])
		require.ErrorIs(t, err, errShort, "%d bytes", n)
	}
}

// The group calls are as another client reads and writes them.
func TestMembershipMessages(t *testing.T) {
	body := func(b []byte) []byte {
		require.Equal(t, len(b)-4, int(binary.BigEndian.Uint32(b)))
		return b[4+8+2+len("me")+1:]
	}
	header := func() []byte { return []byte{0} } // of an answer, without tagged fields
	tps := []commitlog.TopicPartition{{Topic: "in", Partition: 3}}
	subscription := appendSubscription(nil, []string{"in"}, []byte("data"), tps, 6)
	for _, instance := range []string{"", "instance"} {
		var static *string
		if instance != "" {
			static = &instance
		}
		join := kmsg.NewPtrJoinGroupRequest()
		join.SetVersion(7)
		require.NoError(t, join.ReadFrom(body(appendJoin(nil, "me", &joinRequest{group: "g", memberID: "m", instanceID: instance, sessionMS: 10, rebalanceMS: 20,
			protocols: []string{"p"}, subscription: subscription}))))
		require.Equal(t, []any{"g", "m", int32(10), int32(20), "consumer", static, "p", subscription},
			[]any{join.Group, join.MemberID, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType, join.InstanceID, join.Protocols[0].Name, join.Protocols[0].Metadata})
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.SetVersion(5)
		require.NoError(t, sync.ReadFrom(body(appendSync(nil, "me", &syncRequest{group: "g", memberID: "m", instanceID: instance, protocol: "p", generation: 7,
			assignments: map[string]share{"m": {tps, tps}}}))))
		require.Equal(t, []any{"g", "m", int32(7), static, "consumer", "p", "m", appendAssignment(nil, share{tps, tps})},
			[]any{sync.Group, sync.MemberID, sync.Generation, sync.InstanceID, *sync.ProtocolType, *sync.Protocol, sync.GroupAssignment[0].MemberID, sync.GroupAssignment[0].MemberAssignment})
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.SetVersion(4)
		require.NoError(t, beat.ReadFrom(body(appendHeartbeat(nil, "me", "g", "m", instance, 7))))
		require.Equal(t, []any{"g", "m", int32(7), static}, []any{beat.Group, beat.MemberID, beat.Generation, beat.InstanceID})
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.SetVersion(4)
		require.NoError(t, leave.ReadFrom(body(appendLeave(nil, "me", "g", "m", instance))))
		require.Equal(t, []any{"g", "m", static}, []any{leave.Group, leave.Members[0].MemberID, leave.Members[0].InstanceID})
	}

	joined := kmsg.NewPtrJoinGroupResponse()
	joined.Version, joined.ErrorCode, joined.Generation, joined.LeaderID, joined.MemberID = 7, codeMemberIDRequired, 3, "l", "m"
	for _, instance := range []string{"", "instance"} {
		member := kmsg.NewJoinGroupResponseMember()
		member.MemberID, member.ProtocolMetadata = "m"+instance, subscription
		if instance != "" {
			member.InstanceID = &instance
		}
		joined.Members = append(joined.Members, member)
	}
	j, err := readJoin(joined.AppendTo(header()))
	require.NoError(t, err)
	require.Equal(t, joinResponse{code: codeMemberIDRequired, generation: 3, leader: "l", memberID: "m", members: []commitlog.GroupMember{
		{ID: "m", Topics: []string{"in"}, Owned: tps, Generation: 6, UserData: []byte("data")},
		{ID: "minstance", InstanceID: "instance", Topics: []string{"in"}, Owned: tps, Generation: 6, UserData: []byte("data")}}}, j)
	whole := joined.AppendTo(header())
	for n := range whole {
		_, err := readJoin(whole[:n])
		require.ErrorIs(t, err, errShort, "%d bytes", n)
	}
	joined.Members[0].ProtocolMetadata = subscription[:9]
	_, err = readJoin(joined.AppendTo(header()))
	require.ErrorContains(t, err, "subscription of member m")
	require.Equal(t, commitlog.Fatal, commitlog.ClassOf(err))
	require.NotErrorIs(t, err, errShort)

	synced := kmsg.NewPtrSyncGroupResponse()
	synced.Version, synced.MemberAssignment = 5, appendAssignment(nil, share{tps, tps[:1]})
	code, assigned, err := readSync(synced.AppendTo(header()))
	require.NoError(t, err)
	require.Zero(t, code)
	require.Equal(t, share{tps, tps[:1]}, assigned)
	synced.ErrorCode, synced.MemberAssignment = codeRebalanceInProgress, nil
	code, assigned, err = readSync(synced.AppendTo(header()))
	require.NoError(t, err)
	require.Equal(t, int16(codeRebalanceInProgress), code)
	require.Empty(t, assigned)

	beat := kmsg.NewPtrHeartbeatResponse()
	beat.Version, beat.ThrottleMillis, beat.ErrorCode = 4, 5, codeRebalanceInProgress
	code, err = readHeartbeat(beat.AppendTo(header()))
	require.NoError(t, err)
	require.Equal(t, int16(codeRebalanceInProgress), code)
	leave := kmsg.NewPtrLeaveGroupResponse()
	leave.Version, leave.ThrottleMillis = 4, 5
	member := kmsg.NewLeaveGroupResponseMember()
	member.MemberID, member.ErrorCode = "m", codeUnknownMember
	leave.Members = append(leave.Members, member)
	code, err = readLeave(leave.AppendTo(header()))
	require.NoError(t, err)
	require.Equal(t, int16(codeUnknownMember), code)
	leave.ErrorCode = codeNotCoordinator
	code, err = readLeave(leave.AppendTo(header()))
	require.NoError(t, err)
	require.Equal(t, int16(codeNotCoordinator), code)
}
