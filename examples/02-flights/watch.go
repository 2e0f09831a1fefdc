package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/topology"
)

// watcher shows what the instance does and notices when there is nothing left to do.
type watcher struct {
	app    *exec.App
	plan   *topology.Plan
	client *kafka.Client
	out    io.Writer
	began  time.Time
	ended  bool // the run has, by itself
}

// watch prints a line now and then until all flights are processed, or ctx or the run ends.
func (w *watcher) watch(ctx context.Context, ran <-chan error, untilDone bool) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var before exec.Stats
	shown, last := w.began, ""
	for {
		select {
		case err := <-ran:
			w.ended = true
			return err
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s := w.app.Stats()
		if line := progress(s); time.Since(shown) > 500*time.Millisecond && line != last {
			shown, last = time.Now(), line
			fmt.Fprintf(w.out, "%5.1f s  %s\n", time.Since(w.began).Seconds(), line)
		}
		idle := s.Tasks > 0 && s.Restoring == 0 && total(s.In) == total(before.In) && s.Entries == before.Entries
		before = s
		if !untilDone || !idle {
			continue
		}
		done, err := w.processed(ctx)
		if err != nil {
			return err
		}
		if done {
			if line := progress(s); line != last {
				fmt.Fprintf(w.out, "%5.1f s  %s\n", time.Since(w.began).Seconds(), line)
			}
			return nil
		}
	}
}

// progress is the numbers of the run in one line.
func progress(s exec.Stats) string {
	var asked, saved, dropped, missed int64
	for _, c := range s.Counters {
		asked, saved, dropped, missed = asked+c[ops.CountAsked], saved+c[ops.CountSaved], dropped+c[ops.CountDropped], missed+c[ops.CountMissed]
	}
	out := s.Out[Done.Name] + s.Out[Tailless.Name] + s.Out[Routes.Name]
	return fmt.Sprintf("in %6s  out %6s  cancelled %3s  to unknown airports %3s   registry: asked %5s, saved %6s   state about %5s entries",
		thousands(s.In[Flights.Name]), thousands(out), thousands(dropped), thousands(missed), thousands(asked), thousands(saved), thousands(s.Entries))
}

func total(records map[string]int64) (n int64) {
	for _, count := range records {
		n += count
	}
	return n
}

// processed says whether the group, whoever its members are, has committed all that the topics
// hold: first the flights, then each topic that is filled from an earlier one.
func (w *watcher) processed(ctx context.Context) (bool, error) {
	for _, sub := range w.plan.Subtopologies() {
		if err := w.client.AwaitStable(ctx, sub.Sources...); err != nil {
			return false, err
		}
		from, err := w.client.StartOffsets(ctx, sub.Sources...)
		if err != nil {
			return false, err
		}
		committed, err := w.client.CommittedOffsets(ctx, w.plan.Name())
		if err != nil {
			return false, err
		}
		for p := range from {
			from[p] = max(from[p], committed[p])
		}
		left, err := w.client.ReadFrom(ctx, kafka.ReadCommitted, from)
		if len(left) > 0 || err != nil {
			return false, err
		}
	}
	return true, w.client.AwaitStable(ctx, Done.Name, Tailless.Name, Routes.Name)
}

// thousands writes 12208 as 12,208.
func thousands(n int64) string {
	digits := fmt.Sprint(n)
	var groups []string
	for len(digits) > 3 {
		groups = append([]string{digits[len(digits)-3:]}, groups...)
		digits = digits[:len(digits)-3]
	}
	return strings.Join(append([]string{digits}, groups...), ",")
}
