package memlog

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// reader delivers chunks from a goroutine. It reads ahead one chunk, of at most
// min(FetchBytes, Ahead) bytes: the records are in memory anyway.
type reader struct {
	log    *Log
	cfg    commitlog.ReaderConfig
	chunk  int // most bytes of a chunk
	parts  []readerPart
	turn   int // index of the partition that is asked first
	out    chan commitlog.Chunk
	woken  chan struct{} // holds a value when there may be more
	closed chan struct{}
	done   chan struct{} // closed when the goroutine is gone
	// Guarded by the cluster's mu.
	err   error
	ended bool // closed is closed
}

// readerPart is a partition and the position in it. Only the goroutine moves it.
type readerPart struct {
	p        *partition
	position int64
}

var _ commitlog.Reader = (*reader)(nil)

// OpenReader implements [commitlog.Log].
func (l *Log) OpenReader(ctx context.Context, cfg commitlog.ReaderConfig) (commitlog.Reader, error) {
	if f := l.fault().OpenReader; f != nil {
		if err := f(ctx, cfg); err != nil {
			return nil, err
		}
	}
	r := &reader{log: l, cfg: cfg, out: make(chan commitlog.Chunk), woken: make(chan struct{}, 1),
		closed: make(chan struct{}), done: make(chan struct{})}
	r.chunk = cfg.FetchBytes
	if r.chunk <= 0 {
		r.chunk = commitlog.DefaultFetchBytes
	}
	ahead := cfg.Ahead
	if ahead <= 0 {
		ahead = commitlog.DefaultAhead
	}
	r.chunk = min(r.chunk, ahead)
	r.cfg.From = nil
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if err := l.usable(ctx, "open reader"); err != nil {
		return nil, err
	}
	for _, tp := range slices.SortedFunc(maps.Keys(cfg.From), compareTPs) {
		p, err := l.c.partition("fetch", tp)
		if err != nil {
			return nil, err
		}
		if was, is := cfg.IDs[tp.Topic], p.topic.id; was.Differs(is) {
			return nil, recreated(tp, was, is)
		}
		r.parts = append(r.parts, readerPart{p: p, position: cfg.From[tp]})
	}
	for _, rp := range r.parts {
		rp.p.readers[r] = struct{}{}
	}
	l.readers[r] = struct{}{}
	go r.run()
	return r, nil
}

func compareTPs(a, b commitlog.TopicPartition) int {
	if c := strings.Compare(a.Topic, b.Topic); c != 0 {
		return c
	}
	return int(a.Partition) - int(b.Partition)
}

// Chunks implements [commitlog.Reader].
func (r *reader) Chunks() <-chan commitlog.Chunk { return r.out }

// Err implements [commitlog.Reader].
func (r *reader) Err() error {
	r.log.c.mu.Lock()
	defer r.log.c.mu.Unlock()
	return r.err
}

// Close implements [commitlog.Reader].
func (r *reader) Close() error {
	r.log.c.mu.Lock()
	if !r.ended {
		r.ended = true
		close(r.closed)
	}
	r.log.c.mu.Unlock()
	<-r.done
	return nil
}

// wake has the goroutine look again. It never blocks.
func (r *reader) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

func (r *reader) run() {
	err := r.deliver()
	c := r.log.c
	c.mu.Lock()
	r.err = err
	for _, rp := range r.parts {
		delete(rp.p.readers, r)
	}
	delete(r.log.readers, r)
	c.mu.Unlock()
	close(r.out)
	close(r.done)
}

func (r *reader) deliver() error {
	for {
		chunk, ok, err := r.next()
		if err != nil {
			return err
		}
		if !ok {
			select {
			case <-r.woken:
			case <-r.closed:
				return nil
			}
			continue
		}
		if f := r.log.fault().Fetch; f != nil {
			if err := f(chunk.TopicPartition); err != nil {
				return err
			}
		}
		select {
		case r.out <- chunk:
		case <-r.closed:
			return nil
		}
	}
}

// next reads the next chunk there is, the partitions taking turns.
func (r *reader) next() (commitlog.Chunk, bool, error) {
	r.log.c.mu.Lock()
	defer r.log.c.mu.Unlock()
	for range r.parts {
		rp := &r.parts[r.turn]
		if r.turn++; r.turn == len(r.parts) {
			r.turn = 0
		}
		p := rp.p
		if p.deleted {
			if t := r.log.c.topics[p.Topic]; t != nil {
				return commitlog.Chunk{}, false, recreated(p.TopicPartition, p.topic.id, t.id)
			}
			return commitlog.Chunk{}, false, kafkaError("fetch", p.TopicPartition, unknownTopic, nil)
		}
		if rp.position < p.start || rp.position > p.end {
			return commitlog.Chunk{}, false, kafkaError("fetch", p.TopicPartition, offsetOutOfRange,
				&commitlog.RangeError{Offset: rp.position, Start: p.start, End: p.end})
		}
		if chunk, ok := p.read(rp.position, r.cfg.Isolation, r.chunk); ok {
			rp.position = chunk.Next
			return chunk, true, nil
		}
	}
	return commitlog.Chunk{}, false, nil
}
