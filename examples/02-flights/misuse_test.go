package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore/rocksdb"
	"github.com/wickerwork/wicker/testkit/kafka"
)

// What cannot work is one clear sentence, within ten seconds, and exit code 1.
func TestWhatCannotWorkIsOneSentence(t *testing.T) {
	t.Run("no-broker", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr := l.Addr().String()
		require.NoError(t, l.Close())
		requireSentence(t, runProgram(t, "-brokers", addr, "-dir", t.TempDir()), "no Kafka answers at "+addr)
	})
	t.Run("silent-broker", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
		require.NoError(t, err)
		defer l.Close()
		addr := l.Addr().String()
		requireSentence(t, runProgram(t, "-brokers", addr, "-dir", t.TempDir()), "no Kafka answers at "+addr)
	})
	t.Run("no-such-host", func(t *testing.T) {
		t.Parallel()
		requireSentence(t, runProgram(t, "-brokers", "kafka.invalid:9092", "-dir", t.TempDir()), "no Kafka answers at kafka.invalid:9092")
	})
	t.Run("kafka-directory-taken", func(t *testing.T) {
		dir := t.TempDir()
		kafka.StartEmbedded(t, kafka.Options{Dir: filepath.Join(dir, "kafka")})
		requireSentence(t, runProgram(t, "-dir", dir), "in use", filepath.Join(dir, "kafka"))
	})
	kafka.EachOwn(t, kafka.Options{}, func(t *testing.T, b *kafka.Broker) {
		c := b.Client(t)
		t.Run("missing-topics", func(t *testing.T) {
			o := runProgram(t, "-brokers", b.Addr(), "-dir", t.TempDir(), "-setup=false")
			requireSentence(t, o, "source topic flights does not exist", "sink topic route-stats does not exist",
				"kafka-topics.sh --bootstrap-server "+b.Addr()+" --create --topic flights ")
			topics, err := c.Topics(t.Context())
			require.NoError(t, err)
			require.Empty(t, topics) // nor did it create any
		})
		t.Run("partition-counts-differ", func(t *testing.T) {
			const topic = "flights-demo-by-tail-repartition"
			require.NoError(t, c.CreateTopic(t.Context(), topic, 3, nil))
			o := runProgram(t, "-brokers", b.Addr(), "-dir", t.TempDir())
			requireSentence(t, o, topic+" has 3 partitions, want 4", "--delete --topic "+topic)
			require.NoError(t, c.DeleteTopics(t.Context(), topic))
		})
		t.Run("state-directory-taken", func(t *testing.T) {
			s := settings{brokers: b.Addr(), dir: t.TempDir(), instance: "a"}
			engine := rocksdb.New(rocksdb.Options{Dir: s.stateDir()})
			require.NoError(t, engine.Open())
			defer engine.Close()
			o := runProgram(t, "-brokers", s.brokers, "-dir", s.dir)
			requireSentence(t, o, "state directory "+s.stateDir()+" is locked by the process with pid")
		})
		t.Run("state-directory-cannot-be-written", func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(file, nil, 0o600))
			requireSentence(t, runProgram(t, "-brokers", b.Addr(), "-dir", file), file, "not a directory")
		})
	})
}
