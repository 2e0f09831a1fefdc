package main

import (
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo is a server that sends back what it gets.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	return l.Addr().String()
}

// slotOfTest reads the number at the end of a client id.
func slotOfTest(id string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(id, "w-"))
	if err != nil {
		return anyone
	}
	return n
}

// request is the beginning of a request of a client.
func request(id string, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(10+len(id)+len(body)))
	b = append(b, 0, 3, 0, 9, 0, 0, 0, 1)
	b = binary.BigEndian.AppendUint16(b, uint16(len(id)))
	return append(append(b, id...), body...)
}

type peer struct {
	t *testing.T
	net.Conn
}

func connect(t *testing.T, addr, id string) peer {
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	p := peer{t, conn}
	p.send(request(id, ""))
	return p
}

func (p peer) send(b []byte) {
	p.t.Helper()
	_, err := p.Write(b)
	require.NoError(p.t, err)
}

// gets reads that many bytes; a timeout is an error of the connection.
func (p peer) gets(n int, within time.Duration) error {
	_ = p.SetReadDeadline(time.Now().Add(within))
	_, err := io.ReadFull(p, make([]byte, n))
	return err
}

func TestProxy(t *testing.T) {
	p := newProxy(slotOfTest)
	defer p.close()
	var addrs []string
	for node := range 2 {
		addr, err := p.advertise(node, echo(t))
		require.NoError(t, err)
		addrs = append(addrs, addr)
	}
	require.Equal(t, addrs, p.addrs())
	const long, short = 10 * time.Second, 30 * time.Millisecond
	header := len(request("w-1", ""))

	t.Run("pass", func(t *testing.T) {
		c := connect(t, addrs[0], "w-1")
		require.NoError(t, c.gets(header, long))
		big := request("w-1", string(make([]byte, 5<<20)))
		go func() { _, _ = c.Write(big) }()
		require.NoError(t, c.gets(len(big), long))
	})
	t.Run("cut", func(t *testing.T) {
		one, two, far := connect(t, addrs[0], "w-1"), connect(t, addrs[0], "w-2"), connect(t, addrs[1], "w-1")
		for _, c := range []peer{one, two, far} {
			require.NoError(t, c.gets(header, long))
		}
		require.Positive(t, p.cut(1, 0))
		require.Error(t, one.gets(1, long))
		for _, c := range []peer{two, far} {
			c.send(request("w-1", "x"))
			require.NoError(t, c.gets(header+1, long))
		}
	})
	for _, d := range []direction{up, down, up | down} {
		t.Run("hold", func(t *testing.T) {
			one, two := connect(t, addrs[0], "w-1"), connect(t, addrs[0], "w-2")
			require.NoError(t, one.gets(header, long))
			require.NoError(t, two.gets(header, long))
			lift := p.disturb(rule{slot: 1, node: anyone, on: d, hold: true})
			late := connect(t, addrs[1], "w-1") // is held too
			one.send(request("w-1", "abc"))
			two.send(request("w-1", "x"))
			require.NoError(t, two.gets(header+1, long))
			require.ErrorContains(t, one.gets(1, short), "timeout")
			require.ErrorContains(t, late.gets(1, short), "timeout")
			lift()
			require.NoError(t, one.gets(header+3, long))
			require.NoError(t, late.gets(header, long))
		})
	}
	t.Run("hold commits", func(t *testing.T) {
		c := connect(t, addrs[0], "w-1")
		require.NoError(t, c.gets(header, long))
		lift := p.disturb(rule{slot: 1, node: anyone, on: up, hold: true, commits: true})
		c.send(request("w-1", "abc"))
		require.NoError(t, c.gets(header+3, long))
		commit := request("w-1", "abc")
		commit[5] = endTxn
		c.send(append(commit, request("w-1", "")...))
		require.ErrorContains(t, c.gets(1, short), "timeout")
		lift()
		require.NoError(t, c.gets(2*header+3, long))
	})
	t.Run("refuse", func(t *testing.T) {
		old := connect(t, addrs[0], "w-1")
		require.NoError(t, old.gets(header, long))
		lift := p.disturb(rule{slot: 1, node: 0, on: up | down, refuse: true})
		require.Error(t, old.gets(1, long))
		require.Error(t, connect(t, addrs[0], "w-1").gets(1, long))
		require.NoError(t, connect(t, addrs[0], "w-2").gets(header, long))
		lift()
		require.NoError(t, connect(t, addrs[0], "w-1").gets(header, long))
	})
	t.Run("delay", func(t *testing.T) {
		lift := p.disturb(rule{slot: anyone, node: 1, on: down, delay: 50 * time.Millisecond})
		defer lift()
		c := connect(t, addrs[1], "w-1")
		start := time.Now()
		require.NoError(t, c.gets(header, long))
		require.GreaterOrEqual(t, time.Since(start), 50*time.Millisecond)
	})
	t.Run("dead", func(t *testing.T) {
		addr, err := p.advertise(2, "127.0.0.1:1") // nobody listens
		require.NoError(t, err)
		require.Error(t, connect(t, addr, "w-1").gets(1, long))
	})
}
