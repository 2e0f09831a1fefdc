package ops_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
)

// shuffler answers calls in random order.
type shuffler struct {
	calls chan chan struct{}
}

func newShuffler(t *testing.T, seed uint64) *shuffler {
	s := &shuffler{calls: make(chan chan struct{})}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() {
		r := rand.New(rand.NewPCG(seed, 3))
		var open []chan struct{}
		for {
			if len(open) == 0 || r.IntN(4) > 0 && len(open) < 6 {
				select {
				case c := <-s.calls:
					open = append(open, c)
					continue
				case <-stop:
					return
				default:
				}
			}
			if len(open) == 0 {
				select {
				case c := <-s.calls:
					open = append(open, c)
				case <-stop:
					return
				}
			}
			i := r.IntN(len(open))
			close(open[i])
			open[i] = open[len(open)-1]
			open = open[:len(open)-1]
		}
	}()
	return s
}

func (s *shuffler) ask(_ context.Context, k string) (string, error) {
	c := make(chan struct{})
	s.calls <- c
	<-c
	return "<" + k + ">", nil
}

// E2: whatever the order of the answers, records leave in the order in which they came. The
// network: half of the records go around the first Memo, through a Hold; what meets behind goes through
// a second Memo, by another key.
func TestRecordsKeepTheirOrderWhateverTheOrderOfAnswers(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		e := newEnv(t)
		s := newShuffler(t, seed)
		var out list[string, string]
		join := func(v, a string) string { return v + a }
		second := wireAt(t, e, 1, ops.MemoJoinOp[string, string, string, string]{Memo: ops.Memo("second", codec.String, s.ask), Key: codec.String, Join: join}, out.emit)
		rekey := wireAt(t, e, 1, ops.MapOp[string, string, string, string]{F: func(k, v string) (string, string) { return k[:1], v }}, second)
		first := wireAt(t, e, 0, ops.MemoJoinOp[string, string, string, string]{Memo: ops.Memo("first", codec.String, s.ask), Key: codec.String, Join: join}, rekey)
		around := wireAt(t, e, 0, ops.Hold[string, string]{}, rekey)
		in, err := ops.BranchOp[string, string]{F: func(_, v string) bool { return v[0] == 'y' }}.Wire(e.site(ops.Traits{Op: "Branch"}, 0), first, around)
		require.NoError(t, err)
		var want []string
		for i := range 200 {
			k, v := fmt.Sprint(r.IntN(30)), fmt.Sprint("no", i)
			if r.IntN(2) == 0 {
				v = fmt.Sprint("yes", i)
			}
			require.NoError(t, in(k, v))
			if v[0] == 'y' {
				v += "<" + k + ">"
			}
			want = append(want, k[:1]+"="+v+"<"+k[:1]+">")
			if r.IntN(20) == 0 {
				require.NoError(t, e.flush())
				require.Equal(t, want, out.all, "seed %d", seed)
			}
		}
		require.NoError(t, e.flush())
		require.Equal(t, want, out.all, "seed %d", seed)
	}
}

func TestAHoldPassesOnWhenNothingWaits(t *testing.T) {
	e := newEnv(t)
	var out list[string, int]
	hold := wire(t, e, ops.Hold[string, int]{}, out.emit)
	require.NoError(t, hold("a", 1))
	require.Equal(t, []string{"a=1"}, out.all)
	require.False(t, e.gates[0].Busy())
	require.NoError(t, e.gates[0].Flush(), "an empty gate has nothing to do")
}

// The record in process is that which goes on, not that which was read last.
func TestRecordsThatWaitKeepWhatIsKnownOfThem(t *testing.T) {
	e := newEnv(t)
	s := newShuffler(t, 1)
	var offsets []int64
	memo := wire(t, e, ops.MemoJoinOp[string, int, string, int]{Memo: ops.Memo("m", codec.String, s.ask), Key: codec.String,
		Join: func(v int, _ string) int { return v }}, func(_ string, v int) error {
		offsets = append(offsets, e.meta.Offset)
		require.Equal(t, e.meta.Offset, int64(v))
		require.Equal(t, e.meta.Timestamp, int64(v*10))
		require.Equal(t, `Memo "m"`, e.meta.At.String())
		return nil
	})
	hold := wire(t, e, ops.Hold[string, int]{}, func(_ string, v int) error {
		offsets = append(offsets, e.meta.Offset)
		require.Equal(t, e.meta.Offset, int64(v))
		return nil
	})
	for i := range 20 {
		e.meta.Offset, e.meta.Timestamp = int64(i), int64(i*10)
		if i%3 == 1 {
			require.NoError(t, hold("x", i))
		} else {
			require.NoError(t, memo(fmt.Sprint(i%5), i))
		}
	}
	require.Equal(t, 20, e.gates[0].Len())
	require.NoError(t, e.flush())
	require.Zero(t, e.gates[0].Len())
	for i, o := range offsets {
		require.Equal(t, int64(i), o)
	}
}

// After an error the rest is dropped, and the gate is as new.
func TestAGateIsEmptyAfterAnError(t *testing.T) {
	e := newEnv(t)
	s := newShuffler(t, 2)
	out := list[string, int]{err: errors.New("no")}
	memo := wire(t, e, ops.MemoJoinOp[string, int, string, int]{Memo: ops.Memo("m", codec.String, s.ask), Key: codec.String,
		Join: func(v int, _ string) int { return v }}, out.emit)
	for i := range 5 {
		require.NoError(t, memo(fmt.Sprint(i), i))
	}
	require.ErrorIs(t, e.flush(), out.err)
	require.Equal(t, []string{"0=0"}, out.all)
	require.False(t, e.gates[0].Busy())
	out.err = nil
	require.NoError(t, memo("7", 7))
	require.NoError(t, e.flush())
	require.Equal(t, []string{"0=0", "7=7"}, out.all)
}
