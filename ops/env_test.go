package ops_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/ops"
)

// env is a task in memory.
type env struct {
	ctx      context.Context
	meta     ops.Meta
	stores   map[string]memory
	outputs  map[string]*output
	gates    []*ops.Gate
	counters map[string]*ops.Counter
	askers   map[string]*ops.Asker
	tables   map[string]ops.Lookups
	fail     error // what stores and outputs answer, if set
}

func newEnv(t testing.TB) *env {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return &env{ctx: ctx, stores: map[string]memory{}, outputs: map[string]*output{}, counters: map[string]*ops.Counter{}, askers: map[string]*ops.Asker{}}
}

func (e *env) Context() context.Context { return e.ctx }
func (e *env) Meta() *ops.Meta          { return &e.meta }

func (e *env) Store(name string) (ops.Store, error) {
	if name == "missing" {
		return nil, errors.New("no such store")
	}
	if e.stores[name] == nil {
		e.stores[name] = memory{}
	}
	return store{e, e.stores[name]}, nil
}

func (e *env) Output(topic string) (ops.Output, error) {
	if topic == "missing" {
		return nil, errors.New("no such topic")
	}
	if e.outputs[topic] == nil {
		e.outputs[topic] = &output{e: e}
	}
	return e.outputs[topic], nil
}

func (e *env) Gate(level int) *ops.Gate {
	for len(e.gates) <= level {
		e.gates = append(e.gates, &ops.Gate{})
	}
	return e.gates[level]
}

func (e *env) Counter(at *ops.Traits, name string) *ops.Counter {
	id := at.Op + " " + name
	if e.counters[id] == nil {
		e.counters[id] = &ops.Counter{}
	}
	return e.counters[id]
}

func (*env) Remember(string, int) (func(key, value []byte) error, error) {
	return func(_, _ []byte) error { return nil }, nil
}

func (e *env) Lookups(table string) (ops.Lookups, error) {
	if rows, ok := e.tables[table]; ok {
		return rows, nil
	}
	return nil, fmt.Errorf("no table %q", table)
}

// rows is a table.
type rows map[string][]byte

func (r rows) Get(key []byte) ([]byte, bool, error) {
	value, ok := r[string(key)]
	return value, ok, nil
}

func (r rows) Version() int64 { return int64(len(r)) }

func (e *env) Asker(name string, concurrency int) *ops.Asker {
	if e.askers[name] == nil {
		e.askers[name] = ops.NewAsker(concurrency)
	}
	return e.askers[name]
}

// flush lets all that waits go on, as a task does at the end of a batch.
func (e *env) flush() error {
	for _, g := range e.gates {
		if err := g.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func (e *env) site(at ops.Traits, level int) *ops.Site {
	return &ops.Site{Env: e, At: &at, Level: level}
}

// memory is one store; its values are never written to once they are in.
type memory map[string][]byte

type store struct {
	e *env
	m memory
}

func (s store) Get(key []byte) ([]byte, error) { return s.m[string(key)], s.e.fail }

func (s store) Put(key, value []byte) error {
	if value == nil {
		delete(s.m, string(key))
		return s.e.fail
	}
	if old := s.m[string(key)]; len(old) == len(value) && !slices.Equal(old, value) { // no allocation
		copy(old, value)
		return s.e.fail
	}
	s.m[string(key)] = slices.Clone(value)
	return s.e.fail
}

// output keeps what was written last.
type output struct {
	e          *env
	n          int
	key, value []byte
	meta       ops.Meta
}

func (o *output) Write(m *ops.Meta, key, value []byte) error {
	o.n++
	o.meta = *m
	o.key, o.value = retain(o.key, key), retain(o.value, value)
	return o.e.fail
}

func retain(old, b []byte) []byte {
	if b == nil {
		return nil
	}
	if old == nil {
		old = []byte{}
	}
	return append(old[:0], b...)
}

// wire makes an operator in a task, at level 0.
func wire[K, V, K2, V2 any](t testing.TB, e *env, op ops.Operator[K, V, K2, V2], down ops.Emit[K2, V2]) ops.Emit[K, V] {
	t.Helper()
	return wireAt(t, e, 0, op, down)
}

func wireAt[K, V, K2, V2 any](t testing.TB, e *env, level int, op ops.Operator[K, V, K2, V2], down ops.Emit[K2, V2]) ops.Emit[K, V] {
	t.Helper()
	emit, err := op.Wire(e.site(op.Traits(), level), down)
	require.NoError(t, err)
	return emit
}

// list collects what comes out of an operator as "key=value".
type list[K, V any] struct {
	all []string
	err error
}

func (l *list[K, V]) emit(k K, v V) error {
	l.all = append(l.all, fmt.Sprintf("%v=%v", k, v))
	return l.err
}

// nothing takes records and keeps none.
func nothing[K, V any](K, V) error { return nil }
