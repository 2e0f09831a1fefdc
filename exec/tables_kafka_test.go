package exec_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/topology"
)

// CF-01 to CF-03, CF-10, CF-12, CF-18, CF-19 on brokers: a table of two topics with other partition counts than the input, read before the
// group is joined by every instance and followed; what was aborted is never seen, what is open when it commits; no offsets are
// committed for it. Rows written in one transaction come with it.
func TestCF12TablesOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 2)
		one, two := r.app+"-one", r.app+"-two"
		require.NoError(t, r.c.CreateTopic(t.Context(), one, 3, map[string]string{"cleanup.policy": "compact"}))
		require.NoError(t, r.c.CreateTopic(t.Context(), two, 1, map[string]string{"cleanup.policy": "compact"}))
		text := codec.String
		table := globaltable.New("rows", text, text).Topics(one, two)
		plan, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, text, text))).
			LeftLookup(table, func(_, v string) string { return v }, func(v, row string, ok bool) string { return fmt.Sprint(v, ":", row, ":", ok) }).
			To(ops.Sink(ops.NewTopic(r.out, text, text))).Build()
		require.NoError(t, err)
		row := func(topic string, p int32, key, value string) kafka.Record {
			rec := kafka.Record{Topic: topic, Partition: p, Key: []byte(key)}
			if value != "" {
				rec.Value = []byte(value)
			}
			return rec
		}
		begin := func(name string, rows ...kafka.Record) *kafka.Txn {
			txn, err := r.c.Begin(t.Context(), r.app+name)
			require.NoError(t, err)
			require.NoError(t, txn.Produce(t.Context(), rows...))
			return txn
		}
		require.NoError(t, r.c.ProduceTo(t.Context(), row(one, 0, "a", "old"), row(one, 0, "a", "1"), row(one, 1, "b", "2"), row(one, 2, "gone", "3"), row(one, 2, "gone", "")))
		require.NoError(t, r.c.ProduceTo(t.Context(), row(two, 0, "c", "4")))
		require.NoError(t, begin("-aborted", row(one, 0, "a", "aborted"), row(two, 0, "d", "aborted")).Abort(t.Context()))
		open := begin("-open", row(one, 1, "b", "22"), row(two, 0, "d", "5"))
		r.put("k", "a", "k", "b", "k", "c", "k", "d", "k", "gone")
		first, second := launch(t, b, plan), launch(t, b, plan)
		first.await("a task each", func() bool { return first.app.Stats().Tasks == 1 && second.app.Stats().Tasks == 1 })
		r.settle(first)
		require.Equal(t, []string{"k=a:1:true", "k=b:2:true", "k=c:4:true", "k=d::false", "k=gone::false"}, pairs(r.read(r.out)))
		require.NoError(t, open.Commit(t.Context()))
		for _, i := range []*instance{first, second} {
			view, err := i.app.Table(table)
			require.NoError(t, err)
			i.await("the rows of the transaction", func() bool {
				row, _, err := view.Get("b")
				require.NoError(t, err)
				return row == "22" && view.Len() == 4
			})
		}
		r.put("k", "b", "k", "d")
		r.settle(first)
		require.Equal(t, []string{"k=b:22:true", "k=d:5:true"}, pairs(r.read(r.out))[5:])
		lags, err := first.app.Lag(t.Context())
		require.NoError(t, err)
		ofTable := 0
		for _, l := range lags {
			if l.Table == "rows" {
				ofTable++
				require.Zero(t, l.Waiting())
			}
		}
		require.Equal(t, 4, ofTable)
		first.drain()
		second.drain()
		offsets, err := r.c.CommittedOffsets(t.Context(), r.app)
		require.NoError(t, err)
		for tp := range offsets {
			require.Equal(t, r.in, tp.Topic)
		}
	})
}

// onDiskTable is the table of a topic, on disk.
func onDiskTable(topic string) globaltable.Table[string, string] {
	return globaltable.New(topic, codec.String, codec.String).OnDisk("")
}

// lookingOnDisk is a plan that looks up each record's value there.
func lookingOnDisk(app, in string, table globaltable.Table[string, string], out string) (*topology.Plan, error) {
	text := codec.String
	return topology.New(app).From(ops.Source(ops.NewTopic(in, text, text), anywhere)).
		LeftLookup(table, func(_, v string) string { return v }, func(v, row string, ok bool) string { return fmt.Sprint(v, ":", row, ":", ok) }).
		To(ops.Sink(ops.NewTopic(out, text, text))).Build()
}

// VA-03 on brokers: a table's topic that does not exist is an error before the group is joined.
func TestVA03ATableWithoutATopicOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		text := codec.String
		plan, err := topology.New(r.app).From(ops.Source(ops.NewTopic(r.in, text, text))).
			Lookup(globaltable.New(r.app+"-none", text, text), func(k, _ string) string { return k }, func(v, _ string) string { return v }).
			To(ops.Sink(ops.NewTopic(r.out, text, text))).Build()
		require.NoError(t, err)
		select {
		case err := <-launch(t, b, plan).end:
			var te *exec.TopicsError
			require.ErrorAs(t, err, &te)
			require.ErrorContains(t, err, "table topic "+r.app+"-none does not exist: create it with")
		case <-time.After(30 * time.Second):
			require.Fail(t, "it runs")
		}
	})
}
