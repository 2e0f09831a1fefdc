package exec_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

// The reference's acceptance cases for global tables, invalid records and start-up, on brokers. Those on the log in memory are beside what they are about: invalid_test.go,
// tables_test.go, globaltable/loader_test.go. Where this library does otherwise than the reference, the case says so.

// produce writes records with bytes as they are.
func (r *rig) produce(records ...kafka.Record) {
	r.t.Helper()
	require.NoError(r.t, r.c.ProduceTo(r.t.Context(), records...))
}

// IN-04, IN-08: offsets 0 bad, 1 good, 2 bad with skip: one output, offset 3, two counted; a topic of bad records only advances too.
func TestIN04SkippedRecordsOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		text := codec.String
		plan, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, text, text), ops.OnInvalid(ops.SkipInvalid))).
			To(ops.Sink(ops.NewTopic(r.out, text, text))).Build()
		require.NoError(t, err)
		bad := kafka.Record{Topic: r.in, Key: []byte("k"), Value: []byte("\xff")}
		r.produce(bad, kafka.Record{Topic: r.in, Key: []byte("k"), Value: []byte("good")}, bad)
		i := launch(t, b, plan)
		r.settle(i)
		require.Equal(t, []string{"k=good"}, pairs(r.read(r.out)))
		require.EqualValues(t, 3, r.committed(0))
		require.EqualValues(t, 2, i.app.Stats().Counters[`Source "`+r.in+`"`][ops.CountSkipped])
		require.EqualValues(t, 3, i.app.Stats().In[r.in])
		r.produce(bad, bad)
		r.settle(i)
		require.EqualValues(t, 5, r.committed(0))
		i.drain()
	})
}

// IN-06, IN-07: a substitute drives the state's key; a bad key under Substitute ends the run, and is passed over under SkipInvalid.
func TestIN06SubstitutedValuesOnKafka(t *testing.T) {
	type doc struct {
		ID string `json:"id"`
	}
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		plan := func(on ops.InvalidPolicy) *topology.Plan {
			p, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, codec.String, codec.JSON[doc]()), ops.OnInvalid(on))).
				Rekey("by-id", func(_ string, d doc) string { return d.ID }).
				Aggregate(ops.NewState("n", codec.String, codec.JSON[int]()), func(_ string, _ doc, n int) int { return n + 1 }).
				To(ops.Sink(ops.NewTopic(r.out, codec.String, codec.JSON[int]()))).Build()
			require.NoError(t, err)
			return p
		}
		instead := ops.Substitute(func(ops.InvalidRecord) (doc, bool) { return doc{"r"}, true })
		r.put("k", `{"id":"a"}`, "k", "no json")
		i := launch(t, b, plan(instead))
		r.settle(i)
		i.drain()
		require.Equal(t, map[string][]string{"a": {"1"}, "r": {"1"}}, r.byKey())
		require.Len(t, r.read(r.changelog("n")), 2)
		r.produce(kafka.Record{Topic: r.in, Key: []byte{0xff, 0xfe}, Value: []byte(`{"id":"b"}`)})
		err := <-launch(t, b, plan(instead)).end
		require.ErrorContains(t, err, "offset 2: a key cannot be substituted: decode key")
		require.ErrorIs(t, err, codec.ErrUTF8)
		i = launch(t, b, plan(ops.SkipInvalid))
		r.settle(i)
		i.drain()
		require.Equal(t, map[string][]string{"a": {"1"}, "r": {"1"}}, r.byKey())
	})
}

// IN-09: what an application has written itself never gets to a policy: state that cannot be decoded ends the run.
func TestIN09StateIsNoMatterOfAPolicy(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.put(0, "k", "1")
		b.run(b.tolerant(ops.SkipInvalid), memlog.Faults{}).idle().drain()
		_, err := b.log.Append(t.Context(), benchLog, 0, []commitlog.Record{{Timestamp: 1, Key: []byte("k"), Value: []byte("\xff")}})
		require.NoError(t, err)
		b.put(0, "k", "2")
		err = <-b.run(b.tolerant(ops.SkipInvalid), memlog.Faults{}).end
		require.ErrorContains(t, err, "decode state: ")
		require.Equal(t, []string{"k=1"}, b.texts("out", 0))
	})
}

