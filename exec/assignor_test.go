package exec

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/topology"
)

// makeTasks returns the tasks of sub-topologies given as "x4 y2+": x with four partitions, y with two of each of two
// topics.
func makeTasks(t testing.TB, text string) []taskSpec {
	var tasks []taskSpec
	for _, word := range strings.Fields(text) {
		n, err := strconv.Atoi(strings.TrimSuffix(word[1:], "+"))
		require.NoError(t, err)
		sub := &topology.Subtopology{Name: word[:1]}
		for p := range int32(n) {
			task := taskSpec{sub: sub, partition: p, inputs: []commitlog.TopicPartition{{Topic: sub.Name, Partition: p}}}
			if strings.HasSuffix(word, "+") {
				task.inputs = append(task.inputs, commitlog.TopicPartition{Topic: sub.Name + "2", Partition: p})
			}
			tasks = append(tasks, task)
		}
	}
	slices.SortStableFunc(tasks, func(a, b taskSpec) int { return int(a.partition - b.partition) })
	return tasks
}

// makeMember returns a member given as "a x0 y1 gen=3 x2=100 only=x": it holds x0 and y1 in generation 3, has x2 on disk
// and subscribes to x alone.
func makeMember(t testing.TB, tasks []taskSpec, text string) commitlog.GroupMember {
	words := strings.Fields(text)
	m := commitlog.GroupMember{ID: words[0], Generation: 1}
	sums := map[taskKey]int64{}
	topics := map[string]bool{}
	for _, task := range tasks {
		for _, tp := range task.inputs {
			topics[tp.Topic] = true
		}
	}
	for _, word := range words[1:] {
		name, value, valued := strings.Cut(word, "=")
		n, err := strconv.Atoi(value)
		switch {
		case name == "gen":
			require.NoError(t, err)
			m.Generation = int32(n)
		case name == "only":
			topics = map[string]bool{value: true}
		case name == "data":
			m.UserData = []byte(value)
		default:
			i := slices.IndexFunc(tasks, func(task taskSpec) bool { return taskName(task) == name })
			require.GreaterOrEqual(t, i, 0, word)
			if !valued {
				m.Owned = append(m.Owned, tasks[i].inputs...)
			} else {
				sums[taskKey{tasks[i].sub.Name, tasks[i].partition}] = int64(n)
			}
		}
	}
	for topic := range topics {
		m.Topics = append(m.Topics, topic)
	}
	if m.UserData == nil {
		m.UserData = encodeInventory(sums)
	}
	return m
}

func taskName(task taskSpec) string { return task.sub.Name + strconv.Itoa(int(task.partition)) }

// tasksOf returns the names of the tasks that partitions are the inputs of, and fails if one is not whole.
func tasksOf(t testing.TB, tasks []taskSpec, tps []commitlog.TopicPartition) []string {
	names := []string{}
	n := 0
	for _, task := range tasks {
		if slices.Contains(tps, task.inputs[0]) {
			for _, tp := range task.inputs {
				require.Contains(t, tps, tp, "all inputs of a task together")
			}
			n += len(task.inputs)
			names = append(names, taskName(task))
		}
	}
	require.Len(t, tps, n)
	slices.Sort(names)
	return names
}

