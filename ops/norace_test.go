//go:build !race

package ops_test

// raceEnabled says that the race detector is on; it allocates by itself.
const raceEnabled = false
