package exec

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/topology"
)

// assign implements commitlog.Assignor for the tasks of the plan.
func (a *App) assign(members []commitlog.GroupMember) (map[string][]commitlog.TopicPartition, error) {
	return assignTasks(a.tasks, members), nil
}

// planVersion tells plans apart that have other tasks: after a change of partitions or of sub-topologies what was assigned
// before is no longer all there is to do.
func planVersion(tasks []taskSpec) string {
	var text strings.Builder
	for _, t := range tasks {
		fmt.Fprintln(&text, t.sub.Name, t.partition, t.inputs)
	}
	return fingerprint(text.String())
}

// fingerprint is a short word that stands for a text: 64 bits of FNV-1a.
func fingerprint(text string) string {
	sum := fnv.New64a()
	sum.Write([]byte(text))
	return strconv.FormatUint(sum.Sum64(), 36)
}

// assignTasks hands tasks to members. It is a pure function; the order of members does not matter.
//
//   - A task has one owner, which gets all of its inputs.
//   - No member has two tasks more than another.
//   - Of what that leaves open: a task stays with the member that holds it in memory, or else goes to the one that
//     has the most of its state on disk; and of each sub-topology members get about as many.
//   - A task whose next owner is not the one that holds it goes to nobody: its holder gives it up and joins
//     again without it, and that time it goes to its owner (KIP-429).
//
// Members of another version of the plan get only tasks of topics that they subscribe to; the numbers are then
// as even as that allows.
func assignTasks(tasks []taskSpec, members []commitlog.GroupMember) map[string][]commitlog.TopicPartition {
	result := make(map[string][]commitlog.TopicPartition, len(members))
	if len(members) == 0 {
		return result
	}
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b commitlog.GroupMember) int {
		return cmp.Or(cmp.Compare(a.InstanceID, b.InstanceID), cmp.Compare(a.ID, b.ID))
	})
	c := readClaims(tasks, members)
	for _, m := range members {
		result[m.ID] = nil
	}
	for t, m := range newBalance(tasks, len(members), c).owners() {
		if m >= 0 && !c.heldByOther(tasks[t], m) {
			result[members[m].ID] = append(result[members[m].ID], tasks[t].inputs...)
		}
	}
	return result
}

// claims is what members say of tasks. Tasks and members are meant by their index.
type claims struct {
	// holders are the members that hold partitions in memory: of several that say so the one with the latest
	// generation (KIP-792).
	holders map[commitlog.TopicPartition]int
	// holder is the member that holds a task in memory, -1 if none.
	holder []int
	// disk are the members that have something of a task's state on disk, those with most first.
	disk [][]diskClaim
	// fresh says of members that they hold nothing in memory.
	fresh []bool
	// able says whether a member can run a task: it subscribes to all of its inputs.
	able func(task, member int) bool
}

type diskClaim struct {
	member int
	sum    int64
}

func readClaims(tasks []taskSpec, members []commitlog.GroupMember) *claims {
	c := &claims{holders: map[commitlog.TopicPartition]int{}, holder: make([]int, len(tasks)), disk: make([][]diskClaim, len(tasks)),
		fresh: make([]bool, len(members))}
	subscribed := make([]map[string]bool, len(members))
	inventories := make([]map[taskKey]int64, len(members))
	for m, member := range members {
		for _, tp := range member.Owned {
			if other, ok := c.holders[tp]; !ok || members[other].Generation < member.Generation {
				c.holders[tp] = m
			}
		}
		subscribed[m] = map[string]bool{}
		for _, topic := range member.Topics {
			subscribed[m][topic] = true
		}
		c.fresh[m] = len(member.Owned) == 0
		inventories[m] = decodeInventory(member.UserData)
	}
	c.able = func(t, m int) bool {
		return !slices.ContainsFunc(tasks[t].inputs, func(tp commitlog.TopicPartition) bool { return !subscribed[m][tp.Topic] })
	}
	for t, task := range tasks {
		c.holder[t] = -1
		for _, tp := range task.inputs {
			m, held := c.holders[tp]
			if held && c.able(t, m) && (c.holder[t] < 0 || members[m].Generation > members[c.holder[t]].Generation) {
				c.holder[t] = m
			}
		}
		for m, inventory := range inventories {
			if sum, ok := inventory[taskKey{task.sub.Name, task.partition}]; ok && c.able(t, m) {
				c.disk[t] = append(c.disk[t], diskClaim{m, sum})
			}
		}
		slices.SortStableFunc(c.disk[t], func(a, b diskClaim) int { return cmp.Compare(b.sum, a.sum) })
	}
	return c
}

// heldByOther says whether an input of the task is in the hands of another member than m.
func (c *claims) heldByOther(task taskSpec, m int) bool {
	return slices.ContainsFunc(task.inputs, func(tp commitlog.TopicPartition) bool {
		holder, held := c.holders[tp]
		return held && holder != m
	})
}

// balance is a distribution of tasks in the making.
type balance struct {
	*claims
	// sub is the number of a task's sub-topology, size how many tasks a sub-topology has.
	sub, size []int
	// owner is the member that gets a task, -1 as long as that is open.
	owner []int
	// load is how many tasks a member has, count how many of each sub-topology.
	load  []int
	count [][]int
	// Every member gets floor tasks and some, extra more at this time, one more.
	floor, extra int
}

