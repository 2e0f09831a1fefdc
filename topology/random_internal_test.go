package topology

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
)

// Random programs, each declared twice: to a Builder, and as closures that process a record at
// once, depth first, with one map for each state and without topics in between. Both must put out the same.

// flow is a stream of both declarations.
type flow struct {
	s       Stream[string, string]
	to      []func(k, v string) // the plain way on
	changed bool                // a Map has had the key, so no state can follow
	source  string              // the first source behind it
	fed     bool                // something reads it
}

func (f *flow) emit(k, v string) {
	for _, to := range f.to {
		to(k, v)
	}
}

// program is a random program and what its plain declaration has put out.
type program struct {
	r       *rand.Rand
	b       *Builder
	flows   []*flow
	sources map[string]*flow
	sinks   map[string][]string // what plain gives, by topic, in order
	names   int
	text    []string
	// rekeys says whether keys may be changed in front of state; results then must not depend
	// on the order in which records of different partitions meet.
	rekeys bool
	// misuse is how likely each operator is misused, of 100; misused how often one was.
	misuse, misused int
}

func hash(parts ...string) uint32 {
	h := fnv.New32a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p))
		_, _ = h.Write([]byte{0})
	}
	return h.Sum32() >> 8
}

func randomProgram(seed uint64, rekeys bool, misuse int) *program {
	p := &program{r: rand.New(rand.NewPCG(seed, 7)), b: New("app"), sources: map[string]*flow{}, sinks: map[string][]string{}, rekeys: rekeys, misuse: misuse}
	for i := range 1 + p.r.IntN(3) {
		name := fmt.Sprint("in", i)
		f := &flow{source: name}
		f.s = p.b.From(ops.Source(ops.NewTopic(name, codec.String, codec.String)))
		p.flows = append(p.flows, f)
		p.sources[name] = f
		p.log("%s = source", name)
	}
	for range 1 + p.r.IntN(14) {
		p.operator()
	}
	for _, f := range p.flows {
		if !f.fed || p.r.IntN(4) == 0 {
			if p.bad() && !f.fed {
				continue // ends nowhere
			}
			p.sink(f)
		}
	}
	return p
}

func (p *program) log(format string, args ...any) {
	p.text = append(p.text, fmt.Sprintf(format, args...))
}

func (p *program) bad() bool {
	if p.r.IntN(100) >= p.misuse {
		return false
	}
	p.misused++
	return true
}

// pick returns a flow to go on from: often the latest, so that chains get long.
func (p *program) pick() *flow {
	if p.r.IntN(3) > 0 {
		return p.flows[len(p.flows)-1]
	}
	return p.flows[p.r.IntN(len(p.flows))]
}

func (p *program) name(kind string) string {
	p.names++
	if p.bad() {
		return []string{"", "a b", strings.Repeat("x", 250), "in0", "name-1", "name.1", "name_1"}[p.r.IntN(7)]
	}
	return fmt.Sprint(kind, "-", p.names)
}

// opts returns options, none of them useful.
func (p *program) opts() []ops.Option {
	if p.bad() {
		return []ops.Option{[]ops.Option{nil, ops.Name(""), ops.Partitions(-1), ops.KeyCodec(7), ops.ValueCodec(nil), ops.Concurrency(0), ops.AbsentKey(-3)}[p.r.IntN(7)]}
	}
	if p.r.IntN(3) == 0 {
		return []ops.Option{ops.Name(fmt.Sprint("label ", p.r.IntN(9)))}
	}
	return nil
}

func or[F any](p *program, f F) F {
	if p.bad() {
		var none F
		return none
	}
	return f
}

// next makes the flow that an operator leaves.
func (p *program) next(in *flow, s Stream[string, string], what string) *flow {
	out := &flow{s: s, changed: in.changed, source: in.source}
	in.fed = true
	p.flows = append(p.flows, out)
	p.log("%s of %d", what, slices.Index(p.flows, in))
	return out
}

