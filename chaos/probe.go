package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

// sighting is what the probe puts out for each input.
type sighting struct {
	N  int64 `json:"n"`  // how many inputs the key has had
	By int   `json:"by"` // the process that worked on it
}

var sightingCodec = codec.JSON[sighting]()

// newProbe is an example of one sub-topology whose outputs tell which process made them. It is for measuring how long
// partitions stand still.
func newProbe(n names, process int) (*topology.Plan, error) {
	return topology.New(n.App).
		From(ops.Source(ops.NewTopic(n.in(), codec.String, idCodec))).
		Aggregate(ops.NewState(countState, codec.String, idCodec), func(_ string, _, n int64) int64 { return n + 1 }).
		MapValues(func(n int64) sighting { return sighting{N: n, By: process} }, ops.ValueCodec(sightingCodec)).
		To(ops.Sink(ops.NewTopic(n.counts(), codec.String, sightingCodec))).
		Build()
}

// pulse writes an input to each partition at a steady pace, one key for each.
type pulse struct {
	client *kgo.Client
	topic  string
	keys   []string // by partition
	every  time.Duration
	stop   chan struct{}
	done   chan error
	sent   int // to each partition, after done
}

// startPulse begins to write. The caller has to call end.
func startPulse(brokers []string, topic string, partitions int, every time.Duration) (*pulse, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		return nil, err
	}
	p := &pulse{client: cl, topic: topic, every: every, keys: make([]string, partitions), stop: make(chan struct{}), done: make(chan error, 1)}
	place := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
	for i, missing := 0, partitions; missing > 0; i++ {
		key := "key-" + strconv.Itoa(i)
		if at := place.Partition(&kgo.Record{Key: []byte(key)}, partitions); p.keys[at] == "" {
			p.keys[at] = key
			missing--
		}
	}
	go func() { p.done <- p.run() }()
	return p, nil
}

func (p *pulse) run() error {
	defer p.client.Close()
	var mu sync.Mutex
	var errs []error
	ticker := time.NewTicker(p.every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-p.stop:
			if err := p.client.Flush(context.Background()); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			return errors.Join(errs...)
		}
		p.sent++
		for _, key := range p.keys {
			r := &kgo.Record{Topic: p.topic, Key: []byte(key), Value: strconv.AppendInt(nil, int64(p.sent), 10)}
			p.client.Produce(context.Background(), r, func(_ *kgo.Record, err error) {
				if err != nil {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
				}
			})
		}
	}
}

// end stops writing and returns how many inputs each partition has got.
func (p *pulse) end() (int, error) {
	close(p.stop)
	err := <-p.done
	return p.sent, err
}

// arrival is a committed output, and when a reader saw it.
type arrival struct {
	at time.Time
	sighting
}

// observer reads the probe's outputs as they are committed.
type observer struct {
	client *kgo.Client
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex // guards what follows
	arrivals [][]arrival
	err      error
}

func startObserver(brokers []string, topic string, partitions int) (*observer, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	o := &observer{client: cl, cancel: cancel, done: make(chan struct{}), arrivals: make([][]arrival, partitions)}
	go o.run(ctx)
	return o, nil
}

func (o *observer) run(ctx context.Context) {
	defer close(o.done)
	defer o.client.Close()
	for ctx.Err() == nil {
		fetches := o.client.PollFetches(ctx)
		now := time.Now()
		o.mu.Lock()
		for _, r := range fetches.Records() {
			a := arrival{at: now}
			if err := json.Unmarshal(r.Value, &a.sighting); err != nil {
				o.err = errors.Join(o.err, err)
			}
			o.arrivals[r.Partition] = append(o.arrivals[r.Partition], a)
		}
		o.mu.Unlock()
	}
}

func (o *observer) close() {
	o.cancel()
	<-o.done
}

// await polls until what has been seen satisfies done.
func (o *observer) await(ctx context.Context, within time.Duration, what string, done func(arrivals [][]arrival) bool) error {
	for deadline := time.Now().Add(within); ; {
		o.mu.Lock()
		ok, err := done(o.arrivals), o.err
		o.mu.Unlock()
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v: %s", within, what)
		}
		if !sleep(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// processes returns who made the last output of each partition.
func processes(arrivals [][]arrival) map[int]bool {
	found := map[int]bool{}
	for _, as := range arrivals {
		if len(as) > 0 {
			found[as[len(as)-1].By] = true
		}
	}
	return found
}

// exact says what is wrong with the outputs of a partition that has had so many inputs; empty if nothing is.
func exact(arrivals [][]arrival, inputs int) (problem string) {
	for p, as := range arrivals {
		for i, a := range as {
			if a.N != int64(i+1) {
				return fmt.Sprintf("partition %d: output %d has n=%d", p, i+1, a.N)
			}
		}
		if len(as) != inputs {
			return fmt.Sprintf("partition %d: %d outputs for %d inputs", p, len(as), inputs)
		}
	}
	return ""
}

// gaps are the times between consecutive outputs of partitions within a window.
type gaps struct {
	// kept are those where both outputs are of one process, moved those where the partition went to
	// another one, or to one that was started anew in its place.
	kept, moved []time.Duration
}

func gapsWithin(arrivals [][]arrival, from, to time.Time) gaps {
	var g gaps
	for _, as := range arrivals {
		for i := 1; i < len(as); i++ {
			a, b := as[i-1], as[i]
			switch d := b.at.Sub(a.at); {
			case b.at.Before(from) || a.at.After(to):
			case a.By == b.By:
				g.kept = append(g.kept, d)
			default:
				g.moved = append(g.moved, d)
			}
		}
	}
	slices.Sort(g.kept)
	slices.Sort(g.moved)
	return g
}

// describe tells of sorted durations.
func describe(ds []time.Duration) string {
	if len(ds) == 0 {
		return "none"
	}
	at := func(q float64) time.Duration {
		return ds[min(len(ds)-1, int(q*float64(len(ds))))].Round(time.Millisecond)
	}
	return fmt.Sprintf("%d, median %v, p99 %v, p99.9 %v, longest %v", len(ds), at(0.5), at(0.99), at(0.999), at(1))
}
