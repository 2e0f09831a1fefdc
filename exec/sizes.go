package exec

import (
	"fmt"
	"log/slog"
	"math/bits"
	"strconv"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// StoreStats is how large the values of one store are, over all tasks that the process has or had. A key's value is one record of the
// changelog, so what counts is key and value.
type StoreStats struct {
	// Sizes counts the changelog records by size: Sizes[i] has those of at most 64<<(2*i) bytes that are in none before, the last one all that are larger.
	Sizes [sizeClasses]int64
	// Largest is the size of the largest one in bytes, Limit what one may have at most.
	Largest, Limit int64
}

// sizeClasses are 64 bytes to 1 MiB in steps of four, and more.
const sizeClasses = 9

// sizeClass returns the index in StoreStats.Sizes.
func sizeClass(size int) int {
	if size <= 64 {
		return 0
	}
	return min(sizeClasses-1, (bits.Len(uint(size-1))-5)/2)
}

// letterRoom is how much larger a dead letter may be than a record: its headers.
const letterRoom = 64 << 10

// batchHeader is what a record batch has beside its records.
const batchHeader = 61

// noteLimit notes what a record of an internal topic may have at most, given the topic's settings.
func (a *App) noteLimit(topic string, config map[string]string) {
	if most, err := strconv.Atoi(config["max.message.bytes"]); err == nil && most-batchHeader < a.cfg.MaxRecordBytes {
		a.limits[topic] = most - batchHeader
	}
}

// limit is the most bytes that a record of the topic may have.
func (a *App) limit(topic string) int {
	if most, ok := a.limits[topic]; ok {
		return most
	}
	return a.cfg.MaxRecordBytes
}

// limitOf says which setting it is that bounds a record of the topic.
func (a *App) limitOf(topic string) string {
	if _, ok := a.limits[topic]; ok {
		return "max.message.bytes of " + topic + ", less a batch's header"
	}
	return "exec.Config.MaxRecordBytes"
}

// tooLarge refuses a value that no changelog record could have, when it is put: nothing of it has been sent yet.
func (s *store) tooLarge(key, value []byte) error {
	size := commitlog.MaxRecordSize(key, value, nil)
	if size <= s.most || s.most == 0 {
		return nil
	}
	return fmt.Errorf("store %s: %w: the value of this key has %d bytes with the key, must be <= %d (%s)", s.spec.Name, commitlog.ErrTooLarge, size, s.most, s.bound)
}

// A value that has come to warnShare of what is possible is told in a warning, at most every warnInterval for a store of a task.
const (
	warnShare    = 0.8
	warnInterval = time.Minute
)

// measure counts a value that is sealed, and warns of one that is near its limit.
func (s *store) measure(key, value []byte, now time.Time, log *slog.Logger) {
	if value == nil {
		return
	}
	size := commitlog.MaxRecordSize(key, value, nil)
	s.sizes.Sizes[sizeClass(size)]++
	s.sizes.Largest = max(s.sizes.Largest, int64(size))
	if s.most > 0 && float64(size) > warnShare*float64(s.most) && (s.warned.IsZero() || now.Sub(s.warned) >= warnInterval) {
		s.warned = now
		log.Warn("a value is near the limit of a record", "store", s.spec.Name, "bytes", size, "limit", s.most, "set by", s.bound)
	}
}
