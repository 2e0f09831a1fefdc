package exec

import (
	"cmp"
	"slices"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// assign implements commitlog.Assignor for the tasks of the plan.
func (a *App) assign(members []commitlog.GroupMember) (map[string][]commitlog.TopicPartition, error) {
	inputs := make([][]commitlog.TopicPartition, len(a.tasks))
	for i, spec := range a.tasks {
		inputs[i] = spec.inputs
	}
	return assignTasks(inputs, members), nil
}

// assignTasks hands tasks, each a set of partitions that must stay together, to members: every task to exactly one, no
// member two more than another, and as many as possible to the member that holds them
// already. It is a pure function; the order of members does not matter.
func assignTasks(tasks [][]commitlog.TopicPartition, members []commitlog.GroupMember) map[string][]commitlog.TopicPartition {
	result := make(map[string][]commitlog.TopicPartition, len(members))
	if len(members) == 0 {
		return result
	}
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b commitlog.GroupMember) int {
		return cmp.Or(cmp.Compare(a.InstanceID, b.InstanceID), cmp.Compare(a.ID, b.ID))
	})
	holder := map[commitlog.TopicPartition]int{}
	for m, member := range members {
		result[member.ID] = nil
		for _, tp := range member.Owned {
			if _, taken := holder[tp]; !taken {
				holder[tp] = m
			}
		}
	}
	floor, extra := len(tasks)/len(members), len(tasks)%len(members)
	load := make([]int, len(members))
	given := make([]bool, len(tasks))
	give := func(t, m int) {
		given[t] = true
		load[m]++
		result[members[m].ID] = append(result[members[m].ID], tasks[t]...)
	}
	for _, limit := range []int{floor, floor + 1} {
		for t, inputs := range tasks {
			m, held := holder[inputs[0]]
			if given[t] || !held || load[m] >= limit {
				continue
			}
			if limit > floor {
				if extra == 0 {
					continue
				}
				extra--
			}
			give(t, m)
		}
	}
	for t := range tasks {
		if given[t] {
			continue
		}
		least := 0
		for m := range members {
			if load[m] < load[least] {
				least = m
			}
		}
		give(t, least)
	}
	return result
}
