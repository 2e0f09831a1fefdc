package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/kvstore/rocksdb"
	"github.com/wickerwork/wicker/testkit/kafka"
)

func record(t *testing.T, topic, key string, offset int64, v any) kafka.Record {
	value, err := json.Marshal(v)
	require.NoError(t, err)
	return kafka.Record{Topic: topic, Key: []byte(key), Value: value, Offset: offset}
}

// flow is a run without faults: what comes out of both outputs, in order.
func flow(t *testing.T, inputs []string) (counts, totals []kafka.Record) {
	n, sums := map[string]int64{}, map[string]total{}
	for i, k := range inputs {
		n[k]++
		c := counted{Key: k, N: n[k], ID: int64(i + 1)}
		g := groupOf(k)
		sums[g] = total{N: sums[g].N + 1, Sum: sums[g].Sum + c.ID, Last: c}
		counts = append(counts, record(t, "counts", k, int64(i), c))
		totals = append(totals, record(t, "totals", g, int64(i), sums[g]))
	}
	return counts, totals
}

// An oracle that finds nothing is of no use: it must see each kind of damage that is done to what comes out.
func TestOracleSeesDamage(t *testing.T) {
	inputs := inputsOf(1, 500)
	at := 100 // a place in the middle, of a key that comes again
	for !slices.Contains(inputs[at+1:], inputs[at]) {
		at++
	}
	for _, c := range []struct {
		name   string
		damage func(counts, totals []kafka.Record) ([]kafka.Record, []kafka.Record)
		want   string // within a finding, empty for none
		lost   int
		twice  int
	}{
		{"none", func(c, s []kafka.Record) ([]kafka.Record, []kafka.Record) { return c, s }, "", 0, 0},
		{"lost", func(c, s []kafka.Record) ([]kafka.Record, []kafka.Record) { return append(c[:at:at], c[at+1:]...), s }, "after", 0, 0},
		{"end", func(c, s []kafka.Record) ([]kafka.Record, []kafka.Record) { return c[:len(c)-1], s }, "", 1, 0},
		{"twice", func(c, s []kafka.Record) ([]kafka.Record, []kafka.Record) { return append(c[:at+1:at+1], c[at:]...), s }, "again", 0, 1},
		{"totals lost", func(c, s []kafka.Record) ([]kafka.Record, []kafka.Record) { return c, append(s[:at:at], s[at+1:]...) }, "goes from", 0, 0},
		{"totals end", func(c, s []kafka.Record) ([]kafka.Record, []kafka.Record) { return c, s[:len(s)-1] }, "", 1, 0},
		{"totals twice", func(c, s []kafka.Record) ([]kafka.Record, []kafka.Record) { return c, append(s[:at+1:at+1], s[at:]...) }, "again", 0, 1},
		{"order", func(c, s []kafka.Record) ([]kafka.Record, []kafka.Record) {
			for i := range c { // the two next inputs of one key
				for j := i + 1; j < len(c); j++ {
					if string(c[i].Key) == string(c[j].Key) {
						c[i], c[j] = c[j], c[i]
						return c, s
					}
				}
			}
			return c, s
		}, "after 0", 0, 1},
		{"other input", func(c, s []kafka.Record) ([]kafka.Record, []kafka.Record) {
			c[3].Value = []byte(strings.Replace(string(c[3].Value), `"id":4`, `"id":5`, 1))
			return c, s
		}, "for input 5, must be 4", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOracle(inputs)
			counts, totals := c.damage(flow(t, inputs))
			for _, r := range counts {
				o.count(r)
			}
			for _, r := range totals {
				o.total(r)
			}
			text := strings.Join(o.findings, "\n")
			if c.want == "" {
				require.Empty(t, text)
			}
			require.Contains(t, text, c.want)
			require.Equal(t, c.lost, o.missing(&o.counts)+o.missing(&o.totals))
			require.Equal(t, c.twice, o.duplicates)
			require.Equal(t, c.lost == 0, o.complete())
		})
	}
}

func TestOracleSeesWrongInputs(t *testing.T) {
	inputs := []string{"a", "b", "a"}
	in := func(keys ...string) []kafka.Record {
		var rs []kafka.Record
		for i, k := range keys {
			rs = append(rs, record(t, "in", k, int64(i), i+1))
		}
		return rs
	}
	for _, c := range []struct {
		records []kafka.Record
		ok      bool
	}{{in("a", "b", "a"), true}, {in("a", "b"), false}, {in("a", "b", "a", "a"), false}, {in("b", "a", "a"), false}} {
		o := newOracle(inputs)
		o.checkInputs(c.records)
		require.Equal(t, c.ok, len(o.findings) == 0, o.findings)
	}
}

// Stores are compared with the changelog up to their checkpoint.
func TestOracleSeesWrongStores(t *testing.T) {
	n := names{App: "app"}
	p := kafka.Partition{Topic: n.changelog(countState), Partition: 3}
	logs := changelogs{p: {
		record(t, p.Topic, "a", 0, 1), record(t, p.Topic, "b", 1, 1), record(t, p.Topic, "a", 4, 2),
	}}
	const prefix = "\x05" + countState
	for _, c := range []struct {
		name       string
		checkpoint int64
		content    map[string]string
		want       string
		whole      bool
	}{
		{"end", 5, map[string]string{prefix + "a": "2", prefix + "b": "1"}, "", true},
		{"behind", 2, map[string]string{prefix + "a": "1", prefix + "b": "1"}, "", false},
		{"ahead", 2, map[string]string{prefix + "a": "2", prefix + "b": "1"}, `a is "2", and "1" in`, true},
		{"missing", 5, map[string]string{prefix + "a": "2"}, `b is "", and "1" in`, false},
		{"foreign", 5, map[string]string{prefix + "a": "2", prefix + "b": "1", prefix + "c": "1"}, `c is "1", and not in`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			engine := rocksdb.New(rocksdb.Options{Dir: dir})
			require.NoError(t, engine.Open())
			db, err := engine.OpenStore("app-x-3")
			require.NoError(t, err)
			var b kvstore.Batch
			for k, v := range c.content {
				b.Put([]byte(k), []byte(v))
			}
			b.SetCheckpoint(p.Topic, c.checkpoint)
			require.NoError(t, db.Write(&b))
			require.NoError(t, engine.Close())

			o, whole := newOracle(nil), map[kafka.Partition]bool{}
			require.NoError(t, o.checkStores(dir, n, logs, whole))
			text := strings.Join(o.findings, "\n")
			if c.want == "" {
				require.Empty(t, text)
			}
			require.Contains(t, text, c.want)
			require.Equal(t, c.whole, whole[p])
		})
	}
}
