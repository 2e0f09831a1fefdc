package topology

import (
	"context"
	"fmt"

	"github.com/wickerwork/wicker/ops"
)

// Wire makes a fresh instance of the sub-topology for one task and returns the way into each
// of its source topics. It asks env.Output for topics by full name, repartition topics included.
// Instances share nothing but the user's functions and codecs, so Wire may be called concurrently.
func (s *Subtopology) Wire(env ops.Env) (map[string]ops.Emit[[]byte, []byte], error) {
	w := wiring{env: env, emits: make(map[*place]any, len(s.places))}
	into := make(map[string]ops.Emit[[]byte, []byte], len(s.Sources))
	for i := len(s.places) - 1; i >= 0; i-- { // children before parents
		p := s.places[i]
		emit, err := w.place(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.at, err)
		}
		w.emits[p] = emit
		if p.role == roleSource {
			if into[p.topic], err = as[ops.Emit[[]byte, []byte]](emit); err != nil {
				return nil, fmt.Errorf("%s: %w", p.at, err)
			}
		}
	}
	return into, nil
}

// wiring is the state of one Wire: the edge that leads into each place.
type wiring struct {
	env   ops.Env
	emits map[*place]any
}

func (w *wiring) place(p *place) (any, error) {
	down := make([]any, len(p.outs))
	for i, e := range p.outs {
		all := make([]any, len(e.to))
		for j, to := range e.to {
			all[j] = w.emits[to]
		}
		emit, err := e.of.fan(all)
		if err != nil {
			return nil, err
		}
		down[i] = emit
	}
	return p.wire(&ops.Site{Env: w.env, At: p.at, Level: p.level}, down)
}

// prove wires every sub-topology once with nothing behind it, so that a mistake of this
// package is an error of Build.
func (p *Plan) prove() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("internal error: %s", ops.PanicText(r))
		}
	}()
	for _, s := range p.subs {
		if _, err := s.Wire(&dryEnv{}); err != nil {
			return fmt.Errorf("sub-topology %s: %w", s.Name, err)
		}
	}
	return nil
}

// dryEnv is an ops.Env with nothing behind it.
type dryEnv struct{ meta ops.Meta }

func (*dryEnv) Context() context.Context                   { return context.Background() }
func (e *dryEnv) Meta() *ops.Meta                          { return &e.meta }
func (*dryEnv) Store(string) (ops.Store, error)            { return dryStore{}, nil }
func (*dryEnv) Output(string) (ops.Output, error)          { return dryOutput{}, nil }
func (*dryEnv) Gate(int) *ops.Gate                         { return &ops.Gate{} }
func (*dryEnv) Counter(*ops.Traits, string) *ops.Counter   { return &ops.Counter{} }
func (*dryEnv) Asker(_ string, concurrency int) *ops.Asker { return ops.NewAsker(1) }

func (*dryEnv) Lookups(string) (ops.Lookups, error) { return dryTable{}, nil }

func (*dryEnv) Remember(string, int) (func(key, value []byte) error, error) {
	return func(_, _ []byte) error { return nil }, nil
}

type dryTable struct{}

func (dryTable) Get([]byte) ([]byte, bool, error) { return nil, false, nil }

func (dryTable) Version() int64 { return 0 }

type dryStore struct{}

func (dryStore) Get([]byte) ([]byte, error) { return nil, nil }
func (dryStore) Put(_, _ []byte) error      { return nil }

type dryOutput struct{}

func (dryOutput) Write(*ops.Meta, []byte, []byte) error { return nil }
