package kafkalog

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// Config says how to reach a cluster. The zero value of every field but Brokers is usable.
type Config struct {
	// Brokers are the addresses, host:port, of which one has to answer. Required.
	Brokers []string
	// ClientID names this program in the broker's logs and quotas. Default "wicker".
	ClientID string
	// TLS, if not nil, is used for every connection. ServerName defaults to the broker's host.
	TLS *tls.Config
	// SASL, if not nil, authenticates every connection.
	SASL *SASL
	// Dialer opens connections. Default is net.Dialer with a timeout of OpenTimeout.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger receives what is worth knowing in operation: fetches and batches that are tried
	// again and why, lost memberships. It is called with locks held and must not block.
	// Default discards.
	Logger *slog.Logger
	// RequestTimeout bounds one request, from the moment it is written to its answer. Default
	// 10 s. Fetches and joins wait longer by what they ask the broker to wait.
	RequestTimeout time.Duration
	// OpenTimeout bounds how long Open looks for a broker that answers, and how long one
	// connection may take to be made. Default 5 s.
	OpenTimeout time.Duration
	// RetryTimeout bounds how long a call is repeated while it meets retriable errors, counted
	// from the first of them: a restart of a broker should fit. Default 60 s.
	RetryTimeout time.Duration
}

// SASL mechanisms.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// SASL holds a mechanism and its credentials. Printing it in any way shows no password.
type SASL struct {
	// Mechanism is Plain, ScramSHA256 or ScramSHA512.
	Mechanism string
	Username  string
	Password  string
}

// String returns the mechanism and the user's name.
func (s SASL) String() string {
	return fmt.Sprintf("%s user %q (password redacted)", s.Mechanism, s.Username)
}

// GoString returns what String does.
func (s SASL) GoString() string { return s.String() }

// Format writes what String returns, whatever the verb.
func (s SASL) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue returns what String does.
func (s SASL) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON returns what String does, as a JSON string.
func (s SASL) MarshalJSON() ([]byte, error) { return strconv.AppendQuote(nil, s.String()), nil }

// maxClientID is the longest string that a request can hold.
const maxClientID = math.MaxInt16

// Validate reports everything that is wrong with c, joined.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(c.Brokers) == 0 {
		bad("Brokers is empty: at least one host:port is needed")
	}
	if len(c.ClientID) > maxClientID {
		bad("ClientID (%d bytes) must be <= %d bytes", len(c.ClientID), maxClientID)
	}
	for _, b := range c.Brokers {
		host, port, err := net.SplitHostPort(b)
		n, perr := strconv.Atoi(port)
		if err != nil || host == "" || perr != nil || n < 1 || n > 65535 {
			bad("Brokers (%q) must be host:port with a port of 1 to 65535", b)
		}
	}
	if s := c.SASL; s != nil {
		if !slices.Contains([]string{Plain, ScramSHA256, ScramSHA512}, s.Mechanism) {
			bad("SASL.Mechanism (%q) must be %s, %s or %s", s.Mechanism, Plain, ScramSHA256, ScramSHA512)
		}
		if s.Username == "" || s.Password == "" {
			bad("SASL.Username and SASL.Password must not be empty")
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"RequestTimeout", c.RequestTimeout}, {"OpenTimeout", c.OpenTimeout}, {"RetryTimeout", c.RetryTimeout}} {
		if d.value < 0 {
			bad("%s (%v) must be >= 0", d.name, d.value)
		}
	}
	errs = append(errs, commitlog.CheckTimeout("RequestTimeout", c.RequestTimeout)) // brokers are told a share of it
	return errors.Join(errs...)
}

// withDefaults returns c with its zero fields filled in.
func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.RequestTimeout, defaultRequestTimeout)
	def(&c.OpenTimeout, defaultOpenTimeout)
	def(&c.RetryTimeout, defaultRetryTimeout)
	if c.ClientID == "" {
		c.ClientID = "wicker"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Dialer == nil {
		d := &net.Dialer{Timeout: c.OpenTimeout, KeepAlive: keepAlive}
		c.Dialer = d.DialContext
	}
	c.Brokers = slices.Clone(c.Brokers)
	return c
}
