package exec

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/topology"
)

// change is one record of the changelog that the test keeps.
type change struct {
	key   string
	value []byte
}

// The state of a task under any order of writes, transactions, flushes, evictions and crashes equals a plain
// map. After a crash the engine plus the changelog's tail from the checkpoint on is exactly
// what was committed (E4), and a transaction writes one final value for each key that differs from
// the committed one and nothing else (TX-12).
func TestStateEqualsAMap(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { stateRun(t, rand.New(rand.NewPCG(seed, 7))) })
	}
}

func stateRun(t *testing.T, r *rand.Rand) {
	engine := kvstore.NewMemory()
	require.NoError(t, engine.Open())
	spec := topology.StoreSpec{Name: "s", Changelog: "app-s-changelog"}
	tp := commitlog.TopicPartition{Topic: spec.Changelog, Partition: 3}
	db, err := engine.OpenStore("task")
	require.NoError(t, err)
	s := newState(db, []topology.StoreSpec{spec}, 3000) // room for about 15 entries
	st := s.stores[0]
	var log []change
	flying := -1 // changes in flight, -1 when there is no transaction in flight
	committed, open, sealed := map[string]string{}, map[string]string{}, map[string]string{}
	same := func() {
		for i := range 40 {
			k := fmt.Sprint(i)
			v, err := st.Get([]byte(k))
			require.NoError(t, err)
			want, ok := open[k]
			require.Equal(t, ok, v != nil, "key %s", k)
			require.Equal(t, want, string(v))
		}
	}
	for range 600 {
		switch r.IntN(12) {
		case 0, 1, 2, 3, 4, 5:
			k := fmt.Sprint(r.IntN(40))
			if r.IntN(4) == 0 {
				require.NoError(t, st.Put([]byte(k), nil))
				delete(open, k)
			} else {
				v := fmt.Sprint(r.IntN(3))
				require.NoError(t, st.Put([]byte(k), []byte(v)))
				open[k] = v
			}
		case 6:
			same()
		case 7, 8: // close the open transaction
			if flying >= 0 {
				continue
			}
			base := committed
			want := map[string]bool{}
			for k := range maps.Keys(base) {
				if v, ok := open[k]; !ok || v != base[k] {
					want[k] = true
				}
			}
			for k := range open {
				if _, ok := base[k]; !ok {
					want[k] = true
				}
			}
			got := map[string]bool{}
			flying = 0
			require.NoError(t, s.seal(func(_ *store, k, value []byte) error {
				key := string(k)
				require.False(t, got[key], "key %s twice", key)
				got[key] = true
				log = append(log, change{key, value})
				flying++
				return nil
			}))
			require.Equal(t, want, got)
			sealed = maps.Clone(open)
		case 9: // it commits
			if flying < 0 {
				continue
			}
			s.committed(map[commitlog.TopicPartition]int64{tp: int64(len(log))}, nil, 3, time.Now())
			flying, committed = -1, sealed
		case 10:
			if flying < 0 {
				require.NoError(t, s.flush(time.Now()))
			}
		case 11: // crash: memory is lost, what was in flight aborts
			if flying > 0 {
				log = log[:len(log)-flying]
			}
			flying = -1
			from, _, err := db.Checkpoint(spec.Changelog)
			require.NoError(t, err)
			var batch kvstore.Batch
			s = newState(db, []topology.StoreSpec{spec}, 3000)
			st = s.stores[0]
			for _, c := range log[from:] {
				if c.value == nil {
					batch.Delete(st.toDB([]byte(c.key)))
				} else {
					batch.Put(st.toDB([]byte(c.key)), c.value)
				}
			}
			batch.SetCheckpoint(spec.Changelog, int64(len(log)))
			require.NoError(t, db.Write(&batch))
			st.checkpoint = int64(len(log))
			open = maps.Clone(committed)
			same()
		}
		require.LessOrEqual(t, st.entries.n, 41)
	}
	same()
}

// When nothing can be evicted, since all of it waits for commits, a new key does not cost a way
// round all entries: memory goes above its limit, and below it again with the flush.
func TestALookupIsCheapWhenNothingCanBeEvicted(t *testing.T) {
	engine := kvstore.NewMemory()
	require.NoError(t, engine.Open())
	db, err := engine.OpenStore("task")
	require.NoError(t, err)
	s := newState(db, []topology.StoreSpec{{Name: "s", Changelog: "c"}}, 10_000*(entryOverhead+10))
	st := s.stores[0]
	sweeps, at := 0, int64(0)
	for i := range 40_000 {
		require.NoError(t, st.Put(fmt.Appendf(nil, "%08d", i), []byte("vv")))
		if s.sweepAt != at {
			sweeps, at = sweeps+1, s.sweepAt
		}
	}
	require.Len(t, s.ring, 40_000)
	require.InDelta(t, 24, sweeps, 3) // one for each eighth of the limit above it
	require.NoError(t, s.seal(func(*store, []byte, []byte) error { return nil }))
	s.committed(nil, nil, 0, time.Now())
	require.NoError(t, s.flush(time.Now()))
	require.LessOrEqual(t, s.used, s.limit)
	require.Zero(t, s.sweepAt)
}

// A process that is paused between a commit and its flush, for longer than changelogs keep deletions, must not call its
// store in step when it goes on: others may have written, and what they deleted may be gone.
func TestE4AStoreIsInStepAsOfItsLastCommit(t *testing.T) {
	engine := kvstore.NewMemory()
	require.NoError(t, engine.Open())
	db, err := engine.OpenStore("task")
	require.NoError(t, err)
	spec := topology.StoreSpec{Name: "s", Changelog: "c"}
	s := newState(db, []topology.StoreSpec{spec}, 1<<20)
	closed := time.UnixMilli(1_700_000_000_000)
	require.NoError(t, s.stores[0].Put([]byte("k"), []byte("v")))
	require.NoError(t, s.seal(func(*store, []byte, []byte) error { return nil }))
	s.committed(nil, nil, 0, closed)
	require.NoError(t, s.flush(closed.Add(48*time.Hour)))
	label, err := readLabel(db, &topology.Subtopology{Stores: []topology.StoreSpec{spec}})
	require.NoError(t, err)
	require.Equal(t, closed, label.synced)
}
