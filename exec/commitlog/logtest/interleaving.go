package logtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Read-only.
var interleavingCases = []testCase{
	{"Random", randomInterleaving},
	{"Concurrent", concurrentProducers},
}

// oracle is what should be seen: for each writer and partition its committed values in order.
type oracle struct {
	visible map[string]map[commitlog.TopicPartition][]string
	open    map[string]map[commitlog.TopicPartition][]string
	last    map[commitlog.TopicPartition]map[int64]string // value at an offset that a commit named
}

func newOracle() *oracle {
	return &oracle{visible: map[string]map[commitlog.TopicPartition][]string{}, open: map[string]map[commitlog.TopicPartition][]string{},
		last: map[commitlog.TopicPartition]map[int64]string{}}
}

func add(to map[string]map[commitlog.TopicPartition][]string, who string, tp commitlog.TopicPartition, values []string) {
	if to[who] == nil {
		to[who] = map[commitlog.TopicPartition][]string{}
	}
	to[who][tp] = append(to[who][tp], values...)
}

func (o *oracle) wrote(who string, tp commitlog.TopicPartition, values []string) {
	add(o.open, who, tp, values)
}

// commit moves what is open to what is visible, and checks which partitions Commit named.
func (o *oracle) commit(e *env, who string, ends map[commitlog.TopicPartition]int64) {
	e.Helper()
	require.Len(e, ends, len(o.open[who]), "partitions of the transaction")
	for tp, values := range o.open[who] {
		add(o.visible, who, tp, values)
		require.Contains(e, ends, tp)
		if o.last[tp] == nil {
			o.last[tp] = map[int64]string{}
		}
		o.last[tp][ends[tp]-1] = values[len(values)-1]
	}
	delete(o.open, who)
}

func (o *oracle) abort(who string) { delete(o.open, who) }

// check compares what a stream read. Writers may interleave; each one's own order is fixed.
// Values are "writer/...".
func (o *oracle) check(s *stream, tps []commitlog.TopicPartition) {
	e := s.e
	e.Helper()
	got := map[string]map[commitlog.TopicPartition][]string{}
	for _, tp := range tps {
		at := map[int64]string{}
		s.values(tp)
		for _, r := range s.records(tp) {
			v := string(r.Value)
			at[r.Offset] = v
			who, _, _ := strings.Cut(v, "/")
			add(got, who, tp, []string{v})
		}
		for offset, v := range o.last[tp] {
			require.Equal(e, v, at[offset], "%s at %d, where Commit said that the transaction ended", tp, offset)
		}
	}
	require.Equal(e, o.visible, got)
}

// Random interleavings of producers' transactions that commit, abort, or are fenced with what they have
// open, beside plain records: a reader from the beginning, live, and one afterwards see what an oracle says.
func randomInterleaving(e *env) {
	for _, seed := range e.Seeds {
		e.Run(fmt.Sprintf("Seed%d", seed), func(t *testing.T) {
			sub := *e
			sub.T = t
			(&sub).interleave(seed)
		})
	}
}

func (e *env) interleave(seed uint64) {
	const producers, width = 3, 4
	r := rand.New(rand.NewPCG(seed, 0))
	tps := partitions(e.topic(width), width)
	o := newOracle()
	live := e.stream(tps...)
	var ids, whos []string
	var ps []commitlog.Producer
	for i := range producers {
		whos = append(whos, fmt.Sprintf("p%d", i))
		ids = append(ids, e.name(whos[i]))
		ps = append(ps, e.producer(ids[i]))
	}
	serial := 0
	values := func(who string) []string {
		var out []string
		for range 1 + r.IntN(6) {
			out = append(out, fmt.Sprintf("%s/%d", who, serial))
			serial++
		}
		return out
	}
	for range e.Steps {
		i := r.IntN(producers)
		p, who := ps[i], whos[i]
		switch n := r.IntN(100); {
		case n < 60:
			tp, v := tps[r.IntN(width)], values(who)
			e.produce(p, tp, v...)
			o.wrote(who, tp, v)
		case n < 75:
			o.commit(e, who, e.commit(p))
		case n < 85:
			e.abort(p)
			o.abort(who)
		case n < 92:
			ps[i] = e.producer(ids[i])
			o.abort(who)
			e.fenced(p, tps[r.IntN(width)])
			require.NoError(e, p.Close())
		case n < 96:
			tp, v := tps[r.IntN(width)], values("plain")
			e.append(tp, v...)
			add(o.visible, "plain", tp, v)
		default:
			stable, end := e.ends(commitlog.ReadCommitted, tps...), e.ends(commitlog.ReadUncommitted, tps...)
			for _, tp := range tps {
				require.LessOrEqual(e, stable[tp], end[tp])
			}
			live.until(stable)
		}
	}
	for i := range ps { // what is open is aborted
		e.producer(ids[i])
	}
	live.until(e.settled(tps...))
	o.check(live, tps)
	o.check(e.all(tps...), tps)
}

// Producers on goroutines of their own do not disturb one another.
func concurrentProducers(e *env) {
	const producers, width = 4, 3
	seed := e.Seeds[0]
	tps := partitions(e.topic(width), width)
	live := e.stream(tps...)
	o := newOracle()
	var mu sync.Mutex // guards o
	var wg sync.WaitGroup
	errs := make(chan error, producers)
	for i := range producers {
		who := fmt.Sprintf("p%d", i)
		p := e.producer(e.name(who))
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for n := range max(3, e.Steps/12) {
				written := map[commitlog.TopicPartition][]string{}
				for j := range 1 + r.IntN(8) {
					tp, v := tps[r.IntN(width)], fmt.Sprintf("%s/%d/%d", who, n, j)
					if err := p.Produce(e.ctx, tp, e.batch(recordsOf(v, v+"'")...)); err != nil {
						errs <- err
						return
					}
					written[tp] = append(written[tp], v, v+"'")
				}
				if r.IntN(3) == 0 {
					if err := p.Abort(e.ctx); err != nil {
						errs <- err
						return
					}
					continue
				}
				if _, err := p.Commit(e.ctx, nil, noMember); err != nil {
					errs <- err
					return
				}
				mu.Lock()
				for tp, v := range written {
					add(o.visible, who, tp, v)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(e, err)
	}
	live.until(e.settled(tps...))
	o.check(live, tps)
	o.check(e.all(tps...), tps)
}