// CF-10, CF-18, CF-23: a row in partition 0 of 2 is met by a request in partition 3 of 4, by its key; one that is written later, in partition 1, by the next.
func TestCF18RowsAreFoundFromAnyPartitionOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 4)
		rows := r.app + "-rows"
		require.NoError(t, r.c.CreateTopic(t.Context(), rows, 2, map[string]string{"cleanup.policy": "compact"}))
		text := codec.String
		table := globaltable.New(rows, text, text)
		plan, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, text, text))).
			LeftLookup(table, func(_, v string) string { return v }, func(_, row string, _ bool) string { return row }).
			To(ops.Sink(ops.NewTopic(r.out, text, text))).Build()
		require.NoError(t, err)
		r.produce(kafka.Record{Topic: rows, Partition: 0, Key: []byte("k1"), Value: []byte("s1")})
		ask := func(key string) {
			r.produce(kafka.Record{Topic: r.in, Partition: 3, Key: []byte("q"), Value: []byte(key)})
		}
		ask("k1")
		i := launch(t, b, plan)
		r.settle(i)
		require.Equal(t, []string{"q=s1"}, pairs(r.read(r.out)))
		r.produce(kafka.Record{Topic: rows, Partition: 1, Key: []byte("k2"), Value: []byte("s2")})
		i.await("the row", func() bool { return i.app.Stats().Tables[rows].Rows == 2 })
		ask("k2")
		r.settle(i)
		require.Equal(t, []string{"q=s1", "q=s2"}, pairs(r.read(r.out)))
		i.drain()
	})
}

