package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/wickerwork/wicker/exec"
)

// ending is what an instance prints at its end.
type ending struct {
	// Restored is the number of changelog records read since its start.
	Restored int64 `json:"restored"`
}

// instance runs Wicker's side of a job whose end the driver decides: it prints the measurement
// of its start as soon as all its tasks run, goes on until ctx or in ends, and then prints its ending. The end
// of in is that of the driver, whatever became of it.
func instance(ctx context.Context, s *scenario, j job, in io.Reader, out io.Writer) error {
	plan, err := s.plan(j.App, j.In, j.Out)
	if err != nil {
		return err
	}
	cfg := j.config(s)
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	app, err := exec.New(plan, cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	stop, err := profile(j.CPUProfile)
	if err != nil {
		return err
	}
	from := read(j.BrokerPID)
	ran := make(chan error, 1)
	go func() { ran <- app.Run(ctx) }()
	for {
		if st := app.Stats(); st.Tasks > 0 && st.Restoring == 0 {
			break
		}
		select {
		case err := <-ran:
			return errors.Join(fmt.Errorf("%w, before its tasks ran", errEnded), err, stop())
		case <-time.After(time.Millisecond):
		}
	}
	to := read(j.BrokerPID)
	m := measure(app.Stats().Restored, from.at, from, to)
	m.Versions = workerVersions()
	if err := errors.Join(stop(), heapProfile(j.MemProfile), json.NewEncoder(out).Encode(m)); err != nil {
		return err
	}
	if err := <-ran; err != nil {
		return err
	}
	if ctx.Err() == nil {
		return errEnded
	}
	return json.NewEncoder(out).Encode(ending{Restored: app.Stats().Restored})
}
