package exec

import (
	"time"
)

// RestoreProgress is how far a task has come that restores its state.
type RestoreProgress struct {
	// Task names the task: <app>-<sub-topology>-<partition>.
	Task string
	// Left is how many records are to be read at most: offsets, of which some may hold none.
	Left int64
	// Rate is how many records a second were read of late; 0 if none were, or as long as it waits for others to be
	// done (Config.RestoreParallelism).
	Rate float64
	// Remaining is how long it will take at this rate, 0 if that is not known.
	Remaining time.Duration
}

// progress measures how a restore comes on.
type progress struct {
	total int64
	// since and mark are when the window began, and what was left then.
	since time.Time
	mark  int64
	now   RestoreProgress
}

// begin makes the task's progress visible, end hides it.
func (p *progress) begin(t *task, left int64) {
	p.total, p.mark, p.since = left, left, t.app.cfg.Clock.Now()
	p.now = RestoreProgress{Task: t.id, Left: left}
	p.show(t)
}

func (p *progress) end(t *task) {
	t.app.mu.Lock()
	defer t.app.mu.Unlock()
	t.restoring = nil
}

// update notes what is left.
func (p *progress) update(t *task, now time.Time, left int64) {
	p.now.Left = left
	if d := now.Sub(p.since); d >= rateWindow || p.now.Rate == 0 && d > 0 {
		p.now.Rate = float64(p.mark-left) / d.Seconds()
		if d >= rateWindow {
			p.mark, p.since = left, now
		}
	}
	p.now.Remaining = 0
	if p.now.Rate > 0 {
		p.now.Remaining = time.Duration(float64(left) / p.now.Rate * float64(time.Second))
	}
	p.show(t)
	t.publish()
}

// stall notes that nothing comes.
func (p *progress) stall(t *task, now time.Time) {
	p.now.Rate, p.now.Remaining = 0, 0
	p.mark, p.since = p.now.Left, now
	p.show(t)
}

func (p *progress) show(t *task) {
	now := p.now
	t.app.mu.Lock()
	defer t.app.mu.Unlock()
	t.restoring = &now
}

// report logs it.
func (p *progress) report(t *task) {
	t.log.Info("restoring", "left", p.now.Left, "of", p.total, "rate", int64(p.now.Rate), "remaining", p.now.Remaining.Round(time.Second).String())
}
