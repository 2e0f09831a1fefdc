package logtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Read-only.
var cooperationCases = []testCase{
	{"RandomMembers", randomMembers},
}

// cooperative is an assignor as executors have one: what a member holds stays with it unless others have too little;
// what moves is given to nobody until it was given up. Of two claims the later one counts.
func cooperative(tps []commitlog.TopicPartition) commitlog.Assignor {
	return func(members []commitlog.GroupMember) (map[string][]commitlog.TopicPartition, error) {
		holder, since := map[commitlog.TopicPartition]string{}, map[commitlog.TopicPartition]int32{}
		ids := make([]string, 0, len(members))
		for _, m := range members {
			ids = append(ids, m.ID)
			for _, tp := range m.Owned {
				if _, ok := holder[tp]; !ok || m.Generation > since[tp] {
					holder[tp], since[tp] = m.ID, m.Generation
				}
			}
		}
		slices.Sort(ids)
		out := map[string][]commitlog.TopicPartition{}
		most, left := (len(tps)+len(ids)-1)/len(ids), []commitlog.TopicPartition(nil)
		for _, tp := range tps {
			if id, ok := holder[tp]; !ok {
				left = append(left, tp)
			} else if len(out[id]) < most {
				out[id] = append(out[id], tp)
			}
		}
		for _, tp := range left {
			id := slices.MinFunc(ids, func(a, b string) int { return cmp.Compare(len(out[a]), len(out[b])) })
			out[id] = append(out[id], tp)
		}
		return out, nil
	}
}

// ledger knows who holds what, and what was committed last.
type ledger struct {
	mu      sync.Mutex
	holder  map[commitlog.TopicPartition]int
	offsets map[commitlog.TopicPartition]int64
	err     error
}

func (l *ledger) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = fmt.Errorf(format, args...)
	}
}

// take notes that a member holds a partition from now on.
func (l *ledger) take(tp commitlog.TopicPartition, who int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, ok := l.holder[tp]; ok && l.err == nil {
		l.err = fmt.Errorf("member %d takes %s, which member %d holds", who, tp, other)
	}
	l.holder[tp] = who
}

func (l *ledger) give(tp commitlog.TopicPartition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.holder, tp)
}

func (l *ledger) next(tp commitlog.TopicPartition) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.offsets[tp]++
	return l.offsets[tp]
}

// worker is a member that works as it joins.
type worker struct {
	e    *env
	l    *ledger
	who  int
	m    commitlog.Member
	id   commitlog.Identity
	held map[commitlog.TopicPartition]*shift
}

// shift is the work on one partition, until stop.
type shift struct {
	stop func()
	done chan struct{}
}

