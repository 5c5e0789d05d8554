// Package control carries messages between the runtime server and a supervisor: the messages of the runtime contract
// themselves, each behind its length, over a pair of connected unix sockets, with file descriptors beside them.
//
// The end of the connection is a message too. Each side holds the only copy of its end, so a side that dies, however it
// dies, is noticed by the other at once.
package control

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

const (
	// maxMessage is far above what the kernel takes as arguments and environment of a process.
	maxMessage = 64 << 20
	// maxFiles is how many descriptors travel with one message at most.
	maxFiles = 4
	prefix   = 4
)

// Conn is one end. One goroutine may receive while others send.
type Conn struct {
	unix    *net.UnixConn
	sending sync.Mutex
}

// Pair returns a connected pair: an open end, and the file of the other end, to be handed to a child.
func Pair() (*Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a socket pair: %w", err)
	}
	remote := os.NewFile(uintptr(fds[1]), "control")
	conn, err := Open(uintptr(fds[0]))
	if err != nil {
		_ = remote.Close()
		return nil, nil, err
	}
	return conn, remote, nil
}

// Open takes over the socket fd as one end.
func Open(fd uintptr) (*Conn, error) {
	file := os.NewFile(fd, "control")
	if file == nil {
		return nil, fmt.Errorf("opening control descriptor %d: %w", fd, os.ErrInvalid)
	}
	defer func() { _ = file.Close() }() // net keeps a copy of its own.
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("opening control descriptor %d: %w", fd, err)
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("opening control descriptor %d: it is no unix socket", fd)
	}
	return &Conn{unix: socket}, nil
}

// Close closes this end.
func (c *Conn) Close() error { return c.unix.Close() }

// Send sends m and, beside it, copies of the given descriptors.
func (c *Conn) Send(m proto.Message, fds ...int) error {
	frame, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, prefix, 512), m)
	if err != nil {
		return fmt.Errorf("encoding control message: %w", err)
	}
	size := len(frame) - prefix
	if size > maxMessage {
		return fmt.Errorf("sending control message of %d bytes: more than %d", size, maxMessage)
	}
	binary.BigEndian.PutUint32(frame, uint32(size))
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	n, _, err := c.unix.WriteMsgUnix(frame, rights, nil)
	if err == nil && n < len(frame) {
		_, err = c.unix.Write(frame[n:])
	}
	if err != nil {
		return fmt.Errorf("sending control message: %w", err)
	}
	return nil
}

// IsGone tells whether an error of Send means that the other side is gone.
func IsGone(err error) bool { return errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) }

// Receive reads the next message into m and returns the descriptors that came beside it; the caller closes them. It
// returns io.EOF when the other side is gone.
func (c *Conn) Receive(m proto.Message) ([]int, error) {
	var head [prefix]byte
	oob := make([]byte, unix.CmsgSpace(maxFiles*4))
	n, oobn, _, _, err := c.unix.ReadMsgUnix(head[:], oob)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, ended(err)
	}
	fds, err := rightsIn(oob[:oobn])
	if err != nil {
		return nil, err
	}
	if err := c.receiveRest(m, head, n); err != nil {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		return nil, err
	}
	return fds, nil
}

func (c *Conn) receiveRest(m proto.Message, head [prefix]byte, have int) error {
	if _, err := io.ReadFull(c.unix, head[have:]); err != nil {
		return ended(err)
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxMessage {
		return fmt.Errorf("receiving control message of %d bytes: more than %d", size, maxMessage)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c.unix, body); err != nil {
		return ended(err)
	}
	if err := proto.Unmarshal(body, m); err != nil {
		return fmt.Errorf("decoding control message: %w", err)
	}
	return nil
}

// ended makes one error of the ways in which a unix socket tells that the other side is gone.
func ended(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, net.ErrClosed) {
		return io.EOF
	}
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return fmt.Errorf("receiving control message: %w", err)
}

func rightsIn(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("parsing control descriptors: %w", err)
	}
	var fds []int
	for i := range messages {
		some, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, fmt.Errorf("parsing control descriptors: %w", err)
		}
		fds = append(fds, some...)
	}
	return fds, nil
}
