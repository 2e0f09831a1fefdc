package ops

import (
	"context"
	"errors"
	"sync"
)

// keepAnswers bounds the answers that an Asker keeps for a transaction processed again.
const keepAnswers = 8192

// Asker makes the calls of one Memo for all tasks of a process, a bounded number at a time.
// It keeps the latest answers, so that a transaction that was aborted and is processed again
// by this process does not ask again. It is safe for concurrent use.
type Asker struct {
	slots chan struct{}
	mu    struct {
		sync.Mutex
		answers map[string][]byte
		order   []string // ring of the keys in answers, oldest at next
		next    int
	}
}

// NewAsker returns an asker that has at most concurrency calls in flight.
func NewAsker(concurrency int) *Asker {
	a := &Asker{slots: make(chan struct{}, max(1, concurrency))}
	a.mu.answers = map[string][]byte{}
	return a
}

// call is one question. done is closed when answer or err is set; stored belongs to the task.
type call struct {
	done   chan struct{}
	answer []byte
	err    error
	stored bool
}

// ask starts the call for a key and returns at once; asked is false if the answer was kept
// from before. A task asks for a key only while it has no call for it.
func (a *Asker) ask(ctx context.Context, key string, f func(context.Context) ([]byte, error)) (c *call, asked bool) {
	c = &call{done: make(chan struct{})}
	a.mu.Lock()
	answer, ok := a.mu.answers[key]
	a.mu.Unlock()
	if ok {
		c.answer = answer
		close(c.done)
		return c, false
	}
	go func() {
		defer close(c.done)
		select {
		case a.slots <- struct{}{}:
		case <-ctx.Done():
			c.err = context.Cause(ctx)
			return
		}
		defer func() { <-a.slots }()
		if err := ctx.Err(); err != nil {
			c.err = context.Cause(ctx)
			return
		}
		c.err = ErrExited // unless protect returns
		if c.answer, c.err = protect(ctx, f); c.err == nil && c.answer != nil {
			a.keep(key, c.answer)
		}
	}()
	return c, true
}

func (a *Asker) keep(key string, answer []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.mu.answers[key]; ok {
		return
	}
	if len(a.mu.order) < keepAnswers {
		a.mu.order = append(a.mu.order, key)
	} else {
		delete(a.mu.answers, a.mu.order[a.mu.next])
		a.mu.order[a.mu.next] = key
		a.mu.next = (a.mu.next + 1) % keepAnswers
	}
	a.mu.answers[key] = answer
}

// ErrExited says that a function given to an operator has ended its goroutine, as a test's FailNow does.
var ErrExited = errors.New("the function ended its goroutine (runtime.Goexit) instead of returning")

// protect turns a panic of f into an error.
func protect(ctx context.Context, f func(context.Context) ([]byte, error)) (answer []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			answer, err = nil, Panicked(r)
		}
	}()
	return f(ctx)
}