func newBalance(tasks []taskSpec, members int, c *claims) *balance {
	b := &balance{claims: c, sub: make([]int, len(tasks)), owner: make([]int, len(tasks)), load: make([]int, members),
		count: make([][]int, members), floor: len(tasks) / members, extra: len(tasks) % members}
	numbers := map[*topology.Subtopology]int{}
	for t, task := range tasks {
		n, ok := numbers[task.sub]
		if !ok {
			n = len(b.size)
			numbers[task.sub] = n
			b.size = append(b.size, 0)
		}
		b.sub[t], b.owner[t] = n, -1
		b.size[n]++
	}
	for m := range b.count {
		b.count[m] = make([]int, len(b.size))
	}
	return b
}

// owners returns each task's owner, -1 for one that no member can run.
func (b *balance) owners() []int {
	for t, m := range b.holder {
		if m >= 0 {
			b.put(t, m)
		}
	}
	excess := b.surplus()
	b.fromDisk(func(t int) bool { return b.owner[t] < 0 }, excess)
	b.fromDisk(func(t int) bool { return b.owner[t] >= 0 && b.owner[t] == b.holder[t] && excess[b.owner[t]] > 0 }, excess)
	b.release(excess)
	b.place()
	return b.owner
}

func (b *balance) put(t, m int) {
	b.owner[t] = m
	b.load[m]++
	b.count[m][b.sub[t]]++
}

func (b *balance) take(t int) {
	m := b.owner[t]
	b.owner[t] = -1
	b.load[m]--
	b.count[m][b.sub[t]]--
}

// surplus returns how many of the tasks that a member holds it must give up. Those with more than floor are the first
// to keep one more.
func (b *balance) surplus() []int {
	excess := make([]int, len(b.load))
	for m, load := range b.load {
		limit := b.floor
		if load > limit && b.extra > 0 {
			limit++
			b.extra--
		}
		excess[m] = max(0, load-limit)
	}
	return excess
}

// room says whether a member may get another task.
func (b *balance) room(m int) bool {
	return b.load[m] < b.floor || b.load[m] == b.floor && b.extra > 0
}

// give gives a task to a member that has room.
func (b *balance) give(t, m int) {
	if b.load[m] == b.floor {
		b.extra--
	}
	b.put(t, m)
}

// fromDisk gives those of the tasks that are wanted to the member with most of their state on disk that has room and for
// which it is fair. excess counts what holders have to give up.
func (b *balance) fromDisk(wanted func(t int) bool, excess []int) {
	for rank := range b.load { // those that have most of something come first, whatever it is
		for t, claims := range b.disk {
			if rank >= len(claims) || !wanted(t) {
				continue
			}
			m := claims[rank].member
			if !b.room(m) || m == b.holder[t] || !b.fair(t, m) {
				continue
			}
			if b.owner[t] >= 0 {
				excess[b.owner[t]]--
				b.take(t)
			}
			b.give(t, m)
		}
	}
}

// fair says whether a member has less than its share of the tasks of t's sub-topology. One that has just come gets back
// what nobody holds in any case: what the others have on disk is from before they came.
func (b *balance) fair(t, m int) bool {
	return len(b.load)*b.count[m][b.sub[t]] < b.size[b.sub[t]] || b.holder[t] < 0 && b.fresh[m]
}

// release takes from members what they have too much: one task after the other, of the sub-topology of which its
// holder has the most and those with room the least.
func (b *balance) release(excess []int) {
	n := len(b.load)
	lack := make([]int, len(b.size)) // by sub-topology: n times the tasks that those with room lack of it
	for m := range b.load {
		if b.room(m) {
			for s, size := range b.size {
				lack[s] += max(0, size-n*b.count[m][s])
			}
		}
	}
	held := make([][][]int, n) // tasks by member and sub-topology
	for m := range held {
		held[m] = make([][]int, len(b.size))
	}
	for t, m := range b.owner {
		if m >= 0 && m == b.holder[t] {
			held[m][b.sub[t]] = append(held[m][b.sub[t]], t)
		}
	}
	for m := range b.load {
		for ; excess[m] > 0; excess[m]-- {
			best, most := -1, 0
			for s, size := range b.size {
				if score := n*b.count[m][s] - size + lack[s]; len(held[m][s]) > 0 && (best < 0 || score > most) {
					best, most = s, score
				}
			}
			last := len(held[m][best]) - 1
			b.take(held[m][best][last])
			held[m][best] = held[m][best][:last]
			lack[best] -= n
		}
	}
}

// place gives what is left to members that have room: to the one with the fewest of the sub-topology, of several to
// the one with the fewest tasks.
func (b *balance) place() {
	for _, s := range b.choosy() {
		for t := range b.owner {
			if b.sub[t] != s || b.owner[t] >= 0 {
				continue
			}
			best := -1
			better := func(m int) bool {
				if best < 0 || b.room(m) != b.room(best) {
					return best < 0 || b.room(m)
				}
				if !b.room(m) {
					return b.load[m] < b.load[best] // none of those that can run it has room
				}
				return cmp.Or(cmp.Compare(b.count[m][s], b.count[best][s]), cmp.Compare(b.load[m], b.load[best])) < 0
			}
			for m := range b.load {
				if b.able(t, m) && better(m) {
					best = m
				}
			}
			switch {
			case best < 0:
			case b.room(best):
				b.give(t, best)
			default:
				b.put(t, best)
			}
		}
	}
}

// choosy returns the sub-topologies, those that fewest members can run first.
func (b *balance) choosy() []int {
	subs := make([]int, len(b.size))
	runners := make([]int, len(b.size))
	seen := make([]bool, len(b.size))
	for s := range subs {
		subs[s] = s
	}
	for t, s := range b.sub {
		if seen[s] {
			continue
		}
		seen[s] = true
		for m := range b.load {
			if b.able(t, m) {
				runners[s]++
			}
		}
	}
	slices.SortStableFunc(subs, func(x, y int) int { return cmp.Compare(runners[x], runners[y]) })
	return subs
}
