package exec

import (
	"maps"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/globaltable"
)

// Stats is what a process has done since its Run began, over all tasks it has or had. Input,
// output and counters include transactions that have not committed yet, or never will.
type Stats struct {
	// In and Out are records by topic.
	In, Out map[string]int64
	// Counters are the operators' counts: by operator (kind and name), then by name (ops.CountDropped ...).
	Counters map[string]map[string]int64
	// Tasks is the number of tasks that run, Restoring of those that restore their state.
	Tasks, Restoring int
	// Commits is the number of transactions committed.
	Commits int64
	// Restores are the tasks that restore more than nothing at this time, by name.
	Restores []RestoreProgress
	// Restored is the number of changelog records read to restore state.
	Restored int64
	// Entries is the number of keys in the state of the running tasks, as of their last flush; with
	// an engine on disk it is an estimate.
	Entries int64
	// Rebalances is the number of times that the tasks were assigned anew.
	Rebalances int64
	// Stores tells of the values that were written, by store.
	Stores map[string]StoreStats
	// Tables are the global tables by name.
	Tables map[string]globaltable.Stats
}

func newStats() Stats {
	return Stats{In: map[string]int64{}, Out: map[string]int64{}, Counters: map[string]map[string]int64{}, Stores: map[string]StoreStats{}}
}

func (s *Stats) count(operator, name string, n int64) {
	m := s.Counters[operator]
	if m == nil {
		m = map[string]int64{}
		s.Counters[operator] = m
	}
	m[name] += n
}

// size adds what a task's store has counted since it was last.
func (s *Stats) size(st *store, last *StoreStats) {
	all := s.Stores[st.spec.Name]
	for i, n := range st.sizes.Sizes {
		all.Sizes[i] += n - last.Sizes[i]
	}
	all.Largest, all.Limit = max(all.Largest, st.sizes.Largest), int64(st.most)
	s.Stores[st.spec.Name], *last = all, st.sizes
}

func (s *Stats) clone() Stats {
	c := *s
	c.Tables = map[string]globaltable.Stats{}
	c.Stores = maps.Clone(s.Stores)
	c.In, c.Out = maps.Clone(s.In), maps.Clone(s.Out)
	c.Counters = make(map[string]map[string]int64, len(s.Counters))
	for op, m := range s.Counters {
		c.Counters[op] = maps.Clone(m)
	}
	return c
}

// published is what a task has added to the app's stats already.
type published struct {
	in, out   []int64
	counters  []int64
	positions []position // of the input, for Lag: guarded by App.mu
	stores    []StoreStats
	commits   int64
	restored  int64
	entries   int64
}

type position struct {
	commitlog.TopicPartition
	offset int64
}

// publish adds what the task has done since the last call to the app's stats. The task's
// goroutine calls it after a batch.
func (t *task) publish() {
	t.app.mu.Lock()
	defer t.app.mu.Unlock()
	s, p := &t.app.mu.stats, &t.published
	for i, src := range t.in.sources {
		if i == len(p.in) {
			p.in = append(p.in, 0)
			p.positions = append(p.positions, position{TopicPartition: src.tp})
		}
		p.positions[i].offset = src.position
		s.In[src.tp.Topic] += src.taken - p.in[i]
		p.in[i] = src.taken
	}
	for i, o := range t.out.topics {
		if i == len(p.out) {
			p.out = append(p.out, 0)
		}
		s.Out[o.topic] += o.written - p.out[i]
		p.out[i] = o.written
	}
	for i, c := range t.env.counters {
		if i == len(p.counters) {
			p.counters = append(p.counters, 0)
		}
		s.count(c.operator, c.name, c.Value()-p.counters[i])
		p.counters[i] = c.Value()
	}
	if t.state != nil {
		for i, st := range t.state.stores {
			if i == len(p.stores) {
				p.stores = append(p.stores, StoreStats{})
			}
			s.size(st, &p.stores[i])
		}
	}
	s.Commits += t.commits - p.commits
	s.Restored += t.restored - p.restored
	s.Entries += t.entries - p.entries
	p.commits, p.restored, p.entries = t.commits, t.restored, t.entries
}
