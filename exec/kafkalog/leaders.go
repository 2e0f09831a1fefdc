package kafkalog

import (
	"context"
	"slices"
	"sync"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// perLeader asks the leaders of tps, all of them at once and each once, until every partition was answered or one met
// an error for good. ask returns what it was answered, even beside an error, which is then the first partition's of
// those that it was not; their leaders are looked up again. What it returns is good as far as it goes.
func perLeader[V any](ctx context.Context, l *Log, op string, tps []commitlog.TopicPartition,
	ask func(ctx context.Context, cn *conn, tps []commitlog.TopicPartition) (map[commitlog.TopicPartition]V, error)) (map[commitlog.TopicPartition]V, error) {
	all := make(map[commitlog.TopicPartition]V, len(tps))
	left := slices.Clone(tps)
	err := l.retry(ctx, op, func(ctx context.Context) error {
		by, err := l.cluster.locate(ctx, left)
		if err != nil {
			return err
		}
		var mu sync.Mutex // guards all and failed
		var wg sync.WaitGroup
		var failed error
		for id, tps := range by {
			wg.Go(func() {
				var got map[commitlog.TopicPartition]V
				cn, err := l.cluster.conns.get(ctx, id)
				if err == nil {
					got, err = ask(ctx, cn, tps)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, tp := range tps {
					if v, ok := got[tp]; ok {
						all[tp] = v
					} else {
						l.cluster.forget(tp)
					}
				}
				if err != nil && (failed == nil || classify(err) == commitlog.Fatal) {
					failed = err
				}
			})
		}
		wg.Wait()
		left = slices.DeleteFunc(left, func(tp commitlog.TopicPartition) bool { _, ok := all[tp]; return ok })
		if failed == nil && len(left) > 0 {
			failed = at(message(kafkaErr(op, inCall, codeLeaderNotAvailable), "the broker did not answer for it"), left[0])
		}
		return failed
	})
	return all, err
}
