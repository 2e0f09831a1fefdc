package logtest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Read-only.
var topicCases = []testCase{
	{"CreateAndDescribe", createAndDescribe},
	{"ExistingIsLeftAlone", existingIsLeftAlone},
	{"MissingAreAbsent", missingAreAbsent},
	{"NothingElseCreates", nothingElseCreates},
	{"BadSpecs", badSpecs},
	{"ReadyWhenCreated", readyWhenCreated},
}

// A topic is as it was asked for, defaults included.
func createAndDescribe(e *env) {
	a, b := e.name("a"), e.name("b")
	require.NoError(e, e.Log.CreateTopics(e.ctx, []commitlog.TopicSpec{
		{Name: a, Partitions: 3, Replication: -1, Config: map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}},
		{Name: b, Partitions: 1, Replication: 1},
	}))
	topics, err := e.Log.Topics(e.ctx, a, b)
	require.NoError(e, err)
	require.Equal(e, map[string]commitlog.Topic{a: {Name: a, Partitions: 3, ID: topics[a].ID}, b: {Name: b, Partitions: 1, ID: topics[b].ID}}, topics)
	configs, err := e.Log.TopicConfigs(e.ctx, a, b)
	require.NoError(e, err)
	require.Len(e, configs, 2)
	require.Equal(e, "compact", configs[a]["cleanup.policy"])
	require.Equal(e, "0.1", configs[a]["min.cleanable.dirty.ratio"])
	require.Equal(e, "delete", configs[b]["cleanup.policy"])
	require.NotEmpty(e, configs[a]["retention.ms"], "defaults are included")
}

// A topic that exists is no error, and stays as it is.
func existingIsLeftAlone(e *env) {
	a, b := e.topic(2), e.name("b")
	specs := []commitlog.TopicSpec{{Name: a, Partitions: 5, Replication: -1, Config: map[string]string{"cleanup.policy": "compact"}}, {Name: b, Partitions: 1, Replication: -1}}
	require.NoError(e, e.Log.CreateTopics(e.ctx, specs))
	require.NoError(e, e.Log.CreateTopics(e.ctx, specs))
	topics, err := e.Log.Topics(e.ctx, a, b)
	require.NoError(e, err)
	require.Equal(e, 2, topics[a].Partitions)
	require.Equal(e, 1, topics[b].Partitions)
	configs, err := e.Log.TopicConfigs(e.ctx, a)
	require.NoError(e, err)
	require.Equal(e, "delete", configs[a]["cleanup.policy"])
}

// Topics that do not exist are absent, and are not created by the question (L8).
func missingAreAbsent(e *env) {
	a, missing := e.topic(1), e.name("missing")
	for range 3 {
		topics, err := e.Log.Topics(e.ctx, a, missing)
		require.NoError(e, err)
		require.Equal(e, map[string]commitlog.Topic{a: {Name: a, Partitions: 1, ID: topics[a].ID}}, topics)
	}
}

// L8: neither offsets, nor readers, nor producers create a topic. Whatever they answer, they
// answer within their context's time.
func nothingElseCreates(e *env) {
	tp := commitlog.TopicPartition{Topic: e.name("missing")}
	absent := func(after string) {
		e.Helper()
		topics, err := e.Log.Topics(e.ctx, tp.Topic)
		require.NoError(e, err)
		require.Empty(e, topics, "after %s", after)
	}
	ctx, cancel := context.WithTimeout(e.ctx, 2*time.Second)
	defer cancel()
	_, err := e.Log.EndOffsets(ctx, []commitlog.TopicPartition{tp}, commitlog.ReadUncommitted)
	require.Error(e, err)
	absent("EndOffsets")
	if r, err := e.Log.OpenReader(ctx, commitlog.ReaderConfig{From: map[commitlog.TopicPartition]int64{tp: 0}, MaxWait: 50 * time.Millisecond}); err == nil {
		select {
		case c, ok := <-r.Chunks():
			require.False(e, ok, "a chunk of a topic that does not exist: %v", c.TopicPartition)
			require.Error(e, r.Err())
		case <-time.After(2 * time.Second): // it is still trying
		}
		require.NoError(e, r.Close())
	}
	absent("OpenReader")
	p := e.producer(e.name("p"))
	pctx, pcancel := context.WithTimeout(e.ctx, 2*time.Second)
	defer pcancel()
	err = p.Produce(pctx, tp, e.batch(recordsOf("x")...))
	if err == nil {
		_, err = p.Commit(pctx, nil, noMember)
	}
	require.Error(e, err)
	absent("Produce")
}

// A spec that the cluster refuses is an error that names the topic; nothing is created.
func badSpecs(e *env) {
	for name, spec := range map[string]commitlog.TopicSpec{
		"partitions": {Partitions: 0, Replication: -1},
		"setting":    {Partitions: 1, Replication: -1, Config: map[string]string{"cleanup.policy": "recycle"}},
	} {
		spec.Name = e.name(name)
		err := e.Log.CreateTopics(e.ctx, []commitlog.TopicSpec{spec})
		e.requireClass(commitlog.Fatal, err)
		require.ErrorContains(e, err, spec.Name)
		topics, err := e.Log.Topics(e.ctx, spec.Name)
		require.NoError(e, err)
		require.Empty(e, topics)
	}
}

// When CreateTopics has returned the topic can be used.
func readyWhenCreated(e *env) {
	p := e.producer(e.name("p"))
	for range 3 {
		tp := commitlog.TopicPartition{Topic: e.name("topic"), Partition: 5}
		require.NoError(e, e.Log.CreateTopics(e.ctx, []commitlog.TopicSpec{{Name: tp.Topic, Partitions: 6, Replication: -1}}))
		s := e.stream(tp)
		e.produce(p, tp, "x")
		s.until(e.commit(p))
		require.Equal(e, []string{"x"}, s.values(tp))
	}
}
