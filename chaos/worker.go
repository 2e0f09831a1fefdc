package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/kvstore/rocksdb"
)

// job is what a worker process is told.
type job struct {
	names
	Slot     int           `json:"slot"`
	Brokers  []string      `json:"brokers"`
	State    string        `json:"state"`
	Instance string        `json:"instance,omitempty"`
	Session  time.Duration `json:"session"`
	Commit   time.Duration `json:"commit"`
	// Idle is the IdleCommitInterval; zero is exec's default.
	Idle time.Duration `json:"idle,omitempty"`
	// Transaction is a timeout; zero is exec's default.
	Transaction time.Duration `json:"transaction,omitempty"`
	// Probe asks for the probe instead of the example.
	Probe bool `json:"probe,omitempty"`
}

// slotName is the client id of a worker, and slotOf reads it.
func slotName(slot int) string { return "chaos-" + strconv.Itoa(slot) }

func slotOf(clientID string) int {
	number, ok := strings.CutPrefix(clientID, "chaos-")
	n, err := strconv.Atoi(number)
	if !ok || err != nil {
		return anyone
	}
	return n
}

// work runs the example until ctx ends. What happens goes to standard error, which is the worker's log.
func work(ctx context.Context, description string) error {
	var j job
	if err := json.Unmarshal([]byte(description), &j); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	plan, err := newPlan(j.names)
	if j.Probe {
		plan, err = newProbe(j.names, os.Getpid())
	}
	if err != nil {
		return err
	}
	// A worker does not outlive who started it: the other end of its input.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	app, err := exec.New(plan, exec.Config{
		Brokers: j.Brokers, ClientID: slotName(j.Slot), InstanceID: j.Instance,
		SessionTimeout: j.Session, RebalanceTimeout: 10 * time.Second, CommitInterval: j.Commit, IdleCommitInterval: j.Idle, TransactionTimeout: j.Transaction,
		State:       rocksdb.New(rocksdb.Options{Dir: j.State, MemoryBytes: 32 << 20}),
		StateMemory: 32 << 20, FlushInterval: 500 * time.Millisecond,
		DrainTimeout: drainTimeout, Logger: logger,
	})
	if err != nil {
		return err
	}
	logger.Info("worker begins", "pid", os.Getpid())
	if err = app.Run(ctx); err == nil && ctx.Err() == nil {
		err = errors.New("the run ended and was not asked to")
	}
	s := app.Stats()
	logger.Info("worker ends", "commits", s.Commits, "rebalances", s.Rebalances, "restored", s.Restored, "error", fmt.Sprint(err))
	return err
}

// drainTimeout is the workers' DrainTimeout.
const drainTimeout = 10 * time.Second