func (p *program) operator() {
	in := p.pick()
	salt := strconv.Itoa(p.r.IntN(1000))
	kind := p.r.IntN(15)
	if kind >= 13 {
		kind = 6
	}
	if kind >= 8 && (in.changed || p.r.IntN(6) == 0) {
		kind = 7 // Rekey, where state would be an error
	}
	switch kind {
	case 0:
		f := func(k, v string) bool { return hash(k, v, salt)%5 > 0 }
		out := p.next(in, in.s.Filter(or(p, f), p.opts()...), "filter")
		in.to = append(in.to, func(k, v string) {
			if f(k, v) {
				out.emit(k, v)
			}
		})
	case 1:
		f := func(v string) string { return "m" + strconv.Itoa(int(hash(v, salt)%20)) }
		out := p.next(in, in.s.MapValues(or(p, f), p.opts()...), "mapvalues")
		in.to = append(in.to, func(k, v string) { out.emit(k, f(v)) })
	case 2:
		if !p.rekeys { // a Map's key would need a Rekey
			return
		}
		f := func(k, v string) (string, string) { return "x" + v, k }
		out := p.next(in, in.s.Map(or(p, f), p.opts()...), "map")
		out.changed = true
		in.to = append(in.to, func(k, v string) { out.emit(f(k, v)) })
	case 3:
		if !p.rekeys {
			return
		}
		f := func(k, v string, emit func(string, string)) {
			for i := range hash(k, v, salt) % 3 {
				emit(k, v+strconv.Itoa(int(i)))
			}
		}
		out := p.next(in, in.s.FlatMap(or(p, f), p.opts()...), "flatmap")
		out.changed = true
		in.to = append(in.to, func(k, v string) { f(k, v, out.emit) })
	case 4:
		out := p.next(in, in.s.Peek(or(p, func(_, _ string) {}), p.opts()...), "peek")
		in.to = append(in.to, out.emit)
	case 5:
		f := func(k, v string) bool { return hash(k, v, salt)%2 > 0 }
		s1, s2 := in.s.Branch(or(p, f), p.opts()...)
		yes, no := p.next(in, s1, "branch yes"), p.next(in, s2, "branch no")
		in.to = append(in.to, func(k, v string) {
			if f(k, v) {
				yes.emit(k, v)
			} else {
				no.emit(k, v)
			}
		})
	case 6:
		all := []*flow{in, p.flows[p.r.IntN(len(p.flows))]}
		if p.r.IntN(3) == 0 {
			all = append(all, p.flows[p.r.IntN(len(p.flows))])
		}
		var others []Stream[string, string]
		for _, o := range all[1:] {
			others = append(others, o.s)
		}
		if p.bad() {
			others = append(others, Stream[string, string]{})
		}
		if p.bad() {
			others = append(others, New("other").From(ops.Source(ops.NewTopic("theirs", codec.String, codec.String))))
		}
		out := p.next(in, in.s.Merge(others[0], others[1:]...), "merge")
		for _, o := range all {
			o.fed = true
			o.to = append(o.to, out.emit)
			out.changed = out.changed || o.changed
			p.log("  and %d", slices.Index(p.flows, o))
		}
	case 7:
		if !p.rekeys {
			return
		}
		f := func(k, v string) string { return "k" + strconv.Itoa(int(hash(k, v, salt)%9)) }
		opts := p.opts()
		if p.r.IntN(6) == 0 {
			opts = append(opts, ops.Partitions(5))
		}
		out := p.next(in, in.s.Rekey(p.name("rekey"), or(p, f), opts...), "rekey")
		out.changed = false
		in.to = append(in.to, func(k, v string) { out.emit(f(k, v), v) })
	case 8, 9:
		ask := func(_ context.Context, k string) (string, error) {
			return "a" + strconv.Itoa(int(hash(k, salt)%9)), nil
		}
		join := func(v, a string) string { return v + a }
		out := p.next(in, in.s.Memo(ops.Memo(p.name("memo"), codec.String, or(p, ask)), or(p, join), p.opts()...), "memo")
		in.to = append(in.to, func(k, v string) {
			a, _ := ask(context.Background(), k)
			out.emit(k, join(v, a))
		})
	case 10:
		s := in
		if p.rekeys { // with equal values the order does not matter
			s = p.next(in, in.s.MapValues(func(string) string { return "x" }), "mapvalues to x")
			in.to = append(in.to, func(k, _ string) { s.emit(k, "x") })
		}
		f := func(a, b string) string {
			if len(a) > 100 {
				return b
			}
			return a + b
		}
		out := p.next(s, s.s.Reduce(ops.NewState(p.name("reduce"), codec.String, codec.String), or(p, f), p.opts()...), "reduce")
		state := map[string]string{}
		s.to = append(s.to, func(k, v string) {
			if old, ok := state[k]; ok {
				v = f(old, v)
			}
			state[k] = v
			out.emit(k, v)
		})
	default:
		f := func(_, _ string, n int64) int64 { return (n + 1) % 30 } // 0 is deleted by the codec
		counted := in.s.Aggregate(ops.NewState(p.name("count"), codec.String, codec.OmitZero(codec.Int64)), or(p, f), p.opts()...)
		out := p.next(in, counted.MapValues(func(n int64) string { return strconv.FormatInt(n, 10) }), "count")
		state := map[string]int64{}
		in.to = append(in.to, func(k, v string) {
			state[k] = f(k, v, state[k])
			out.emit(k, strconv.FormatInt(state[k], 10))
		})
	}
}

