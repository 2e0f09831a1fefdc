package exec

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/globaltable"
	"github.com/wickerwork/wicker/kvstore"
	"github.com/wickerwork/wicker/ops"
)

// largeTable is the bytes of rows from which on it is worth a collection to give back what reading them has left.
const largeTable = 32 << 20

// table is a global table of the process: read in full before the group is joined, and followed from there (G1). Its
// goroutine owns the loader, tasks take snapshots.
type table struct {
	app    *App
	spec   *globaltable.Spec
	loader *globaltable.Loader
	// ready is closed when all has been read that was there at the start.
	ready chan struct{}
	// db is the store of a table on disk, nil without; ids are those of the topics that it is of, began is when it began to read them.
	db      kvstore.Store
	ids     map[string]commitlog.TopicID
	began   time.Time
	syncing syncing
	// stats and positions are what others may know of it, guarded by App.mu: positions are nil unless it is read.
	stats     globaltable.Stats
	positions map[commitlog.TopicPartition]int64
}

func newTable(a *App, spec *globaltable.Spec) *table {
	return &table{app: a, spec: spec, loader: globaltable.NewLoader(spec), ready: make(chan struct{})}
}

// lookups is a table as a task sees it, the same for a batch (G5). It implements ops.Lookups.
type lookups struct {
	table *table
	now   globaltable.Snapshot
	// bridge has the task's own writes, nil if they are not remembered.
	bridge *bridge
}

func (l *lookups) refresh() {
	if l.bridge != nil {
		l.bridge.arrived() // before the snapshot, which has what has arrived
	}
	l.now = l.table.loader.Snapshot()
}

// release lets the table's past go, which a task without input would hold.
func (l *lookups) release() {
	l.now.Release()
	l.now = globaltable.Snapshot{}
}

// Version implements ops.Lookups. Both parts only grow.
func (l *lookups) Version() int64 {
	if l.bridge != nil {
		return l.now.Version() + l.bridge.changes
	}
	return l.now.Version()
}

// Get implements ops.Lookups.
func (l *lookups) Get(key []byte) ([]byte, bool, error) {
	if l.bridge != nil {
		if r, ok := l.bridge.rows[string(key)]; ok {
			return bytes.Clone(r.row), r.row != nil, nil
		}
	}
	row, ok, err := l.now.Get(nil, key)
	if err != nil {
		return nil, false, fmt.Errorf("table %s: %w", l.table.spec.Name, err)
	}
	return row, ok, nil
}

// Table returns the process's view of one of the plan's global tables, which may be used beside the topology, from any goroutine,
// also after Run, unless its rows are on disk. An error says that the plan does not look up in t.
func (a *App) Table[K, V any](t globaltable.Table[K, V]) (*globaltable.View[K, V], error) {
	spec, err := t.Spec()
	if err != nil {
		return nil, err
	}
	for _, own := range a.tables {
		if own.spec.Same(spec) {
			return globaltable.NewView(t, own.loader, own.ready), nil
		}
	}
	return nil, fmt.Errorf("wicker: %s: the plan does not look up in table %s, or in another value of that name", a.plan.Name(), t.Name())
}

// openTables reads all tables and has them followed. The context returned ends with ctx, and when a table cannot be followed any
// more; stop waits for their ends and returns why.
func (a *App) openTables(ctx context.Context) (running context.Context, stop func() error, err error) {
	if len(a.tables) == 0 {
		return ctx, func() error { return nil }, nil
	}
	running, cancel := context.WithCancelCause(ctx)
	var once sync.Once
	var failed error
	fail := func(err error) {
		if err != nil && running.Err() == nil {
			once.Do(func() { failed = err })
			cancel(err)
		}
	}
	var booting, following sync.WaitGroup
	for _, t := range a.tables {
		booting.Add(1)
		following.Go(func() {
			booted := sync.OnceFunc(booting.Done)
			defer booted()
			err := fmt.Errorf("table %s: %w", t.spec.Name, ops.ErrExited) // unless read returns
			defer func() { fail(err) }()
			err = t.read(running, booted)
		})
	}
	booting.Wait()
	stop = func() error {
		cancel(nil)
		following.Wait()
		for _, t := range a.tables { // not before: lookups of tasks that end need it
			if err := t.close(); err != nil && failed == nil {
				failed = fmt.Errorf("table %s: %w", t.spec.Name, err)
			}
		}
		return failed
	}
	if running.Err() != nil {
		if err := stop(); err != nil {
			return ctx, nil, err
		}
		return ctx, nil, context.Cause(ctx)
	}
	return running, stop, nil
}

