package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// groupAdmin asks a broker about consumer groups, those of either side.
type groupAdmin struct{ cl *kgo.Client }

// newGroupAdmin returns one that the caller has to close.
func newGroupAdmin(addr string) (groupAdmin, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.MaxVersions(kversion.V3_9_0())) // later ones name topics by id
	return groupAdmin{cl}, err
}

func (g groupAdmin) close() {
	if g.cl != nil {
		g.cl.Close()
	}
}

// settled repeats a request while the group's coordinator is not there, as after the broker's start, for 30 s at most.
func settled(ctx context.Context, request func() error) error {
	for deadline := time.Now().Add(30 * time.Second); ; {
		err := request()
		switch err {
		case kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator:
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

func (g groupAdmin) describe(ctx context.Context, group string) (*kmsg.DescribeGroupsResponseGroup, error) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	var res *kmsg.DescribeGroupsResponse
	err := settled(ctx, func() (err error) {
		if res, err = req.RequestWith(ctx, g.cl); err != nil {
			return err
		}
		if len(res.Groups) != 1 {
			return fmt.Errorf("%d groups in the answer", len(res.Groups))
		}
		return kerr.ErrorForCode(res.Groups[0].ErrorCode)
	})
	if err == kerr.GroupIDNotFound {
		return &kmsg.DescribeGroupsResponseGroup{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("describe group %s: %w", group, err)
	}
	return &res.Groups[0], nil
}

// owned returns the partitions of the topic that members have whose client id begins with client.
func (g groupAdmin) owned(ctx context.Context, group, client, topic string) ([]int32, error) {
	d, err := g.describe(ctx, group)
	if err != nil {
		return nil, err
	}
	var owned []int32
	for _, m := range d.Members {
		if !strings.HasPrefix(m.ClientID, client) || len(m.MemberAssignment) == 0 {
			continue
		}
		var a kmsg.ConsumerMemberAssignment
		if err := a.ReadFrom(m.MemberAssignment); err != nil {
			return nil, fmt.Errorf("describe group %s: member %s: assignment: %w", group, m.MemberID, err)
		}
		for _, t := range a.Topics {
			if t.Topic == topic {
				owned = append(owned, t.Partitions...)
			}
		}
	}
	return owned, nil
}

// vacate removes the members that are left of a group: static ones that stay, and those of
// processes that were killed.
func (g groupAdmin) vacate(ctx context.Context, group string) error {
	d, err := g.describe(ctx, group)
	if err != nil || len(d.Members) == 0 {
		return err
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = group
	for _, m := range d.Members {
		lm := kmsg.NewLeaveGroupRequestMember()
		lm.MemberID, lm.InstanceID = m.MemberID, m.InstanceID
		req.Members = append(req.Members, lm)
	}
	err = settled(ctx, func() error {
		res, err := req.RequestWith(ctx, g.cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(res.ErrorCode)
	})
	if err != nil {
		return fmt.Errorf("leave group %s: %w", group, err)
	}
	return nil
}

// commit sets a group's position in partition 0 of a topic, on behalf of a group without members.
func (g groupAdmin) commit(ctx context.Context, group, topic string, offset int64) error {
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = offset
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.Topics = group, -1, append(req.Topics, t)
	err := settled(ctx, func() error {
		res, err := req.RequestWith(ctx, g.cl)
		if err != nil {
			return err
		}
		for _, t := range res.Topics {
			for _, p := range t.Partitions {
				err = kerr.ErrorForCode(p.ErrorCode)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("commit offset of group %s: %w", group, err)
	}
	return nil
}
