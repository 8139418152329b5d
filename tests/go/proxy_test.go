package clients

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// proxy is a way to the server that can be cut: every connection at once, without a word to either side.
type proxy struct {
	listener net.Listener
	server   string
	lock     sync.Mutex
	open     map[net.Conn]bool
	taken    int
}

func newProxy(t *testing.T) *proxy {
	target := must(url.Parse(config(asJSON).Host))(t)
	p := &proxy{listener: must(net.Listen("tcp", "127.0.0.1:0"))(t), server: target.Host, open: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = p.listener.Close(); p.cut() })
	go func() {
		for {
			conn, err := p.listener.Accept()
			if err != nil {
				return
			}
			go p.carry(conn)
		}
	}()
	return p
}

func (p *proxy) carry(client net.Conn) {
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		_ = client.Close()
		return
	}
	p.keep(client, server)
	go func() { _, _ = io.Copy(server, client); p.drop(client, server) }()
	_, _ = io.Copy(client, server)
	p.drop(client, server)
}

func (p *proxy) keep(conns ...net.Conn) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.taken++
	for _, conn := range conns {
		p.open[conn] = true
	}
}

func (p *proxy) drop(conns ...net.Conn) {
	p.lock.Lock()
	defer p.lock.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
		delete(p.open, conn)
	}
}

// cut ends every connection with a reset.
func (p *proxy) cut() {
	p.lock.Lock()
	defer p.lock.Unlock()
	for conn := range p.open {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
		delete(p.open, conn)
	}
}

// connections is how many were made so far.
func (p *proxy) connections() int {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.taken
}

// through is the configuration of a client that goes this way.
func (p *proxy) through(e encoding) *rest.Config {
	c := config(e)
	from, err := url.Parse(c.Host)
	if err != nil {
		panic(err)
	}
	from.Host = p.listener.Addr().String()
	c.Host = from.String()
	return c
}
