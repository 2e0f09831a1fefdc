package topology_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

// repartitions lists the repartition topics of a plan.
func repartitions(p *topology.Plan) []string {
	names := []string{}
	for _, t := range p.Topics() {
		if t.Kind == topology.RepartitionTopic {
			names = append(names, t.Name)
		}
	}
	return names
}

// P1: which topics there are. Where they lie is in the golden files.
func TestRepartitionTopicsAreWhereStateFollows(t *testing.T) {
	for name, want := range map[string][]string{
		"chain":                   {},
		"rekey-without-state":     {},
		"rekey-with-state":        {"app-by-value-repartition"},
		"as-late-as-possible":     {"app-by-value-repartition"},
		"once-per-changed-stream": {"app-by-value-repartition"},
		"not-past-merge":          {"app-by-value-repartition"},
		"branch-both-sides":       {"app-by-value-repartition"},
		"rekey-behind-rekey":      {"app-second-repartition"},
		"two-hops":                {"app-first-repartition", "app-second-repartition"},
		"gates-at-merge":          {},
		"partitioners":            {"app-third-by-key-repartition"},
	} {
		require.Equal(t, want, repartitions(build(t, "app", features[name])), name)
	}
}

// Nothing durable is numbered: other operators and labels change no durable name.
func TestDurableNamesDoNotDependOnOtherOperators(t *testing.T) {
	declare := func(more bool) func(b *topology.Builder) {
		return func(b *topology.Builder) {
			s := b.From(ops.Source(text("in")))
			if more {
				s = s.Filter(short).Peek(func(_, _ string) {}, ops.Name("look")).MapValues(upper)
				s.To(ops.Sink(text("copy")))
			}
			s = s.Rekey("by-value", same)
			if more {
				s = s.Filter(short).Filter(short)
			}
			s = s.Memo(asks("names"), join)
			if more {
				s = s.MapValues(upper)
			}
			s.Reduce(ops.NewState("latest", codec.String, codec.String), join).To(ops.Sink(text("out")))
		}
	}
	durable := func(p *topology.Plan) []string {
		var names []string
		for _, s := range p.Subtopologies() {
			names = append(names, s.Name)
		}
		for _, t := range p.Topics() {
			if t.Kind != topology.SinkTopic {
				names = append(names, t.Name)
			}
		}
		for _, s := range p.Stores() {
			names = append(names, s.Name, s.Changelog)
		}
		return names
	}
	require.Equal(t, durable(build(t, "app", declare(false))), durable(build(t, "app", declare(true))))
}

// P2.
func TestResolveGivesInternalTopicsTheirCounts(t *testing.T) {
	for _, c := range []struct {
		feature string
		counts  map[string]int
		want    map[string]int
	}{
		{"chain", map[string]int{"in": 3}, map[string]int{}},
		{"rekey-with-state", map[string]int{"in": 3}, map[string]int{"app-by-value-repartition": 3, "app-seen-changelog": 3}},
		{"not-past-merge", map[string]int{"keyed": 5, "other": 9}, map[string]int{"app-by-value-repartition": 5, "app-seen-changelog": 5}},
		{"two-hops", map[string]int{"in": 3}, map[string]int{"app-first-repartition": 3, "app-names-changelog": 3, "app-second-repartition": 12, "app-latest-changelog": 12}},
		{"co-partitioned", map[string]int{"left": 6, "right": 6, "third": 2}, map[string]int{"app-by-value-repartition": 6, "app-seen-changelog": 6}},
		{"counts-passed-on", map[string]int{"left": 2, "right": 7}, map[string]int{"app-one-repartition": 2, "app-two-repartition": 7, "app-a-changelog": 7, "app-b-changelog": 7}},
	} {
		got, err := build(t, "app", features[c.feature]).Resolve(c.counts)
		require.NoError(t, err, c.feature)
		require.Equal(t, c.want, got, c.feature)
	}
}

func TestResolveNeedsTheCountsOfAllSources(t *testing.T) {
	_, err := build(t, "app", features["counts-passed-on"]).Resolve(map[string]int{"right": 0})
	require.EqualError(t, err, "the partition counts of source topics are not known: left, right")
}

