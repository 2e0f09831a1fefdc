package kafkalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// reader reads partitions. A fetcher per broker asks for what that broker leads, one request
// at a time; as soon as an answer is there, the next request goes out from the positions after it.
// The deliverer takes what was fetched in order, checks and decompresses it, and hands it to the
// consumer. So the broker, the deliverer and the consumer work at the same time.
//
//	fetcher(s) -- raw chunks, bounded by Ahead --> deliverer -- chunks --> consumer
type reader struct {
	log    *Log
	cfg    commitlog.ReaderConfig
	conns  *pool // of its own: fetches are held by the broker
	chunks chan commitlog.Chunk
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	once   sync.Once     // shut
	filled chan struct{} // holds a value when queue may have something

	mu       sync.Mutex // guards what follows and the partitions and fetchers
	parts    []*readPart
	fetchers map[int32]*fetcher
	queue    []rawChunk
	finding  bool  // leaders are looked up
	err      error // why reading ended
	closed   bool
}

// readPart is a reader's view of one partition.
type readPart struct {
	tp       commitlog.TopicPartition
	id       commitlog.TopicID // of the topic whose position it is, zero as long as it is not known
	position int64
	leader   int32
	retryAt  time.Time
	patience patience
	barren   int64 // position at which a fetch found nothing though something must be there; -1
}

// fetcher fetches from one broker. Its fields are guarded by the reader's mu.
type fetcher struct {
	r      *reader
	broker int32
	wake   chan struct{} // holds a value when there may be something to do
	held   int           // bytes in the queue
}