// read reads the table, calls booted, and follows it until ctx ends.
func (t *table) read(ctx context.Context, booted func()) error {
	a := t.app
	var tps []commitlog.TopicPartition
	for _, topic := range t.spec.Topics {
		for p := range a.partitions[topic] {
			tps = append(tps, commitlog.TopicPartition{Topic: topic, Partition: int32(p)})
		}
	}
	left, err := a.extents(ctx, tps, commitlog.ReadCommitted)
	if err != nil {
		return fmt.Errorf("table %s: %w", t.spec.Name, err)
	}
	from := map[commitlog.TopicPartition]int64{}
	if t.spec.Disk {
		if from, err = t.open(ctx, tps); err != nil {
			return fmt.Errorf("table %s: %w", t.spec.Name, err)
		}
	}
	for tp, x := range left {
		if from[tp] = max(from[tp], x.start); x.end <= from[tp] {
			delete(left, tp)
		}
	}
	reader, err := a.log.OpenReader(ctx, commitlog.ReaderConfig{From: from, IDs: a.topicIDs})
	if err != nil {
		return fmt.Errorf("table %s: %w", t.spec.Name, err)
	}
	defer reader.Close()
	t.reach(maps.Clone(from))
	defer t.reach(nil)
	clock := a.cfg.Clock
	log := a.cfg.Logger.With("table", t.spec.Name)
	began := clock.Now()
	reported := began
	booting := true
	boot := func() error {
		if t.spec.Disk {
			if err := t.note(t.began); err != nil {
				return err
			}
			t.syncing.next = t.began.Add(durableInterval)
		}
		if err := t.loader.Boot(); err != nil {
			return err
		}
		t.publish(nil)
		log.Info("table is read", "rows", t.stats.Rows, "bytes", t.stats.Bytes, "records", t.stats.Read, "took", clock.Now().Sub(began).String())
		booting = false
		if t.stats.Bytes > largeTable {
			debug.FreeOSMemory() // what reading has left, before anything else is done
		}
		close(t.ready)
		booted()
		return nil
	}
	if len(left) == 0 {
		if err := boot(); err != nil {
			return err
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case c, ok := <-reader.Chunks():
			if !ok {
				if ctx.Err() != nil {
					return nil
				}
				return t.ended(ctx, readerEnded(reader))
			}
			if err := t.take(&c); err != nil {
				return err
			}
			t.loader.Reached(c.Topic, c.Partition, c.Next)
			if err := t.loader.Publish(); err != nil {
				return err
			}
			t.publish(&c)
			if !booting {
				if t.spec.Disk {
					if err := t.sync(ctx, tps); err != nil {
						return err
					}
				}
				continue
			}
			if x, ok := left[c.TopicPartition]; ok && c.Next >= x.end {
				delete(left, c.TopicPartition)
			}
			if now := clock.Now(); now.Sub(reported) >= reportInterval {
				reported = now
				log.Info("reading table", "records", t.stats.Read, "partitions left", len(left))
			}
			if len(left) == 0 {
				if err := boot(); err != nil {
					return err
				}
			}
		}
	}
}

// take applies a chunk's records.
func (t *table) take(c *commitlog.Chunk) error {
	var cur commitlog.Cursor
	var rec commitlog.Record
	cur.Reset(c)
	for cur.Next(&rec) {
		err := t.loader.Apply(&globaltable.Record{Topic: c.Topic, Partition: c.Partition, Offset: rec.Offset, Key: rec.Key, Value: rec.Value})
		if err != nil {
			return err
		}
	}
	if err := cur.Err(); err != nil {
		return fmt.Errorf("table %s: %s: %w", t.spec.Name, c.TopicPartition, err)
	}
	return nil
}

// ended says why the table's topics cannot be followed any more.
func (t *table) ended(ctx context.Context, err error) error {
	if changed := t.app.checkTopics(ctx); changed != nil {
		return changed
	}
	return fmt.Errorf("table %s: %w", t.spec.Name, err)
}

// publish lets others know what was read, and how far, with the chunk that was.
func (t *table) publish(c *commitlog.Chunk) {
	stats := t.loader.Stats()
	t.app.mu.Lock()
	defer t.app.mu.Unlock()
	if t.stats = stats; c != nil {
		t.positions[c.TopicPartition] = c.Next
	}
}

// reach sets how far it is read, nil when that ends.
func (t *table) reach(positions map[commitlog.TopicPartition]int64) {
	t.app.mu.Lock()
	defer t.app.mu.Unlock()
	t.positions = positions
}
