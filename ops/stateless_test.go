package ops_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
)

// A record whose new key is absent follows the option, and only that.
func TestRekeyToAnAbsentKeyFollowsItsOption(t *testing.T) {
	empty, full := "", "k"
	for _, c := range []struct {
		policy  ops.AbsentKeyPolicy
		key     *string
		passes  bool
		err     error
		dropped int64
	}{
		{ops.Fail, &full, true, nil, 0},
		{ops.Fail, &empty, false, ops.ErrAbsentKey, 0},
		{ops.Fail, nil, false, ops.ErrAbsentKey, 0},
		{ops.Drop, &full, true, nil, 0},
		{ops.Drop, &empty, false, nil, 1},
		{ops.Drop, nil, false, nil, 1},
		{ops.Keep, &full, true, nil, 0},
		{ops.Keep, &empty, true, nil, 0},
		{ops.Keep, nil, false, ops.ErrAbsentKey, 0},
	} {
		e := newEnv(t)
		passed := 0
		rekey := wire(t, e, ops.RekeyOp[string, int, *string]{Durable: "r", Key: codec.Nullable(codec.String), Absent: c.policy,
			F: func(string, int) *string { return c.key }}, func(k *string, v int) error {
			passed++
			require.Same(t, c.key, k)
			require.Equal(t, 7, v)
			return nil
		})
		what := fmt.Sprintf("%+v", c)
		require.ErrorIs(t, rekey("old", 7), c.err, what)
		require.Equal(t, c.passes, passed == 1, what)
		require.Equal(t, c.dropped, e.counters["Rekey dropped"].Value(), what)
	}
	require.Equal(t, ops.Fail, ops.AbsentKeyPolicy(0), "the default")
}

func TestRekeyReportsAKeyThatCannotBeEncoded(t *testing.T) {
	e := newEnv(t)
	rekey := wire(t, e, ops.RekeyOp[string, int, string]{Durable: "r", Key: codec.String, Absent: ops.Drop,
		F: func(string, int) string { return "\xff" }}, nothing)
	require.ErrorIs(t, rekey("k", 1), codec.ErrUTF8, "this is no absent key")
	require.Equal(t, `Rekey "r"`, e.meta.At.String())
}

func TestFilterCountsWhatItLeavesOut(t *testing.T) {
	e := newEnv(t)
	var out list[string, int]
	filter := wire(t, e, ops.FilterOp[string, int]{F: func(_ string, v int) bool { return v%3 == 0 }}, out.emit)
	for i := range 10 {
		require.NoError(t, filter("k", i))
	}
	require.Equal(t, []string{"k=0", "k=3", "k=6", "k=9"}, out.all)
	require.Equal(t, int64(6), e.counters["Filter dropped"].Value())
}

func TestBranchSendsEachRecordOneWay(t *testing.T) {
	e := newEnv(t)
	var yes, no list[string, int]
	branch, err := ops.BranchOp[string, int]{F: func(_ string, v int) bool { return v > 2 }}.Wire(e.site(ops.Traits{Op: "Branch"}, 0), yes.emit, no.emit)
	require.NoError(t, err)
	for i := range 5 {
		require.NoError(t, branch("k", i))
	}
	require.Equal(t, []string{"k=3", "k=4"}, yes.all)
	require.Equal(t, []string{"k=0", "k=1", "k=2"}, no.all)
	require.Empty(t, e.counters, "nothing is left out")
}

func TestMapsChangeRecords(t *testing.T) {
	e := newEnv(t)
	var out list[string, string]
	inner := wire(t, e, ops.MapValuesOp[string, int, string]{F: func(v int) string { return fmt.Sprint("<", v, ">") }}, out.emit)
	outer := wire(t, e, ops.MapOp[int, string, string, int]{F: func(k int, v string) (string, int) { return v, k * 2 }}, inner)
	var seen []string
	peek := wire(t, e, ops.PeekOp[int, string]{F: func(k int, v string) { seen = append(seen, fmt.Sprint(k, v)) }}, outer)
	require.NoError(t, peek(1, "a"))
	require.NoError(t, peek(2, "b"))
	require.Equal(t, []string{"a=<2>", "b=<4>"}, out.all)
	require.Equal(t, []string{"1a", "2b"}, seen)
}