func (p *program) sink(f *flow) {
	f.fed = true
	topic := fmt.Sprint("out", p.r.IntN(2), "-", f.source)
	p.log("%s = sink of %d", topic, slices.Index(p.flows, f))
	f.s.To(ops.Sink(ops.NewTopic(topic, codec.String, codec.String)))
	f.to = append(f.to, func(k, v string) { p.sinks[topic] = append(p.sinks[topic], k+"="+v) })
}

// record is one of an input or of a repartition topic.
type record struct{ key, value string }

// world runs a plan in memory: topics are queues, and tasks take batches of random size in
// random order.
type world struct {
	t      *testing.T
	r      *rand.Rand
	counts map[string]int
	queues map[string][][]record // of topics that the plan reads, by partition
	sinks  map[string][]string
	tasks  []*worldTask
	owners map[string]int // partition of each key of each store
	askers sync.Map
	text   string
}

// worldTask is a task, and its ops.Env.
type worldTask struct {
	w         *world
	sub       *Subtopology
	partition int
	meta      ops.Meta
	into      map[string]ops.Emit[[]byte, []byte]
	gates     []*ops.Gate
	stores    map[string]map[string][]byte
}

func newWorld(t *testing.T, plan *Plan, counts map[string]int, r *rand.Rand, text string) *world {
	w := &world{t: t, r: r, counts: maps.Clone(counts), queues: map[string][][]record{}, sinks: map[string][]string{}, owners: map[string]int{}, text: text}
	resolved, err := plan.Resolve(counts)
	require.NoError(t, err, text)
	maps.Copy(w.counts, resolved)
	for _, sub := range plan.Subtopologies() {
		most := 0
		for _, topic := range sub.Sources {
			w.queues[topic] = make([][]record, w.counts[topic])
			most = max(most, w.counts[topic])
		}
		for partition := range most {
			k := &worldTask{w: w, sub: sub, partition: partition, stores: map[string]map[string][]byte{}}
			for range sub.Gates {
				k.gates = append(k.gates, &ops.Gate{})
			}
			for _, s := range sub.Stores {
				k.stores[s.Name] = map[string][]byte{}
				require.Less(t, partition, w.counts[s.Changelog], "a task has a partition of its changelog: %s", text)
			}
			k.into, err = sub.Wire(k)
			require.NoError(t, err, text)
			require.Len(t, k.into, len(sub.Sources))
			w.tasks = append(w.tasks, k)
		}
	}
	return w
}

func (w *world) push(topic string, rec record) int {
	p := int(hash(rec.key)) % w.counts[topic]
	w.queues[topic][p] = append(w.queues[topic][p], rec)
	return p
}

