package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// anyone stands for every client or every node in a rule.
const anyone = -1

// direction is a way of the bytes on a connection.
type direction int

const (
	up   direction = 1 << iota // requests, to the broker
	down                       // answers
)

// rule is a disturbance of the connections between a client and a node, while it is in force.
type rule struct {
	slot, node int // anyone matches all
	on         direction
	// hold keeps bytes back until the rule is lifted, as a network does that drops packets: whoever
	// sent them goes on trying. refuse breaks connections as soon as it is known whose they are.
	hold, refuse bool
	// commits narrows a hold of requests down to those that end a transaction.
	commits bool
	// delay is how much later bytes arrive.
	delay time.Duration
}

func (r *rule) matches(l *link) bool {
	return (r.slot == anyone || r.slot == l.slot) && (r.node == anyone || r.node == l.node)
}

// proxy stands between the workers and the nodes: a listener for each node. It tells workers apart by the client id in
// a connection's first request, so that a single worker can be cut off. (That, and that it needs no
// dependencies of its own, is why it is not one of the proxies that there are.)
// It is safe for concurrent use.
type proxy struct {
	slotOf func(clientID string) int
	wg     sync.WaitGroup

	mu        sync.Mutex // guards what follows
	listeners []net.Listener
	links     map[*link]bool
	rules     []*rule
	changed   chan struct{} // closed and replaced when rules change
	closed    bool
}

// link is a connection from a client through the proxy to a node. Its slot is known before bytes are passed on.
type link struct {
	node, slot int
	near, far  net.Conn
	done       chan struct{}
	once       sync.Once
}

func newProxy(slotOf func(clientID string) int) *proxy {
	return &proxy{slotOf: slotOf, links: map[*link]bool{}, changed: make(chan struct{})}
}

// advertise begins to listen for a node and returns where. It is for ClusterOptions.Advertise.
func (p *proxy) advertise(node int, addr string) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	p.listeners = append(p.listeners, l)
	p.mu.Unlock()
	p.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(conn, node, addr) })
		}
	})
	return l.Addr().String(), nil
}

// addrs returns where clients connect to, by node.
func (p *proxy) addrs() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var addrs []string
	for _, l := range p.listeners {
		addrs = append(addrs, l.Addr().String())
	}
	return addrs
}

// close breaks all connections and returns when no goroutine is left.
func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	for _, l := range p.listeners {
		_ = l.Close()
	}
	for l := range p.links {
		l.cut()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// disturb puts a rule in force and returns what lifts it.
func (p *proxy) disturb(r rule) (lift func()) {
	added := &r
	p.change(func() { p.rules = append(p.rules, added) })
	if r.refuse {
		p.cut(r.slot, r.node)
	}
	return func() {
		p.change(func() {
			p.rules = slices.DeleteFunc(p.rules, func(r *rule) bool { return r == added })
		})
	}
}

func (p *proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

// cut breaks the connections between a client and a node, with what is under way on them, and returns how many
// there were.
func (p *proxy) cut(slot, node int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, r := 0, rule{slot: slot, node: node}
	for l := range p.links {
		if r.matches(l) {
			l.cut()
			n++
		}
	}
	return n
}

// endTxn is the number of the request that ends a transaction (KIP-98).
const endTxn = 26

// effect is what the rules do to bytes of a link that go in a direction; api is the request's number.
func (p *proxy) effect(l *link, d direction, api int16) (hold, refuse bool, delay time.Duration, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		if r.matches(l) && r.on&d != 0 && (!r.commits || api == endTxn) {
			hold, refuse, delay = hold || r.hold, refuse || r.refuse, max(delay, r.delay)
		}
	}
	return hold, refuse, delay, p.changed
}

// serve is the life of a connection.
func (p *proxy) serve(near net.Conn, node int, addr string) {
	l := &link{node: node, slot: anyone, near: near, done: make(chan struct{})}
	defer l.cut()
	// Until its client is known only rules for everyone apply.
	if !p.enter(l) {
		return
	}
	defer p.leave(l)
	first, id, err := clientID(near)
	if err != nil {
		return
	}
	p.mu.Lock()
	l.slot = p.slotOf(id)
	p.mu.Unlock()
	if _, refuse, _, _ := p.effect(l, up|down, -1); refuse {
		return
	}
	far, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return
	}
	p.mu.Lock()
	l.far = far
	p.mu.Unlock()
	select {
	case <-l.done: // cut meanwhile, when there was no other end to close
		_ = far.Close()
		return
	default:
	}
	var pumps sync.WaitGroup
	requests := &frames{r: io.MultiReader(bytes.NewReader(first), near)}
	pumps.Go(func() { p.pump(l, up, requests.next, far) })
	pumps.Go(func() {
		p.pump(l, down, func() ([]byte, int16, error) {
			b := make([]byte, maxChunk)
			n, err := far.Read(b)
			return b[:n], -1, err
		}, near)
	})
	pumps.Wait()
}