// FlatMap emits in order; after an error its function goes on, but nothing more is passed.
func TestFlatMapStopsPassingAfterAnError(t *testing.T) {
	e := newEnv(t)
	var out list[string, int]
	calls := 0
	flat := wire(t, e, ops.FlatMapOp[string, int, string, int]{F: func(k string, n int, emit func(string, int)) {
		for i := range n {
			calls++
			emit(k, i)
		}
	}}, out.emit)
	require.NoError(t, flat("a", 3))
	require.NoError(t, flat("b", 0))
	require.Equal(t, []string{"a=0", "a=1", "a=2"}, out.all)
	out.err = errors.New("full")
	require.ErrorIs(t, flat("c", 3), out.err)
	require.Equal(t, 6, calls)
	require.Equal(t, []string{"a=0", "a=1", "a=2", "c=0"}, out.all)
	out.err = nil
	require.NoError(t, flat("d", 1), "the error was that record's")
}

// A panic names the operator whose function it was in, also behind one that was called within.
func TestTheOperatorInProcessIsKnown(t *testing.T) {
	e := newEnv(t)
	inner := wire(t, e, ops.FilterOp[string, int]{Label: "inner", F: func(string, int) bool { return true }}, func(string, int) error {
		require.Equal(t, `Filter "inner"`, e.meta.At.String())
		return nil
	})
	flat := wire(t, e, ops.FlatMapOp[string, int, string, int]{Label: "outer", F: func(k string, n int, emit func(string, int)) {
		require.Equal(t, `FlatMap "outer"`, e.meta.At.String())
		emit(k, n)
		require.Equal(t, `FlatMap "outer"`, e.meta.At.String(), "again, behind what it emitted")
	}}, inner)
	require.NoError(t, flat("k", 1))
}

// Key before value; the error has the part and the cause, and no content.
func TestSourceDecodesStrictly(t *testing.T) {
	e := newEnv(t)
	var out list[string, int64]
	source := ops.Source(ops.NewTopic("in", codec.String, codec.Int64))
	in, err := source.Wire(e.site(source.Traits(), 0), out.emit)
	require.NoError(t, err)
	eight := []byte("\x00\x00\x00\x00\x00\x00\x00\x2a")
	for _, c := range []struct {
		key, value []byte
		part       string
		cause      error
	}{
		{[]byte("secret\xff"), []byte("x"), "key", codec.ErrUTF8},
		{[]byte("secret"), nil, "value", codec.ErrNull},
		{[]byte("secret"), []byte("secrets"), "value", codec.ErrLength},
	} {
		err := in(c.key, c.value)
		require.ErrorIs(t, err, c.cause)
		d, ok := errors.AsType[*ops.DecodeError](err)
		require.True(t, ok)
		require.Equal(t, c.part, d.Part)
		require.Contains(t, err.Error(), "decode "+c.part+": ")
		require.NotContains(t, err.Error(), "secret")
		require.Equal(t, `Source "in"`, e.meta.At.String())
	}
	require.Empty(t, out.all)
	require.NoError(t, in([]byte("k"), eight))
	require.Equal(t, []string{"k=42"}, out.all)

	numbers := ops.Source(ops.NewTopic("numbers", codec.Int64, codec.Int64))
	in, err = numbers.Wire(e.site(numbers.Traits(), 0), nothing)
	require.NoError(t, err)
	require.ErrorIs(t, in(nil, eight), codec.ErrNull)
}

