package kafka_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/testkit/kafka"
)

func records(topic string, from, to int) []kafka.Record {
	var rs []kafka.Record
	for i := from; i < to; i++ {
		rs = append(rs, kafka.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "v%d", i)})
	}
	return rs
}

func values(rs []kafka.Record) []string {
	var vs []string
	for _, r := range rs {
		vs = append(vs, string(r.Value))
	}
	return vs
}

func want(from, to int) []string {
	var vs []string
	for i := from; i < to; i++ {
		vs = append(vs, fmt.Sprintf("v%d", i))
	}
	return vs
}

func TestData(t *testing.T) {
	for _, how := range []string{"stop", "kill"} {
		t.Run(how, func(t *testing.T) {
			kafka.EachOwn(t, kafka.Options{}, func(t *testing.T, b *kafka.Broker) {
				ctx, c := t.Context(), b.Client(t)
				topic, group := kafka.Name(t), kafka.Name(t)
				require.NoError(t, c.CreateTopic(ctx, topic, 1, map[string]string{"retention.ms": "7777777"}))
				require.NoError(t, c.Produce(ctx, records(topic, 0, 5)...))
				txn, err := c.Begin(ctx, group)
				require.NoError(t, err)
				require.NoError(t, txn.Produce(ctx, records(topic, 5, 10)...))
				require.NoError(t, txn.Abort(ctx))
				addr := b.Addr()
				start := time.Now()
				if how == "kill" {
					require.NoError(t, b.Kill())
				} else {
					require.NoError(t, b.Stop())
				}
				t.Log(how, time.Since(start))
				short, cancel := context.WithTimeout(ctx, time.Second)
				require.Error(t, c.Ping(short))
				cancel()

				bounded, cancel := context.WithTimeout(ctx, 60*time.Second)
				defer cancel()
				start = time.Now()
				require.NoError(t, b.Restart(ctx))
				t.Log("restart", time.Since(start))
				require.Equal(t, addr, b.Addr())
				if b.Kind() == kafka.Embedded {
					c = b.Client(t) // kfake forgets the sequence numbers of the old one's producer
				}
				require.NoError(t, c.Produce(ctx, records(topic, 10, 15)...))
				require.NoError(t, c.AwaitStable(bounded, topic))
				got, err := c.Read(ctx, kafka.ReadCommitted, topic)
				require.NoError(t, err)
				require.Equal(t, append(want(0, 5), want(10, 15)...), values(got))
				configs, err := c.TopicConfigs(ctx, topic)
				require.NoError(t, err)
				require.Equal(t, "7777777", configs["retention.ms"])
			})
		})
	}
}
