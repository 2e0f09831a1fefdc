package kafka

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"
	"testing"
)

// StartEmbedded is [OpenEmbedded] for a test, which it ends with.
func StartEmbedded(tb testing.TB, o Options) *Broker {
	tb.Helper()
	return start(tb, Embedded, o)
}

// StartReal is [OpenReal] for a test, which it ends with. Where a real broker cannot be run the
// test is skipped; with REQUIRE_KAFKA=1 in the environment it fails.
func StartReal(tb testing.TB, o Options) *Broker {
	tb.Helper()
	return start(tb, Real, o)
}

func start(tb testing.TB, kind string, o Options) *Broker {
	tb.Helper()
	b, err := open(context.Background(), kind, o)
	unavailable(tb, err)
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("log of the %s broker at %s:\n%s", b.Kind(), b.Addr(), b.Log())
		}
		if err := b.Close(); err != nil {
			tb.Error(err)
		}
	})
	return b
}

// unavailable ends the test if there is an error: skipped if the machine cannot run a real
// broker and need not.
func unavailable(tb testing.TB, err error) {
	tb.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrUnavailable) && os.Getenv("REQUIRE_KAFKA") != "1":
		tb.Skipf("SKIP: %v", err)
	default:
		tb.Fatal(err)
	}
}

// shared is the real broker of this test process. It is a variable because it has to outlive
// each of the tests that share it; mu guards it.
var shared struct {
	mu     sync.Mutex
	broker *Broker
	err    error
}

// Shared returns a real broker that the tests of a run have in common: the one whose address
// is in WICKER_KAFKA, or else one that the first call starts for this process. Tests use
// names of their own on it, see [Name], and leave it running. Where there can be none the
// test is skipped, or fails, as with [StartReal].
func Shared(tb testing.TB) *Broker {
	tb.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.broker == nil && shared.err == nil {
		if addr := os.Getenv("WICKER_KAFKA"); addr != "" {
			shared.broker, shared.err = Attach(context.Background(), addr)
		} else {
			shared.broker, shared.err = OpenReal(context.Background(), Options{})
		}
	}
	unavailable(tb, shared.err)
	return shared.broker
}

// CloseShared ends the broker that [Shared] has started, if it has. Without it the broker ends
// with the process; it is for the TestMain of a package that looks for leaks.
func CloseShared() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.broker == nil {
		return nil
	}
	err := shared.broker.Close()
	shared.broker = nil
	return err
}

// Each runs f as a test on an embedded broker of its own and as one on the shared real broker.
// f must not kill it.
func Each(t *testing.T, f func(t *testing.T, b *Broker)) {
	t.Helper()
	t.Run(Embedded, func(t *testing.T) { f(t, StartEmbedded(t, Options{})) })
	t.Run(Real, func(t *testing.T) { f(t, Shared(t)) })
}

// EachOwn runs f as a test on an embedded broker and as one on a real broker, both of its own,
// with the options. f may kill it.
func EachOwn(t *testing.T, o Options, f func(t *testing.T, b *Broker)) {
	t.Helper()
	t.Run(Embedded, func(t *testing.T) { f(t, StartEmbedded(t, o)) })
	t.Run(Real, func(t *testing.T) { f(t, StartReal(t, o)) })
}

var notInName = regexp.MustCompile(`[^a-zA-Z0-9]+`)

// Name returns a name that no other call has returned on this broker, for topics, groups and
// applications. It begins as the test's name does and has at most 64 bytes.
func Name(tb testing.TB) string {
	name := notInName.ReplaceAllString(tb.Name(), "-")
	return fmt.Sprintf("%s-%s", name[:min(len(name), 64-11)], rand.Text()[:10])
}

// Client returns a client of the broker that ends with the test.
func (b *Broker) Client(tb testing.TB) *Client {
	tb.Helper()
	c, err := b.Dial()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}
