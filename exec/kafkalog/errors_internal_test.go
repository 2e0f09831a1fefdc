package kafkalog

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Every code of Apache Kafka 4.4.0 by class. What is in no list must be fatal. A change here
// changes what the executor does: TX-20 (fenced), TX-23 (lost generations), TX-26 (everything
// else ends the run).
func TestClassesOfCodes(t *testing.T) {
	retriable := []int16{2, 3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 41, 51, 55, 56, 70, 71, 72, 74, 75, 78, 79, 80, 83, 84,
		88, 89, 100, 103, 106, 122, 123, 133}
	abort := []int16{45, 46, 48, 59, 120}
	fenced := []int16{22, 25, 27, 47, 49, 52, 82, 90}
	want := map[int16]commitlog.Class{}
	for class, codes := range map[commitlog.Class][]int16{commitlog.Retriable: retriable, commitlog.Abort: abort, commitlog.Fenced: fenced} {
		for _, c := range codes {
			want[c] = class
		}
	}
	// Where a code means something else in one kind of call.
	but := map[scope]map[int16]commitlog.Class{
		inProduce: {-1: commitlog.Retriable, 48: commitlog.Fenced},
		inTxn:     {-1: commitlog.Retriable},
		inCommit:  {-1: commitlog.Retriable, 27: commitlog.Retriable, 69: commitlog.Fenced},
		inGroup:   {-1: commitlog.Retriable, 22: commitlog.Retriable, 25: commitlog.Retriable, 27: commitlog.Retriable, 69: commitlog.Retriable},
		inFetch:   {-1: commitlog.Retriable},
	}
	require.Len(t, kafkaErrors, 138, "codes -1 to 136")
	for i, e := range kafkaErrors {
		require.Equal(t, int16(i-1), e.code, "codes are in order")
		require.NotEmpty(t, e.name)
		for s := range scopes {
			_, class := lookup(e.code, s)
			expected, ok := but[s][e.code]
			if !ok {
				expected = want[e.code] // fatal if absent
			}
			require.Equal(t, expected, class, "%s (%d) in scope %d", e.name, e.code, s)
		}
	}
}

// A code that no table has is fatal and says so.
func TestUnknownCode(t *testing.T) {
	for _, c := range []int16{-2, 137, 32767, -32768} {
		name, class := lookup(c, inCall)
		require.Equal(t, "UNKNOWN_ERROR_CODE", name)
		require.Equal(t, commitlog.Fatal, class)
	}
	require.Nil(t, kafkaErr("op", inCall, 0))
}

// What leaves the package is a *commitlog.Error of the class that retry loops see, and wraps
// what a caller branches on.
func TestWrap(t *testing.T) {
	broken := &connError{addr: "h:1", err: io.EOF}
	hopeless := &connError{addr: "h:1", fatal: true, err: errors.New("x509")}
	coded := kafkaErr("produce", inProduce, codeProducerFenced)
	for name, c := range map[string]struct {
		err   error
		class commitlog.Class
		is    error
		text  string
	}{
		"broken":    {broken, commitlog.Retriable, commitlog.ErrUnreachable, "op: no broker answered: broker h:1: EOF"},
		"hopeless":  {hopeless, commitlog.Fatal, hopeless, "op: broker h:1: x509"},
		"coded":     {coded, commitlog.Fenced, coded, "produce: PRODUCER_FENCED (90)"},
		"cancelled": {context.Canceled, commitlog.Retriable, context.Canceled, "op: context canceled"},
		"plain":     {errors.New("odd"), commitlog.Fatal, nil, "op: odd"},
	} {
		t.Run(name, func(t *testing.T) {
			err := wrap("op", c.err)
			var ce *commitlog.Error
			require.ErrorAs(t, err, &ce)
			require.Equal(t, c.class, commitlog.ClassOf(err))
			require.EqualError(t, err, c.text)
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
		})
	}
	require.NoError(t, wrap("op", nil))
}