// run processes until all queues are empty.
func (w *world) run() {
	for {
		var ready []*worldTask
		for _, k := range w.tasks {
			if len(k.waiting()) > 0 {
				ready = append(ready, k)
			}
		}
		if len(ready) == 0 {
			return
		}
		ready[w.r.IntN(len(ready))].batch(1 + w.r.IntN(7))
	}
}

// waiting returns the task's topics that have records for it.
func (k *worldTask) waiting() []string {
	var topics []string
	for _, topic := range k.sub.Sources {
		if q := k.w.queues[topic]; k.partition < len(q) && len(q[k.partition]) > 0 {
			topics = append(topics, topic)
		}
	}
	return topics
}

func (k *worldTask) batch(n int) {
	for range n {
		topics := k.waiting()
		if len(topics) == 0 {
			break
		}
		topic := topics[k.w.r.IntN(len(topics))]
		q := k.w.queues[topic]
		rec := q[k.partition][0]
		q[k.partition] = q[k.partition][1:]
		require.NoError(k.w.t, k.into[topic]([]byte(rec.key), []byte(rec.value)), k.w.text)
	}
	for _, g := range k.gates {
		require.NoError(k.w.t, g.Flush(), k.w.text)
	}
	for _, g := range k.gates {
		require.Zero(k.w.t, g.Len(), "flushed in turn, nothing waits any more: %s", k.w.text)
	}
}

func (k *worldTask) Context() context.Context                 { return context.Background() }
func (k *worldTask) Meta() *ops.Meta                          { return &k.meta }
func (k *worldTask) Counter(*ops.Traits, string) *ops.Counter { return &ops.Counter{} }

func (k *worldTask) Gate(level int) *ops.Gate {
	require.Less(k.w.t, level, len(k.gates), "Gates says how many there are: %s", k.w.text)
	return k.gates[level]
}

func (k *worldTask) Asker(name string, n int) *ops.Asker {
	a, _ := k.w.askers.LoadOrStore(name, ops.NewAsker(n))
	return a.(*ops.Asker)
}

func (*worldTask) Remember(string, int) (func(key, value []byte) error, error) {
	return func(_, _ []byte) error { return nil }, nil
}

func (k *worldTask) Lookups(string) (ops.Lookups, error) {
	return nil, fmt.Errorf("there are no tables")
}

func (k *worldTask) Store(name string) (ops.Store, error) {
	if k.stores[name] == nil {
		return nil, fmt.Errorf("store %q is not in the sub-topology", name)
	}
	return worldStore{k, name}, nil
}

func (k *worldTask) Output(topic string) (ops.Output, error) {
	if !slices.Contains(k.sub.Sinks, topic) {
		return nil, fmt.Errorf("topic %q is not a sink of the sub-topology", topic)
	}
	return worldOutput{k.w, topic}, nil
}

type worldStore struct {
	k    *worldTask
	name string
}

func (s worldStore) Get(key []byte) ([]byte, error) {
	at := s.name + " " + string(key)
	owner, ok := s.k.w.owners[at]
	if !ok {
		s.k.w.owners[at] = s.k.partition
	} else {
		require.Equal(s.k.w.t, owner, s.k.partition, "the records of a key arrive in one partition: %s\n%s", at, s.k.w.text)
	}
	return s.k.stores[s.name][string(key)], nil
}

func (s worldStore) Put(key, value []byte) error {
	if value == nil {
		delete(s.k.stores[s.name], string(key))
	} else {
		s.k.stores[s.name][string(key)] = slices.Clone(value)
	}
	return nil
}

type worldOutput struct {
	w     *world
	topic string
}

func (o worldOutput) Write(_ *ops.Meta, key, value []byte) error {
	if o.w.queues[o.topic] != nil {
		o.w.push(o.topic, record{string(key), string(value)})
		return nil
	}
	o.w.sinks[o.topic] = append(o.w.sinks[o.topic], string(key)+"="+string(value))
	return nil
}

