package ops_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
)

// memoOf joins strings with the answers of ask.
func memoOf(ask func(context.Context, string) (string, error), opts ...ops.Option) ops.MemoJoinOp[string, string, string, string] {
	return ops.MemoJoinOp[string, string, string, string]{Memo: ops.Memo("m", codec.String, ask, opts...), Key: codec.String,
		Join: func(v, a string) string { return v + a }}
}

// counting counts the calls for each key.
type counting struct {
	mu    sync.Mutex
	calls map[string]int
}

func (c *counting) ask(_ context.Context, k string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[string]int{}
	}
	c.calls[k]++
	return "<" + k + ">", nil
}

func TestMemoAsksOncePerKey(t *testing.T) {
	e := newEnv(t)
	var c counting
	var out list[string, string]
	memo := wire(t, e, memoOf(c.ask), out.emit)
	var want []string
	for batch := range 6 {
		for i := range 50 {
			k := fmt.Sprint((i * (batch + 1)) % 23)
			require.NoError(t, memo(k, "v"))
			want = append(want, k+"=v<"+k+">")
		}
		require.NoError(t, e.flush())
	}
	require.Equal(t, want, out.all)
	require.Len(t, c.calls, 23)
	for k, n := range c.calls {
		require.Equal(t, 1, n, k)
	}
	require.Equal(t, int64(23), e.counters["Memo asked"].Value())
	require.Equal(t, int64(300-23), e.counters["Memo saved"].Value())
	require.Len(t, e.stores["m"], 23)
}

// What is known already does not wait.
func TestMemoAnswersFromStateAtOnce(t *testing.T) {
	e := newEnv(t)
	e.stores["m"] = memory{"k": []byte("known")}
	var out list[string, string]
	memo := wire(t, e, memoOf(nil), out.emit)
	require.NoError(t, memo("k", "v-"))
	require.Equal(t, []string{"k=v-known"}, out.all)
	require.False(t, e.gates[0].Busy())
}

// All keys of a batch are asked at the same time, as many as allowed and no more.
func TestMemoAsksConcurrentlyWithinItsBound(t *testing.T) {
	for _, bound := range []int{1, 3, 0} {
		e := newEnv(t)
		var opts []ops.Option
		limit := ops.DefaultConcurrency
		if bound > 0 {
			opts, limit = []ops.Option{ops.Concurrency(bound)}, bound
		}
		var now, most atomic.Int64
		full := make(chan struct{})
		var once sync.Once
		memo := wire(t, e, memoOf(func(ctx context.Context, k string) (string, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			if n == int64(limit) {
				once.Do(func() { close(full) })
			}
			<-full // the first calls wait until as many as allowed are in flight
			return k, nil
		}, opts...), nothing)
		for i := range 200 {
			require.NoError(t, memo(fmt.Sprint(i), ""))
		}
		require.NoError(t, e.flush())
		require.Equal(t, int64(limit), most.Load())
	}
}

// E10: a failed call ends the transaction, remembers nothing, and is asked again after it.
func TestAFailedCallIsAnErrorAndNotRemembered(t *testing.T) {
	e := newEnv(t)
	down, failed := errors.New("registry is down"), true
	var out list[string, string]
	memo := wire(t, e, memoOf(func(_ context.Context, k string) (string, error) {
		if k == "b" && failed {
			return "", down
		}
		return "<" + k + ">", nil
	}), out.emit)
	for i, k := range []string{"a", "b", "c"} {
		e.meta.Offset = int64(i)
		require.NoError(t, memo(k, ""))
	}
	require.ErrorIs(t, e.flush(), down)
	require.Equal(t, `Memo "m"`, e.meta.At.String(), "the operator that it comes from")
	require.Equal(t, int64(1), e.meta.Offset, "and the record")
	require.Equal(t, []string{"a=<a>"}, out.all)
	require.NotContains(t, e.stores["m"], "b")
	failed = false
	require.NoError(t, memo("b", ""))
	require.NoError(t, e.flush())
	require.Equal(t, []string{"a=<a>", "b=<b>"}, out.all)
}

func TestAPanicOfTheAskedFunctionIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		ask  func()
		says string
	}{
		"a runtime error": {func() { var none []int; _ = none[len(none)] }, "panic: runtime error: index out of range [0] with length 0"},
		"a value":         {func() { panic("secret content") }, "panic: a value of type string"},
		"an error":        {func() { panic(errors.New("broken")) }, "panic: broken"},
	} {
		e := newEnv(t)
		memo := wire(t, e, memoOf(func(context.Context, string) (string, error) { c.ask(); return "", nil }), nothing)
		require.NoError(t, memo("k", "v"))
		err := e.flush()
		require.ErrorContains(t, err, c.says+" (github.com/wickerwork/wicker/ops_test.TestAPanicOfTheAskedFunctionIsAnError.func", name)
		require.Regexp(t, `^[^\n]* memo_test.go:\d+(, [^\n]* memo_test.go:\d+)*\)$`, err.Error(), "with the lines of the user's program, and no others")
		require.Equal(t, `Memo "m"`, e.meta.At.String())
		p, ok := errors.AsType[*ops.PanicError](err)
		require.True(t, ok)
		require.Contains(t, string(p.Stack), "memo_test.go", "the stack is that of the user's function")
		require.Empty(t, e.stores["m"])
	}
}

