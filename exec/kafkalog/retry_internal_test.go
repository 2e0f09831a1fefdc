package kafkalog

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// What the broker settles within milliseconds is asked again at once, all else from 20 ms on;
// both with a bound.
func TestBackoff(t *testing.T) {
	for _, c := range []int16{codeConcurrentTxns, codeNotEnoughReplicas, codeOperationNotAttempt, codeCoordinatorLoading} {
		err := kafkaErr("op", inTxn, c)
		require.Less(t, backoff(1, err), 2*time.Millisecond, "code %d", c)
		require.LessOrEqual(t, backoff(1000, err), 60*time.Millisecond)
	}
	other := &connError{err: io.EOF}
	require.GreaterOrEqual(t, backoff(1, other), 20*time.Millisecond)
	require.LessOrEqual(t, backoff(1000, other), 1200*time.Millisecond)
}

// L7: a retriable error is repeated until the limit counted from the first one; others, and a
// context's end, are returned at once. A missing topic gets less time and is fatal then.
func TestRetryFor(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		min, max time.Duration
		class    commitlog.Class
		text     string
	}{
		"broken":  {&connError{addr: "h:1", err: io.EOF}, 50 * time.Second, time.Minute, commitlog.Retriable, "given up after"},
		"loading": {kafkaErr("op", inTxn, codeCoordinatorLoading), 59 * time.Second, time.Minute, commitlog.Retriable, "COORDINATOR_LOAD_IN_PROGRESS (14): given up after"},
		"missing": {kafkaErr("op", inFetch, codeUnknownTopic), 3 * time.Second, 5 * time.Second, commitlog.Fatal, "does the topic exist?"},
		"fenced":  {kafkaErr("op", inTxn, codeProducerFenced), 0, 0, commitlog.Fenced, "PRODUCER_FENCED"},
		"fatal":   {errors.New("odd"), 0, 0, commitlog.Fatal, "odd"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := retryFor(t.Context(), time.Minute, "op", func(context.Context) error { return c.err })
				took := time.Since(start)
				require.GreaterOrEqual(t, took, c.min)
				require.LessOrEqual(t, took, c.max)
				require.Equal(t, c.class, commitlog.ClassOf(err))
				require.ErrorContains(t, err, c.text)
			})
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := retryFor(ctx, time.Hour, "op", func(context.Context) error { return &connError{err: io.EOF} })
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	})
	t.Run("mended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			require.NoError(t, retryFor(t.Context(), time.Minute, "op", func(context.Context) error {
				if n++; n < 5 {
					return kafkaErr("op", inCall, codeNotCoordinator)
				}
				return nil
			}))
			require.Equal(t, 5, n)
		})
	})
	// A broker that comes back after a while may answer that it has not heard of the topic yet.
	t.Run("back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			require.NoError(t, retryFor(t.Context(), time.Minute, "op", func(context.Context) error {
				switch since := time.Since(start); {
				case since < 20*time.Second:
					return &connError{err: io.EOF}
				case since < 23*time.Second:
					return kafkaErr("op", inFetch, codeUnknownTopic)
				}
				return nil
			}))
		})
	})
}
