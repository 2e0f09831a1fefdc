package kafkalog

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"

	"github.com/wickerwork/wicker/exec/commitlog"
)

const (
	frameHeader = 8 // size and correlation id

	// A first answer is small. What looks larger is no Kafka: the size is the text of another
	// protocol. Later ones are bounded by what can be a fetch.
	maxHandshakeFrame = 1 << 20
	maxFrame          = 1 << 30
)

// versions is the range of versions that this package speaks of each call. Calls that it
// writes or reads itself are marked; the others are bounded by kafka-go's messages.
var versions = map[protocol.ApiKey]struct{ min, max int16 }{
	protocol.Produce:            {3, 8},          // own framing: lane.go
	protocol.Fetch:              {11, fetchByID}, // own message: fetch.go
	protocol.ListOffsets:        {2, 5},
	protocol.Metadata:           {4, metadataWithIDs}, // own message from there on: metadata.go
	protocol.OffsetFetch:        {7, 7},               // own message: offsets.go
	protocol.FindCoordinator:    {1, 2},
	protocol.JoinGroup:          {7, 7}, // own messages, these four: membership.go
	protocol.Heartbeat:          {4, 4},
	protocol.LeaveGroup:         {4, 4},
	protocol.SyncGroup:          {5, 5},
	protocol.SaslHandshake:      {1, 1},
	protocol.ApiVersions:        {0, 2},
	protocol.CreateTopics:       {4, 5},
	protocol.InitProducerId:     {3, 4},
	protocol.AddPartitionsToTxn: {0, 3},
	protocol.AddOffsetsToTxn:    {0, 3},
	protocol.EndTxn:             {0, 3},
	protocol.TxnOffsetCommit:    {3, 3},
	protocol.DescribeConfigs:    {1, 3},
	protocol.SaslAuthenticate:   {0, 1},
	protocol.DeleteRecords:      {2, 2}, // own message: admin.go
	describeProducers:           {0, 0}, // own messages, these two: opentxns.go
	listTransactions:            {0, 0},
}

// Calls that kafka-go has no name for.
const (
	describeProducers = protocol.ApiKey(61)
	listTransactions  = protocol.ApiKey(66)
)

// callName is the name of a call.
func callName(key protocol.ApiKey) string {
	switch key {
	case describeProducers:
		return "DescribeProducers"
	case listTransactions:
		return "ListTransactions"
	}
	return key.String()
}

// conn is one connection to one broker. Requests are written in the order of send and answered
// in that order; any number may be in flight. It is safe for concurrent use.
//
// One goroutine reads. It ends, and every unanswered call fails, when the connection breaks,
// when the oldest call waits longer than its timeout, or with close.
type conn struct {
	addr     string
	clientID string
	timeout  time.Duration
	nc       net.Conn
	br       *bufio.Reader // small: bodies are read past it into their own buffer
	offered  map[protocol.ApiKey]apiversions.ApiKeyResponse
	expires  time.Time // when the broker ends the SASL session; zero if never
	exited   chan struct{}
	noSASL   bool

	wmu  sync.Mutex // orders writes; taken before mu
	corr int32      // guarded by wmu

	mu      sync.Mutex // guards what follows
	pending []call     // unanswered, oldest first
	err     error      // why the connection is over
	limit   int        // of a frame's size
	answers int        // so far
}

// call is a request waiting for its answer. done runs on the reading goroutine (or on the one
// that sent, when sending fails) and must not block. frame begins with size and correlation id.
type call struct {
	corr    int32
	timeout time.Duration
	done    func(frame []byte, err error)
}

// dial connects, negotiates versions and authenticates. Its error is a *connError or, for
// refused credentials, a *commitlog.Error.
func dial(ctx context.Context, cfg *Config, addr string) (*conn, error) {
	inner, cancel := context.WithTimeout(ctx, cfg.OpenTimeout)
	defer cancel()
	c, err := dialWithin(inner, cfg, addr)
	if e, ok := errors.AsType[*connError](err); ok && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && cfg.TLS != nil {
		return nil, &connError{addr: addr, err: fmt.Errorf("no answer within %v: %w", cfg.OpenTimeout, e.err)}
	}
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, &connError{addr: addr, err: fmt.Errorf("no answer within %v", cfg.OpenTimeout)}
	}
	return c, err
}

func dialWithin(ctx context.Context, cfg *Config, addr string) (*conn, error) {
	nc, err := cfg.Dialer(ctx, "tcp", addr)
	if err != nil {
		return nil, &connError{addr: addr, err: err}
	}
	if tc, ok := nc.(*net.TCPConn); ok {
		_ = tc.SetNoDelay(true)
	}
	if cfg.TLS != nil {
		if nc, err = startTLS(ctx, cfg.TLS, nc, addr); err != nil {
			return nil, err
		}
	}
	c := &conn{addr: addr, clientID: cfg.ClientID, timeout: cfg.RequestTimeout, nc: nc,
		br: bufio.NewReaderSize(nc, 4096), exited: make(chan struct{}), noSASL: cfg.SASL == nil, limit: maxHandshakeFrame}
	go c.read()
	if err := c.handshake(ctx, cfg); err != nil {
		c.close()
		return nil, err
	}
	c.mu.Lock()
	c.limit = maxFrame
	c.mu.Unlock()
	return c, nil
}

