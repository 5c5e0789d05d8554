package runtimeserver

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

const (
	// maxOutput is the most bytes of one Output.
	maxOutput = 32 << 10
	// drainTime is how long output is still waited for when no process of the execution is left. Only a process
	// outside of the execution that was handed the pipe can make use of it.
	drainTime = time.Second
	// maxLeftover is what a pipe can hold at most (fs.pipe-max-size); it is read after drainTime without waiting.
	maxLeftover = 1 << 20
)

var buffers = sync.Pool{New: func() any { return new([maxOutput]byte) }}

// output reads one output stream of an execution.
type output struct {
	stream runtimev1.OutputStream
	pipe   *os.File
}

// newOutput makes a pipe and returns its reader, and the descriptor for the process to write to.
func newOutput(stream runtimev1.OutputStream) (*output, int, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, 0, fmt.Errorf("making a pipe: %w", err)
	}
	// Only our end: the process shall find a pipe that blocks.
	if err := unix.SetNonblock(fds[0], true); err != nil {
		_ = unix.Close(fds[0])
		_ = unix.Close(fds[1])
		return nil, 0, fmt.Errorf("making a pipe: %w", err)
	}
	return &output{stream: stream, pipe: os.NewFile(uintptr(fds[0]), "output")}, fds[1], nil
}

// copyTo hands everything that is written to emit, in order and at most maxOutput bytes at a time, until the end or
// until emit reports false. emit must not keep what it is given.
func (o *output) copyTo(emit func([]byte) bool) {
	defer func() { _ = o.pipe.Close() }()
	buffer := buffers.Get().(*[maxOutput]byte)
	defer buffers.Put(buffer)
	for {
		n, err := o.pipe.Read(buffer[:])
		if n > 0 && !emit(buffer[:n]) {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			o.copyLeftover(buffer, emit)
			return
		}
		if err != nil {
			return
		}
	}
}

// copyLeftover takes what lies in the pipe. It may be much when emit was held up for longer than drainTime.
func (o *output) copyLeftover(buffer *[maxOutput]byte, emit func([]byte) bool) {
	raw, err := o.pipe.SyscallConn()
	if err != nil {
		return
	}
	for left := maxLeftover; left > 0; {
		n := 0
		// A deadline that has passed fails Read of the connection, but not Control.
		if err := raw.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buffer[:]) }); err != nil || n <= 0 {
			return
		}
		if !emit(buffer[:n]) {
			return
		}
		left -= n
	}
}
