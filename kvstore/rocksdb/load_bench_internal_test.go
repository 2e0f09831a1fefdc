//go:build cgo && linux

package rocksdb

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/kvstore"
)

// processTime is the user and system time of the process, RocksDB's threads included.
func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakMB is the most the process held since the last resetPeak.
func peakMB() float64 {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmHWM:" {
			kb, _ := strconv.ParseFloat(f[1], 64)
			return kb / 1024
		}
	}
	return 0
}

func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// numberKey writes k and 15 digits of n.
func numberKey(key []byte, n int) []byte {
	key = append(key[:0], "k000000000000000"...)
	for i := 15; n > 0; i-- {
		key[i] = byte('0' + n%10)
		n /= 10
	}
	return key
}

// everyKey calls write with batches of about 1 MiB that put 16-byte keys and
// 200-byte values that do not compress, n of them, in the order of the keys or
// scattered.
func everyKey(n int, ordered bool, write func(*kvstore.Batch)) {
	noise := randomBytes(rand.New(rand.NewPCG(1, 1)), 1<<20, 64)
	var batch kvstore.Batch
	var key []byte
	for i := range n {
		k := i
		if !ordered {
			k = i * 2654435761 % n
		}
		key = numberKey(key, k)
		at := i * 7919 % (len(noise) - 200)
		batch.Put(key, noise[at:at+200])
		if batch.Size() >= 1<<20 || i+1 == n {
			batch.SetCheckpoint("topic", int64(i+1))
			write(&batch)
			batch.Reset()
		}
	}
}

// BenchmarkLoad fills an empty store with records through a Loader, or
// through Write. Beside the load it measures the compaction that follows, and
// reads while it is going on and after it. Use -benchtime=1x, one of them at a time for its
// peak-MB, and TMPDIR to choose the disk.
func BenchmarkLoad(b *testing.B) {
	const many = 5_000_000
	for _, bench := range []struct {
		name    string
		records int
		memory  int64 // 0: Write
		ordered bool
	}{
		{"32MiB", many, 32 << 20, false},
		{"64MiB", many, 64 << 20, false},
		{"64MiB-ordered", many, 64 << 20, true},
		{"128MiB", many, 128 << 20, false},
		{"256MiB", many, 256 << 20, false},
		{"write", many / 5, 0, false},
	} {
		b.Run(bench.name, func(b *testing.B) {
			n := bench.records
			var load, rest, took, readAtOnce, readAfter time.Duration
			var peak float64
			for b.Loop() {
				e := New(Options{Dir: b.TempDir()})
				require.NoError(b, e.Open())
				st, err := e.OpenStore("store")
				require.NoError(b, err)
				s := st.(*store)
				resetPeak()
				began, cpu := time.Now(), processTime(b)
				write, done := st.Write, func() error { return nil }
				if bench.memory > 0 {
					l, err := st.Load(bench.memory)
					require.NoError(b, err)
					write, done = l.Write, l.Close
				}
				everyKey(n, bench.ordered, func(batch *kvstore.Batch) { require.NoError(b, write(batch)) })
				require.NoError(b, done())
				took += time.Since(began)
				load += processTime(b) - cpu
				peak = max(peak, peakMB())
				readAtOnce += readSome(b, s, n)
				cpu = processTime(b)
				settle(s)
				rest += processTime(b) - cpu
				readAfter += readSome(b, s, n)
				require.NoError(b, e.Close())
			}
			records := float64(n) * float64(b.N)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(records/took.Seconds(), "records/s")
			b.ReportMetric(float64(load.Nanoseconds())/1e3/records, "cpu-us/record")
			b.ReportMetric(float64(rest.Nanoseconds())/1e3/records, "compaction-cpu-us/record")
			b.ReportMetric(float64(readAtOnce.Microseconds())/float64(b.N), "us/first-reads")
			b.ReportMetric(float64(readAfter.Microseconds())/float64(b.N), "us/later-reads")
			b.ReportMetric(peak, "peak-MB")
		})
	}
}

// readSome returns the mean time of a read of a random key.
func readSome(b *testing.B, s *store, n int) time.Duration {
	const reads = 30_000
	r := rand.New(rand.NewPCG(2, 2))
	var key, value []byte
	began := time.Now()
	for range reads {
		key = numberKey(key, r.IntN(n))
		var found bool
		var err error
		if value, found, err = s.Get(value[:0], key); !found || err != nil {
			b.Fatal(found, err)
		}
	}
	return time.Since(began) / reads
}

// settle waits until nothing is left to compact.
func settle(s *store) {
	for {
		pending, _ := s.db.GetIntProperty("rocksdb.compaction-pending")
		running, _ := s.db.GetIntProperty("rocksdb.num-running-compactions")
		if pending == 0 && running == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// BenchmarkStores opens 64 stores, eight at once, writes 100 kB to each, and closes
// them: what an instance with 64 tasks does when it starts and when it stops.
func BenchmarkStores(b *testing.B) {
	const stores = 64
	dir := b.TempDir()
	var open, shut time.Duration
	for b.Loop() {
		e := New(Options{Dir: dir})
		require.NoError(b, e.Open())
		all := make([]kvstore.Store, stores)
		eachStore := func(f func(i int) error) time.Duration {
			began := time.Now()
			var wg sync.WaitGroup
			slots := make(chan struct{}, closers)
			for i := range stores {
				slots <- struct{}{}
				wg.Go(func() {
					if err := f(i); err != nil {
						b.Error(err)
					}
					<-slots
				})
			}
			wg.Wait()
			return time.Since(began)
		}
		open += eachStore(func(i int) (err error) {
			all[i], err = e.OpenStore(fmt.Sprint("task-", i))
			return err
		})
		eachStore(func(i int) error {
			var batch kvstore.Batch
			for n := range 500 {
				batch.Put(fmt.Append(nil, n), make([]byte, 200))
			}
			return all[i].Write(&batch)
		})
		shut += eachStore(func(i int) error { return all[i].Close() })
		require.NoError(b, e.Close())
	}
	b.ReportMetric(float64(open.Milliseconds())/float64(b.N), "ms/open-64")
	b.ReportMetric(float64(shut.Milliseconds())/float64(b.N), "ms/close-64")
}
