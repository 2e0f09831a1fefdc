//go:build cgo

package exec_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/kvstore/rocksdb"
	"github.com/wickerwork/wicker/testkit/kafka"
)

// G7 on brokers and on RocksDB: a process that is killed while it follows a table on disk leaves one that the next process goes on with, and that is exact.
func TestG7ATableOnDiskSurvivesKill9(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 1)
		topic := r.app + "-rows"
		require.NoError(t, r.c.CreateTopic(t.Context(), topic, 3, map[string]string{"cleanup.policy": "compact"}))
		want := map[string]string{}
		var batch []kafka.Record
		write := func(key, value string) {
			rec := kafka.Record{Topic: topic, Partition: int32(len(key)+int(key[len(key)-1])) % 3, Key: []byte(key), Value: []byte(value)}
			if want[key] = value; value == "" {
				delete(want, key)
				rec.Value = nil
			}
			batch = append(batch, rec)
		}
		send := func() {
			require.NoError(t, r.c.ProduceTo(t.Context(), batch...))
			batch = nil
		}
		const rows = 30_000 // enough for a load in bulk
		for i := range rows {
			write(fmt.Sprint("r", i), fmt.Sprint("v", i))
		}
		send()
		spec := r.spec()
		spec.Table, spec.Dir = topic, t.TempDir()
		first := spawn(t, spec)
		// sees waits until a lookup of the process finds the value.
		sees := func(key string) {
			asked := len(r.read(r.out))
			require.Eventually(t, func() bool {
				answers := r.read(r.out)
				if len(answers) > 0 && string(answers[len(answers)-1].Value) == fmt.Sprint(key, ":", want[key], ":true") {
					return true
				}
				if len(answers) == asked { // nothing is on its way
					r.put("k", key)
					asked++
				}
				return false
			}, time.Minute, 50*time.Millisecond)
		}
		sees("r17")
		for i := range 1000 {
			write(fmt.Sprint("r", i*7), fmt.Sprint("live", i))
			if i%10 == 0 {
				write(fmt.Sprint("r", i*7+1), "")
			}
		}
		write("last", "1")
		send()
		sees("last")
		require.NoError(t, first.cmd.Process.Kill())
		<-first.ended
		write("r3", "between")
		write("r4", "")
		send()
		table := onDiskTable(topic)
		plan, err := lookingOnDisk(r.app, r.in, table, r.out)
		require.NoError(t, err)
		for round := range 2 {
			i := launch(t, b, plan, func(c *exec.Config) { c.State = rocksdb.New(rocksdb.Options{Dir: spec.Dir}) })
			view, err := i.app.Table(table)
			require.NoError(t, err)
			require.NoError(t, view.Ready(t.Context()))
			got := map[string]string{}
			for k, v := range view.All(&err) {
				got[k] = v
			}
			require.NoError(t, err)
			require.Equal(t, want, got)
			read := i.app.Stats().Tables[topic].Read
			t.Logf("round %d: %d rows, %d records read", round, len(got), read)
			if round == 0 {
				require.Less(t, read, int64(1200), "what was loaded is there")
				require.Positive(t, read)
			} else {
				require.Zero(t, read)
			}
			i.drain()
		}
	})
}
