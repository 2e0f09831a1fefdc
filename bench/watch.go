package main

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// feeder writes records at a steady rate until it is stopped.
type feeder struct {
	cancel context.CancelFunc
	done   chan struct{}
	sent   int64
	err    error
}

// feed begins to write perSecond records a second to the topic.
func feed(ctx context.Context, addr, topic string, perSecond int64, next func(i int64) (key, value []byte)) (*feeder, error) {
	w, err := newWriter(addr, topic, 0)
	if err != nil {
		return nil, err
	}
	f := &feeder{done: make(chan struct{})}
	running, cancel := context.WithCancel(ctx)
	f.cancel = cancel
	go func() {
		defer close(f.done)
		begin := time.Now()
		for running.Err() == nil {
			wait := time.Until(begin.Add(time.Duration(f.sent) * time.Second / time.Duration(perSecond)))
			if wait > time.Millisecond {
				time.Sleep(wait)
			}
			k, v := next(f.sent)
			w.write(ctx, k, v)
			f.sent++
		}
		f.err = w.close(ctx)
	}()
	return f, nil
}

// stop ends it and returns how many records it has written. It may be called again.
func (f *feeder) stop() (int64, error) {
	f.cancel()
	<-f.done
	return f.sent, f.err
}

// watcher notes when committed records of a topic arrive. Several that come with one fetch are one arrival.
type watcher struct {
	cancel context.CancelFunc
	done   chan struct{}
	mu     sync.Mutex
	// arrivals are by partition; err ends it.
	arrivals [][]time.Time
	err      error
}

// watch begins to watch a topic from its start.
func watch(ctx context.Context, addr, topic string, count int) (*watcher, error) {
	starts := map[int32]kgo.Offset{}
	for p := range count {
		starts[int32(p)] = kgo.NewOffset().AtStart()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return nil, err
	}
	w := &watcher{done: make(chan struct{}), arrivals: make([][]time.Time, count)}
	running, cancel := context.WithCancel(ctx)
	w.cancel = cancel
	go func() {
		defer close(w.done)
		defer cl.Close()
		for {
			fetches := cl.PollFetches(running)
			now := time.Now()
			if running.Err() != nil {
				return
			}
			w.mu.Lock()
			fetches.EachPartition(func(p kgo.FetchTopicPartition) {
				if len(p.Records) > 0 {
					w.arrivals[p.Partition] = append(w.arrivals[p.Partition], now)
				}
				if p.Err != nil {
					w.err = p.Err
				}
			})
			w.mu.Unlock()
		}
	}()
	return w, nil
}

// stop ends it and returns the arrivals by partition. It may be called again.
func (w *watcher) stop() ([][]time.Time, error) {
	w.cancel()
	<-w.done
	return w.arrivals, w.err
}

// firstAfter returns the first arrival after t in any partition.
func (w *watcher) firstAfter(t time.Time) (first time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, arrivals := range w.arrivals {
		for _, at := range arrivals {
			if at.After(t) {
				if !ok || at.Before(first) {
					first, ok = at, true
				}
				break
			}
		}
	}
	return first, ok
}

// longestGap is the longest time without an arrival that touches from..to; end closes the last one.
func longestGap(arrivals []time.Time, from, to, end time.Time) time.Duration {
	var longest time.Duration
	for i, at := range arrivals {
		next := end
		if i+1 < len(arrivals) {
			next = arrivals[i+1]
		}
		if next.After(from) && at.Before(to) {
			longest = max(longest, next.Sub(at))
		}
	}
	if len(arrivals) == 0 {
		longest = end.Sub(from)
	}
	return longest
}
