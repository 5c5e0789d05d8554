package certificates

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
)

// egress is the configuration of an API server that reaches Services through a tunnel.
const egress = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds:
        udsName: %s
`

// tunnel stands in for kube-proxy: the API server dials the addresses of Services through it, and it leads each to a port of
// the loopback interface. So webhooks are reached as they are rendered: by Service, and checked by its name.
type tunnel struct {
	dir      string
	listener net.Listener

	mu      sync.Mutex
	targets map[string]string // address of a Service and its port → where that really is
	open    map[net.Conn]struct{}
	dialed  int
}

// newTunnel listens on a socket and returns the file that tells the API server of it as well.
func newTunnel() (t *tunnel, configuration string, err error) {
	t = &tunnel{targets: map[string]string{}, open: map[net.Conn]struct{}{}}
	if t.dir, err = os.MkdirTemp("", "kruntimes-tunnel-"); err != nil {
		return nil, "", err
	}
	socket := filepath.Join(t.dir, "socket")
	if t.listener, err = net.Listen("unix", socket); err != nil {
		return nil, "", err
	}
	go t.serve()
	configuration = filepath.Join(t.dir, "egress.yaml")
	return t, configuration, os.WriteFile(configuration, fmt.Appendf(nil, egress, socket), 0o600)
}

// lead has connections to a Service end at target.
func (t *tunnel) lead(service, target string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.targets[service] = target
}

// cut ends all connections, so that new ones have to be made, and says how many there were.
func (t *tunnel) cut() (ended int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for conn := range t.open {
		_ = conn.Close() // both ends see it
	}
	ended = len(t.open)
	clear(t.open)
	return ended
}

// connections is how many connections have been led so far.
func (t *tunnel) connections() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dialed
}

func (t *tunnel) close() error {
	_ = t.listener.Close() // it is removed next
	t.cut()
	return os.RemoveAll(t.dir)
}

func (t *tunnel) serve() {
	for {
		conn, err := t.listener.Accept()
		if err != nil {
			return // it is closed
		}
		go t.connect(conn)
	}
}

// connect answers one CONNECT request and copies bytes until one of the ends is closed.
func (t *tunnel) connect(conn net.Conn) {
	defer conn.Close()
	from := bufio.NewReader(conn)
	request, err := http.ReadRequest(from)
	if err != nil {
		return
	}
	t.mu.Lock()
	target := t.targets[request.Host]
	t.mu.Unlock()
	to, err := net.Dial("tcp", target)
	if err != nil {
		fmt.Fprintf(conn, "HTTP/1.1 502 nothing behind %s: %v\r\n\r\n", request.Host, err)
		return
	}
	defer to.Close()
	t.mu.Lock()
	t.open[conn] = struct{}{}
	t.dialed++
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		delete(t.open, conn)
		t.mu.Unlock()
	}()
	if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	done := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(to, from); done <- struct{}{} }()
	go func() { _, _ = io.Copy(conn, to); done <- struct{}{} }()
	<-done
}