// work commits on a partition all the time. Whoever holds it is never refused.
func (w *worker) work(tp commitlog.TopicPartition) *shift {
	ctx, cancel := context.WithCancel(w.e.ctx)
	s := &shift{stop: cancel, done: make(chan struct{})}
	id := w.id
	w.l.take(tp, w.who)
	go func() {
		defer close(s.done)
		p, err := w.e.Log.OpenProducer(w.e.ctx, commitlog.ProducerConfig{TransactionalID: fmt.Sprintf("%s-%d", tp.Topic, tp.Partition)})
		if err != nil {
			w.l.fail("member %d, %s: %v", w.who, tp, err)
			return
		}
		defer p.Close()
		for ctx.Err() == nil {
			// Not under ctx: a commit that was begun is finished.
			if _, err := p.Commit(w.e.ctx, map[commitlog.TopicPartition]int64{tp: w.l.next(tp)}, id); err != nil {
				w.l.fail("member %d, %s: %v", w.who, tp, err)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return s
}

// drop ends the work on what is not in keep and returns whether there was any.
func (w *worker) drop(keep []commitlog.TopicPartition) bool {
	var dropped []commitlog.TopicPartition
	for tp, s := range w.held {
		if !slices.Contains(keep, tp) {
			s.stop()
			dropped = append(dropped, tp)
		}
	}
	for _, tp := range dropped {
		<-w.held[tp].done
		delete(w.held, tp)
		w.l.give(tp)
	}
	return len(dropped) > 0
}

// run joins whenever it is asked to, or has given something up, until ctx ends; then it leaves. Now and then a Join is given up.
func (w *worker) run(ctx context.Context, r *rand.Rand) {
	defer func() {
		w.drop(nil)
		if err := w.m.Close(w.e.ctx, true); err != nil {
			w.l.fail("member %d leaves: %v", w.who, err)
		}
	}()
	for {
		owned := make([]commitlog.TopicPartition, 0, len(w.held))
		for tp := range w.held {
			owned = append(owned, tp)
		}
		jctx, cancel := context.WithCancel(ctx)
		if r.IntN(4) == 0 {
			jctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(30))*time.Millisecond)
		}
		a, err := w.m.Join(jctx, owned, fmt.Append(nil, r.Uint32()))
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, context.DeadlineExceeded):
			continue
		case err != nil:
			w.l.fail("member %d joins: %v", w.who, err)
			return
		case a.Fresh && w.id != nil:
			w.l.fail("member %d has lost its membership", w.who)
			return
		}
		w.id = a.Identity
		again := w.drop(a.Partitions)
		for _, tp := range a.Partitions {
			if w.held[tp] == nil {
				w.held[tp] = w.work(tp)
			}
		}
		if again {
			continue // for others to have what was given up
		}
		select {
		case <-w.m.Rebalance():
		case <-ctx.Done():
			return
		}
	}
}

// E3, E8, L6: members that come, go and give up joining while all of them work: no partition is ever held twice, nobody who
// holds one is refused, and in the end what was committed last is there.
func randomMembers(e *env) {
	for _, seed := range e.Seeds {
		e.Run(fmt.Sprint(seed), func(t *testing.T) {
			inner := *e
			inner.T = t
			inner.randomMembers(rand.New(rand.NewPCG(seed, 9)), min(max(e.Steps/12, 8), 40))
		})
	}
}

func (e *env) randomMembers(r *rand.Rand, steps int) {
	topic := e.topic(5)
	tps := partitions(topic, 5)
	group := e.name("group")
	l := &ledger{holder: map[commitlog.TopicPartition]int{}, offsets: map[commitlog.TopicPartition]int64{}}
	type running struct {
		cancel context.CancelFunc
		done   chan struct{}
	}
	var all []running
	for i := range steps {
		if len(all) == 4 || len(all) > 1 && r.IntN(2) == 0 {
			j := r.IntN(len(all))
			all[j].cancel()
			<-all[j].done
			all = slices.Delete(all, j, j+1)
		} else {
			m, err := e.Log.OpenMember(e.ctx, commitlog.MemberConfig{Group: group, ClientID: "logtest", Protocol: "logtest", Topics: []string{topic},
				SessionTimeout: time.Minute, RebalanceTimeout: time.Minute, HeartbeatInterval: 10 * time.Millisecond, Assign: cooperative(tps)})
			require.NoError(e, err)
			ctx, cancel := context.WithCancel(e.ctx)
			w := &worker{e: e, l: l, who: i, m: m, held: map[commitlog.TopicPartition]*shift{}}
			done := make(chan struct{})
			seed := r.Uint64()
			go func() {
				defer close(done)
				w.run(ctx, rand.New(rand.NewPCG(seed, 1)))
			}()
			all = append(all, running{cancel, done})
		}
		time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
	}
	e.eventually("every partition to be held", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.holder) == len(tps) || l.err != nil
	})
	for _, m := range all {
		m.cancel()
		<-m.done
	}
	require.NoError(e, l.err)
	require.Empty(e, l.holder)
	require.Equal(e, l.offsets, e.committed(group, tps...))
}
