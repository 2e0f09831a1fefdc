package kafka_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// open is how a program that is not a test starts a broker.
func open(t *testing.T, kind string, o kafka.Options) (*kafka.Broker, error) {
	if kind == kafka.Embedded {
		return kafka.OpenEmbedded(t.Context(), o)
	}
	b, err := kafka.OpenReal(t.Context(), o)
	if errors.Is(err, kafka.ErrUnavailable) && os.Getenv("REQUIRE_KAFKA") != "1" {
		t.Skip(err)
	}
	return b, err
}

// TestDir is about a directory that outlives the broker, as the demo's does.
func TestDir(t *testing.T) {
	for _, kind := range []string{kafka.Embedded, kafka.Real} {
		t.Run(kind, func(t *testing.T) {
			ctx, o := t.Context(), kafka.Options{Dir: filepath.Join(t.TempDir(), "new", "dir"), Partitions: 3}
			first, err := open(t, kind, o)
			require.NoError(t, err)
			defer first.Close()
			require.Equal(t, kind, first.Kind())
			require.Equal(t, o.Dir, first.Dir())
			topic, c := kafka.Name(t), first.Client(t)
			require.NoError(t, c.CreateTopic(ctx, topic, 0, nil))
			require.NoError(t, c.Produce(ctx, records(topic, 0, 100)...))
			txn, err := c.Begin(ctx, topic)
			require.NoError(t, err)
			require.NoError(t, txn.Produce(ctx, records(topic, 100, 200)...))
			require.NoError(t, txn.Commit(ctx))

			// Only one at a time.
			second, err := open(t, kind, o)
			require.EqualError(t, err, "testkit/kafka: Dir ("+o.Dir+") is in use: context deadline exceeded")
			require.Nil(t, second)

			require.NoError(t, first.Close())
			require.NoError(t, first.Close())
			require.ErrorContains(t, first.Restart(ctx), "the broker is closed")

			// Another address, the same data.
			second, err = open(t, kind, o)
			require.NoError(t, err)
			defer second.Close()
			c = second.Client(t)
			require.NoError(t, c.AwaitStable(ctx, topic))
			got, err := c.Read(ctx, kafka.ReadCommitted, topic)
			require.NoError(t, err)
			require.ElementsMatch(t, want(0, 200), values(got))
			topics, err := c.Topics(ctx)
			require.NoError(t, err)
			require.Equal(t, map[string]int{topic: 3}, topics)
			require.NoError(t, second.Close())
			require.DirExists(t, o.Dir)
		})
	}
}

// TestTemporary is about a directory that goes with the broker, and the port that is asked for.
func TestTemporary(t *testing.T) {
	for _, kind := range []string{kafka.Embedded, kafka.Real} {
		t.Run(kind, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer l.Close()
			o := kafka.Options{Port: l.Addr().(*net.TCPAddr).Port}
			_, err = open(t, kind, o)
			require.ErrorContains(t, err, "ddress already in use")

			require.NoError(t, l.Close())
			b, err := open(t, kind, o)
			require.NoError(t, err)
			defer b.Close()
			require.Equal(t, fmt.Sprintf("127.0.0.1:%d", o.Port), b.Addr())
			require.DirExists(t, b.Dir())
			require.NoError(t, b.Close())
			require.NoDirExists(t, b.Dir())
		})
	}
}

// TestOrphan is about a broker whose process is killed: it goes with it, and its directory too.
func TestOrphan(t *testing.T) {
	if os.Getenv("KAFKA_TEST_ORPHAN") != "" {
		b := kafka.StartReal(t, kafka.Options{})
		fmt.Printf("broker %s %s\n", b.Addr(), b.Dir())
		select {} // until killed
	}
	kafka.Shared(t) // skips where there is no real Kafka
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestOrphan$")
	cmd.Env = append(os.Environ(), "KAFKA_TEST_ORPHAN=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	defer cmd.Process.Kill()
	var addr, dir string
	for lines := bufio.NewScanner(out); addr == "" && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "broker %s %s", &addr, &dir)
	}
	require.NotEmpty(t, addr)
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()

	require.NoError(t, cmd.Process.Kill())
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the broker outlives its process")
	require.Eventually(t, func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	}, 30*time.Second, 10*time.Millisecond)
}

// TestLog is about a broker that does not come up: the error has its log.
func TestLog(t *testing.T) {
	kafka.Shared(t) // skips where there is no real Kafka
	_, err := kafka.OpenReal(t.Context(), kafka.Options{Properties: map[string]string{"num.io.threads": "none"}})
	require.ErrorContains(t, err, "num.io.threads")

	_, err = kafka.OpenReal(t.Context(), kafka.Options{JVM: []string{"-XX:NoSuchFlag"}})
	require.ErrorContains(t, err, "NoSuchFlag")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = kafka.OpenReal(ctx, kafka.Options{})
	require.ErrorIs(t, err, context.Canceled)
}

func TestAttach(t *testing.T) {
	b := kafka.StartEmbedded(t, kafka.Options{})
	a, err := kafka.Attach(t.Context(), b.Addr())
	require.NoError(t, err)
	require.Equal(t, kafka.Attached, a.Kind())
	require.NoError(t, a.Client(t).CreateTopic(t.Context(), kafka.Name(t), 1, nil))
	for _, err := range []error{a.Kill(), a.Stop(), a.Restart(t.Context())} {
		require.ErrorContains(t, err, "the broker was not started here")
	}
	require.NoError(t, a.Close())
	require.NoError(t, b.Client(t).Ping(t.Context()))

	require.NoError(t, b.Kill())
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = kafka.Attach(ctx, b.Addr())
	require.ErrorContains(t, err, "testkit/kafka: it is not ready")
}

func TestValidate(t *testing.T) {
	o := kafka.Options{Partitions: -1, Port: 1 << 16, HeapBytes: 1, StartTimeout: -1, Users: []kafka.User{{Name: "a b"}}}
	want := []string{
		"Partitions (-1) must be >= 1",
		"Port (65536) must be from 0 to 65535",
		"HeapBytes (1) must be >= 67108864",
		"StartTimeout (-1ns) must be > 0",
		`Users[0].Name ("a b") must not be empty and have none of " , = [ ] \ space`,
		`Users[0].Password must not be empty and have none of " , = [ ] \ space`,
	}
	require.EqualError(t, o.Validate(), strings.Join(want, "\n"))
	_, err := kafka.OpenEmbedded(t.Context(), o)
	require.EqualError(t, err, "testkit/kafka: "+strings.Join(want, "\n"))
	require.NoError(t, kafka.Options{}.Validate())
}

// TestProperties is about settings that reach the server.
func TestProperties(t *testing.T) {
	kafka.EachOwn(t, kafka.Options{Partitions: 7, Properties: map[string]string{"message.max.bytes": strconv.Itoa(4 << 10)}}, func(t *testing.T, b *kafka.Broker) {
		ctx, c, topic := t.Context(), b.Client(t), kafka.Name(t)
		require.NoError(t, c.CreateTopic(ctx, topic, 0, nil))
		topics, err := c.Topics(ctx)
		require.NoError(t, err)
		require.Equal(t, 7, topics[topic])
		value := make([]byte, 5<<10) // that no compression makes smaller
		_, _ = rand.Read(value)
		require.ErrorContains(t, c.Produce(ctx, kafka.Record{Topic: topic, Value: value}), "MESSAGE_TOO_LARGE")
		require.NoError(t, c.Produce(ctx, kafka.Record{Topic: topic, Value: value[:3<<10]}))
	})
}
