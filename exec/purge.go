package exec

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// purger deletes from repartition topics what has been processed (E12). Nobody but the plan reads
// them, and they keep what has not been read for ever, so that without it they would grow for ever too.
//
// What it knows are offsets that were committed: it never deletes above one. A process deletes what its own tasks
// have committed, also when they have moved on since; that another one may do the same does no harm.
type purger struct {
	app     *App
	failing bool // the last try failed; of the purger's goroutine
	mu      struct {
		sync.Mutex
		// below are the offsets that were committed since they were last purged to.
		below map[commitlog.TopicPartition]int64
	}
}

func newPurger(app *App) *purger {
	p := &purger{app: app}
	p.mu.below = map[commitlog.TopicPartition]int64{}
	return p
}

// committed notes that a group's offset is committed. It is called by tasks.
func (p *purger) committed(tp commitlog.TopicPartition, offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.below[tp] = offset
}

// start starts purging, until ctx ends. The function returned waits for its end; if the run ended in order it purges once more,
// within what is left of DrainTimeout.
func (p *purger) start(ctx context.Context) (stop func(inOrder bool)) {
	ctx, cancel := context.WithCancel(ctx)
	var ended time.Time
	done := make(chan struct{})
	go func() {
		defer close(done)
		timer := p.app.cfg.Clock.NewTimer(purgeInterval)
		defer timer.Stop()
		for {
			select {
			case <-timer.C():
				p.purge(ctx)
				timer.Reset(purgeInterval)
			case <-ctx.Done():
				ended = time.Now()
				return
			}
		}
	}()
	return func(inOrder bool) {
		cancel()
		<-done
		if left := p.app.cfg.DrainTimeout - time.Since(ended); inOrder && left > 0 {
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(left, lastPurge))
			defer cancel()
			p.purge(last)
		}
	}
}

// purge deletes what was committed since it last did, in one call. What fails is tried again next time.
func (p *purger) purge(ctx context.Context) {
	p.mu.Lock()
	below := maps.Clone(p.mu.below)
	p.mu.Unlock()
	if len(below) == 0 {
		return
	}
	bound, cancel := context.WithTimeout(ctx, purgeTimeout)
	defer cancel()
	log := p.app.cfg.Logger
	if err := p.app.log.DeleteRecords(bound, below); err != nil {
		if ctx.Err() != nil { // it is about to end anyway
			log.Debug("purge of repartition topics", "error", err.Error())
			return
		}
		say := log.Warn
		if p.failing { // not every time anew
			say = log.Debug
		}
		p.failing = true
		say("purge of repartition topics", "partitions", len(below), "error", err.Error())
		return
	}
	p.failing = false
	log.Debug("purged repartition topics", "partitions", len(below))
	p.mu.Lock()
	defer p.mu.Unlock()
	for tp, offset := range below {
		if p.mu.below[tp] == offset {
			delete(p.mu.below, tp)
		}
	}
}