func TestSinkWritesWhatItGets(t *testing.T) {
	e := newEnv(t)
	sink := ops.Sink(ops.NewTopic("out", codec.Nullable(codec.String), codec.Nullable(codec.String)))
	out, err := sink.Wire(e.site(sink.Traits(), 0))
	require.NoError(t, err)
	word, none, bad := "word", "", "secret\xff"
	for _, c := range []struct{ key, value *string }{{&word, &none}, {nil, &word}, {&none, nil}, {&word, &word}} {
		e.meta.Offset++
		require.NoError(t, out(c.key, c.value))
		for _, part := range []struct {
			given *string
			wrote []byte
		}{{c.key, e.outputs["out"].key}, {c.value, e.outputs["out"].value}} {
			require.Equal(t, part.given == nil, part.wrote == nil, "null is null and empty is empty")
			if part.given != nil {
				require.Equal(t, *part.given, string(part.wrote))
			}
		}
		require.Equal(t, e.meta.Offset, e.outputs["out"].meta.Offset, "of the record that it came from")
	}
	for part, err := range map[string]error{"key": out(&bad, &word), "value": out(&word, &bad)} {
		require.ErrorIs(t, err, codec.ErrUTF8)
		en, ok := errors.AsType[*ops.EncodeError](err)
		require.True(t, ok)
		require.Equal(t, part, en.Part)
		require.Contains(t, err.Error(), "encode "+part+": ")
		require.NotContains(t, err.Error(), "secret")
	}
	require.Equal(t, 4, e.outputs["out"].n)
	e.fail = errors.New("broker")
	require.ErrorIs(t, out(&word, &word), e.fail)
	sink.Topic.Name = "missing"
	_, err = sink.Wire(e.site(sink.Traits(), 0))
	require.EqualError(t, err, "no such topic")
}

func TestStatelessOperatorsAllocateNothing(t *testing.T) {
	e := newEnv(t)
	sink := ops.Sink(ops.NewTopic("out", codec.String, codec.Int64))
	out, err := sink.Wire(e.site(sink.Traits(), 0))
	require.NoError(t, err)
	rekey := wire(t, e, ops.RekeyOp[int64, int64, string]{Key: codec.String, F: func(k, _ int64) string { return [2]string{"even", "odd"}[k&1] }}, out)
	hold := wire(t, e, ops.Hold[int64, int64]{}, rekey)
	peek := wire(t, e, ops.PeekOp[int64, int64]{F: func(_, _ int64) {}}, hold)
	flat := wire(t, e, ops.FlatMapOp[int64, int64, int64, int64]{F: func(k, v int64, emit func(int64, int64)) { emit(k, v); emit(v, k) }}, peek)
	values := wire(t, e, ops.MapValuesOp[int64, []byte, int64]{F: func(v []byte) int64 { return int64(len(v)) }}, flat)
	filter := wire(t, e, ops.FilterOp[int64, []byte]{F: func(k int64, _ []byte) bool { return k > 0 }}, values)
	source := ops.Source(ops.NewTopic("in", codec.Int64, codec.Bytes))
	in, err := source.Wire(e.site(source.Traits(), 0), filter)
	require.NoError(t, err)
	key, value := []byte("\x00\x00\x00\x00\x00\x00\x00\x07"), []byte("some bytes")
	var failed error
	allocs := testing.AllocsPerRun(1000, func() {
		if err := in(key, value); err != nil {
			failed = err
		}
	})
	require.NoError(t, failed)
	require.Positive(t, e.outputs["out"].n)
	if !raceEnabled {
		require.Zero(t, allocs, "allocations per record")
	}
}