// CF-05 to CF-08, CF-13 to CF-17: what makes a row, what deletes one, what is enriched and how often, and what becomes of invalid records. Other than in the
// reference a skip at the start leaves the valid record that came before, as it does later, if compaction has left that.
func TestCF13RowsOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		type conf struct {
			V string `json:"v,omitempty"`
		}
		r := newRig(t, b, 1)
		rows := r.app + "-rows"
		require.NoError(t, r.c.CreateTopic(t.Context(), rows, 1, map[string]string{"cleanup.policy": "compact"}))
		plain := r.app + "-plain" // Kafka takes no null keys in a compacted topic
		require.NoError(t, r.c.CreateTopic(t.Context(), plain, 1, nil))
		var enriched atomic.Int64
		plan := func(change func(globaltable.Table[string, conf]) globaltable.Table[string, conf]) (*topology.Plan, globaltable.Table[string, conf]) {
			table := change(globaltable.New(rows, codec.String, codec.JSON[conf]()).Topics(rows, plain).Enrich(func(_ string, c conf) (conf, error) {
				enriched.Add(1)
				return conf{c.V + "!"}, nil
			}))
			p, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, codec.String, codec.String))).
				LeftLookup(table, func(_, v string) string { return v }, func(_ string, row conf, ok bool) string { return fmt.Sprint(row.V, ok) }).
				To(ops.Sink(ops.NewTopic(r.out, codec.String, codec.String))).Build()
			require.NoError(t, err)
			return p, table
		}
		row := func(key, value string) {
			rec := kafka.Record{Topic: rows, Key: []byte(key)}
			if value != "null" {
				rec.Value = []byte(value)
			}
			r.produce(rec)
		}
		view := func(i *instance, table globaltable.Table[string, conf]) map[string]string {
			v, err := i.app.Table(table)
			require.NoError(t, err)
			require.NoError(t, v.Ready(t.Context()))
			m := map[string]string{}
			var failed error
			for k, c := range v.All(&failed) {
				m[k] = c.V
			}
			require.NoError(t, failed)
			return m
		}
		for _, v := range []string{`{"v":"1"}`, `{"v":"2"}`, `{"v":"3"}`} {
			row("k", v)
		}
		for key, value := range map[string]string{"null": "null", "none": "", "object": "{}"} {
			row(key, `{"v":"x"}`)
			row(key, value)
		}
		row("spaced", "{ }")
		r.produce(kafka.Record{Topic: plain, Value: []byte(`{"v":"of no key"}`)})
		same := func(t globaltable.Table[string, conf]) globaltable.Table[string, conf] { return t }
		p, table := plan(same)
		i := launch(t, b, p)
		require.Equal(t, map[string]string{"k": "3!", "spaced": "!", "": "of no key!"}, view(i, table))
		require.EqualValues(t, 3, enriched.Load(), "once for each that is left")
		require.EqualValues(t, 1, i.app.Stats().Tables[rows].NullKeys)
		row("k", `{"v":"4"}`)
		i.await("the update", func() bool { return view(i, table)["k"] == "4!" })
		require.EqualValues(t, 4, enriched.Load())
		r.put("q", "k", "q", "k")
		r.settle(i)
		require.Equal(t, []string{"q=4!true", "q=4!true"}, pairs(r.read(r.out)))
		require.EqualValues(t, 4, enriched.Load(), "and for no lookup")
		// Invalid ones, to a table that skips them: live, and at the next start.
		i.drain()
		skips, table := plan(func(t globaltable.Table[string, conf]) globaltable.Table[string, conf] { return t.SkipInvalid() })
		i = launch(t, b, skips)
		row("k", "null")
		row("k", `{"v":"5"}`)
		row("k", "no json")
		row("\xff", "null")
		row("last", `{"v":"6"}`)
		i.await("all of them", func() bool { return view(i, table)["last"] == "6!" })
		live := view(i, table)
		require.Equal(t, "5!", live["k"])
		require.EqualValues(t, 2, i.app.Stats().Tables[rows].Invalid)
		i.drain()
		i = launch(t, b, skips)
		require.Equal(t, live, view(i, table), "the same after a restart")
		i.drain()
		// To one that replaces values: the key that cannot be decoded ends the run, and a tombstone of the whole table's is not asked about.
		replaces, _ := plan(func(t globaltable.Table[string, conf]) globaltable.Table[string, conf] {
			return t.SubstituteInvalid(func(globaltable.InvalidRecord) (conf, bool) { return conf{"instead"}, true })
		})
		err := exec.Run(t.Context(), replaces, exec.Config{Brokers: []string{b.Addr()}})
		var re *globaltable.RecordError
		require.ErrorAs(t, err, &re)
		require.Equal(t, "key", re.Part)
		require.False(t, strings.Contains(err.Error(), "no json"))
	})
}

// CF-21, VA-01, VA-14: what is refused before anything is asked of a cluster, and what building and asking do without one.
func TestVA01WhatIsRefusedWithoutACluster(t *testing.T) {
	text := codec.String
	rows := globaltable.New("rows", text, text)
	_, err := topology.New("app").Build()
	require.ErrorContains(t, err, "has no source")
	b := topology.New("app")
	b.From(ops.Source(ops.NewTopic("rows", text, text))).
		Lookup(rows, func(_, v string) string { return v }, func(v, _ string) string { return v }).To(ops.Sink(ops.NewTopic("out", text, text)))
	_, err = b.Build()
	require.ErrorContains(t, err, "its topic rows is read as a stream", "a topic that is input and table")
	plan, err := topology.New("app").From(ops.Source(ops.NewTopic("in", text, text))).To(ops.Sink(ops.NewTopic("out", text, text))).Build()
	require.NoError(t, err)
	app, err := exec.New(plan, exec.Config{Brokers: []string{"nowhere.invalid:1"}})
	require.NoError(t, err, "New does no I/O")
	_, err = app.Table(rows)
	require.ErrorContains(t, err, "the plan does not look up in table rows")
	require.Empty(t, app.Stats().Tables)
}
