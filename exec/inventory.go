package exec

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/kvstore"
)

// inventoryWorkers is how many stores are opened at once at the start. It is mostly waiting for files.
const inventoryWorkers = 8

// taskKey names a task within a plan.
type taskKey struct {
	sub       string
	partition int32
}

// takeInventory looks at the stores that the engine has from earlier runs: what they can be used for is told
// to the group, which hands tasks to where their state is, and those that are of no use are destroyed.
// It must be called before tasks run, which own their stores.
func (a *App) takeInventory(ctx context.Context) error {
	names, err := a.cfg.State.Stores()
	if err != nil {
		return err
	}
	specs := map[string]taskSpec{}
	for _, spec := range a.tasks {
		if len(spec.sub.Stores) > 0 {
			specs[taskID(a.plan.Name(), spec.sub.Name, spec.partition)] = spec
		}
	}
	var mine, others []string
	var tps []commitlog.TopicPartition
	for _, name := range names {
		spec, ok := specs[name]
		if a.isTable(name) {
			continue // it is looked into when it is read
		}
		if !ok {
			others = append(others, name)
			continue
		}
		mine = append(mine, name)
		tps = append(tps, a.changelogPartitions(spec.sub, spec.partition)...)
	}
	if len(others) > 0 {
		a.cfg.Logger.Info("stores that no task or table of the plan has are left as they are", "stores", others)
	}
	if len(mine) == 0 {
		return nil
	}
	view, err := a.viewChangelogs(ctx, tps)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	sums := map[taskKey]int64{}
	var errs []error
	work := make(chan string)
	var wg sync.WaitGroup
	for range min(inventoryWorkers, len(mine)) {
		wg.Go(func() {
			for name := range work {
				spec := specs[name]
				sum, ok, err := a.lookInto(ctx, name, spec, view)
				mu.Lock()
				if ok {
					sums[taskKey{spec.sub.Name, spec.partition}] = sum
				}
				if err != nil {
					errs = append(errs, err)
				}
				mu.Unlock()
			}
		})
	}
	for _, name := range mine {
		if ctx.Err() != nil {
			break
		}
		work <- name
	}
	close(work)
	wg.Wait()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return err
	}
	a.onDisk = encodeInventory(sums)
	a.cfg.Logger.Info("stores on disk", "usable", len(sums), "found", len(mine))
	return nil
}

// lookInto opens a store and returns the sum of its checkpoints; ok is false if it is of no use. A store that
// cannot be opened for another reason than damage is left to the task that needs it, which says so.
func (a *App) lookInto(ctx context.Context, name string, spec taskSpec, view *changelogView) (sum int64, ok bool, err error) {
	log := a.cfg.Logger.With("task", name)
	var label storeLabel
	db, err := a.cfg.State.OpenStore(name)
	if err == nil {
		label, err = readLabel(db, spec.sub)
		if cerr := db.Close(); err == nil {
			err = cerr
		}
	}
	var reason string
	part := view.of(a.changelogPartitions(spec.sub, spec.partition))
	switch {
	case errors.Is(err, kvstore.ErrCorrupt):
		reason = err.Error()
	case errors.Is(err, kvstore.ErrClosed):
		return 0, false, err
	case err != nil:
		log.Warn("store on disk cannot be opened", "error", err.Error())
		return 0, false, nil
	default:
		if reason, err = a.unusable(ctx, label, spec.sub, spec.partition, part); err != nil {
			return 0, false, err
		}
	}
	if reason != "" {
		for tp := range part.ends {
			if label.checkpoints[tp.Topic] > 0 && part.ends[tp] == 0 {
				return 0, false, nil // its changelog may have been deleted: the task that needs it looks into that
			}
		}
		log.Warn("store is rebuilt", "reason", reason)
		return 0, false, a.cfg.State.DestroyStore(name)
	}
	for _, offset := range label.checkpoints {
		sum += offset
	}
	return sum, len(label.checkpoints) > 0, nil
}

// userData is what this process tells the group's leader beside the partitions it holds: which tasks' state it
// has on disk, see encodeInventory. It is nil if it has none, and the same for the life of the process.
func (a *App) userData() []byte { return a.onDisk }

// An inventory is written as
//
//	version     1 byte, 1
//	per sub-topology, sorted
//	  name      uvarint length, bytes
//	  tasks     uvarint count, at least 1
//	  per task, sorted
//	    gap     uvarint, partition less the one before less one
//	    sum     uvarint, of the store's checkpoints
//
// and ends with the input. maxInventory bounds its bytes, since the group keeps it in one record with what all
// members say: what does not fit is left out.
const (
	inventoryVersion = 1
	maxInventory     = 32 << 10
)

func encodeInventory(sums map[taskKey]int64) []byte {
	if len(sums) == 0 {
		return nil
	}
	bySub := map[string][]int32{}
	for k := range sums {
		bySub[k.sub] = append(bySub[k.sub], k.partition)
	}
	var names []string
	for name, partitions := range bySub {
		slices.Sort(partitions)
		names = append(names, name)
	}
	slices.Sort(names)
	out := []byte{inventoryVersion}
	for _, name := range names {
		var tasks []byte
		n, next := 0, int32(0)
		room := maxInventory - len(out) - len(name) - 2*binary.MaxVarintLen32
		for _, p := range bySub[name] {
			task := binary.AppendUvarint(nil, uint64(p-next))
			task = binary.AppendUvarint(task, uint64(max(0, sums[taskKey{name, p}])))
			if len(tasks)+len(task) > room {
				break
			}
			tasks = append(tasks, task...)
			n, next = n+1, p+1
		}
		if n == 0 {
			continue
		}
		out = binary.AppendUvarint(out, uint64(len(name)))
		out = append(out, name...)
		out = binary.AppendUvarint(out, uint64(n))
		out = append(out, tasks...)
	}
	return out
}

// decodeInventory returns what encodeInventory was given, nil if the data is not its work or that of a later version:
// who sent it then counts as having nothing on disk.
func decodeInventory(data []byte) map[taskKey]int64 {
	if len(data) == 0 || len(data) > maxInventory || data[0] != inventoryVersion {
		return nil
	}
	rest := data[1:]
	valid := true
	number := func(limit uint64) uint64 {
		v, n := binary.Uvarint(rest)
		if n <= 0 || v > limit {
			valid, rest = false, nil
			return 0
		}
		rest = rest[n:]
		return v
	}
	sums := map[taskKey]int64{}
	for valid && len(rest) > 0 {
		size := number(uint64(len(rest)))
		if size > uint64(len(rest)) {
			return nil
		}
		name := string(rest[:size])
		rest = rest[size:]
		next := uint64(0)
		for n := number(uint64(len(rest))); valid && n > 0; n-- {
			p := next + number(maxPartition)
			sum := number(1<<63 - 1)
			if p > maxPartition {
				return nil
			}
			sums[taskKey{name, int32(p)}] = int64(sum)
			next = p + 1
		}
	}
	if !valid {
		return nil
	}
	return sums
}

const maxPartition = 1<<31 - 1
