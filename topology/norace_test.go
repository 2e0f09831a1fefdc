//go:build !race

package topology_test

// raceEnabled says that the race detector is on; it allocates by itself.
const raceEnabled = false
