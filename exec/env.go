package exec

import (
	"context"
	"fmt"

	"github.com/wickerwork/wicker/ops"
)

// env is what a task offers to the operators wired into it; it implements ops.Env and
// belongs to the task's goroutine.
type env struct {
	t        *task
	meta     ops.Meta
	gates    []*ops.Gate
	counters []*counter
	lookups  []*lookups
}

type counter struct {
	ops.Counter
	operator, name string
}

func (e *env) Context() context.Context { return e.t.ctx }

func (e *env) Meta() *ops.Meta { return &e.meta }

func (e *env) Store(name string) (ops.Store, error) {
	st := e.t.state.store(name)
	if st == nil {
		return nil, fmt.Errorf("store %q is not in the plan of sub-topology %s", name, e.t.sub.Name)
	}
	return st, nil
}

func (e *env) Output(topic string) (ops.Output, error) {
	n := e.t.app.partitions[topic]
	if n == 0 {
		return nil, fmt.Errorf("topic %q is not in the plan of sub-topology %s", topic, e.t.sub.Name)
	}
	return e.t.out.topic(topic, n, e.t.app.limit(topic)), nil
}

func (e *env) Gate(level int) *ops.Gate {
	for len(e.gates) <= level {
		e.gates = append(e.gates, &ops.Gate{})
	}
	return e.gates[level]
}

func (e *env) Counter(at *ops.Traits, name string) *ops.Counter {
	op := at.String()
	for _, c := range e.counters {
		if c.operator == op && c.name == name {
			return &c.Counter
		}
	}
	c := &counter{operator: op, name: name}
	e.counters = append(e.counters, c)
	return &c.Counter
}

func (e *env) Lookups(table string) (ops.Lookups, error) {
	for _, l := range e.lookups {
		if l.table.spec.Name == table {
			return l, nil
		}
	}
	for _, t := range e.t.app.tables {
		if t.spec.Name == table {
			l := &lookups{table: t}
			e.lookups = append(e.lookups, l)
			return l, nil
		}
	}
	return nil, fmt.Errorf("table %q is not in the plan of sub-topology %s", table, e.t.sub.Name)
}

func (e *env) Remember(table string, rows int) (func(key, value []byte) error, error) {
	if _, err := e.Lookups(table); err != nil {
		return nil, err
	}
	for _, l := range e.lookups {
		if l.table.spec.Name != table {
			continue
		}
		if l.bridge == nil {
			l.bridge = &bridge{table: l.table, rows: map[string]remembered{}}
		}
		b := l.bridge
		b.most = max(b.most, rows)
		return func(key, value []byte) error {
			if key == nil {
				key = []byte{} // as the table has it
			}
			row, err := l.table.spec.Row(key, value)
			if err == nil {
				b.write(string(key), row)
			}
			return err
		}, nil
	}
	return nil, fmt.Errorf("table %q has no lookups", table)
}

func (e *env) Asker(name string, concurrency int) *ops.Asker {
	return e.t.app.asker(name, concurrency)
}