// Each rule of the assignor alone (E8).
func TestE8AssignmentRules(t *testing.T) {
	for _, c := range []struct {
		name, tasks string
		members     []string
		want        string
	}{
		{"nobody", "x4", nil, ""},
		{"one member gets everything", "x2+ y1", []string{"a"}, "a: x0 x1 y0"},
		{"more members than tasks", "x2", []string{"a", "b", "c"}, "a: x0; b: x1; c:"},
		{"each sub-topology is shared out", "x3 y3", []string{"a", "b"}, "a: x0 x2 y1; b: x1 y0 y2"},
		{"a heavy one too if its tasks come last", "x1 y1 z4", []string{"a", "b"}, "a: x0 z0 z2; b: y0 z1 z3"},
		{"what is held stays", "x4", []string{"a x3 x1", "b x0 x2"}, "a: x1 x3; b: x0 x2"},
		{"what is held stays if it is one more", "x3", []string{"a x2", "b x0 x1"}, "a: x2; b: x0 x1"},
		{"what moves is withheld", "x4", []string{"a x0 x1 x2 x3", "b"}, "a: x0 x1; b:"},
		{"and goes when it was given up", "x4", []string{"a x0 x1", "b"}, "a: x0 x1; b: x2 x3"},
		{"each sub-topology gives up its part", "x4 y4", []string{"a x0 x1 y0 y1", "b x2 x3 y2 y3", "c"}, "a: x0 y0 y1; b: x2 x3 y2; c:"},
		{"of two that claim a task the later one holds it", "x2", []string{"a x0 x1 gen=4", "b x0 x1 gen=5"}, "a:; b: x0"},
		{"a claim that is refuted holds nothing up", "x2", []string{"a x0 gen=4", "b x1 gen=5", "c x0 gen=5"}, "a:; b: x1; c: x0"},
		{"a member that does not tell its generation claims all the same", "x2", []string{"a x0 x1 gen=-1", "b"}, "a: x0; b:"},
		{"state on disk", "x4", []string{"a x2=10 x3=10", "b x0=10 x1=10"}, "a: x2 x3; b: x0 x1"},
		{"more state on disk", "x2", []string{"a x0=10 x1=10", "b x0=9 x1=11"}, "a: x0; b: x1"},
		{"memory before disk", "x2", []string{"a x0 x1=99", "b x1 x0=99"}, "a: x0; b: x1"},
		{"balance before disk", "x4", []string{"a x0=9 x1=9 x2=9 x3=9", "b"}, "a: x0 x1; b: x2 x3"},
		{"balance takes what the other has on disk", "x4 y4", []string{"a x0 x1 x2 x3 y0 y1 y2 y3", "b x0=5 x2=5 y0=5 y3=5"}, "a: x1 x3 y1 y2; b:"},
		{"and it goes there", "x4 y4", []string{"a x1 x3 y1 y2", "b x0=5 x2=5 y0=5 y3=5"}, "a: x1 x3 y1 y2; b: x0 x2 y0 y3"},
		{"what is held by nobody goes to the disk first", "x3", []string{"a x0 x1", "b x0=9 x2=1"}, "a: x0 x1; b: x2"},
		{"garbage is no state on disk", "x2", []string{"a data=garbage", "b x0=1"}, "a: x1; b: x0"},
		{"nor is a later version's", "x2", []string{"a data=\x02\x01x\x01\x00\x01", "b x0=1"}, "a: x1; b: x0"},
		{"empty state on disk is better than none", "x2", []string{"a", "b x0=0"}, "a: x1; b: x0"},
		{"a task only goes where its topics are subscribed to", "x2 y2", []string{"a only=x", "b", "c only=x y0"}, "a: x0; b: y1; c: x1"},
		{"even if that is not even", "x1 y3", []string{"a only=x", "b"}, "a: x0; b: y0 y1 y2"},
		{"or nowhere", "x2 y1", []string{"a only=x", "b only=x"}, "a: x0; b: x1"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			tasks := makeTasks(t, c.tasks)
			var members []commitlog.GroupMember
			for _, text := range c.members {
				members = append(members, makeMember(t, tasks, text))
			}
			for range 3 {
				got := assignTasks(tasks, members)
				var lines []string
				for _, id := range slices.Sorted(maps.Keys(got)) {
					lines = append(lines, strings.TrimSpace(id+": "+strings.Join(tasksOf(t, tasks, got[id]), " ")))
				}
				require.Equal(t, c.want, strings.Join(lines, "; "))
				rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
			}
		})
	}
}

// simGroup is a group whose members do as the executor's do.
type simGroup struct {
	t          *testing.T
	tasks      []taskSpec
	members    map[string]*simMember
	generation int32
	ends       map[string]int64 // of changelogs
	note       string
}

type simMember struct {
	holds      map[string]bool
	disk       map[taskKey]int64
	generation int32
}

// settle has the members join again, round after round, until nobody has to give up a task any more, and checks
// the rules of every round. It returns how many tasks have another holder than before, apart from those of nobody.
func (g *simGroup) settle(r *rand.Rand) (moved int) {
	before := map[string]string{}
	for id, m := range g.members {
		for name := range m.holds {
			before[name] = id
		}
	}
	for round := 1; ; round++ {
		require.LessOrEqual(g.t, round, 3, "%s: rounds", g.note)
		g.generation++
		var list []commitlog.GroupMember
		for id, m := range g.members {
			x := commitlog.GroupMember{ID: id, Generation: m.generation, Topics: []string{"x", "y", "y2", "z"}, UserData: encodeInventory(m.disk)}
			for _, task := range g.tasks {
				if m.holds[taskName(task)] {
					x.Owned = append(x.Owned, task.inputs...)
				}
			}
			list = append(list, x)
		}
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		got := assignTasks(g.tasks, list)
		require.Len(g.t, got, len(g.members))
		again := false
		holders := map[string]string{}
		for id, m := range g.members { // before any of them has heard
			for name := range m.holds {
				holders[name] = id
			}
		}
		for id, m := range g.members {
			mine := map[string]bool{}
			for _, name := range tasksOf(g.t, g.tasks, got[id]) {
				if holder, held := holders[name]; held {
					require.Equal(g.t, id, holder, "%s: %s is given away while it is held", g.note, name)
				}
				holders[name] = id
				mine[name] = true
			}
			for name := range m.holds {
				again = again || !mine[name]
			}
			m.holds, m.generation = mine, g.generation
		}
		if !again {
			break
		}
	}
	all := 0
	least, most := len(g.tasks), 0
	for id, m := range g.members {
		all += len(m.holds)
		least, most = min(least, len(m.holds)), max(most, len(m.holds))
		for name := range m.holds {
			if was, ok := before[name]; ok && was != id {
				moved++
			}
			g.ends[name] += 1 + r.Int64N(1000)
			m.disk[g.key(name)] = g.ends[name]
		}
	}
	if len(g.members) > 0 {
		require.Equal(g.t, len(g.tasks), all, "%s: every task has an owner", g.note)
		require.LessOrEqual(g.t, most-least, 1, "%s: balance", g.note)
	}
	return moved
}

