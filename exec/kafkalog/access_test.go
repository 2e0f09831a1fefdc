package kafkalog_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/exec/kafkalog"
	"github.com/wickerwork/wicker/testkit/kafka"
)

const password = "s3cret-of-the-test"

// works writes and reads a record.
func works(t *testing.T, cfg kafkalog.Config) {
	t.Helper()
	l, err := kafkalog.Open(t.Context(), cfg)
	require.NoError(t, err)
	defer l.Close()
	tp := commitlog.TopicPartition{Topic: kafka.Name(t)}
	require.NoError(t, l.CreateTopics(t.Context(), []commitlog.TopicSpec{{Name: tp.Topic, Partitions: 1, Replication: -1}}))
	p, err := l.OpenProducer(t.Context(), commitlog.ProducerConfig{TransactionalID: tp.Topic})
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.Produce(t.Context(), tp, batchOf("hello")))
	_, err = p.Commit(t.Context(), nil, commitlog.GroupMetadata{Generation: -1})
	require.NoError(t, err)
	require.Equal(t, []string{"hello"}, readValues(t, l, tp, 1))
}

func batchOf(values ...string) *commitlog.Batch {
	b := commitlog.NewBuilder(commitlog.NewPool(0))
	for _, v := range values {
		b.Append(1700000000000, nil, []byte(v), nil, 0)
	}
	return b.Take()
}

// readValues reads n records of a partition from its beginning.
func readValues(t *testing.T, l *kafkalog.Log, tp commitlog.TopicPartition, n int) []string {
	t.Helper()
	r, err := l.OpenReader(t.Context(), commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp: 0}})
	require.NoError(t, err)
	defer r.Close()
	var out []string
	var cur commitlog.Cursor
	var rec commitlog.Record
	deadline := time.After(30 * time.Second)
	for len(out) < n {
		select {
		case c, ok := <-r.Chunks():
			require.True(t, ok, "the reader ended: %v", r.Err())
			for cur.Reset(&c); cur.Next(&rec); {
				out = append(out, string(rec.Value))
			}
			require.NoError(t, cur.Err())
		case <-deadline:
			require.FailNow(t, "records are missing", "%d of %d", len(out), n)
		}
	}
	return out
}

// refused opens a log that must not open, and returns what it says.
func refused(t *testing.T, cfg kafkalog.Config, class commitlog.Class) string {
	t.Helper()
	cfg.OpenTimeout = time.Second
	start := time.Now()
	l, err := kafkalog.Open(t.Context(), cfg)
	if err == nil {
		l.Close()
	}
	require.Error(t, err)
	require.Less(t, time.Since(start), 30*time.Second)
	require.Equal(t, class, commitlog.ClassOf(err), "class of: %v", err)
	require.NotContains(t, err.Error(), password)
	require.NotContains(t, err.Error(), "\n", "one line")
	t.Log(err)
	return err.Error()
}

// users are those who may connect.
func users() []kafka.User { return []kafka.User{{Name: "wicker", Password: password}} }

// credentials are those of users, with one mechanism after the other.
func credentials() []kafkalog.SASL {
	var out []kafkalog.SASL
	for _, m := range []string{kafkalog.Plain, kafkalog.ScramSHA256, kafkalog.ScramSHA512} {
		out = append(out, kafkalog.SASL{Mechanism: m, Username: "wicker", Password: password})
	}
	return out
}

// TLS and SASL as brokers are run; what is missing or wrong is told in one sentence.
func TestAccess(t *testing.T) {
	kafka.EachOwn(t, kafka.Options{TLS: true, Users: users()}, func(t *testing.T, b *kafka.Broker) {
		with := func(tls *tls.Config, sasl *kafkalog.SASL) kafkalog.Config {
			return kafkalog.Config{Brokers: []string{b.Addr()}, TLS: tls, SASL: sasl}
		}
		class := commitlog.Fatal
		if b.Kind() == kafka.Embedded {
			class = commitlog.Retriable // it hangs up on wrong credentials without an answer
		}
		for _, c := range credentials() {
			t.Run(c.Mechanism, func(t *testing.T) {
				works(t, with(b.TLS(), &c))
				wrong := c
				wrong.Password += "x"
				require.Contains(t, refused(t, with(b.TLS(), &wrong), class), fmt.Sprintf("%s user %q", c.Mechanism, c.Username))
			})
		}
		t.Run("NobodyKnown", func(t *testing.T) {
			require.Contains(t, refused(t, with(b.TLS(), &kafkalog.SASL{Mechanism: kafkalog.Plain, Username: "nobody", Password: password}), class), `"nobody"`)
		})
		t.Run("NoTLS", func(t *testing.T) {
			require.Contains(t, refused(t, with(nil, nil), commitlog.Retriable), "does this listener expect TLS or SASL?")
			require.Contains(t, refused(t, with(nil, &credentials()[0]), commitlog.Retriable), "does this listener expect TLS?")
		})
		t.Run("NoSASL", func(t *testing.T) {
			require.Contains(t, refused(t, with(b.TLS(), nil), commitlog.Retriable), "does this listener expect SASL?")
		})
		t.Run("UnknownAuthority", func(t *testing.T) {
			require.Contains(t, refused(t, with(&tls.Config{}, &credentials()[0]), commitlog.Fatal), "certificate")
		})
	})
}

