package main

import (
	"bytes"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// A second process joins while the first is at work, and takes its share over: the outputs are
// as a plain program has them, and between them the processes ask for each plane once.
func TestSecondInstanceJoinsTheFirst(t *testing.T) {
	b := kafka.StartReal(t, kafka.Options{})
	want := expect(t)
	dir := t.TempDir()
	logs := map[string]string{"a": filepath.Join(dir, "asked-a"), "b": filepath.Join(dir, "asked-b")}
	ended := make(chan error, 2)
	outputs := map[string]*bytes.Buffer{}
	start := func(instance, delay string) {
		cmd := program(t, "-brokers", b.Addr(), "-dir", dir, "-instance", instance, "-delay", delay, "-asked-log", logs[instance])
		out := &bytes.Buffer{}
		outputs[instance] = out
		cmd.Stdout, cmd.Stderr = out, out
		require.NoError(t, cmd.Start())
		go func() { ended <- cmd.Wait() }()
	}
	start("a", "400ms") // alone it would need 16 s
	for calls(logs["a"]) < 200 {
		require.Empty(t, ended)
		time.Sleep(2 * time.Millisecond)
	}
	start("b", "1ms")
	errs := []error{<-ended, <-ended}
	for instance, out := range outputs {
		t.Logf("instance %s:\n%s", instance, out)
	}
	require.Equal(t, []error{nil, nil}, errs)
	for _, out := range outputs {
		want.checkTable(t, out.String())
	}
	want.checkTopics(t, b)
	asked := askedOf(t, logs["a"])
	for tail, n := range askedOf(t, logs["b"]) {
		asked[tail] += n
	}
	once := maps.Clone(asked)
	for tail := range once {
		once[tail] = 1
	}
	require.Equal(t, once, asked)
	require.Len(t, asked, len(want.tails))
	require.NotEmpty(t, askedOf(t, logs["b"]), "the second had nothing to do")
}