// P2: all differences are one error, with what settles each.
func TestResolveReportsAllDifferencesAtOnce(t *testing.T) {
	plan := build(t, "app", func(b *topology.Builder) {
		a, c, d := b.From(ops.Source(text("a"))), b.From(ops.Source(text("c"))), b.From(ops.Source(text("d")))
		totals(a.Merge(c, d).Aggregate(count("one"), plusOne), "out")
		e := b.From(ops.Source(text("e")))
		fixed := b.From(ops.Source(text("f"))).Rekey("fixed", same, ops.Partitions(6))
		e.Merge(fixed).Memo(asks("two"), join).To(ops.Sink(text("out")))
		alike := b.From(ops.Source(text("g"))).Merge(b.From(ops.Source(text("h"))))
		alike.Memo(asks("three"), join).To(ops.Sink(text("out")))
	})
	_, err := plan.Resolve(map[string]int{"a": 3, "c": 4, "d": 4, "e": 8, "f": 1, "g": 2, "h": 2})
	e, ok := err.(*topology.CopartitionError)
	require.True(t, ok, "%v", err)
	require.Equal(t, []topology.Difference{
		{Subtopology: "a", Operators: []string{`Aggregate "one"`}, Want: 4,
			Topics: []topology.TopicCount{{Topic: "a", Count: 3}, {Topic: "c", Count: 4}, {Topic: "d", Count: 4}}},
		{Subtopology: "e", Operators: []string{`Memo "two"`}, Want: 8, Rekey: "fixed", Partitions: 6,
			Topics: []topology.TopicCount{{Topic: "e", Count: 8}}},
	}, e.Differences)
	e.Bootstrap = "kafka:9092"
	require.EqualError(t, e, `topics whose keys meet in state must have equal partition counts (raise one before it holds records, since its keys move): `+
		`a has 3, c has 4, d has 4 (for Aggregate "one"): kafka-topics.sh --bootstrap-server kafka:9092 --alter --topic a --partitions 4; `+
		`e has 8, Rekey "fixed" asks for 6 (for Memo "two"): ops.Partitions(8) for Rekey "fixed" in the program`)
	require.Contains(t, (&topology.CopartitionError{Differences: e.Differences}).Error(), "--bootstrap-server BROKERS ")

	resolved, err := plan.Resolve(map[string]int{"a": 4, "c": 4, "d": 4, "e": 6, "f": 1, "g": 2, "h": 2})
	require.NoError(t, err)
	require.Equal(t, 6, resolved["app-fixed-repartition"])
}

// P5: what the operator of a cluster needs.
func TestTopicsListsAllWithCountsAndSettings(t *testing.T) {
	plan := build(t, "app", features["two-hops"])
	repartition := map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800", "message.timestamp.type": "CreateTime"}
	changelog := map[string]string{"cleanup.policy": "compact"}
	want := []topology.TopicSpec{
		{Name: "in", Kind: topology.SourceTopic},
		{Name: "out", Kind: topology.SinkTopic},
		{Name: "app-first-repartition", Kind: topology.RepartitionTopic, Like: []string{"in"}, Config: repartition},
		{Name: "app-second-repartition", Kind: topology.RepartitionTopic, Partitions: 12, Config: repartition},
		{Name: "app-latest-changelog", Kind: topology.ChangelogTopic, Partitions: 12, Config: changelog},
		{Name: "app-names-changelog", Kind: topology.ChangelogTopic, Like: []string{"app-first-repartition"}, Config: changelog},
	}
	require.Equal(t, want, plan.Topics())
	changed := plan.Topics() // the result is the caller's
	changed[2].Like[0], changed[2].Config["cleanup.policy"] = "x", "x"
	require.Equal(t, want, plan.Topics())
	require.Equal(t, "source sink repartition changelog unknown", strings.Join([]string{topology.SourceTopic.String(), topology.SinkTopic.String(),
		topology.RepartitionTopic.String(), topology.ChangelogTopic.String(), topology.TopicKind(9).String()}, " "))
}

