package exec

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// refusing is a producer that takes some batches and then none.
type refusing struct {
	commitlog.Producer
	left  int
	taken []*commitlog.Batch
}

var errRefused = errors.New("refused")

func (p *refusing) Produce(_ context.Context, _ commitlog.TopicPartition, b *commitlog.Batch) error {
	if p.left--; p.left < 0 {
		return errRefused
	}
	p.taken = append(p.taken, b)
	return nil
}

// A batch that the producer took is the producer's (commitlog.Producer): when a later one is refused, only those
// that were not offered go back to the pool. Released twice, one batch would be filled by two tasks.
func TestHeldBatchesHaveOneOwner(t *testing.T) {
	pool := commitlog.NewPool(4096)
	producer := &refusing{left: 2}
	tk := &task{ctx: t.Context(), producer: producer, state: newState(nil, nil, 1000)}
	var held []*commitlog.Batch
	for range 5 {
		b := commitlog.NewBuilder(pool)
		b.Append(1, []byte("k"), []byte("v"), nil, 0)
		batch := b.Take()
		held = append(held, batch)
		tk.held = append(tk.held, heldBatch{commitlog.TopicPartition{Topic: "out"}, batch})
	}
	require.ErrorIs(t, tk.committed(commitResult{}), errRefused)
	tk.dropHeld()
	require.Equal(t, held[:2], producer.taken)
	for i, b := range held {
		require.Equal(t, i < 3, b.Count == 1, "batch %d", i)
	}
}

// What a transaction changes while the one before it commits is bounded, also when it has no outputs.
func TestChangesBehindACommitAreBounded(t *testing.T) {
	tk := &task{app: &App{holdBytes: 1000}, state: newState(nil, nil, 1000)}
	tk.state.openBytes = 501
	require.True(t, tk.room(), "nothing is in flight: the transaction closes")
	tk.inflight = make(chan commitResult, 1)
	require.False(t, tk.room())
	tk.state.openBytes = 500
	require.True(t, tk.room())
	tk.heldBytes = 1000
	require.False(t, tk.room())
}