func TestTraitsSayWhatAPlannerMustKnow(t *testing.T) {
	s, sum := ops.NewState("s", codec.String, codec.String), ops.NewState("s", codec.String, codec.OmitZero(codec.Int64))
	for _, c := range []struct{ got, want ops.Traits }{
		{ops.Source(ops.NewTopic("in", codec.String, codec.String)).Traits(), ops.Traits{Op: "Source", Name: "in"}},
		{ops.Sink(ops.NewTopic("out", codec.String, codec.String)).Traits(), ops.Traits{Op: "Sink", Name: "out"}},
		{ops.MapOp[int, int, int, int]{Label: "l"}.Traits(), ops.Traits{Op: "Map", Name: "l", ChangesKey: true}},
		{ops.MapValuesOp[int, int, int]{}.Traits(), ops.Traits{Op: "MapValues"}},
		{ops.FilterOp[int, int]{}.Traits(), ops.Traits{Op: "Filter"}},
		{ops.FlatMapOp[int, int, int, int]{}.Traits(), ops.Traits{Op: "FlatMap", ChangesKey: true}},
		{ops.PeekOp[int, int]{}.Traits(), ops.Traits{Op: "Peek"}},
		{ops.BranchOp[int, int]{}.Traits(), ops.Traits{Op: "Branch"}},
		{ops.RekeyOp[int, int, int]{Durable: "r"}.Traits(), ops.Traits{Op: "Rekey", Name: "r", ChangesKey: true}},
		{memoOf(nil).Traits(), ops.Traits{Op: "Memo", Name: "m", NeedsKey: true, Gated: true, Store: "m", StateCodec: "string"}},
		{ops.ReduceOp[string, string]{State: s}.Traits(), ops.Traits{Op: "Reduce", Name: "s", NeedsKey: true, Store: "s", StateCodec: "string"}},
		{ops.AggregateOp[string, int, int64]{State: sum}.Traits(), ops.Traits{Op: "Aggregate", Name: "s", NeedsKey: true, Store: "s", StateCodec: "omitzero int64"}},
		{ops.Hold[int, int]{}.Traits(), ops.Traits{Op: "Hold", Gated: true}},
	} {
		require.Equal(t, c.want, c.got)
	}
}

func TestOptionsAreCollectedInOrder(t *testing.T) {
	o := ops.Collect([]ops.Option{ops.Name("n"), ops.Partitions(3), ops.AbsentKey(ops.Keep), ops.KeyCodec(codec.String),
		ops.ValueCodec(codec.Int64), ops.Concurrency(9), ops.Name("m")})
	require.Equal(t, ops.Options{Name: "m", Partitions: 3, AbsentKey: ops.Keep, KeyCodec: codec.String, ValueCodec: codec.Int64, Concurrency: 9,
		Given: []string{"Name", "Partitions", "AbsentKey", "KeyCodec", "ValueCodec", "Concurrency", "Name"}}, o)
	for says, opt := range map[string]ops.Option{
		"option is nil":                           nil,
		`Name ("") must not be empty`:             ops.Name(""),
		"Partitions (0) must be from 1":           ops.Partitions(0),
		"AbsentKey (3) must be Fail":              ops.AbsentKey(3),
		"KeyCodec is nil":                         ops.KeyCodec(nil),
		"ValueCodec is nil":                       ops.ValueCodec(nil),
		"Concurrency (1000001) must be from 1 to": ops.Concurrency(1_000_001),
	} {
		require.ErrorContains(t, ops.Collect([]ops.Option{opt, ops.Partitions(-1)}).Err, says, "the first is reported")
	}
}

// A function that recovers what panics behind its emit does not hide it: what it emitted has not been processed.
func TestFlatMapDoesNotHideAPanicBehindIt(t *testing.T) {
	e := newEnv(t)
	calls := 0
	flat := wire(t, e, ops.FlatMapOp[string, int, string, int]{F: func(k string, n int, emit func(string, int)) {
		defer func() { _ = recover() }()
		emit(k, n)
	}}, func(string, int) error {
		if calls++; calls == 1 {
			panic("behind")
		}
		return nil
	})
	require.ErrorIs(t, flat("k", 1), ops.ErrRecovered)
	require.NoError(t, flat("k", 1), "the next record is another one")
}