func startTLS(ctx context.Context, cfg *tls.Config, nc net.Conn, addr string) (net.Conn, error) {
	cfg = cfg.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(addr)
	}
	tc := tls.Client(nc, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		_ = nc.Close()
		var record tls.RecordHeaderError
		var alert tls.AlertError
		_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
		_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
		switch {
		case errors.As(err, &record):
			return nil, &connError{addr: addr, fatal: true, err: fmt.Errorf("TLS: %w (is this listener one without TLS?)", err)}
		case unverified, unknown, errors.As(err, &alert):
			return nil, &connError{addr: addr, fatal: true, err: fmt.Errorf("TLS: %w", err)}
		}
		if hungUp(err) || errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w (is this listener one without TLS?)", err)
		}
		return nil, &connError{addr: addr, err: fmt.Errorf("TLS: %w", err)}
	}
	return tc, nil
}

// hungUp reports whether the other side closed the connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// hint adds a likely cause to a connection's error.
func hint(err error, text string) error {
	if e, ok := errors.AsType[*connError](err); ok {
		return &connError{addr: e.addr, fatal: e.fatal, err: fmt.Errorf("%w (%s)", e.err, text)}
	}
	return err
}

func (c *conn) handshake(ctx context.Context, cfg *Config) error {
	c.offered = map[protocol.ApiKey]apiversions.ApiKeyResponse{
		protocol.ApiVersions: {MaxVersion: 2}, protocol.SaslHandshake: {MaxVersion: 1}}
	msg, err := c.roundTrip(ctx, &apiversions.Request{})
	if err != nil {
		switch {
		case !hungUp(err):
		case cfg.TLS == nil && cfg.SASL == nil:
			err = hint(err, "does this listener expect TLS or SASL?")
		case cfg.TLS == nil:
			err = hint(err, "does this listener expect TLS?")
		case cfg.SASL == nil:
			err = hint(err, "does this listener expect SASL?")
		}
		return err
	}
	res := msg.(*apiversions.Response)
	if e := kafkaErr("negotiate versions", inCall, res.ErrorCode); e != nil {
		return e
	}
	offered := make(map[protocol.ApiKey]apiversions.ApiKeyResponse, len(res.ApiKeys))
	for _, k := range res.ApiKeys {
		offered[protocol.ApiKey(k.ApiKey)] = k
	}
	c.offered = offered
	if cfg.SASL != nil {
		return c.authenticate(ctx, cfg.SASL)
	}
	return nil
}

// version returns the newest version of a call that both sides speak.
func (c *conn) version(key protocol.ApiKey) (int16, error) {
	own := versions[key]
	theirs, ok := c.offered[key]
	if !ok {
		return 0, &commitlog.Error{Op: callName(key), Partition: -1, Code: codeUnsupportedVersion, Name: name(codeUnsupportedVersion),
			Err: fmt.Errorf("broker %s does not serve this call", c.addr)}
	}
	v := min(own.max, theirs.MaxVersion)
	if v < own.min || v < theirs.MinVersion {
		return 0, &commitlog.Error{Op: callName(key), Partition: -1, Code: codeUnsupportedVersion, Name: name(codeUnsupportedVersion),
			Err: fmt.Errorf("broker %s serves versions %d to %d, this client speaks %d to %d",
				c.addr, theirs.MinVersion, theirs.MaxVersion, own.min, own.max)}
	}
	return v, nil
}

// roundTrip sends one of kafka-go's messages and waits for the answer. The wait ends early
// with ctx; the answer is dropped then.
func (c *conn) roundTrip(ctx context.Context, req protocol.Message) (protocol.Message, error) {
	return c.roundTripFor(ctx, req, c.timeout)
}

// roundTripFor is roundTrip with a timeout for calls that the broker may hold.
func (c *conn) roundTripFor(ctx context.Context, req protocol.Message, timeout time.Duration) (protocol.Message, error) {
	key := req.ApiKey()
	v, err := c.version(key)
	if err != nil {
		return nil, err
	}
	v = min(v, key.MaxVersion()) // beyond it is what this package writes itself
	var b bytes.Buffer
	if err := protocol.WriteRequest(&b, v, 0, c.clientID, req); err != nil {
		return nil, &commitlog.Error{Op: key.String(), Partition: -1, Err: fmt.Errorf("encoding version %d: %w", v, err)}
	}
	frame, err := c.exchange(ctx, b.Bytes(), timeout)
	if err != nil {
		return nil, err
	}
	_, res, err := protocol.ReadResponse(bytes.NewReader(frame), key, v)
	if err != nil {
		c.fail(err)
		return nil, &connError{addr: c.addr, err: fmt.Errorf("answer to %s version %d: %w", key, v, err)}
	}
	return res, nil
}

