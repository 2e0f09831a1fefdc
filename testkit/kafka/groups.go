package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupsTopic is where Kafka keeps groups.
const groupsTopic = "__consumer_offsets"

// Group is a consumer group as its coordinator knows it.
type Group struct {
	// State is Kafka's name of it: Empty, PreparingRebalance, CompletingRebalance, Stable or Dead.
	State   string
	Members []GroupMember
}

// GroupMember is a member of a group. InstanceID is empty if its membership is dynamic.
type GroupMember struct {
	ID, InstanceID, ClientID string
}

// Group describes a group. One that does not exist is Dead and has no members. While its coordinator is not there, as after the
// broker's start, it is asked again until ctx ends.
func (c *Client) Group(ctx context.Context, name string) (Group, error) {
	res, err := c.describeGroup(ctx, name)
	for unsettled(err) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
			res, err = c.describeGroup(ctx, name)
		}
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return Group{State: "Dead"}, nil
	}
	if err != nil {
		return Group{}, fmt.Errorf("testkit/kafka: describe group %s: %w", name, err)
	}
	g := Group{State: res.State}
	for _, m := range res.Members {
		member := GroupMember{ID: m.MemberID, ClientID: m.ClientID}
		if m.InstanceID != nil {
			member.InstanceID = *m.InstanceID
		}
		g.Members = append(g.Members, member)
	}
	return g, nil
}

func unsettled(err error) bool {
	return errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.CoordinatorLoadInProgress) || errors.Is(err, kerr.NotCoordinator)
}

func (c *Client) describeGroup(ctx context.Context, name string) (kmsg.DescribeGroupsResponseGroup, error) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{name}
	res, err := req.RequestWith(ctx, c.kgo)
	if err != nil {
		return kmsg.DescribeGroupsResponseGroup{}, err
	}
	if len(res.Groups) != 1 {
		return kmsg.DescribeGroupsResponseGroup{}, fmt.Errorf("%d answers", len(res.Groups))
	}
	return res.Groups[0], kerr.ErrorForCode(res.Groups[0].ErrorCode)
}

// Generations returns the generations that a group had whose members got their assignments, in order: one more
// for each rebalance that came to an end. It reads the log in which a real broker that was started here keeps groups, so
// that it does not depend on what members say.
func (c *Client) Generations(ctx context.Context, group string) ([]int32, error) {
	p := Partition{Topic: groupsTopic, Partition: coordinatorPartition(group)}
	records, err := c.ReadFrom(ctx, ReadUncommitted, Offsets{p: 0})
	if err != nil {
		return nil, err
	}
	var generations []int32
	for _, r := range records {
		var key kmsg.GroupMetadataKey
		if len(r.Key) < 2 || r.Key[0] != 0 || r.Key[1] != 2 || key.ReadFrom(r.Key) != nil || key.Group != group || r.Value == nil {
			continue // an offset, another group, or the group's end
		}
		var value kmsg.GroupMetadataValue
		if err := value.ReadFrom(r.Value); err != nil {
			return nil, fmt.Errorf("testkit/kafka: generations of group %s: offset %d: %w", group, r.Offset, err)
		}
		if n := len(generations); value.Generation > 0 && len(value.Members) > 0 && (n == 0 || generations[n-1] != value.Generation) {
			generations = append(generations, value.Generation)
		}
	}
	return generations, nil
}

// coordinatorPartition is the partition of a group or a transactional id in the coordinators' topics. Kafka goes by the
// hash code of Java's strings, of which it takes the absolute value.
func coordinatorPartition(name string) int32 {
	var hash int32
	for _, c := range []byte(name) { // of ASCII
		hash = 31*hash + int32(c)
	}
	if hash < 0 {
		hash = max(0, -hash) // of the least int32 the negative is itself
	}
	return hash % coordinatorPartitions
}
