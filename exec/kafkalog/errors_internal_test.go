package kafkalog

import (
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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
			if e.code == 0 {
				continue
			}
			// What is retriable is tried again, and nothing else is.
			p := patience{limit: time.Minute}
			wait, err := p.next(kafkaErr("op", s, e.code))
			require.Equal(t, class == commitlog.Retriable, err == nil, "%s (%d) in scope %d", e.name, e.code, s)
			require.LessOrEqual(t, wait, maxBackoff)
			// What says that a producer is not what it was ends it.
			pr := producer{}
			pr.failLocked(kafkaErr("op", s, e.code))
			require.Error(t, pr.failed)
			ends := slices.Contains([]int16{codeInvalidEpoch, codeProducerFenced, codeInvalidIDMapping, codeTxnCoordinatorFenced}, e.code)
			require.Equal(t, ends, pr.fenced != nil, "%s (%d)", e.name, e.code)
		}
	}
}

// The table is Kafka's list: testdata has what Errors.java of Apache Kafka 4.4.0 has. What Kafka's own clients try
// again is tried again here in at least one kind of call, but for calls that are never made.
func TestTableIsKafkas(t *testing.T) {
	golden, err := os.ReadFile("testdata/errors-4.4.0.txt")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(golden)), "\n")
	require.Len(t, lines, len(kafkaErrors))
	for i, line := range lines {
		e := &kafkaErrors[i]
		want := strings.Fields(line)
		require.Equal(t, want[:2], []string{strconv.Itoa(int(e.code)), e.name})
		retried := false
		for s := range scopes {
			_, class := lookup(e.code, s)
			retried = retried || class == commitlog.Retriable
		}
		if want[2] == "retriable" {
			require.True(t, retried, "Kafka's clients try again after %s", e.name)
		}
	}
}

// What is done about each class, and about each code that is treated by name, is written down beside the table.
func TestReactionsAreWrittenDown(t *testing.T) {
	source, err := os.ReadFile("errors.go")
	require.NoError(t, err)
	_, text, ok := strings.Cut(string(source), "// kafkaErrors is the closed classification")
	require.True(t, ok)
	text, _, _ = strings.Cut(text, "var kafkaErrors")
	for class := commitlog.Fatal; class <= commitlog.Fenced; class++ {
		require.Regexp(t, "(?m)^//\t"+class.String()+" +\\w+", text)
	}
	named := regexp.MustCompile(`(?m)^\tcode[A-Z]\w+ += (\d+)$`).FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(named), 30)
	for _, m := range named {
		c, err := strconv.ParseInt(m[1], 10, 16)
		require.NoError(t, err)
		require.Regexp(t, `\b`+name(int16(c))+`\b`, text)
	}
}

// What the code asks of a code, for all of them.
func TestSetsOfCodes(t *testing.T) {
	for _, set := range []struct {
		name  string
		has   func(int16) bool
		names []string
	}{
		{"membershipLost", membershipLost, []string{"UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "GROUP_ID_NOT_FOUND"}},
		{"producerLost", producerLost, []string{"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING", "TRANSACTION_COORDINATOR_FENCED"}},
		{"joinAgain", joinAgain, []string{"MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND"}},
		{"settling", settling, []string{"CONCURRENT_TRANSACTIONS", "NOT_ENOUGH_REPLICAS", "OPERATION_NOT_ATTEMPTED", "COORDINATOR_LOAD_IN_PROGRESS"}},
		{"leaderStays", leaderStays, []string{"NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "REQUEST_TIMED_OUT"}},
		{"coordinatorMoved", coordinatorMoved, []string{"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"}},
		{"timedOutPerhaps", timedOutPerhaps, []string{"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE"}},
		{"tooLarge", tooLarge, []string{"MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"}},
		{"unauthorized", unauthorized, []string{"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"}},
	} {
		var got []string
		for _, e := range kafkaErrors {
			if set.has(e.code) {
				got = append(got, e.name)
			}
		}
		require.ElementsMatch(t, set.names, got, set.name)
	}
}

// A transaction that was open for longer than its timeout is told from one that another producer has ended, and an
// id that has expired from one that was taken over.
func TestFencedOrLate(t *testing.T) {
	late, soon := time.Now().Add(-61*time.Second), time.Now().Add(-time.Second)
	for _, c := range []struct {
		code  int16
		since *time.Time
		class commitlog.Class
		ends  bool
		text  string
	}{
		{codeProducerFenced, &late, commitlog.Fenced, true, "op (transactional id t): PRODUCER_FENCED (90): transaction timed out: open for 61s, longer than the transaction timeout of 60s"},
		{codeInvalidEpoch, &late, commitlog.Fenced, true, "op (transactional id t): INVALID_PRODUCER_EPOCH (47): transaction timed out: open for 61s, longer than the transaction timeout of 60s"},
		{codeInvalidTxnState, &late, commitlog.Fenced, true, "op (transactional id t): INVALID_TXN_STATE (48): transaction timed out: open for 61s, longer than the transaction timeout of 60s"},
		{codeProducerFenced, &soon, commitlog.Fenced, true, "op (transactional id t): PRODUCER_FENCED (90)"},
		{codeProducerFenced, nil, commitlog.Fenced, true, "op (transactional id t): PRODUCER_FENCED (90)"},
		{codeInvalidTxnState, &soon, commitlog.Abort, false, "op (transactional id t): INVALID_TXN_STATE (48)"},
		{codeOutOfOrderSequence, &late, commitlog.Abort, false, "op (transactional id t): OUT_OF_ORDER_SEQUENCE_NUMBER (45)"},
		{codeInvalidIDMapping, nil, commitlog.Fenced, true, "op (transactional id t): INVALID_PRODUCER_ID_MAPPING (49): the transactional id has expired at the broker (transactional.id.expiration.ms): it was idle for too long"},
	} {
		p := &producer{cfg: commitlog.ProducerConfig{TransactionalID: "t", TransactionTimeout: time.Minute}}
		p.since.Store(c.since)
		p.failLocked(kafkaErr("op", inTxn, c.code))
		require.EqualError(t, p.failed, c.text)
		require.Equal(t, c.class, commitlog.ClassOf(p.failed))
		require.Equal(t, c.ends, p.fenced != nil)
		require.Equal(t, strings.Contains(c.text, "timed out"), errors.Is(p.failed, commitlog.ErrTransactionTimeout))
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
