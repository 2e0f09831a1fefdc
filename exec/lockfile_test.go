package exec_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/testkit/kafka"
	"github.com/wickerwork/wicker/testkit/memlog"
	"github.com/wickerwork/wicker/topology"
)

// named is joining with another name of the state, after what say says.
func named(t *testing.T, app, in, out, state string, say func(*topology.Builder)) *topology.Plan {
	t.Helper()
	b := topology.New(app)
	if say != nil {
		say(b)
	}
	text := codec.String
	b.From(ops.Source(ops.NewTopic(in, text, text))).
		Aggregate(ops.NewState(state, text, text), func(_, v, state string) string { return state + v }).
		To(ops.Sink(ops.NewTopic(out, text, text)))
	plan, err := b.Build()
	require.NoError(t, err)
	return plan
}

// P6: a plan that has lost a state which the group holds is refused, with the old and the new name and the way out, before anything is
// created or processed; an adopted one goes on with the state, a retired one without. Each stays so over restarts.
func TestP6RenamedStateIsRefused(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		plan := func(state string, say func(*topology.Builder)) *topology.Plan {
			return named(t, "app", "in", "out", state, say)
		}
		run := func(p *topology.Plan) { b.run(p, memlog.Faults{}).idle().drain() }
		b.put(0, "k", "1")
		run(plan("counts", nil))
		b.put(0, "k", "2")
		for range 2 {
			err := <-b.run(plan("totals", nil), memlog.Faults{}).end
			var e *topology.LockError
			require.ErrorAs(t, err, &e)
			require.EqualError(t, err, `wicker: app: the plan's change is destructive: store "counts": it holds state, and the plan has none of that name, so that its changelog topic `+
				`app-counts-changelog would be left behind. If it was renamed to "totals", which is new, put Adopt("counts", "totals") on the Builder; if it is given up, Retire("counts")`)
			require.Equal(t, []string{"k=1"}, b.texts("out", 0))
			found, err := b.log.Topics(t.Context(), "app-totals-changelog")
			require.NoError(t, err)
			require.Empty(t, found, "nothing is created")
		}
		adopt := func(tb *topology.Builder) { tb.Adopt("counts", "totals") }
		run(plan("totals", adopt))
		require.Equal(t, []string{"k=1", "k=12"}, b.texts("out", 0))
		b.put(0, "k", "3")
		run(plan("totals", adopt))
		require.Equal(t, []string{"k=1", "k=12", "k=123"}, b.texts("out", 0))
		b.put(0, "k", "4")
		run(plan("totals", func(tb *topology.Builder) { tb.Retire("counts") }))
		require.Equal(t, "k=4", b.texts("out", 0)[3], "without what was given up")
		b.put(0, "k", "5")
		run(plan("totals", nil)) // nothing tells of it any more
		require.Equal(t, "k=45", b.texts("out", 0)[4])
		err := <-b.run(b.mapping(func(v string) string { return v }), memlog.Faults{}).end
		require.ErrorContains(t, err, `store "totals": it holds state`, "also by a plan without any")
	})
}

// P6 on brokers.
func TestP6RenamedStateOnKafka(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		r := newRig(t, b, 2)
		run := func(state string, say func(*topology.Builder)) {
			i := launch(t, b, named(t, r.app, r.in, r.out, state, say))
			r.settle(i)
			i.drain()
		}
		r.put("k", "1")
		run("counts", nil)
		r.put("k", "2")
		err := exec.Run(t.Context(), named(t, r.app, r.in, r.out, "totals", nil), exec.Config{Brokers: []string{b.Addr()}})
		var e *topology.LockError
		require.ErrorAs(t, err, &e)
		require.Equal(t, []string{r.app + "-counts-changelog"}, e.Changes.Orphans())
		run("totals", func(tb *topology.Builder) { tb.Adopt("counts", "totals") })
		require.Equal(t, []string{"k=1", "k=12"}, pairs(r.read(r.out)))
	})
}

// P6: Config.LockFile is written when a plan's topics are in order, compared with the next plan, and then that one's.
func TestP6LockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.lock")
	lockFile := func(c *exec.Config) { c.LockFile = path }
	plan := func(state string, say func(*topology.Builder)) *topology.Plan {
		return named(t, "app", "in", "out", state, say)
	}
	read := func() string {
		t.Helper()
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(text)
	}
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.log.DeleteTopics("out")
		require.Error(t, <-b.run(plan("counts", nil), memlog.Faults{}, lockFile).end)
		require.NoFileExists(t, path, "a plan that cannot run is no plan to go on from")
		b.create("out", 1, nil)
		b.run(plan("counts", nil), memlog.Faults{}, lockFile).idle().drain()
		first := string(plan("counts", nil).Lock().Encode())
		require.Equal(t, first, read())
		err := <-b.run(plan("totals", nil), memlog.Faults{}, lockFile).end // no state is held yet
		require.ErrorContains(t, err, "wicker: app: LockFile "+path+`: the plan's change is destructive: store "counts": the plan has no state of that name any more`)
		require.Equal(t, first, read())
		retired := plan("totals", func(tb *topology.Builder) { tb.Retire("counts") })
		b.run(retired, memlog.Faults{}, lockFile).idle().drain()
		require.Equal(t, string(retired.Lock().Encode()), read())
		require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
		require.ErrorContains(t, <-b.run(retired, memlog.Faults{}, lockFile).end, "LockFile "+path+": plan lock: ")
		require.Equal(t, "{", read())
		entries, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, entries, 1, "nothing beside it")
		nowhere := func(c *exec.Config) { c.LockFile = filepath.Join(path, "plan.lock") }
		require.ErrorContains(t, <-b.run(retired, memlog.Faults{}, nowhere).end, "LockFile: ")
	})
}
