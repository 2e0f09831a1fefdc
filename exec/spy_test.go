package exec_test

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec"
	"github.com/wickerwork/wicker/exec/commitlog"
	"github.com/wickerwork/wicker/exec/kafkalog"
	"github.com/wickerwork/wicker/testkit/kafka"
)

// spy is an instance's way to a broker. It notes calls in the order they begin, and may hold them or make them fail.
type spy struct {
	commitlog.Log
	// before, if not nil, is called with each call before it is made, on the caller's goroutine: an error is the call's.
	before func(ctx context.Context, call string) error
	// assign, if not nil, stands in for the assignor.
	assign commitlog.Assignor
	mu     sync.Mutex
	calls  []string
}

func newSpy(t testing.TB, b *kafka.Broker) *spy {
	t.Helper()
	l, err := kafkalog.Open(t.Context(), kafkalog.Config{Brokers: []string{b.Addr()}})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return &spy{Log: l}
}

// on has an instance use it.
func (s *spy) on(c *exec.Config) { c.Log = s }

func (s *spy) note(ctx context.Context, call string) error {
	s.mu.Lock()
	s.calls = append(s.calls, call)
	s.mu.Unlock()
	if s.before == nil {
		return nil
	}
	return s.before(ctx, call)
}

// index returns which call it was, the first of that kind, -1 if there was none.
func (s *spy) index(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Index(s.calls, call)
}

// count returns how many calls there were of a kind.
func (s *spy) count(call string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c == call {
			n++
		}
	}
	return n
}

// EndOffsets is the call "ends <topic>", for each topic.
func (s *spy) EndOffsets(ctx context.Context, tps []commitlog.TopicPartition, iso commitlog.Isolation) (map[commitlog.TopicPartition]int64, error) {
	for _, tp := range tps {
		if err := s.note(ctx, "ends "+tp.Topic); err != nil {
			return nil, err
		}
	}
	return s.Log.EndOffsets(ctx, tps, iso)
}

// OpenReader is the call "read <topic>/<partition>", for each partition.
func (s *spy) OpenReader(ctx context.Context, cfg commitlog.ReaderConfig) (commitlog.Reader, error) {
	for tp := range cfg.From {
		if err := s.note(ctx, "read "+tp.String()); err != nil {
			return nil, err
		}
	}
	return s.Log.OpenReader(ctx, cfg)
}

// OpenProducer is the call "fence <transactional id>".
func (s *spy) OpenProducer(ctx context.Context, cfg commitlog.ProducerConfig) (commitlog.Producer, error) {
	if err := s.note(ctx, "fence "+cfg.TransactionalID); err != nil {
		return nil, err
	}
	p, err := s.Log.OpenProducer(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &spiedProducer{p, s, cfg.TransactionalID}, nil
}

// OpenMember puts another assignor in, if there is one.
func (s *spy) OpenMember(ctx context.Context, cfg commitlog.MemberConfig) (commitlog.Member, error) {
	if s.assign != nil {
		cfg.Assign = s.assign
	}
	return s.Log.OpenMember(ctx, cfg)
}

type spiedProducer struct {
	commitlog.Producer
	s  *spy
	id string
}

// Commit is the call "commit <transactional id>".
func (p *spiedProducer) Commit(ctx context.Context, offsets map[commitlog.TopicPartition]int64, as commitlog.Identity) (map[commitlog.TopicPartition]int64, error) {
	if err := p.s.note(ctx, "commit "+p.id); err != nil {
		return nil, err
	}
	return p.Producer.Commit(ctx, offsets, as)
}

// journal is what an instance logs.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *journal) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// on has an instance log there.
func (l *journal) on(c *exec.Config) { c.Logger = slog.New(slog.NewJSONHandler(l, nil)) }

// find returns the first line with a message, nil if there is none.
func (l *journal) find(t testing.TB, message string) map[string]any {
	t.Helper()
	l.mu.Lock()
	text := l.buf.String()
	l.mu.Unlock()
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields), line)
		if fields["msg"] == message {
			return fields
		}
	}
	return nil
}

// quick is a clock that goes ten times as fast.
type quick struct{ began time.Time }

func newQuick() quick { return quick{time.Now()} }

func (q quick) Now() time.Time { return q.began.Add(10 * time.Since(q.began)) }

func (q quick) NewTimer(d time.Duration) exec.Timer { return quickTimer{time.NewTimer(d / 10)} }

type quickTimer struct{ t *time.Timer }

func (q quickTimer) C() <-chan time.Time   { return q.t.C }
func (q quickTimer) Reset(d time.Duration) { q.t.Reset(d / 10) }
func (q quickTimer) Stop()                 { q.t.Stop() }