func (g *simGroup) key(name string) taskKey {
	p, _ := strconv.Atoi(name[1:])
	return taskKey{name[:1], int32(p)}
}

// spread is the largest difference that two members have in tasks of one sub-topology.
func (g *simGroup) spread() int {
	worst := 0
	for _, sub := range []string{"x", "y", "z"} {
		least, most := len(g.tasks), 0
		for _, m := range g.members {
			n := 0
			for name := range m.holds {
				if name[:1] == sub {
					n++
				}
			}
			least, most = min(least, n), max(most, n)
		}
		worst = max(worst, most-least)
	}
	return worst
}

// Whatever comes and goes, within three rounds every task has exactly one owner again and never two at once; nobody has
// two tasks more than another; and no more moves than has to: a member that joins takes its share and nothing else
// moves, one that leaves leaves its own, and one that comes back has what it has on disk (E8).
func TestE8AssignmentOverTime(t *testing.T) {
	worst := map[int]int{}
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := &simGroup{t: t, tasks: makeTasks(t, fmt.Sprintf("x%d y%d+ z%d", 1+r.IntN(16), r.IntN(10), r.IntN(5))), members: map[string]*simMember{}, ends: map[string]int64{}}
		for step := range 25 {
			g.note = fmt.Sprintf("seed %d step %d, %d tasks, %d members", seed, step, len(g.tasks), len(g.members))
			id := fmt.Sprint("m", r.IntN(7))
			m, there := g.members[id]
			switch {
			case !there:
				g.members[id] = &simMember{holds: map[string]bool{}, disk: map[taskKey]int64{}, generation: -1}
				moved := g.settle(r)
				require.LessOrEqual(t, moved, (len(g.tasks)+len(g.members)-1)/len(g.members), "%s: joins", g.note)
				require.LessOrEqual(t, moved, len(g.members[id].holds), "%s: joins", g.note)
			case r.IntN(2) == 0:
				delete(g.members, id)
				require.Zero(t, g.settle(r), "%s: leaves", g.note)
			default:
				had := m.holds
				m.holds, m.generation = map[string]bool{}, -1
				if r.IntN(2) == 0 { // restarted before anybody noticed
					require.Zero(t, g.settle(r), "%s: restarts", g.note)
					if len(g.members) > 1 {
						require.Equal(t, had, m.holds, "%s: restarts", g.note)
					}
					break
				}
				delete(g.members, id) // restarted when its tasks were shared out already
				g.settle(r)
				g.members[id] = m
				if g.settle(r) > 0 {
					for name := range m.holds {
						require.Contains(t, m.disk, g.key(name), "%s: comes back", g.note)
					}
				}
			}
			if len(g.members) > 0 {
				worst[g.spread()]++
			}
		}
	}
	all := 0
	for _, n := range worst {
		all += n
	}
	require.LessOrEqual(t, (all-worst[0]-worst[1]-worst[2])*50, all, "sub-topologies are shared out about evenly: %v", worst)
}

func TestInventoryEncoding(t *testing.T) {
	require.Nil(t, encodeInventory(nil))
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		sums := map[taskKey]int64{}
		for range 1 + r.IntN(50) {
			sums[taskKey{letters[r.IntN(len(letters))], int32(r.IntN(1 << r.IntN(32)))}] = r.Int64N(1 << (1 + r.IntN(62)))
		}
		data := encodeInventory(sums)
		require.Equal(t, sums, decodeInventory(data))
		for n := range data { // whatever is cut or changed does not matter
			decodeInventory(data[:n])
			changed := slices.Clone(data)
			changed[n] ^= byte(1 << r.IntN(8))
			decodeInventory(changed)
		}
		require.Nil(t, decodeInventory(append([]byte{inventoryVersion + 1}, data[1:]...)))
		require.Nil(t, decodeInventory(data[:len(data)-1]))
	}
	large := map[taskKey]int64{}
	for p := range int32(20_000) {
		large[taskKey{"orders", p}] = 1 << 40
	}
	data := encodeInventory(large)
	require.LessOrEqual(t, len(data), maxInventory)
	got := decodeInventory(data)
	require.Greater(t, len(got), 4000)
	for key, sum := range got {
		require.Equal(t, large[key], sum)
	}
	require.Contains(t, got, taskKey{"orders", 0})
}

var letters = []string{"", "a", "orders", "by-city"}

func FuzzDecodeInventory(f *testing.F) {
	f.Add(encodeInventory(map[taskKey]int64{{"a", 0}: 1, {"a", 7}: 0, {"b", 1}: 1 << 60}))
	f.Fuzz(func(t *testing.T, data []byte) {
		sums := decodeInventory(data)
		if len(sums) > 0 && len(encodeInventory(sums)) <= maxInventory/2 {
			require.Equal(t, sums, decodeInventory(encodeInventory(sums)))
		}
	})
}
