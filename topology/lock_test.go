package topology_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

// everything is a topology with each operator that has a durable name, in front of each of which step may put something.
func everything(t *testing.T, step func(stream) stream, change func(*topology.Builder)) *topology.Plan {
	t.Helper()
	b := topology.New("app")
	if change != nil {
		change(b)
	}
	s := b.From(ops.Source(text("in")))
	counted := step(s).Aggregate(count("counts"), plusOne)
	counted.To(ops.Sink(ops.NewTopic("out", codec.String, codec.Int64)))
	r := step(s).Reduce(ops.NewState("joined", codec.String, codec.String), join)
	r = step(r).Rekey("by-value", same)
	r = step(r).Memo(asks("answers"), join)
	r = step(r).Repartition("again")
	r = step(r).Reduce(ops.NewState("last", codec.String, codec.String), join)
	table := globaltable.New("table", codec.String, codec.String)
	step(r).LeftLookup(table, same, func(v, row string, _ bool) string { return v + row }).To(ops.Sink(text("out2")))
	p, err := b.Build()
	require.NoError(t, err)
	return p
}

func asIs(s stream) stream { return s }

// P6: operators without state change nothing that is durable, wherever they are put: neither the lock nor a topic nor the name of a
// sub-topology, a part of transactional ids.
func TestStatelessOperatorsChangeNoDurableName(t *testing.T) {
	p := everything(t, asIs, nil)
	golden(t, "lock.json", string(p.Lock().Encode()))
	other := globaltable.New("other-table", codec.String, codec.String)
	for name, step := range map[string]func(stream) stream{
		"Filter":    func(s stream) stream { return s.Filter(short) },
		"MapValues": func(s stream) stream { return s.MapValues(upper, ops.ValueCodec(codec.String)) },
		"Peek":      func(s stream) stream { return s.Peek(func(_, _ string) {}) },
		"Branch": func(s stream) stream {
			yes, no := s.Branch(short)
			return yes.Merge(no)
		},
		"Merge": func(s stream) stream { return s.Merge(s) },
		"Lookup": func(s stream) stream {
			return s.LeftLookup(other, same, func(v, _ string, _ bool) string { return v })
		},
		"several": func(s stream) stream { return s.Peek(func(_, _ string) {}).Filter(short).MapValues(upper) },
	} {
		t.Run(name, func(t *testing.T) {
			q := everything(t, step, nil)
			require.Equal(t, string(p.Lock().Encode()), string(q.Lock().Encode()))
			require.Equal(t, internalTopics(p), internalTopics(q))
			require.Equal(t, subNames(p), subNames(q))
			require.Empty(t, q.CheckLock(p.Lock()))
		})
	}
}

func internalTopics(p *topology.Plan) (all []string) {
	for _, spec := range p.Topics() {
		if spec.Kind.Internal() {
			all = append(all, spec.Name)
		}
	}
	return all
}

func subNames(p *topology.Plan) (all []string) {
	for _, s := range p.Subtopologies() {
		all = append(all, s.Name)
	}
	return all
}

