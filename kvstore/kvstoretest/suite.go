package kvstoretest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
)

// Features says what an engine has beyond the least.
type Features struct {
	// Persistent: what was in a store when it was closed is there when it is
	// opened again, by the same engine or by a later one with the same directory.
	// Without it a store is empty whenever it is opened.
	Persistent bool
}

// Run runs the suite, as subtests. newEngine returns a fresh engine, not yet
// opened, that keeps its files, if any, in dir; it is called again with the same
// dir for what a restart does, after the engine before it was closed. Run
// returns when all subtests are done.
func Run(t *testing.T, newEngine func(t *testing.T, dir string) kvstore.Engine, f Features) {
	tests := []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"Order", testOrder},
		{"Bounds", testBounds},
		{"Presence", testPresence},
		{"LargeEntries", testLargeEntries},
		{"VisitError", testVisitError},
		{"ScanIsASnapshot", testSnapshot},
		{"NestedScan", testNestedScan},
		{"SnapshotStays", testSnapshotStays},
		{"SnapshotReaders", testSnapshotReaders},
		{"SnapshotMeetsClose", testSnapshotMeetsClose},
		{"LastWins", testLastWins},
		{"BatchReuse", testBatchReuse},
		{"Checkpoint", testCheckpoint},
		{"Meta", testMeta},
		{"NamesApart", testNamesApart},
		{"GetAppends", testGetAppends},
		{"ArgumentsAreTheCallers", testArguments},
		{"ResultsAreTheCallers", testResults},
		{"ClosedStore", testClosedStore},
		{"CloseDuringScan", testCloseDuringScan},
		{"EngineStates", testEngineStates},
		{"EngineCloseMeetsUse", testEngineCloseMeetsUse},
		{"InUse", testInUse},
		{"StoreNames", testStoreNames},
		{"BadNames", testBadNames},
		{"Reopen", testReopen},
		{"Destroy", testDestroy},
		{"Concurrent", testConcurrent},
		{"Stats", testStats},
		{"LoadIsWrites", testLoadIsWrites},
		{"LoadOverOlder", testLoadOverOlder},
		{"LoadNothing", testLoadNothing},
		{"LoadLargeBatch", testLoadLargeBatch},
		{"LoadClosed", testLoadClosed},
		{"LoadLeftOpen", testLoadLeftOpen},
		{"LoadMeetsEngineClose", testLoadMeetsEngineClose},
		{"Metamorphic", testMetamorphic},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.run(t, &suite{dir: t.TempDir(), newEngine: newEngine, Features: f})
		})
	}
}

// suite is one subtest's engine factory.
type suite struct {
	Features
	dir       string
	newEngine func(t *testing.T, dir string) kvstore.Engine
}

// open returns an open engine on the subtest's directory, closed at its end.
func (s *suite) open(t *testing.T) kvstore.Engine {
	t.Helper()
	e := s.newEngine(t, s.dir)
	require.NoError(t, e.Open())
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// store returns an open store of a new engine.
func (s *suite) store(t *testing.T) kvstore.Store {
	t.Helper()
	return openStore(t, s.open(t), "store")
}

func openStore(t *testing.T, e kvstore.Engine, name string) kvstore.Store {
	t.Helper()
	s, err := e.OpenStore(name)
	require.NoError(t, err)
	return s
}

// put writes keys and values, given in turns.
func put(t *testing.T, s kvstore.Store, pairs ...string) {
	t.Helper()
	var b kvstore.Batch
	for i := 0; i < len(pairs); i += 2 {
		b.Put([]byte(pairs[i]), []byte(pairs[i+1]))
	}
	require.NoError(t, s.Write(&b))
}

// reader is what stores and snapshots have in common.
type reader interface {
	Get(dst, key []byte) (value []byte, found bool, err error)
	Scan(from, to []byte, visit func(key, value []byte) error) error
}

// wantValue checks Get's answer; nil wants the key absent.
func wantValue(t *testing.T, s reader, key string, want []byte) {
	t.Helper()
	value, found, err := s.Get(nil, []byte(key))
	require.NoError(t, err)
	require.Equal(t, want != nil, found, "presence of %q", key)
	if want != nil {
		require.Equal(t, string(want), string(value), "value of %q", key)
	}
}

// scan returns keys and values in turns, as put takes them.
func scan(t *testing.T, s reader, from, to []byte) []string {
	t.Helper()
	pairs := []string{}
	require.NoError(t, s.Scan(from, to, func(key, value []byte) error {
		pairs = append(pairs, string(key), string(value))
		return nil
	}))
	return pairs
}