func TestATopicThatIsReadAndWrittenIsASource(t *testing.T) {
	plan := build(t, "app", features["own-topic"])
	require.Equal(t, []topology.TopicSpec{
		{Name: "in", Kind: topology.SourceTopic}, {Name: "middle", Kind: topology.SourceTopic}, {Name: "out", Kind: topology.SinkTopic},
	}, plan.Topics())
	require.Len(t, plan.Subtopologies(), 2)
}

func TestSubtopologiesSayWhatTheyNeed(t *testing.T) {
	plan := build(t, "app", features["two-hops"])
	require.Equal(t, "app", plan.Name())
	sub := plan.Subtopologies()[1]
	require.Equal(t, "first", sub.Name)
	require.Equal(t, []string{"app-first-repartition"}, sub.Sources)
	require.Equal(t, []string{"app-second-repartition"}, sub.Sinks)
	require.Equal(t, []topology.StoreSpec{{Name: "names", As: "names", Key: "string", Changelog: "app-names-changelog", Codec: "string", Op: "Memo"}}, sub.Stores)
	require.Equal(t, 1, sub.Gates)
	require.Empty(t, sub.Groups)
	require.Equal(t, []string{"latest", "names"}, []string{plan.Stores()[0].Name, plan.Stores()[1].Name})

	var names []string
	for _, at := range sub.Operators() {
		names = append(names, at.String())
	}
	require.Equal(t, []string{`Repartition "first"`, `Memo "names"`, `Rekey "second"`, `Repartition "second"`}, names)
	for _, at := range build(t, "app", features["gates-at-merge"]).Subtopologies()[0].Operators() {
		require.NotEqual(t, "Hold", at.Op, "nobody declared it")
	}
	require.Equal(t, [][]string{{"app-by-value-repartition", "left", "right"}}, build(t, "app", features["co-partitioned"]).Subtopologies()[0].Groups)
	clone := plan.Subtopologies()
	slices.Reverse(clone)
	require.Equal(t, "in", plan.Subtopologies()[0].Name)
}

// P4: which sources feed state by the key that their records have there.
func TestSourceSpecsSayWhichFeedState(t *testing.T) {
	p := build(t, "app", func(b *topology.Builder) {
		crc := b.From(ops.Source(text("crc"), ops.PartitionedBy(ops.CRC32), ops.OnMisplaced(ops.CountMisplaced)))
		totals(crc.Filter(short).Aggregate(count("seen"), plusOne), "out")
		moved := b.From(ops.Source(text("moved"), ops.PartitionedBy(ops.RoundRobin))).Repartition("by-key")
		totals(moved.Aggregate(count("moved"), plusOne), "out")
		b.From(ops.Source(text("passed"))).To(ops.Sink(text("out")))
	})
	var got []string
	for _, sub := range p.Subtopologies() {
		for _, spec := range sub.SourceSpecs() {
			got = append(got, fmt.Sprint(spec.Topic, " ", spec.Keyed, " ", spec.Partitioner, " ", spec.OnMisplaced == ops.CountMisplaced))
		}
	}
	require.Equal(t, []string{"crc true CRC32 true", "moved false RoundRobin false", "app-by-key-repartition true Murmur2 false", "passed false Murmur2 false"}, got)
}

// E7: what the executor must know of each source.
func TestE7SourceSpecsSayHowEachSourceIsRead(t *testing.T) {
	p := build(t, "app", func(b *topology.Builder) {
		s := b.From(ops.Source(text("in"), ops.OnLost(ops.FromLatest))).Rekey("by-value", same)
		totals(s.Aggregate(count("seen"), plusOne), "out")
	})
	var got []string
	for _, sub := range p.Subtopologies() {
		for i, spec := range sub.SourceSpecs() {
			require.Equal(t, sub.Sources[i], spec.Topic)
			require.Contains(t, sub.Operators(), spec.At)
			got = append(got, fmt.Sprint(spec.At, " ", spec.Repartition, " ", spec.OnLost))
		}
	}
	require.Equal(t, []string{`Source "in" false FromLatest`, `Repartition "by-value" true EndRun`}, got)
	require.Equal(t, "LostPolicy(7)", ops.LostPolicy(7).String())
}
