package exec_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

type nullable = topology.Stream[*string, *string]

// show is a nullable text.
func show(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// nullOperators are the rows of the table in docs/records.md: what becomes of a record with a null key, a null value, and both. An
// outcome that begins with "error: " ends the run, "nothing" is none, all else is what is put out.
var nullOperators = map[string]struct {
	chain            func(b *topology.Builder, s nullable) nullable
	key, value, both string
}{
	"none": {func(_ *topology.Builder, s nullable) nullable { return s }, "null=v", "k=null", "null=null"},
	"Map": {func(_ *topology.Builder, s nullable) nullable {
		return s.Map(func(k, v *string) (*string, *string) { return k, new(show(v) + "!") })
	}, "null=v!", "k=null!", "null=null!"},
	"MapValues": {func(_ *topology.Builder, s nullable) nullable {
		return s.MapValues(func(v *string) *string { return new(show(v) + "!") })
	}, "null=v!", "k=null!", "null=null!"},
	"TryMapValues": {func(_ *topology.Builder, s nullable) nullable {
		return s.TryMapValues(func(v *string) (*string, error) { return new(show(v) + "!"), nil })
	}, "null=v!", "k=null!", "null=null!"},
	"Filter": {func(_ *topology.Builder, s nullable) nullable {
		return s.Filter(func(_, _ *string) bool { return true })
	}, "null=v", "k=null", "null=null"},
	"FlatMap": {func(_ *topology.Builder, s nullable) nullable {
		return s.FlatMap(func(k, v *string, emit func(*string, *string)) { emit(k, v) })
	}, "null=v", "k=null", "null=null"},
	"Merge": {func(_ *topology.Builder, s nullable) nullable {
		yes, no := s.Branch(func(_, v *string) bool { return v == nil })
		return yes.Merge(no)
	}, "null=v", "k=null", "null=null"},
	"Rekey": {func(_ *topology.Builder, s nullable) nullable {
		return s.Rekey("by", func(k, _ *string) *string { return k }, ops.KeyCodec(codec.Nullable(codec.String)))
	}, "error: the new key is absent", "k=null", "error: the new key is absent"},
	"Rekey, AbsentKey(Drop)": {func(_ *topology.Builder, s nullable) nullable {
		return s.Rekey("by", func(k, _ *string) *string { return k }, ops.KeyCodec(codec.Nullable(codec.String)), ops.AbsentKey(ops.Drop))
	}, "nothing", "k=null", "nothing"},
	"Repartition": {func(_ *topology.Builder, s nullable) nullable { return s.Repartition("by") }, "error: the new key is absent", "k=null", "error: the new key is absent"},
	"Memo": {func(_ *topology.Builder, s nullable) nullable {
		ask := func(context.Context, *string) (string, error) { return "a", nil }
		return s.Memo(ops.Memo("memo", codec.String, ask), func(v *string, a string) *string { return new(show(v) + a) })
	}, "error: the key is null", "k=nulla", "error: the key is null"},
	"Reduce": {func(_ *topology.Builder, s nullable) nullable {
		return s.Reduce(ops.NewState("n", codec.Nullable(codec.String), codec.Nullable(codec.String)), func(_, v *string) *string { return v })
	}, "error: the key is null", "k=null", "error: the key is null"},
	"Aggregate": {func(_ *topology.Builder, s nullable) nullable {
		return s.Aggregate(ops.NewState("n", codec.Nullable(codec.String), codec.Nullable(codec.String)), func(_, v, _ *string) *string { return new(show(v) + "!") })
	}, "error: the key is null", "k=null!", "error: the key is null"},
	"LeftLookup, by the value": {func(_ *topology.Builder, s nullable) nullable {
		rows := globaltable.New("rows", codec.Nullable(codec.String), codec.String)
		return s.LeftLookup(rows, func(_, v *string) *string { return v }, func(v *string, row string, ok bool) *string { return new(show(v) + ":" + row) })
	}, "null=v:of v", "k=null:", "null=null:"},
	"LeftJoin": {func(b *topology.Builder, s nullable) nullable {
		table := b.Table("keyed", ops.Source(ops.NewTopic("keyed", codec.Nullable(codec.String), codec.String), anywhere))
		return s.LeftJoin(table, func(v *string, row string, ok bool) *string { return new(show(v) + ":" + row) })
	}, "error: the key is null", "k=null:of k", "error: the key is null"},
	"Stream.Table": {func(_ *topology.Builder, s nullable) nullable {
		t := s.Table(ops.NewState("n", codec.Nullable(codec.String), codec.Nullable(codec.String)))
		return topology.Updates(t, ops.ValueCodec(codec.Nullable(codec.Nullable(codec.String)))).MapValues(func(v **string) *string {
			if v == nil {
				return new("deleted")
			}
			return *v
		})
	}, "error: the key is null", "nothing", "error: the key is null"},
}

// AT-05, TX-13: null keys and null values, for every operator: see docs/records.md, whose table these are.
func TestNullsOfEveryOperator(t *testing.T) {
	text := codec.Nullable(codec.String)
	for name, c := range nullOperators {
		for _, in := range []struct {
			what, key, value, want string
		}{{"null key", "", "v", c.key}, {"null value", "k", "", c.value}, {"both", "", "", c.both}} {
			t.Run(name+"/"+in.what, func(t *testing.T) {
				onBench(t, 1, func(t *testing.T, b *bench) {
					b.create("rows", 1, nil)
					b.create("keyed", 1, nil)
					b.putTo("rows", 0, "v", "of v")
					b.putAt("keyed", 0, "k", "of k")
					r := commitlog.Record{Timestamp: 1}
					if in.key != "" {
						r.Key = []byte(in.key)
					}
					if in.value != "" {
						r.Value = []byte(in.value)
					}
					_, err := b.log.Append(t.Context(), "in", 0, []commitlog.Record{r})
					require.NoError(t, err)
					tb := topology.New("app")
					c.chain(tb, tb.From(ops.Source(ops.NewTopic("in", text, text), anywhere))).To(ops.Sink(ops.NewTopic("out", text, text)))
					plan, err := tb.Build()
					require.NoError(t, err)
					s := b.run(plan, memlog.Faults{})
					if says, ok := strings.CutPrefix(in.want, "error: "); ok {
						require.ErrorContains(t, <-s.end, says)
						return
					}
					s.idle().drain()
					recs, err := b.log.Records("out", 0, commitlog.ReadCommitted)
					require.NoError(t, err)
					got := "nothing"
					for _, r := range recs {
						got = show(textOf(r.Key)) + "=" + show(textOf(r.Value))
					}
					require.Equal(t, in.want, got)
				})
			})
		}
	}
}

func textOf(b []byte) *string {
	if b == nil {
		return nil
	}
	return new(string(b))
}

// Records of a table's topic: a null value deletes the row, whatever was there, and a null key ends the run; of no bytes is a row.
func TestNullsOfATablesTopic(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.create("rows", 1, nil)
		b.putAt("rows", 1, "a", "null")
		b.putAt("rows", 1, "b", "")
		b.putAt("in", 2, "a", "x")
		b.putAt("in", 2, "b", "x")
		b.run(b.joined(), memlog.Faults{}).idle().drain()
		require.Equal(t, []string{"a=x::false", "b=x::true"}, b.texts("out", 0))
		_, err := b.log.Append(t.Context(), "rows", 0, []commitlog.Record{{Timestamp: 3, Value: []byte("v")}})
		require.NoError(t, err)
		require.ErrorContains(t, <-b.run(b.joined(), memlog.Faults{}).end, `Table "rows": topic rows partition 0 offset 2: the key is null`)
	})
}

