package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// backoff returns how long to wait before try n+1 (n from 1) after err: doubling from 20 ms to
// 1 s with a fifth of jitter. What the broker settles within milliseconds is asked again sooner.
func backoff(n int, err error) time.Duration {
	d, top := firstBackoff, maxBackoff
	if settling(code(err)) {
		d, top = firstShortBackoff, maxShortBackoff
		n = (n + 1) / 2
	}
	d = min(top, d<<min(n-1, 16))
	return d + time.Duration(rand.Int64N(int64(d)/jitterShare+1))
}

// sleep waits for d or ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// patience decides, over the tries of one call, whether an error is worth another one. The
// clock starts with the first error. The zero value with limit set is ready.
type patience struct {
	limit time.Duration
	since time.Time
	tries int
	// missing is since when nothing was heard but that the topic is gone, zero if the last error was another.
	missing time.Time
}

// next reports whether to try again after err and how long to wait before. If not, it returns
// what the caller is to be told.
func (p *patience) next(err error) (time.Duration, error) {
	if classify(err) != commitlog.Retriable {
		return 0, err
	}
	now := time.Now()
	if p.tries++; p.tries == 1 {
		p.since, p.missing = now, time.Time{}
	}
	wait := backoff(p.tries, err)
	until := p.since.Add(p.limit)
	if !gone(err) {
		p.missing = time.Time{}
	} else {
		if p.missing.IsZero() {
			p.missing = now
		}
		// Not since the first error: a broker that has just come back may not have heard of its topics yet.
		if u := p.missing.Add(missingTopicTimeout); u.Before(until) {
			until = u
		}
	}
	if now.Add(wait).After(until) {
		return 0, p.giveUp(err)
	}
	return wait, nil
}

// gone says whether an error means that the topic does not exist, or that another one has its name.
func gone(err error) bool {
	return code(err) == codeUnknownTopic || errors.Is(err, commitlog.ErrTopicRecreated)
}

// giveUp says how long was tried. A topic still missing is no reason to try later.
func (p *patience) giveUp(err error) error {
	tried := fmt.Sprintf("given up after %v and %d tries", time.Since(p.since).Round(100*time.Millisecond), p.tries)
	if e, ok := errors.AsType[*commitlog.Error](err); ok {
		c := *e
		if gone(err) {
			c.Class = commitlog.Fatal
			if c.Err == nil {
				c.Err = errors.New("does the topic exist?")
			}
			return &c
		}
		if c.Err == nil {
			c.Err = errors.New(tried)
		} else {
			c.Err = fmt.Errorf("%w (%s)", c.Err, tried)
		}
		return &c
	}
	if e, ok := errors.AsType[*connError](err); ok {
		return &connError{addr: e.addr, err: fmt.Errorf("%w (%s)", e.err, tried)}
	}
	return err
}

// retry calls fn until it succeeds, fails for good, or RetryTimeout has passed since its first
// retriable error. Every error is an *commitlog.Error of op.
func (l *Log) retry(ctx context.Context, op string, fn func(ctx context.Context) error) error {
	return retryFor(ctx, l.cfg.RetryTimeout, op, fn)
}

func retryFor(ctx context.Context, limit time.Duration, op string, fn func(ctx context.Context) error) error {
	p := patience{limit: limit}
	for {
		if ctx.Err() != nil {
			return wrap(op, ctx.Err())
		}
		err := fn(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return wrap(op, ctx.Err())
		}
		wait, err := p.next(err)
		if err != nil {
			return wrap(op, err)
		}
		if err := sleep(ctx, wait); err != nil {
			return wrap(op, err)
		}
	}
}