func (p *proxy) enter(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.links[l] = true
	return true
}

func (p *proxy) leave(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// cut breaks the link so that both ends notice: it is reset, not closed in order. The caller holds the proxy's mu or
// is the link's own goroutine, which has set far.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.done)
		for _, c := range []net.Conn{l.near, l.far} {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
				_ = tcp.Close()
			}
		}
	})
}

// chunk is bytes on their way.
type chunk struct {
	bytes []byte
	api   int16     // of the request that they belong to, -1 for an answer
	at    time.Time // of arrival
}

// maxChunk is the most bytes of a chunk.
const maxChunk = 32 << 10

// frames cuts a stream of requests into chunks, none of which has parts of two.
type frames struct {
	r    io.Reader
	left int // of the request
	api  int16
}

// next returns the next chunk.
func (f *frames) next() ([]byte, int16, error) {
	b := make([]byte, 0, 6)
	if f.left == 0 {
		b = b[:6] // size and number
		if _, err := io.ReadFull(f.r, b); err != nil {
			return nil, -1, err
		}
		if f.left = int(int32(binary.BigEndian.Uint32(b))) - 2; f.left < 0 {
			return nil, -1, fmt.Errorf("a request of %d bytes", f.left+2)
		}
		f.api = int16(binary.BigEndian.Uint16(b[4:]))
	}
	n := min(f.left, maxChunk)
	b = append(b, make([]byte, n)...)
	_, err := io.ReadFull(f.r, b[len(b)-n:])
	f.left -= n
	return b, f.api, err
}

// pump passes on what next returns until the link ends. It holds up to window chunks, so that a delay does not bound
// the throughput, and a held direction soon blocks the sender as a full window does.
func (p *proxy) pump(l *link, d direction, next func() ([]byte, int16, error), to net.Conn) {
	const window = 64
	chunks := make(chan chunk, window)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(chunks)
		for {
			b, api, err := next()
			if len(b) > 0 {
				select {
				case chunks <- chunk{b, api, time.Now()}:
				case <-l.done:
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	defer reader.Wait()
	defer p.end(l)
	for c := range chunks {
		for {
			hold, _, delay, changed := p.effect(l, d, c.api)
			var wait <-chan time.Time
			if !hold {
				left := time.Until(c.at.Add(delay))
				if left <= 0 {
					break
				}
				wait = time.After(left)
			}
			select {
			case <-changed:
			case <-wait:
			case <-l.done:
				return
			}
		}
		if _, err := to.Write(c.bytes); err != nil {
			return
		}
	}
}

// end cuts the link from one of its goroutines.
func (p *proxy) end(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.cut()
}

// clientID reads the beginning of a connection's first request, up to the client id in its header, and returns
// what it has read.
func clientID(conn io.Reader) (read []byte, id string, err error) {
	read = make([]byte, 14) // size, api key, version, correlation id, length of the client id
	if _, err := io.ReadFull(conn, read); err != nil {
		return nil, "", err
	}
	n := int(int16(binary.BigEndian.Uint16(read[12:])))
	if n < -1 {
		return nil, "", fmt.Errorf("a client id of %d bytes", n)
	}
	name := make([]byte, max(n, 0))
	if _, err := io.ReadFull(conn, name); err != nil {
		return nil, "", errors.Join(errors.New("client id"), err)
	}
	return append(read, name...), string(name), nil
}
