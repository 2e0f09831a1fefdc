package exec

import (
	"github.com/wickerwork/wicker/exec/commitlog"
)

// offsets returns where the task's input goes on: the committed offsets, or the earliest.
func (t *task) offsets() (map[commitlog.TopicPartition]int64, error) {
	tps := t.app.inputs(t.sub, t.partition)
	from, err := t.app.log.CommittedOffsets(t.starting, t.app.plan.Name(), tps)
	if err != nil {
		return nil, err
	}
	var missing []commitlog.TopicPartition
	for _, tp := range tps {
		if _, ok := from[tp]; !ok {
			missing = append(missing, tp)
		}
	}
	if len(missing) == 0 {
		return from, nil
	}
	starts, err := t.app.log.StartOffsets(t.starting, missing)
	if err != nil {
		return nil, err
	}
	if from == nil {
		from = map[commitlog.TopicPartition]int64{}
	}
	for _, tp := range missing {
		from[tp] = starts[tp]
	}
	return from, nil
}
