package exec

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Any history of members coming and going keeps the assignment complete, balanced and sticky:
// every task has one owner with all of its inputs, no member has two more than another, and a member keeps
// what it held unless balance takes it.
func TestAssignment(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var tasks [][]commitlog.TopicPartition
		for p := range 1 + r.IntN(20) {
			inputs := []commitlog.TopicPartition{{Topic: "a", Partition: int32(p)}}
			if r.IntN(2) == 0 {
				inputs = append(inputs, commitlog.TopicPartition{Topic: "b", Partition: int32(p)})
			}
			tasks = append(tasks, inputs)
		}
		members := map[string]commitlog.GroupMember{}
		for step := range 12 {
			if id := fmt.Sprint("m", r.IntN(6)); r.IntN(3) > 0 {
				if _, ok := members[id]; !ok {
					members[id] = commitlog.GroupMember{ID: id}
				}
			} else {
				delete(members, id)
			}
			var list []commitlog.GroupMember
			for _, m := range members {
				list = append(list, m)
			}
			got := assignTasks(tasks, list)
			require.Len(t, got, len(list))
			if len(list) == 0 {
				continue
			}
			owner := map[commitlog.TopicPartition]string{}
			load := map[string]int{}
			for id, tps := range got {
				for _, tp := range tps {
					require.NotContains(t, owner, tp, "seed %d step %d", seed, step)
					owner[tp] = id
				}
			}
			for _, inputs := range tasks {
				load[owner[inputs[0]]]++
				for _, tp := range inputs {
					require.Equal(t, owner[inputs[0]], owner[tp], "a task's inputs stay together")
				}
			}
			quota := (len(tasks) + len(list) - 1) / len(list)
			kept := 0
			for _, m := range list {
				require.LessOrEqual(t, load[m.ID], quota)
				require.GreaterOrEqual(t, load[m.ID], len(tasks)/len(list))
			}
			held := 0
			for _, m := range list {
				n := 0
				for _, inputs := range tasks {
					for _, tp := range m.Owned {
						if tp == inputs[0] {
							n++
							if owner[tp] == m.ID {
								kept++
							}
						}
					}
				}
				held += min(n, len(tasks)/len(list))
			}
			require.GreaterOrEqual(t, kept, held, "members keep what balance allows")
			for _, m := range list {
				m.Owned = got[m.ID]
				members[m.ID] = m
			}
			require.Equal(t, got, assignTasks(tasks, list), "a pure function")
		}
	}
}
