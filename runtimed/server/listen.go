package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

const (
	// maxConnections bounds what user code, which can reach the socket, can make runtimed hold open.
	maxConnections = 32
	// maxMessage is far above what the contract lets a server send. Unit: bytes.
	maxMessage = 1024 * 1024
	// streamWindow bounds what is read ahead of a slow log reader. Setting it also turns gRPC's growing windows off.
	// Unit: bytes.
	streamWindow = 256 * 1024
)

// Listen opens the unix socket, in place of one that an earlier runtimed left.
func Listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing the old socket: %w", err)
	}
	l, err := listenUnix(path)
	if err != nil {
		return nil, fmt.Errorf("listening for the runtime server: %w", err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(fmt.Errorf("setting the mode of the socket: %w", err), l.Close())
	}
	return &boundedListener{Listener: l}, nil
}

// maxSocketPath is how long the address of a unix socket may be.
const maxSocketPath = 107

// listenUnix listens at path, however long that is: a longer one is named by way of its directory.
func listenUnix(path string) (net.Listener, error) {
	if len(path) <= maxSocketPath {
		return net.Listen("unix", path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
	return l, errors.Join(err, dir.Close())
}

// Serve accepts runtime servers on l until ctx ends.
func (c *Connection) Serve(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(2),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(streamWindow),
		grpc.ConnectionTimeout(helloTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 10 * time.Second}),
	)
	runtimev1.RegisterRuntimedServiceServer(server, c)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving the runtime server: %w", err)
	}
	return nil
}

// boundedListener closes connections beyond maxConnections at once.
type boundedListener struct {
	net.Listener
	open atomic.Int32
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= maxConnections {
			return &countedConn{Conn: conn, open: &l.open}, nil
		}
		l.open.Add(-1)
		_ = conn.Close() // a stranger too many; there is nobody to tell
	}
}

// countedConn counts itself down when it is closed for the first time.
type countedConn struct {
	net.Conn
	open   *atomic.Int32
	closed atomic.Bool
}

func (c *countedConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}