// P6: what a change means, for each kind of change, with names of old and new and the way out.
func TestCheckLock(t *testing.T) {
	type source = topology.Stream[string, string]
	build := func(app string, chain func(b *topology.Builder, s source), opts ...ops.Option) *topology.Plan {
		b := topology.New(app)
		chain(b, b.From(ops.Source(text("in"), opts...)))
		p, err := b.Build()
		require.NoError(t, err)
		return p
	}
	out := ops.Sink(ops.NewTopic("out", codec.String, codec.Int64))
	counts := func(name string) func(b *topology.Builder, s source) {
		return func(_ *topology.Builder, s source) { s.Aggregate(count(name), plusOne).To(out) }
	}
	rekeyed := func(name string, opts ...ops.Option) func(b *topology.Builder, s source) {
		return func(_ *topology.Builder, s source) {
			s.Rekey(name, same, opts...).Aggregate(count("counts"), plusOne).To(out)
		}
	}
	with := func(say func(b *topology.Builder), chain func(b *topology.Builder, s source)) func(b *topology.Builder, s source) {
		return func(b *topology.Builder, s source) {
			say(b)
			chain(b, s)
		}
	}
	for _, c := range []struct {
		name    string
		old     *topology.Plan
		now     *topology.Plan
		verdict topology.Verdict
		orphans []string
		says    []string
	}{
		{name: "nothing", old: build("app", counts("counts")), now: build("app", counts("counts"))},
		{name: "a store renamed", old: build("app", counts("counts")), now: build("app", counts("totals")), verdict: topology.Destructive,
			orphans: []string{"app-counts-changelog"}, says: []string{`store "counts"`, `renamed to "totals"`, `Adopt("counts", "totals")`, `Retire("counts")`}},
		{name: "and adopted", old: build("app", counts("counts")),
			now: build("app", with(func(b *topology.Builder) { b.Adopt("counts", "totals") }, counts("totals")))},
		{name: "and retired", old: build("app", counts("counts")),
			now:     build("app", with(func(b *topology.Builder) { b.Retire("counts") }, counts("totals"))),
			orphans: []string{"app-counts-changelog"}, says: []string{"it was retired", `store "totals": it is new`}},
		{name: "a store removed", old: build("app", counts("counts")), now: build("app", func(_ *topology.Builder, s source) { s.To(ops.Sink(text("out"))) }),
			verdict: topology.Destructive, orphans: []string{"app-counts-changelog"}, says: []string{`store "counts"`, `Retire("counts")`}},
		{name: "a store's codec", old: build("app", counts("counts")), now: build("app", func(_ *topology.Builder, s source) {
			s.Aggregate(ops.NewState("counts", codec.String, codec.String), func(_, v, _ string) string { return v }).To(ops.Sink(text("out")))
		}), verdict: topology.NeedsMigration, says: []string{`store "counts"`, "encoded as int64 and are as string"}},
		{name: "a store's operator", old: build("app", func(_ *topology.Builder, s source) {
			s.Reduce(ops.NewState("counts", codec.String, codec.String), join).To(ops.Sink(text("out")))
		}), now: build("app", func(_ *topology.Builder, s source) {
			s.Aggregate(ops.NewState("counts", codec.String, codec.String), func(_, v, _ string) string { return v }).To(ops.Sink(text("out")))
		}), verdict: topology.NeedsMigration, says: []string{"state of Reduce and is that of Aggregate"}},
		{name: "a Rekey renamed", old: build("app", rekeyed("a")), now: build("app", rekeyed("b")), verdict: topology.Destructive,
			orphans: []string{"app-a-repartition"}, says: []string{`Adopt("a", "b")`}},
		{name: "and adopted again", old: build("app", rekeyed("a")), now: build("app", with(func(b *topology.Builder) { b.Adopt("a", "b") }, rekeyed("b")))},
		{name: "a Rekey taken out", old: build("app", rekeyed("a")), now: build("app", counts("counts")), verdict: topology.Destructive,
			orphans: []string{"app-a-repartition"}},
		{name: "a Rekey put in", old: build("app", counts("counts")), now: build("app", rekeyed("a"))},
		{name: "partitions", old: build("app", rekeyed("a")), now: build("app", rekeyed("a", ops.Partitions(7))), verdict: topology.NeedsMigration,
			says: []string{"Partitions was 0 and is 7"}},
		{name: "a partitioner", old: build("app", counts("counts")), now: build("app", counts("counts"), ops.PartitionedBy(ops.CRC32)), verdict: topology.NeedsMigration,
			says: []string{"source in", "Murmur2 and is by CRC32"}},
		{name: "a partitioner that no state depends on", old: build("app", rekeyed("a")), now: build("app", rekeyed("a"), ops.PartitionedBy(ops.CRC32))},
		{name: "the application", old: build("app", counts("counts")), now: build("application", counts("counts")), verdict: topology.Destructive,
			says: []string{`"app" and is "application"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lock, err := topology.ParseLock(c.old.Lock().Encode())
			require.NoError(t, err)
			require.Equal(t, c.old.Lock(), lock, "the encoding is all of it")
			changes := c.now.CheckLock(lock)
			require.Equal(t, c.verdict, changes.Verdict(), changes.String())
			require.Equal(t, c.orphans, changes.Orphans())
			for _, text := range c.says {
				require.Contains(t, changes.String(), text)
			}
			if c.verdict == topology.Compatible {
				require.NoError(t, changes.Err())
				return
			}
			var e *topology.LockError
			require.ErrorAs(t, changes.Err(), &e)
			require.Contains(t, e.Error(), "the plan's change is "+c.verdict.String())
			require.NotContains(t, e.Error(), "\n")
		})
	}
}

// P6, without a lock: the names of stores that hold state are enough to refuse.
func TestCheckState(t *testing.T) {
	p := everything(t, asIs, func(b *topology.Builder) { b.Retire("gone") })
	require.Empty(t, p.CheckState([]string{"answers", "counts", "joined", "last", "gone"}))
	changes := p.CheckState([]string{"answers", "joined", "last", "totals"})
	require.Equal(t, topology.Destructive, changes.Verdict())
	require.Contains(t, changes.Err().Error(), `Adopt("totals", "counts")`)
	require.Equal(t, []string{"app-totals-changelog"}, changes.Orphans())
}

// What is adopted keeps its topics, and the program's name is that of the operator in the text.
func TestAdopt(t *testing.T) {
	b := topology.New("app").Adopt("counts", "totals").Adopt("by-city", "city")
	b.From(ops.Source(text("in"))).Rekey("city", same).Aggregate(count("totals"), plusOne).To(ops.Sink(ops.NewTopic("out", codec.String, codec.Int64)))
	p, err := b.Build()
	require.NoError(t, err)
	require.Equal(t, []string{"app-by-city-repartition", "app-counts-changelog"}, internalTopics(p))
	require.Equal(t, []string{"in", "by-city"}, subNames(p))
	require.Equal(t, "counts", p.Stores()[0].Name)
	require.Equal(t, "totals", p.Stores()[0].As)
	require.Contains(t, p.Describe(), `Aggregate "totals", state in app-counts-changelog`)
}

// Adopt and Retire that cannot be meant are errors of Build.
func TestAdoptIsChecked(t *testing.T) {
	for want, say := range map[string]func(b *topology.Builder){
		`Adopt "nobody": no operator with state, and no Rekey, has that name`:       func(b *topology.Builder) { b.Adopt("old", "nobody") },
		`Adopt "counts": the old name "joined" is that of Reduce "joined" at`:       func(b *topology.Builder) { b.Adopt("joined", "counts") },
		`Adopt "counts": one of the names "old" and "counts" is in an Adopt before`: func(b *topology.Builder) { b.Adopt("older", "counts").Adopt("old", "counts") },
		`Adopt "counts": old name: the name "a b" has ' ' at byte 1`:                func(b *topology.Builder) { b.Adopt("a b", "counts") },
		`Retire "counts": "counts" is the name of Aggregate "counts" at`:            func(b *topology.Builder) { b.Retire("counts") },
		`Retire "old": "old" is adopted at`:                                         func(b *topology.Builder) { b.Adopt("old", "counts").Retire("old") },
		`Retire "": the name is empty`:                                              func(b *topology.Builder) { b.Retire("") },
	} {
		b := topology.New("app")
		say(b)
		s := b.From(ops.Source(text("in")))
		s.Aggregate(count("counts"), plusOne).To(ops.Sink(ops.NewTopic("out", codec.String, codec.Int64)))
		s.Reduce(ops.NewState("joined", codec.String, codec.String), join).To(ops.Sink(text("out2")))
		_, err := b.Build()
		require.Error(t, err)
		require.True(t, strings.Contains(strings.ReplaceAll(err.Error(), `Retire ""`, `Retire`), strings.ReplaceAll(want, `Retire ""`, `Retire`)), "%v\n%s", err, want)
	}
}

// A lock that is none, or of a later version, is an error and not an empty one.
func TestParseLockRefuses(t *testing.T) {
	for _, text := range []string{"", "{}", "null", "[]", `{"app":"a"} {}`, `{"app":"a"}}`, `{"app":"a","app":"b"}`, `{"app":"a","windows":[]}`, `{"app":1}`} {
		_, err := topology.ParseLock([]byte(text))
		require.Error(t, err, text)
		require.Contains(t, err.Error(), "plan lock: ")
	}
}
