package ops

import (
	"context"
	"errors"

	"github.com/wickerwork/wicker/codec"
)

// ErrNullKey says that a record without a key reached an operator that keeps state by key.
var ErrNullKey = errors.New("the key is null: state is kept by key; should a Rekey stand in front?")

// DefaultConcurrency is how many calls a Memo has in flight by default, in a process.
const DefaultConcurrency = 64

// MemoOp is the memory of an outside call: the answer for a key is kept as state, and asked
// for once. See Memo.
type MemoOp[K, A any] struct {
	// Durable names the state.
	Durable string
	Answer  codec.Codec[A]
	Ask     func(context.Context, K) (A, error)
	Options Options
}

// Memo remembers the answers of an outside call, by key, under a durable name.
//
// ask is called once for each key, ever: the answer is kept in the task's state and its
// changelog, within the transaction that holds the outputs made with it. Restarts, replays and rebalances find it
// there; only a process that dies between a call and its commit asks those keys again. The
// distinct unknown keys of a batch are asked at the same time, up to Concurrency (64) in the process; records keep their order.
//
// ask runs on goroutines of its own, several at once. Its context ends when the task stops. An error ends the run with
// the record's coordinates and commits nothing. "Not known" should therefore be an answer, not an error; an answer whose codec
// encodes it to null is not remembered. One that is Invalid is a matter of OnInvalid, for each record that waits for it, and is not remembered either: the next batch with
// the key asks again.
//
// Options: Concurrency.
func Memo[K, A any](name string, answer codec.Codec[A], ask func(context.Context, K) (A, error), opts ...Option) MemoOp[K, A] {
	return MemoOp[K, A]{Durable: name, Answer: answer, Ask: ask, Options: Collect(opts)}
}

// MemoJoinOp joins each record with the remembered answer for its key.
type MemoJoinOp[K, V, A, V2 any] struct {
	Memo MemoOp[K, A]
	Key  codec.Codec[K]
	Join func(V, A) V2
	// OnInvalid is for records for whose key Ask returns Invalid.
	OnInvalid InvalidPolicy
}

// Traits describes the operator.
func (o MemoJoinOp[K, V, A, V2]) Traits() Traits {
	return Traits{Op: "Memo", Name: o.Memo.Durable, NeedsKey: true, Gated: true, Store: o.Memo.Durable, StateCodec: codec.Describe(o.Memo.Answer)}
}

// Wire makes the operator for one task.
func (o MemoJoinOp[K, V, A, V2]) Wire(site *Site, down Emit[K, V2]) (Emit[K, V], error) {
	store, err := site.Store(site.At.Store)
	if err != nil {
		return nil, err
	}
	invalid, err := newInvalid[V2](o.OnInvalid, site)
	if err != nil {
		return nil, err
	}
	limit := o.Memo.Options.Concurrency
	if limit == 0 {
		limit = DefaultConcurrency
	}
	m := &memo[K, V, A, V2]{
		op: o, site: site, meta: site.Meta(), store: store, gate: site.Gate(site.Level), down: down,
		asker: site.Asker(o.Memo.Durable, limit), calls: map[string]*call{}, kbuf: make([]byte, 0, 64),
		invalid: invalid,
		asked:   site.Counter(site.At, CountAsked), saved: site.Counter(site.At, CountSaved),
	}
	return m.process, nil
}

// memo is the instance of one task.
type memo[K, V, A, V2 any] struct {
	op    MemoJoinOp[K, V, A, V2]
	site  *Site
	meta  *Meta
	store Store
	gate  *Gate
	asker *Asker
	down  Emit[K, V2]
	kbuf  []byte
	// invalid takes what Ask finds so.
	invalid *invalid[V2]
	// slots are the records that wait, calls the keys asked for since the gate was last empty.
	slots        []memoSlot[K, V]
	calls        map[string]*call
	asked, saved *Counter
}

type memoSlot[K, V any] struct {
	waiting[K, V]
	answer []byte // known already
	call   *call  // or asked for
}

func (m *memo[K, V, A, V2]) process(k K, v V) error {
	m.meta.At = m.site.At
	kb, err := m.op.Key.Append(m.kbuf[:0], k)
	if err != nil {
		return &EncodeError{Part: "key", Err: err}
	}
	if kb == nil {
		return ErrNullKey
	}
	m.kbuf = kb
	answer, err := m.store.Get(kb)
	if err != nil {
		return err
	}
	if answer != nil {
		m.saved.Add(1)
		if !m.gate.Busy() {
			return m.pass(k, v, answer)
		}
		m.hold(memoSlot[K, V]{waiting[K, V]{k, v, *m.meta}, answer, nil})
		return nil
	}
	c := m.calls[string(kb)]
	if c != nil {
		m.saved.Add(1)
	} else {
		key := string(kb)
		var asked bool
		c, asked = m.asker.ask(m.site.Context(), key, func(ctx context.Context) ([]byte, error) {
			a, err := m.op.Memo.Ask(ctx, k)
			if err != nil {
				return nil, err
			}
			b, err := m.op.Memo.Answer.Append([]byte{}, a)
			if err != nil {
				return nil, &EncodeError{Part: "state", Err: err}
			}
			return b, nil
		})
		m.calls[key] = c
		if asked {
			m.asked.Add(1)
		} else {
			m.saved.Add(1)
		}
	}
	m.hold(memoSlot[K, V]{waiting[K, V]{k, v, *m.meta}, nil, c})
	return nil
}

func (m *memo[K, V, A, V2]) hold(s memoSlot[K, V]) {
	m.slots = append(m.slots, s)
	m.gate.hold(m, len(m.slots)-1)
}

// release implements releaser: it waits for the record's answer, remembers it and passes the record on.
func (m *memo[K, V, A, V2]) release(slot int) error {
	s := &m.slots[slot]
	*m.meta = s.meta
	m.meta.At = m.site.At
	answer := s.answer
	if c := s.call; c != nil {
		<-c.done
		if c.err != nil {
			v2, ok, err := m.invalid.failed(c.err)
			if err != nil || !ok {
				return err
			}
			return m.down(s.key, v2)
		}
		if answer = c.answer; !c.stored {
			c.stored = true
			kb, err := m.op.Key.Append(m.kbuf[:0], s.key)
			if err != nil {
				return &EncodeError{Part: "key", Err: err}
			}
			if err := m.store.Put(kb, answer); err != nil {
				return err
			}
		}
	}
	return m.pass(s.key, s.value, answer)
}

func (m *memo[K, V, A, V2]) pass(k K, v V, answer []byte) error {
	a, err := m.op.Memo.Answer.Decode(answer)
	if err != nil {
		return &DecodeError{Part: "state", Err: err}
	}
	return m.down(k, m.op.Join(v, a))
}

func (m *memo[K, V, A, V2]) clear() {
	clear(m.slots)
	m.slots = m.slots[:0]
	clear(m.calls)
}