// P1, P2: with changes of key anywhere and any partition counts, a plan gives what the plain
// program gives, and all records of a key meet in one partition.
func TestRandomPlansGiveWhatThePlainProgramGives(t *testing.T) {
	var topics, groups int
	for seed := range uint64(400) {
		p := randomProgram(seed, true, 0)
		plan, err := p.b.Build()
		text := fmt.Sprintf("seed %d\n%s", seed, strings.Join(p.text, "\n"))
		require.NoError(t, err, text)
		checkPlan(t, plan, text)
		counts := map[string]int{}
		for _, topic := range plan.Topics() {
			if topic.Kind == SourceTopic {
				counts[topic.Name] = max(topic.Partitions, 1+p.r.IntN(4)*(1-min(1, topic.Partitions)))
			}
			if topic.Kind == RepartitionTopic {
				topics++
			}
		}
		for _, sub := range plan.Subtopologies() {
			for _, g := range sub.Groups {
				groups++
				n := 0
				for _, topic := range g {
					n = max(n, counts[topic])
				}
				for _, topic := range g {
					if counts[topic] > 0 && plan.groups[topic].fixed == 0 {
						counts[topic] = n
					}
				}
			}
		}
		w := newWorld(t, plan, counts, p.r, text+"\n"+plan.Describe())
		names := slices.Sorted(maps.Keys(p.sources))
		for range 40 {
			name := names[p.r.IntN(len(names))]
			rec := record{fmt.Sprint("k", p.r.IntN(9)), fmt.Sprint("v", p.r.IntN(9))}
			w.push(name, rec)
			p.sources[name].emit(rec.key, rec.value)
		}
		w.run()
		for _, sinks := range []map[string][]string{p.sinks, w.sinks} {
			for _, all := range sinks {
				slices.Sort(all)
			}
		}
		require.Equal(t, p.sinks, w.sinks, w.text)
	}
	require.Greater(t, topics, 100, "the programs are of use")
	require.Greater(t, groups, 20)
}

// E2: without changes of key, each topic gets its records in the very order that the plain
// program gives, whatever waits for answers on the way.
func TestRandomPlansKeepTheOrder(t *testing.T) {
	var gates int
	for seed := range uint64(400) {
		p := randomProgram(seed, false, 0)
		plan, err := p.b.Build()
		text := fmt.Sprintf("seed %d\n%s", seed, strings.Join(p.text, "\n"))
		require.NoError(t, err, text)
		checkPlan(t, plan, text)
		counts := map[string]int{}
		for name := range p.sources {
			counts[name] = 1
		}
		w := newWorld(t, plan, counts, p.r, text+"\n"+plan.Describe())
		for _, k := range w.tasks {
			gates += len(k.gates)
		}
		names := slices.Sorted(maps.Keys(p.sources))
		for range 5 {
			for range 1 + p.r.IntN(15) {
				name := names[p.r.IntN(len(names))]
				rec := record{fmt.Sprint("k", p.r.IntN(9)), fmt.Sprint("v", p.r.IntN(9))}
				for _, k := range w.tasks { // one at a time, so that both take the sources in one order
					if emit := k.into[name]; emit != nil {
						require.NoError(t, emit([]byte(rec.key), []byte(rec.value)), text)
					}
				}
				p.sources[name].emit(rec.key, rec.value)
			}
			for _, k := range w.tasks {
				k.batch(0)
			}
		}
		require.Equal(t, p.sinks, w.sinks, w.text)
	}
	require.Greater(t, gates, 200, "the programs are of use")
}

// checkPlan checks what must hold for any plan.
func checkPlan(t *testing.T, plan *Plan, text string) {
	names := map[string]bool{}
	for _, sub := range plan.subs {
		require.False(t, names[sub.Name], "sub-topologies have names of their own: %s", text)
		names[sub.Name] = true
		sinks := map[string]int{}
		before := map[*place]bool{}
		for _, p := range sub.places {
			for _, parent := range p.in {
				require.True(t, before[parent], "parents come first: %s", text)
				require.Equal(t, p.level, parent.passed(), "records that meet at %s have passed equally many gates: %s", p.at, text)
			}
			before[p] = true
			if p.role == roleSource {
				require.Zero(t, p.level)
			}
			if p.role == roleSink {
				if level, ok := sinks[p.topic]; ok {
					require.Equal(t, level, p.level, "and so have those that meet in topic %s: %s", p.topic, text)
				}
				sinks[p.topic] = p.level
			}
			require.LessOrEqual(t, p.passed(), sub.Gates, text)
			if p.at.NeedsKey {
				requireKeyed(t, p, text)
			}
		}
	}
	for _, topic := range plan.Topics() {
		if topic.Kind == RepartitionTopic || topic.Kind == ChangelogTopic {
			require.NotEqual(t, topic.Partitions > 0, len(topic.Like) > 0, "%s has a count or others to take it from: %s", topic.Name, text)
		}
	}
}

