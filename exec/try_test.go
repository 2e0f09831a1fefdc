package exec_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

var errBad = errors.New("is bad")

// picky finds values that begin with "bad" invalid, and fails on those that begin with "fail".
func picky(v string) (string, error) {
	switch {
	case strings.HasPrefix(v, "bad"):
		return "", ops.Invalid(errBad)
	case strings.HasPrefix(v, "fail"):
		return "", errBad
	}
	return v, nil
}

// IN-03 to IN-08 for functions: what they find invalid is a matter of the operator's policy, by default the end of the run, as any other error is under
// each policy. A dead letter is the record as it was read, whatever stands in between, and what went another way stays.
func TestIN08FunctionsFindRecordsInvalid(t *testing.T) {
	type build func(s topology.Stream[string, string], on ops.InvalidPolicy) topology.Stream[string, string]
	upper := func(v string) string { return strings.ToUpper(v) }
	lower := func(v string) (string, error) { return picky(strings.ToLower(v)) }
	for name, of := range map[string]build{
		"TryMapValues": func(s topology.Stream[string, string], on ops.InvalidPolicy) topology.Stream[string, string] {
			return s.TryMapValues(lower, ops.Name("f"), ops.OnInvalid(on))
		},
		"TryMap": func(s topology.Stream[string, string], on ops.InvalidPolicy) topology.Stream[string, string] {
			return s.TryMap(func(k, v string) (string, string, error) {
				v, err := lower(v)
				return k, v, err
			}, ops.Name("f"), ops.OnInvalid(on))
		},
		"Memo": func(s topology.Stream[string, string], on ops.InvalidPolicy) topology.Stream[string, string] {
			ask := func(_ context.Context, k string) (string, error) { return lower(strings.TrimPrefix(k, "k-")) }
			return s.Memo(ops.Memo("f", codec.String, ask), func(_, answer string) string { return answer }, ops.OnInvalid(on))
		},
	} {
		op := name + ` "f"`
		plan := func(t *testing.T, on ops.InvalidPolicy) *topology.Plan {
			b := topology.New("app")
			s := b.From(ops.Source(benchIn, anywhere))
			s.To(ops.Sink(ops.NewTopic("all", codec.String, codec.String)))
			of(s.MapValues(upper), on).To(ops.Sink(benchOut))
			p, err := b.Build()
			require.NoError(t, err)
			return p
		}
		on := func(t *testing.T, values []string, policy ops.InvalidPolicy, then func(t *testing.T, b *bench, s *seat)) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				b.create("all", 1, nil)
				for _, v := range values {
					b.put(0, "k-"+v, v)
				}
				then(t, b, b.run(plan(t, policy), memlog.Faults{}))
			})
		}
		values := []string{"a", "bad1", "b", "bad1", "c"}
		t.Run(name, func(t *testing.T) {
			on(t, values, ops.FailInvalid, func(t *testing.T, b *bench, s *seat) {
				err := <-s.end
				var re *exec.RecordError
				require.ErrorAs(t, err, &re)
				require.Equal(t, []any{op, int64(1)}, []any{re.Operator, re.Offset})
				var ie *ops.InvalidError
				require.ErrorAs(t, err, &ie)
				require.ErrorIs(t, err, errBad)
				require.ErrorContains(t, err, "invalid: is bad")
				require.Empty(t, b.texts("all", 0), "nothing of the transaction")
			})
			on(t, values, ops.SkipInvalid, func(t *testing.T, b *bench, s *seat) {
				s.idle().drain()
				require.Equal(t, []string{"k-a=a", "k-b=b", "k-c=c"}, b.texts("out", 0))
				require.Len(t, b.texts("all", 0), 5, "what went another way stays")
				require.EqualValues(t, 2, s.app.Stats().Counters[op][ops.CountSkipped])
				require.EqualValues(t, 5, b.offset(0))
			})
			on(t, []string{"a", "fail", "b"}, ops.SkipInvalid, func(t *testing.T, _ *bench, s *seat) {
				err := <-s.end
				require.ErrorIs(t, err, errBad)
				var ie *ops.InvalidError
				require.False(t, errors.As(err, &ie), "an error that is not Invalid ends the run under each policy")
			})
			on(t, values, ops.DeadLetter(""), func(t *testing.T, b *bench, s *seat) {
				s.idle().drain()
				require.Equal(t, []string{"k-a=a", "k-b=b", "k-c=c"}, b.texts("out", 0))
				require.Equal(t, []string{"k-bad1=bad1", "k-bad1=bad1"}, b.texts("app-dead-letter", 0), "as it was read")
				recs, err := b.log.Records("app-dead-letter", 0, commitlog.ReadCommitted)
				require.NoError(t, err)
				got := map[string]string{}
				require.NoError(t, recs[1].EachHeader(func(k string, v []byte) bool { got[k] = string(v); return true }))
				require.Equal(t, map[string]string{ops.HeaderTopic: "in", ops.HeaderPartition: "0", ops.HeaderOffset: "3", ops.HeaderOperator: op, ops.HeaderPart: "function",
					ops.HeaderError: "is bad"}, got)
				require.EqualValues(t, 2, s.app.Stats().Counters[op][ops.CountDeadLettered])
			})
			if name == "TryMap" {
				return // gives no key
			}
			instead := ops.Substitute(func(r ops.InvalidRecord) (string, bool) {
				require.Equal(t, errBad, r.Err)
				return "instead of " + string(r.Value), r.Offset != 3
			})
			on(t, values, instead, func(t *testing.T, b *bench, s *seat) {
				s.idle().drain()
				require.Equal(t, []string{"k-a=a", "k-bad1=instead of bad1", "k-b=b", "k-c=c"}, b.texts("out", 0))
				require.EqualValues(t, 1, s.app.Stats().Counters[op][ops.CountSubstituted])
				require.EqualValues(t, 1, s.app.Stats().Counters[op][ops.CountSkipped])
			})
		})
	}
}

// A panic names the lines of the user's program, and ends the run like any error: nothing of the transaction is committed.
func TestPanicsTellTheUsersLines(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.put(0, "k", "1", "k", "")
		first := func(v string) string { return v[:1] }
		err := <-b.run(b.mapping(first), memlog.Faults{}).end
		var re *exec.RecordError
		require.ErrorAs(t, err, &re)
		require.EqualValues(t, 1, re.Offset)
		var pe *ops.PanicError
		require.ErrorAs(t, err, &pe)
		require.Len(t, pe.At, 1, "%v", pe.At)
		require.Regexp(t, `^github.com/wickerwork/wicker/exec_test\.TestPanicsTellTheUsersLines\.\S+ try_test.go:\d+$`, pe.At[0])
		require.Contains(t, string(pe.Stack), "try_test.go")
		require.Regexp(t, `MapValues "f": topic in partition 0 offset 1: panic: runtime error: .* try_test.go:\d+\)$`, err.Error())
		require.Empty(t, b.texts("out", 0))
	})
}
