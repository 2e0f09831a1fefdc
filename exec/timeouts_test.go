package exec_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/testkit/memlog"
)

// Relations between times that cannot work are refused, all at once, with names, values and bounds.
func TestTimesThatCannotWorkTogether(t *testing.T) {
	valid := exec.Config{Brokers: []string{"localhost:1"}}
	require.NoError(t, valid.Validate())
	for name, c := range map[string]struct {
		change func(*exec.Config)
		want   string // empty: valid
	}{
		"heartbeat and session": {func(c *exec.Config) { c.HeartbeatInterval, c.SessionTimeout = 3*time.Second, 6*time.Second },
			"HeartbeatInterval (3s) must be <= a third of SessionTimeout (6s): one heartbeat that is late must not cost the membership"},
		"heartbeat and rebalance": {func(c *exec.Config) { c.HeartbeatInterval, c.RebalanceTimeout = 5*time.Second, 12*time.Second },
			"HeartbeatInterval (5s) must be <= a third of RebalanceTimeout (12s): members hear of a rebalance by heartbeat, and must be in time for it"},
		"drain and rebalance": {func(c *exec.Config) { c.DrainTimeout = 61 * time.Second },
			"DrainTimeout (1m1s) must be <= RebalanceTimeout (1m0s): a task that moves is to be given up before the group stops waiting"},
		"commit and transaction": {func(c *exec.Config) { c.CommitInterval, c.TransactionTimeout = 6*time.Second, 10*time.Second },
			"CommitInterval (6s) must be <= half of TransactionTimeout (10s): a transaction closes then whatever happens"},
		"idle and commit": {func(c *exec.Config) { c.IdleCommitInterval = 101 * time.Millisecond },
			"IdleCommitInterval (101ms) must be <= CommitInterval (100ms): a transaction closes then also when input is not idle"},
		"no idle interval":        {func(c *exec.Config) { c.IdleCommitInterval = -1 }, ""},
		"short session":           {func(c *exec.Config) { c.SessionTimeout = 100 * time.Millisecond }, ""},
		"too short a session":     {func(c *exec.Config) { c.SessionTimeout = 99 * time.Millisecond }, "SessionTimeout (99ms) must be >= 100ms"},
		"negative heartbeat":      {func(c *exec.Config) { c.HeartbeatInterval = -1 }, "HeartbeatInterval (-1ns) must be >= 1ms"},
		"too short a transaction": {func(c *exec.Config) { c.TransactionTimeout = time.Millisecond }, "TransactionTimeout (1ms) must be >= 1s"},
		"exactly at the bounds": {func(c *exec.Config) {
			c.CommitInterval, c.HeartbeatInterval, c.DrainTimeout = 30*time.Second, 15*time.Second, time.Minute
		}, ""},
		"a session for ever":       {func(c *exec.Config) { c.SessionTimeout = 1<<63 - 1 }, "SessionTimeout (2562047h47m16.854775807s) must be <= 596h31m23.647s, the most that brokers can be told"},
		"a rebalance for ever":     {func(c *exec.Config) { c.RebalanceTimeout = 1<<63 - 1 }, "RebalanceTimeout (2562047h47m16.854775807s) must be <= 596h31m23.647s, the most that brokers can be told"},
		"a transaction for ever":   {func(c *exec.Config) { c.TransactionTimeout = 597 * time.Hour }, "TransactionTimeout (597h0m0s) must be <= 596h31m23.647s, the most that brokers can be told"},
		"no time to drain":         {func(c *exec.Config) { c.DrainTimeout = -time.Second }, "DrainTimeout (-1s) must be >= 1ms"},
		"no time between flushes":  {func(c *exec.Config) { c.FlushInterval = -time.Second }, "FlushInterval (-1s) must be >= 1\u00b5s"},
		"no time between commits":  {func(c *exec.Config) { c.CommitInterval = -time.Second }, "CommitInterval (-1s) must be >= 1\u00b5s"},
		"too short for rebalances": {func(c *exec.Config) { c.RebalanceTimeout = time.Millisecond }, "RebalanceTimeout (1ms) must be >= 100ms"},
	} {
		t.Run(strings.ReplaceAll(name, " ", ""), func(t *testing.T) {
			cfg := valid
			c.change(&cfg)
			err := cfg.Validate()
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, "config: "+c.want)
		})
	}
	cfg := valid
	cfg.SessionTimeout, cfg.HeartbeatInterval, cfg.RebalanceTimeout = 2*time.Second, time.Second, 2*time.Second
	cfg.DrainTimeout, cfg.CommitInterval, cfg.TransactionTimeout, cfg.IdleCommitInterval = 3*time.Second, 5*time.Second, 2*time.Second, 6*time.Second
	err := cfg.Validate()
	require.Equal(t, 5, strings.Count(err.Error(), "must be <="), err)
}

// Bounds that only the brokers know are named by our field.
func TestTX28BoundsOfTheBrokersNameTheField(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		err := <-b.run(b.joining(), memlog.Faults{}, func(c *exec.Config) { c.TransactionTimeout = time.Hour }).end
		require.ErrorContains(t, err, "TransactionTimeout (1h0m0s) must be <= the brokers' transaction.max.timeout.ms (15m0s by default)")
		var e *commitlog.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "INVALID_TRANSACTION_TIMEOUT", e.Name)
		err = <-b.run(b.joining(), memlog.Faults{Join: func(context.Context, commitlog.MemberConfig) error {
			return &commitlog.Error{Op: "join group", Group: "app", Partition: -1, Code: 26, Name: "INVALID_SESSION_TIMEOUT"}
		}}, func(c *exec.Config) { c.SessionTimeout = 31 * time.Minute }).end
		require.ErrorContains(t, err, "SessionTimeout (31m0s) must be from the brokers' group.min.session.timeout.ms to group.max.session.timeout.ms")
	})
}