// requireKeyed says that no way to an operator with state changes the key within the
// sub-topology.
func requireKeyed(t *testing.T, p *place, text string) {
	for _, parent := range p.in {
		require.False(t, parent.at.ChangesKey, "no change of key between a topic and %s: %s", p.at, text)
		requireKeyed(t, parent, text)
	}
}

// P1: no plan has a repartition topic too many: one for each Rekey that is followed by state
// before the next change of key, and what is behind it all needs it.
func TestRandomPlansHaveNoNeedlessTopics(t *testing.T) {
	for seed := range uint64(400) {
		p := randomProgram(seed, true, 0)
		plan, err := p.b.Build()
		require.NoError(t, err)
		text := fmt.Sprintf("seed %d\n%s\n%s", seed, strings.Join(p.text, "\n"), plan.Describe())
		var want, got []string
		for _, n := range p.b.nodes {
			if n.role == roleRekey && leadsToState(n) {
				want = append(want, "app-"+n.traits.Name+"-repartition")
			}
		}
		for _, topic := range plan.Topics() {
			if topic.Kind == RepartitionTopic {
				got = append(got, topic.Name)
			}
		}
		require.ElementsMatch(t, want, got, text)
		for _, sub := range plan.subs {
			for _, far := range sub.places {
				if far.role != roleSource || far.rekey == nil {
					continue
				}
				for _, to := range far.outs[0].to {
					require.True(t, placeLeadsToState(to), "%s needs no partitioning, but stands behind the topic of %s: %s", to.at, far.at, text)
				}
				if len(far.outs[0].to) == 1 { // it could lie later, unless the next is what must not be passed
					to := far.outs[0].to[0]
					ways := 0
					for _, e := range to.outs {
						if slices.ContainsFunc(e.to, placeLeadsToState) {
							ways++
						}
					}
					require.True(t, to.at.NeedsKey || to.role == roleMerge || to.hidden || ways > 1, "the topic of %s could lie behind %s: %s", far.at, to.at, text)
				}
			}
		}
	}
}

func leadsToState(n *node) bool {
	for _, port := range n.ports {
		for _, c := range port.to {
			if c.traits.NeedsKey || !c.traits.ChangesKey && leadsToState(c) {
				return true
			}
		}
	}
	return false
}

func placeLeadsToState(p *place) bool {
	if p.at.NeedsKey || p.at.ChangesKey {
		return p.at.NeedsKey
	}
	for _, e := range p.outs {
		if slices.ContainsFunc(e.to, placeLeadsToState) {
			return true
		}
	}
	return false
}

// Build never panics, whatever is wrong, and names each mistake's line.
func TestRandomMisuseIsAnErrorOfBuild(t *testing.T) {
	var failed int
	for seed := range uint64(800) {
		p := randomProgram(seed, true, 1+int(seed%30))
		plan, err := p.b.Build()
		text := fmt.Sprintf("seed %d\n%s\n%v", seed, strings.Join(p.text, "\n"), err)
		if err == nil { // a misused name may be a good one
			require.NotNil(t, plan)
			checkPlan(t, plan, text)
			continue
		}
		failed++
		require.Nil(t, plan, text)
		last := 0
		for _, e := range BuildErrors(err) {
			require.Equal(t, "random_internal_test.go", e.File, text)
			require.Positive(t, e.Line, text)
			require.GreaterOrEqual(t, e.order, last, "in order of declaration: %s", text)
			last = max(e.order, 0)
			require.NotContains(t, e.Error(), "internal error", text)
		}
	}
	require.Greater(t, failed, 250)
}
