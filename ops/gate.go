package ops

// Gate keeps the order of records of which some must wait: those that wait queue up in it,
// and so does everything behind them, until Flush lets all go on in the order they came.
//
// A task has one gate per level. A record passes at most one waiting place on each level, and the plan adds a
// [Hold] where a way around a Memo joins the way through it, so that all records that meet have
// passed as many gates as each other. Flushing the levels in turn then gives the order that
// processing one record after the other would have given.
//
// The zero value is an empty gate. It belongs to the task's goroutine.
type Gate struct {
	queue []held
	next  int // the first that Flush has not released yet
}

type held struct {
	from releaser
	slot int
}

// releaser is a place where records wait.
type releaser interface {
	// release lets the record in this slot go on, waiting for its answer if it must.
	release(slot int) error
	// clear forgets all slots.
	clear()
}

// Busy says whether records wait, so that the next one must as well.
func (g *Gate) Busy() bool { return g.next < len(g.queue) }

func (g *Gate) hold(from releaser, slot int) { g.queue = append(g.queue, held{from, slot}) }

// Len returns the number of records that wait.
func (g *Gate) Len() int { return len(g.queue) - g.next }

// Flush releases all waiting records in order and leaves the gate empty. After an error the
// rest is dropped: the transaction they belong to aborts.
func (g *Gate) Flush() error {
	var err error
	for err == nil && g.next < len(g.queue) {
		h := g.queue[g.next]
		err = h.from.release(h.slot)
		g.next++
	}
	for _, h := range g.queue {
		h.from.clear()
	}
	clear(g.queue)
	g.queue, g.next = g.queue[:0], 0
	return err
}

// waiting is the storage of records that wait at one place; K and V are not boxed.
type waiting[K, V any] struct {
	key   K
	value V
	meta  Meta
}

// Hold makes records wait for those before them and does nothing else: it stands where a way
// around a Memo joins the way through it.
type Hold[K, V any] struct{}

// Traits describes a Hold.
func (Hold[K, V]) Traits() Traits { return Traits{Op: "Hold", Gated: true} }

// Wire makes a Hold for one task.
func (Hold[K, V]) Wire(site *Site, down Emit[K, V]) (Emit[K, V], error) {
	h := &holding[K, V]{meta: site.Meta(), down: down}
	gate := site.Gate(site.Level)
	return func(k K, v V) error {
		if !gate.Busy() {
			return down(k, v)
		}
		h.slots = append(h.slots, waiting[K, V]{k, v, *h.meta})
		gate.hold(h, len(h.slots)-1)
		return nil
	}, nil
}

type holding[K, V any] struct {
	meta  *Meta
	slots []waiting[K, V]
	down  Emit[K, V]
}

func (h *holding[K, V]) release(slot int) error {
	w := &h.slots[slot]
	*h.meta = w.meta
	return h.down(w.key, w.value)
}

func (h *holding[K, V]) clear() {
	clear(h.slots)
	h.slots = h.slots[:0]
}