// OpenReader implements commitlog.Log.
func (l *Log) OpenReader(ctx context.Context, cfg commitlog.ReaderConfig) (commitlog.Reader, error) {
	const op = "open reader"
	if err := ctx.Err(); err != nil {
		return nil, wrap(op, err)
	}
	if err := commitlog.CheckTimeout("MaxWait", cfg.MaxWait); err != nil {
		return nil, wrap(op, fmt.Errorf("config: %w", err))
	}
	cfg.FetchBytes = cmp.Or(max(cfg.FetchBytes, 0), commitlog.DefaultFetchBytes)
	cfg.Ahead = cmp.Or(max(cfg.Ahead, 0), commitlog.DefaultAhead)
	cfg.MaxWait = cmp.Or(max(cfg.MaxWait, 0), commitlog.DefaultMaxWait)
	r := &reader{log: l, cfg: cfg, conns: l.cluster.newPool(), chunks: make(chan commitlog.Chunk, 1),
		filled: make(chan struct{}, 1), fetchers: map[int32]*fetcher{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	for tp, from := range cfg.From {
		r.parts = append(r.parts, &readPart{tp: tp, id: cfg.IDs[tp.Topic], position: from, leader: noLeader, barren: -1,
			patience: patience{limit: l.cfg.RetryTimeout}})
	}
	slices.SortFunc(r.parts, func(a, b *readPart) int {
		return cmp.Or(cmp.Compare(a.tp.Topic, b.tp.Topic), cmp.Compare(a.tp.Partition, b.tp.Partition))
	})
	if err := l.add(r); err != nil {
		r.cancel()
		return nil, wrap(op, err)
	}
	r.mu.Lock()
	for _, p := range r.parts {
		_ = r.leadLocked(p) // or else pushLocked has its leader looked up
		r.pushLocked(p)
	}
	r.wg.Go(r.deliver)
	r.mu.Unlock()
	return r, nil
}

// Chunks implements commitlog.Reader.
func (r *reader) Chunks() <-chan commitlog.Chunk { return r.chunks }

// Err implements commitlog.Reader.
func (r *reader) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close implements commitlog.Reader.
func (r *reader) Close() error {
	r.shut()
	return nil
}

func (r *reader) shut() {
	r.once.Do(func() {
		r.mu.Lock()
		r.closed = true
		r.mu.Unlock()
		r.cancel()
		r.conns.close()
		r.wg.Wait()
		r.log.remove(r)
	})
}

// fail ends reading with an error, the first one given.
func (r *reader) failLocked(err error) {
	if r.err == nil && !r.closed {
		r.err = err
	}
	r.cancel()
}

// pushLocked gets the fetching of a partition going.
func (r *reader) pushLocked(p *readPart) {
	if r.closed || r.err != nil {
		return
	}
	if p.leader == noLeader {
		r.findLeadersLocked()
		return
	}
	f := r.fetchers[p.leader]
	if f == nil {
		f = &fetcher{r: r, broker: p.leader, wake: make(chan struct{}, 1)}
		r.fetchers[p.leader] = f
		r.wg.Go(f.run)
	}
	f.signal()
}

func (f *fetcher) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// findLeadersLocked looks up the leaders of partitions without one, in the background.
func (r *reader) findLeadersLocked() {
	if r.finding {
		return
	}
	r.finding = true
	r.wg.Go(func() {
		for r.findLeaders() {
		}
	})
}

// findLeaders is one round of findLeadersLocked; it reports whether another is needed.
func (r *reader) findLeaders() bool {
	r.mu.Lock()
	var parts []*readPart
	var tps []commitlog.TopicPartition
	var wait time.Time
	for _, p := range r.parts {
		if p.leader == noLeader {
			parts, tps = append(parts, p), append(tps, p.tp)
			if p.retryAt.After(wait) {
				wait = p.retryAt
			}
		}
	}
	if len(parts) == 0 || r.ctx.Err() != nil {
		r.finding = false
		r.mu.Unlock()
		return false
	}
	r.mu.Unlock()
	if d := time.Until(wait); d > 0 && sleep(r.ctx, d) != nil {
		return true
	}
	_, err := r.log.cluster.locate(r.ctx, tps)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range parts {
		cause := r.leadLocked(p)
		if cause == nil {
			r.pushLocked(p)
			continue
		}
		if err != nil && !errors.Is(cause, commitlog.ErrTopicRecreated) {
			cause = err
		}
		r.delayLocked(p, cause)
	}
	return true
}

// leadLocked sets a partition's leader to who is known to lead it, if the topic is still the one whose position it has.
func (r *reader) leadLocked(p *readPart) error {
	leader, is := r.log.cluster.leader(p.tp), r.log.cluster.id(p.tp.Topic)
	if p.id.IsZero() {
		p.id = is
	}
	if p.id.Differs(is) {
		r.log.cluster.forget(p.tp) // it is asked again: who answered may not have heard of the topic yet
		e := at(kafkaErr("fetch", inFetch, codeUnknownTopicID), p.tp)
		e.Err = commitlog.Recreated(p.id, is)
		return e
	}
	if leader == noLeader {
		return kafkaErr("fetch", inFetch, codeLeaderNotAvailable)
	}
	p.leader = leader
	return nil
}

// delayLocked puts off a partition's next fetch, or fails the reader when it was put off for
// too long or err is not retriable.
func (r *reader) delayLocked(p *readPart, err error) {
	cause := err
	wait, err := p.patience.next(err)
	if err != nil {
		r.failLocked(placed(wrap("fetch", err), p.tp))
		return
	}
	if p.patience.tries == 1 {
		r.log.cfg.Logger.Info("fetch is tried again", "partition", p.tp.String(), "cause", cause.Error())
	}
	p.retryAt = time.Now().Add(wait)
}

// run is a fetcher's goroutine.
func (f *fetcher) run() {
	timer := time.NewTimer(nothingDue)
	defer timer.Stop()
	var request []byte
	var parts []fetchPart
	for f.r.ctx.Err() == nil {
		var budget int
		var wait time.Duration
		if parts, budget, wait = f.pick(parts[:0]); len(parts) > 0 {
			request = f.fetch(request[:0], parts, budget)
			clear(parts)
			continue
		}
		timer.Reset(wait)
		select {
		case <-f.wake:
		case <-timer.C:
		case <-f.r.ctx.Done():
		}
	}
}

// pick returns the partitions to ask for and how many bytes of them; none while too much is
// read ahead, or nothing is due. Then wait says when to look again.
func (f *fetcher) pick(parts []fetchPart) (_ []fetchPart, budget int, wait time.Duration) {
	r := f.r
	r.mu.Lock()
	defer r.mu.Unlock()
	wait = nothingDue
	share := r.cfg.Ahead / max(len(r.fetchers), 1)
	if f.held > 0 && share-f.held < min(r.cfg.FetchBytes, share/2) {
		return parts, 0, wait
	}
	now := time.Now()
	for _, p := range r.parts {
		if p.leader != f.broker {
			continue
		}
		if d := p.retryAt.Sub(now); d > 0 {
			wait = min(wait, d)
			continue
		}
		parts = append(parts, fetchPart{part: p, id: p.id, at: p.position})
	}
	return parts, max(share-f.held, 1), wait
}

// fetch asks for parts once and queues what comes.
func (f *fetcher) fetch(request []byte, parts []fetchPart, budget int) []byte {
	r := f.r
	cn, err := r.conns.get(r.ctx, f.broker)
	var version int16
	var frame []byte
	if err == nil {
		version, err = cn.version(protocol.Fetch)
	}
	if err == nil {
		version = fetchVersion(version, parts)
		request = appendFetch(request, version, r.log.cfg.ClientID, parts, isolationLevel(r.cfg.Isolation), int32(r.cfg.MaxWait.Milliseconds()),
			int32(min(budget, maxFrame/2)), int32(min(r.cfg.FetchBytes, maxFrame/2)))
		frame, err = cn.exchange(r.ctx, request, fetchTimeout(r.cfg.MaxWait, r.log.cfg.RequestTimeout))
	}
	if err == nil {
		var code int16
		code, err = readFetch(frame[frameHeader:], version, parts)
		if _, ok := errors.AsType[*commitlog.Error](err); err != nil && !ok {
			cn.fail(err)
			err = &connError{addr: cn.addr, err: fmt.Errorf("answer to Fetch: %w", err)}
		}
		if e := kafkaErr("fetch", inFetch, code); err == nil && e != nil {
			err = e
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return request
	}
	for i := range parts {
		f.fetchedLocked(&parts[i], err)
	}
	return request
}

// fetchedLocked takes what was fetched of a partition.
func (f *fetcher) fetchedLocked(p *fetchPart, err error) {
	r, part := f.r, p.part
	if err == nil && !p.answered {
		err = message(kafkaErr("fetch", inFetch, codeNotLeader), "the broker did not answer for it")
	}
	if err == nil {
		if p.code == codeOffsetOutOfRange {
			part.leader, part.retryAt = notFetched, time.Time{}
			want := p.at // p is used again
			r.wg.Go(func() { r.explain(part, want) })
			return
		}
		if e := kafkaErr("fetch", inFetch, p.code); e != nil {
			err = at(e, part.tp)
		}
	}
	if err != nil {
		// The leader may be another one by now.
		r.log.cluster.forget(part.tp)
		part.leader = noLeader
		r.delayLocked(part, err)
		r.pushLocked(part)
		return
	}
	part.patience.tries = 0
	end := p.lastStable
	if r.cfg.Isolation == commitlog.ReadUncommitted {
		end = p.highWatermark
	}
	if p.batches == 0 {
		// Nothing where something may be seen: another partition used the fetch up, or compaction
		// has left nothing up to the end, or the broker could not get at it in time, as with tiered
		// storage. The position moves when it is surely the second (E6).
		if !p.first || len(p.records) > 0 || end <= p.at {
			part.barren = -1
			return
		}
		if part.barren != p.at {
			part.barren = p.at
			return
		}
		gap := rawChunk{tp: part.tp, base: p.at, next: end, logStart: p.logStart, lastStable: p.lastStable, highWatermark: p.highWatermark, by: f}
		part.leader, part.retryAt = notFetched, time.Time{}
		r.wg.Go(func() { r.passGap(part, gap) })
		return
	}
	part.barren = -1
	part.position = p.next
	// Whoever had something waits behind the others next time, so that none starves.
	i := slices.Index(r.parts, part)
	copy(r.parts[i:], r.parts[i+1:])
	r.parts[len(r.parts)-1] = part
	if p.next == p.at {
		return
	}
	f.held += p.size
	r.queue = append(r.queue, rawChunk{tp: part.tp, base: p.at, next: p.next, logStart: p.logStart, lastStable: p.lastStable,
		highWatermark: p.highWatermark, aborted: p.aborted, records: p.records[:p.size:p.size], batches: p.batches, held: p.size, by: f})
	select {
	case r.filled <- struct{}{}:
	default:
	}
}

// notFetched is the leader of a partition that is not fetched now, or not any more.
const notFetched = int32(-2)

// passGap moves a partition's position over a gap if its topic is compacted, which tiered ones cannot be; otherwise it
// is fetched again from where it is.
func (r *reader) passGap(part *readPart, gap rawChunk) {
	ctx, cancel := context.WithTimeout(r.ctx, r.log.cfg.RequestTimeout)
	defer cancel()
	configs, err := r.log.TopicConfigs(ctx, part.tp.Topic)
	r.mu.Lock()
	defer r.mu.Unlock()
	part.barren = -1
	if err == nil && strings.Contains(configs[part.tp.Topic]["cleanup.policy"], "compact") {
		part.position = gap.next
		r.queue = append(r.queue, gap)
		select {
		case r.filled <- struct{}{}:
		default:
		}
	}
	part.leader = noLeader
	r.pushLocked(part)
}

// explain ends the reader with the range that the log does hold, unless the wanted offset is in
// it: then the broker that answered was behind, and is asked again.
func (r *reader) explain(part *readPart, want int64) {
	tps := []commitlog.TopicPartition{part.tp}
	ctx, cancel := context.WithTimeout(r.ctx, r.log.cfg.RequestTimeout)
	defer cancel()
	start, err := r.log.StartOffsets(ctx, tps)
	var end map[commitlog.TopicPartition]int64
	if err == nil {
		end, err = r.log.EndOffsets(ctx, tps, commitlog.ReadUncommitted)
	}
	e := at(kafkaErr("fetch", inFetch, codeOffsetOutOfRange), part.tp)
	r.mu.Lock()
	defer r.mu.Unlock()
	lo, hi := start[part.tp], end[part.tp]
	switch {
	case err != nil:
		e.Err = &commitlog.RangeError{Offset: want, Start: -1, End: -1}
	case want < lo || want > hi:
		e.Err = &commitlog.RangeError{Offset: want, Start: lo, End: hi}
	default:
		e.Class = commitlog.Retriable
		e.Err = commitlog.ErrOffsetOutOfRange
		r.log.cluster.forget(part.tp)
		part.leader = noLeader
		r.delayLocked(part, e)
		r.pushLocked(part)
		return
	}
	r.failLocked(e)
}

// deliver is the deliverer's goroutine.
func (r *reader) deliver() {
	defer close(r.chunks)
	for {
		raw, ok := r.dequeue()
		if !ok {
			return
		}
		c, err := raw.open(r.cfg.Isolation)
		if err != nil {
			r.mu.Lock()
			r.failLocked(at(&commitlog.Error{Op: "fetch", Class: commitlog.Fatal, Err: err}, raw.tp))
			r.mu.Unlock()
			return
		}
		select {
		case r.chunks <- c:
		case <-r.ctx.Done():
			return
		}
		r.mu.Lock()
		raw.by.held -= raw.held
		raw.by.signal()
		r.mu.Unlock()
	}
}

// dequeue waits for a chunk.
func (r *reader) dequeue() (rawChunk, bool) {
	for {
		r.mu.Lock()
		if len(r.queue) > 0 && r.ctx.Err() == nil {
			c := r.queue[0]
			r.queue[0] = rawChunk{}
			if r.queue = r.queue[1:]; len(r.queue) == 0 {
				r.queue = nil
			}
			r.mu.Unlock()
			return c, true
		}
		r.mu.Unlock()
		select {
		case <-r.filled:
		case <-r.ctx.Done():
			return rawChunk{}, false
		}
	}
}