func TestTLSOnPlainListener(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		text := refused(t, kafkalog.Config{Brokers: []string{b.Addr()}, TLS: &tls.Config{InsecureSkipVerify: true}}, commitlog.Retriable)
		require.Contains(t, text, "is this listener one without TLS?")
	})
}

// Credentials without TLS.
func TestPlainSASL(t *testing.T) {
	b := kafka.StartEmbedded(t, kafka.Options{Users: users()})
	for _, c := range credentials() {
		works(t, kafkalog.Config{Brokers: []string{b.Addr()}, SASL: &c})
	}
}

// Whatever is not Kafka is told in one sentence.
func TestNoKafka(t *testing.T) {
	serve := func(t *testing.T, handle func(net.Conn)) string {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				go handle(c)
			}
		}()
		return ln.Addr().String()
	}
	for name, c := range map[string]struct {
		handle func(net.Conn)
		want   string
	}{
		"http":     {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); c.Close() }, "is it a Kafka broker?"},
		"hangs up": {func(c net.Conn) { c.Close() }, "no broker answered"},
		"silent":   {func(c net.Conn) { _, _ = io.Copy(io.Discard, c); c.Close() }, "no answer within 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, c.handle)
			text := refused(t, kafkalog.Config{Brokers: []string{addr}}, commitlog.Retriable)
			require.Contains(t, text, c.want)
			require.Contains(t, text, addr)
		})
	}
	t.Run("nobody", func(t *testing.T) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr := ln.Addr().String()
		require.NoError(t, ln.Close())
		_, err = kafkalog.Open(t.Context(), kafkalog.Config{Brokers: []string{addr}, OpenTimeout: 300 * time.Millisecond})
		require.ErrorIs(t, err, commitlog.ErrUnreachable)
		require.ErrorContains(t, err, addr)
	})
}

// A cancelled Open returns the context's error.
func TestOpenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := kafkalog.Open(ctx, kafkalog.Config{Brokers: []string{"127.0.0.1:1"}})
	require.ErrorIs(t, err, context.Canceled)
}

// Validate tells of every field at once, and no password.
func TestValidate(t *testing.T) {
	err := kafkalog.Config{Brokers: []string{"nohost", "h:0"}, SASL: &kafkalog.SASL{Mechanism: "GSSAPI", Password: password}, RetryTimeout: -1,
		ClientID: strings.Repeat("c", 40_000)}.Validate()
	for _, want := range []string{"nohost", "h:0", "GSSAPI", "SASL.Username", "RetryTimeout", "ClientID (40000 bytes) must be <= 32767 bytes"} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), password)
	require.Error(t, kafkalog.Config{}.Validate())
	s := kafkalog.SASL{Mechanism: kafkalog.Plain, Username: "u", Password: password}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d"} {
		require.NotContains(t, fmt.Sprintf(format, s), password)
		require.NotContains(t, fmt.Sprintf(format, &s), password)
		require.NotContains(t, fmt.Sprintf(format, kafkalog.Config{SASL: &s}.SASL), password)
	}
}

// Times that fit no request are refused before one is sent, by the field's name.
func TestTimesThatFitNoRequest(t *testing.T) {
	l := connect(t, kafka.StartEmbedded(t, kafka.Options{}))
	long := commitlog.MaxTimeout + time.Millisecond
	assign := func([]commitlog.GroupMember) (map[string][]commitlog.TopicPartition, error) { return nil, nil }
	_, err := l.OpenMember(t.Context(), commitlog.MemberConfig{Group: "g", Protocol: "p", Assign: assign, SessionTimeout: long, RebalanceTimeout: long})
	require.ErrorContains(t, err, "SessionTimeout (596h31m23.648s) must be <= 596h31m23.647s")
	require.ErrorContains(t, err, "RebalanceTimeout (596h31m23.648s)")
	_, err = l.OpenProducer(t.Context(), commitlog.ProducerConfig{TransactionalID: "t", TransactionTimeout: long})
	require.ErrorContains(t, err, "TransactionTimeout (596h31m23.648s)")
}
