package commitlog

import "time"

// What the sizes and waits of a ReaderConfig and a ProducerConfig are that are 0; timeouts.go has the other times.
const (
	DefaultFetchBytes = 1 << 20
	DefaultAhead      = 8 << 20
	DefaultMaxWait    = 500 * time.Millisecond
	DefaultMaxUnacked = 8 << 20
)
