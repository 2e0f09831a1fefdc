package main

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/testkit"
	"github.com/wickerwork/wicker/testkit/kafka"
)

func TestWhoeverHasANameIsGreeted(t *testing.T) {
	plan, err := newPlan()
	require.NoError(t, err)
	kit := testkit.New(t, plan)
	in, out := kit.In(Names), kit.Out(Greetings)

	in.Push("1", "Ada")
	in.Push("2", "")
	in.Push("3", "Grace")

	var got []string
	for _, r := range out.Read() {
		got = append(got, r.Key+" "+r.Value)
	}
	require.Equal(t, []string{"1 Hello, Ada!", "3 Hello, Grace!"}, got)
}

func TestProgramPrintsEachGreetingOnce(t *testing.T) {
	kafka.Each(t, func(t *testing.T, b *kafka.Broker) {
		for range 2 { // on the same Kafka
			var out bytes.Buffer
			require.NoError(t, run(t.Context(), b.Addr(), &out))
			lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
			slices.SortFunc(lines, bytes.Compare) // of several partitions
			require.Equal(t, "1: Hello, Ada!\n3: Hello, Grace!\n4: Hello, Barbara!", string(bytes.Join(lines, []byte("\n"))))
		}
	})
}
