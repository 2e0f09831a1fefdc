package kafka_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// TestCluster has one cluster for all: starting it takes many seconds.
func TestCluster(t *testing.T) {
	var mu sync.Mutex
	through := map[int]int{} // connections by node
	var second []string      // what nodes advertise
	c := kafka.StartCluster(t, kafka.ClusterOptions{Partitions: 6, Advertise: func(node int, addr string) (string, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				near, err := l.Accept()
				if err != nil {
					return
				}
				mu.Lock()
				through[node]++
				mu.Unlock()
				go relay(near, addr)
			}
		}()
		second = append(second, l.Addr().String())
		return l.Addr().String(), nil
	}})
	ctx, cl, topic := t.Context(), c.Client(t), kafka.Name(t)
	require.Len(t, c.Addrs(), 3)
	require.NoError(t, cl.CreateTopic(ctx, topic, 0, nil))
	require.NoError(t, cl.Produce(ctx, records(topic, 0, 100)...))
	require.NoError(t, c.AwaitInSync(ctx))
	mu.Lock()
	require.Empty(t, through, "Dial goes past the proxy")
	mu.Unlock()

	// Who comes through the second listener is told of second listeners only.
	other, err := kgo.NewClient(kgo.SeedBrokers(second[1]))
	require.NoError(t, err)
	for id := range int32(3) {
		_, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, other.Broker(int(id+1)))
		require.NoError(t, err)
	}
	other.Close()
	mu.Lock()
	require.Len(t, through, 3)
	mu.Unlock()

	// What was written is there whatever happens to one of the nodes, and writing goes on.
	at := 100
	check := func(t *testing.T) {
		t.Helper()
		bounded, cancel := context.WithTimeout(ctx, 3*time.Minute)
		defer cancel()
		var txn *kafka.Txn
		for {
			var err error
			txn, err = cl.Begin(bounded, topic)
			require.NoError(t, err)
			if err = txn.Produce(bounded, records(topic, at, at+100)...); err == nil {
				break
			}
			require.True(t, errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch), "%v", err)
			// A Begin that was given up for lost and sent again can be carried out late, and fences the one after it.
			require.NoError(t, bounded.Err(), "%v", err)
			t.Logf("begun anew: %v", err)
			txn.Abandon()
		}
		require.NoError(t, txn.Commit(bounded))
		at += 100
		require.NoError(t, cl.AwaitStable(bounded, topic))
		got, err := cl.Read(bounded, kafka.ReadCommitted, topic)
		require.NoError(t, err)
		require.ElementsMatch(t, want(0, at), values(got))
	}
	for node, fault := range []struct {
		name       string
		begin, end func() error
	}{
		{"kill", func() error { return c.Kill(0) }, func() error { return c.Restart(ctx, 0) }},
		{"stop", func() error { return c.Stop(1) }, func() error { return c.Restart(ctx, 1) }},
		{"pause", func() error { return c.Pause(2) }, func() error { return c.Resume(2) }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			require.NoError(t, fault.begin())
			start := time.Now()
			check(t)
			t.Logf("without node %d: %v", node, time.Since(start))
			start = time.Now()
			require.NoError(t, fault.end())
			require.NoError(t, c.AwaitInSync(ctx))
			t.Logf("back and in sync: %v", time.Since(start))
			check(t)
		})
	}
	require.ErrorContains(t, c.Kill(3), "testkit/kafka: kill node 3: there are 3, from 0 on")
	require.NoError(t, c.Resume(0))
}

// relay copies between a connection and an address until one of them ends.
func relay(near net.Conn, addr string) {
	defer near.Close()
	far, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer far.Close()
	go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
	_, _ = io.Copy(near, far)
}

func TestClusterValidate(t *testing.T) {
	_, err := kafka.OpenCluster(t.Context(), kafka.ClusterOptions{Nodes: 10, Partitions: -1})
	require.EqualError(t, err, "testkit/kafka: Nodes (10) must be from 1 to 9\nPartitions (-1) must be >= 1")
	require.NoError(t, kafka.ClusterOptions{}.Validate())
}