// Timestamps go along: of a record and whatever it becomes. One without is processed before all that is there, and its outputs have none; or ends the run, or is passed over
// and counted.
func TestTimestampsThatAreMissing(t *testing.T) {
	run := func(t *testing.T, p ops.TimestampPolicy, then func(b *bench, s *seat)) {
		onBench(t, 1, func(t *testing.T, b *bench) {
			plan, err := topology.New("app").From(ops.Source(benchIn, anywhere, ops.OnTimestamp(p))).
				Aggregate(benchSum, func(_, v, s string) string { return s + v }).To(ops.Sink(benchOut)).Build()
			require.NoError(t, err)
			b.putAt("in", 7, "k", "1")
			b.putAt("in", -1, "k", "2")
			b.putAt("in", 9, "k", "3")
			then(b, b.run(plan, memlog.Faults{}))
		})
	}
	stamps := func(b *bench) (all []int64) {
		recs, err := b.log.Records("out", 0, commitlog.ReadCommitted)
		require.NoError(b.t, err)
		for _, r := range recs {
			all = append(all, r.Timestamp)
		}
		return all
	}
	run(t, ops.KeepTimestamp, func(b *bench, s *seat) {
		s.idle().drain()
		require.Equal(b.t, []string{"k=1", "k=12", "k=123"}, b.texts("out", 0))
		require.Equal(b.t, []int64{7, -1, 9}, stamps(b))
	})
	run(t, ops.SkipTimestamp, func(b *bench, s *seat) {
		s.idle().drain()
		require.Equal(b.t, []string{"k=1", "k=13"}, b.texts("out", 0))
		require.Equal(b.t, []int64{7, 9}, stamps(b))
		require.EqualValues(b.t, 1, s.app.Stats().Counters[`Source "in"`][ops.CountSkipped])
		require.EqualValues(b.t, 3, b.offset(0))
	})
	run(t, ops.RefuseTimestamp, func(b *bench, s *seat) {
		err := <-s.end
		require.ErrorIs(b.t, err, ops.ErrTimestamp)
		require.ErrorContains(b.t, err, `Source "in": topic in partition 0 offset 1: the record has no timestamp`)
	})
}