func TestAFunctionThatEndsItsGoroutineIsAnError(t *testing.T) {
	e := newEnv(t)
	memo := wire(t, e, memoOf(func(context.Context, string) (string, error) { runtime.Goexit(); return "", nil }), nothing)
	require.NoError(t, memo("k", "v"))
	require.ErrorContains(t, e.flush(), "Goexit")
}

// A transaction that aborts is processed again by a new task of the process: its answers are
// there, and go into the state.
func TestReplayKeepsAnswers(t *testing.T) {
	var c counting
	first := newEnv(t)
	memo := wire(t, first, memoOf(c.ask), nothing)
	for i := range 20 {
		require.NoError(t, memo(fmt.Sprint(i), ""))
	}
	require.NoError(t, first.flush())
	again := newEnv(t) // nothing was committed
	again.askers = first.askers
	var out list[string, string]
	memo = wire(t, again, memoOf(c.ask), out.emit)
	for i := range 25 {
		require.NoError(t, memo(fmt.Sprint(i), ""))
	}
	require.NoError(t, again.flush())
	require.Len(t, out.all, 25)
	require.Len(t, again.stores["m"], 25)
	require.Len(t, c.calls, 25)
	for k, n := range c.calls {
		require.Equal(t, 1, n, k)
	}
	require.Equal(t, int64(5), again.counters["Memo asked"].Value())
	require.Equal(t, int64(20), again.counters["Memo saved"].Value())
}

// The answers that are kept for that are bounded: the oldest make room.
func TestAnAskerForgetsTheOldestAnswers(t *testing.T) {
	const kept = 8192
	var c counting
	e := newEnv(t)
	memo := wire(t, e, memoOf(c.ask), nothing)
	for i := range kept + 100 {
		require.NoError(t, memo(fmt.Sprint(i), ""))
		if i%512 == 0 {
			require.NoError(t, e.flush()) // those of a batch are kept in the order of their answers
		}
	}
	require.NoError(t, e.flush())
	clear(e.stores["m"])
	require.NoError(t, memo("0", ""))
	require.NoError(t, memo(fmt.Sprint(kept+99), ""))
	require.NoError(t, e.flush())
	require.Equal(t, 2, c.calls["0"], "asked again")
	require.Equal(t, 1, c.calls[fmt.Sprint(kept+99)], "not asked again")
}

// "Not known" may be an answer that is not to be remembered: null.
func TestANullAnswerIsNotRemembered(t *testing.T) {
	e := newEnv(t)
	var calls atomic.Int64
	op := ops.MemoJoinOp[string, string, int64, int64]{Key: codec.String, Join: func(_ string, a int64) int64 { return a },
		Memo: ops.Memo("m", codec.OmitZero(codec.Int64), func(context.Context, string) (int64, error) { return calls.Add(1) - 1, nil })}
	var out list[string, int64]
	memo := wire(t, e, op, out.emit)
	for range 3 {
		require.NoError(t, memo("k", ""))
		require.NoError(t, memo("k", ""))
		require.NoError(t, e.flush())
	}
	require.Equal(t, []string{"k=0", "k=0", "k=1", "k=1", "k=1", "k=1"}, out.all, "asked once for a batch, until there is an answer")
	require.Equal(t, int64(2), calls.Load())
}

func TestCallsEndWithTheTask(t *testing.T) {
	e := newEnv(t)
	gone := errors.New("the task has stopped")
	ctx, stop := context.WithCancelCause(context.Background())
	e.ctx = ctx
	started := make(chan struct{})
	memo := wire(t, e, memoOf(func(ctx context.Context, _ string) (string, error) {
		close(started)
		<-ctx.Done()
		return "", context.Cause(ctx)
	}, ops.Concurrency(1)), nothing)
	require.NoError(t, memo("a", ""))
	<-started
	require.NoError(t, memo("b", ""), "waits for its turn")
	stop(gone)
	require.ErrorIs(t, e.flush(), gone)
	require.NoError(t, memo("c", ""))
	require.ErrorIs(t, e.flush(), gone, "none begins any more")
}

func TestErrorsOfMemosState(t *testing.T) {
	e := newEnv(t)
	e.stores["m"] = memory{"k": []byte("\xff secret")}
	memo := wire(t, e, memoOf(nil), nothing)
	err := memo("k", "v")
	require.ErrorContains(t, err, "decode state: ")
	require.NotContains(t, err.Error(), "secret")
	d, ok := errors.AsType[*ops.DecodeError](err)
	require.True(t, ok)
	require.Equal(t, "state", d.Part)

	memo = wire(t, e, memoOf(func(context.Context, string) (string, error) { return "\xff", nil }), nothing)
	require.NoError(t, memo("new", "v"))
	require.ErrorContains(t, e.flush(), "encode state: ")

	e.fail = errors.New("disk")
	require.ErrorIs(t, memo("k", "v"), e.fail)

	nullable := ops.MemoJoinOp[*string, string, string, string]{Memo: ops.Memo("n", codec.String, func(context.Context, *string) (string, error) { return "", nil }),
		Key: codec.Nullable(codec.String), Join: func(v, _ string) string { return v }}
	require.ErrorIs(t, wire(t, e, nullable, nothing)(nil, "v"), ops.ErrNullKey)
	nullable.Memo.Durable = "missing"
	_, err = nullable.Wire(e.site(nullable.Traits(), 0), nothing)
	require.EqualError(t, err, "no such store")
}