// exchange sends one framed request, whose correlation id it fills in, and waits for the answer. When ctx has ended nothing is
// sent.
func (c *conn) exchange(ctx context.Context, request []byte, timeout time.Duration) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	type answer struct {
		frame []byte
		err   error
	}
	ch := make(chan answer, 1)
	c.send(net.Buffers{request}, timeout, func(frame []byte, err error) { ch <- answer{frame, err} })
	select {
	case a := <-ch:
		return a.frame, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// send writes one framed request, in as many pieces as bufs has. The first piece holds at
// least the frame's size, call, version and correlation id, which is filled in. It returns
// when everything is written; bufs' memory must not change before done is called.
func (c *conn) send(bufs net.Buffers, timeout time.Duration, done func(frame []byte, err error)) {
	c.wmu.Lock()
	c.corr++
	binary.BigEndian.PutUint32(bufs[0][8:], uint32(c.corr))
	c.mu.Lock()
	if err := c.err; err != nil {
		c.mu.Unlock()
		c.wmu.Unlock()
		done(nil, err)
		return
	}
	c.pending = append(c.pending, call{corr: c.corr, timeout: timeout, done: done})
	if len(c.pending) == 1 {
		_ = c.nc.SetReadDeadline(time.Now().Add(timeout))
	}
	c.mu.Unlock()
	_ = c.nc.SetWriteDeadline(time.Now().Add(timeout))
	_, err := bufs.WriteTo(c.nc)
	c.wmu.Unlock()
	if err != nil {
		c.fail(err)
	}
}

// read is the reading goroutine.
func (c *conn) read() {
	defer close(c.exited)
	for {
		frame, err := c.readFrame()
		if err != nil {
			c.fail(err)
			return
		}
		corr := int32(binary.BigEndian.Uint32(frame[4:]))
		c.mu.Lock()
		if len(c.pending) == 0 || c.pending[0].corr != corr {
			c.mu.Unlock()
			c.fail(fmt.Errorf("unexpected answer with correlation id %d", corr))
			return
		}
		done := c.pending[0].done
		c.pending[0] = call{}
		c.answers++
		if c.pending = c.pending[1:]; len(c.pending) == 0 {
			c.pending = nil
			_ = c.nc.SetReadDeadline(time.Time{})
		} else {
			_ = c.nc.SetReadDeadline(time.Now().Add(c.pending[0].timeout))
		}
		c.mu.Unlock()
		done(frame, nil)
	}
}

// readFrame reads one answer into memory of its own.
func (c *conn) readFrame() ([]byte, error) {
	var head [frameHeader]byte
	if _, err := io.ReadFull(c.br, head[:]); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head[:])))
	c.mu.Lock()
	limit := c.limit
	c.mu.Unlock()
	if size < 4 || size > limit {
		if head[0] == 0x15 && head[1] == 3 {
			return nil, errors.New("answered with a TLS alert: does this listener expect TLS?")
		}
		return nil, fmt.Errorf("answered with a frame of %d bytes, want 4 to %d: is it a Kafka broker?", size, limit)
	}
	frame := make([]byte, 4+size)
	copy(frame, head[:])
	if _, err := io.ReadFull(c.br, frame[frameHeader:]); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return frame, nil
}

// fail ends the connection for a reason and fails what is unanswered, in order.
func (c *conn) fail(err error) {
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("connection closed by the broker: %w", err)
	}
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		err = fmt.Errorf("no answer in time: %w", err)
	}
	c.mu.Lock()
	if c.err == nil {
		if c.noSASL && c.answers == 1 && len(c.pending) > 0 && hungUp(err) {
			err = fmt.Errorf("%w (does this listener expect SASL?)", err) // it says which calls it has, and no more
		}
		if _, ok := err.(*connError); !ok {
			err = &connError{addr: c.addr, err: err}
		}
		c.err = err
		_ = c.nc.Close()
	}
	err = c.err
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	for _, p := range pending {
		p.done(nil, err)
	}
}

// alive reports whether the connection can be used.
func (c *conn) alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil
}

// aged reports whether the SASL session ends soon, so that a new connection is due.
func (c *conn) aged() bool { return !c.expires.IsZero() && time.Now().After(c.expires) }

// close ends the connection and returns when its goroutine is gone. It must not be called
// from a done function.
func (c *conn) close() {
	c.fail(commitlog.ErrClosed)
	<-c.exited
}
