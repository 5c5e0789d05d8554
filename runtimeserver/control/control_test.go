package control

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

// open returns both ends of a connection.
func open(t *testing.T) (local, remote *Conn) {
	t.Helper()
	local, file, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(file.Fd())) // Open takes its descriptor over, and so does file.
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	remote, err = Open(uintptr(fd))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = local.Close()
		_ = remote.Close()
	})
	return local, remote
}

func execute(arg string) *runtimev1.Execute {
	return &runtimev1.Execute{ExecutionId: "x", Argv: []string{arg}}
}

func TestMessagesArriveInOrderAndWhole(t *testing.T) {
	local, remote := open(t)
	sizes := []int{0, 1, 100, 3 << 20, 10}
	sent := make(chan error, len(sizes))
	go func() {
		for _, size := range sizes {
			sent <- local.Send(execute(strings.Repeat("a", size)))
		}
	}()
	for _, size := range sizes {
		var got runtimev1.Execute
		fds, err := remote.Receive(&got)
		if err != nil || len(fds) > 0 || !proto.Equal(&got, execute(strings.Repeat("a", size))) {
			t.Errorf("size %d: got %d bytes, descriptors %v, error %v", size, len(got.GetArgv()[0]), fds, err)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
}

func TestDescriptorsArriveWithTheirMessage(t *testing.T) {
	local, remote := open(t)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, fds := range [][]int{nil, {int(writer.Fd()), int(writer.Fd())}, nil} {
		if err := local.Send(execute("a"), fds...); err != nil {
			t.Fatal(err)
		}
	}
	_ = writer.Close()
	for i, want := range []int{0, 2, 0} {
		fds, err := remote.Receive(&runtimev1.Execute{})
		if err != nil || len(fds) != want {
			t.Fatalf("message %d: got descriptors %v and error %v", i, fds, err)
		}
		for _, fd := range fds {
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("descriptor %d would be inherited", fd)
			}
			_, _ = unix.Write(fd, []byte("x"))
			_ = unix.Close(fd)
		}
	}
	if got, err := io.ReadAll(reader); err != nil || string(got) != "xx" {
		t.Errorf("got %q and error %v through the descriptors", got, err)
	}
}

func TestTheEndOfTheOtherSide(t *testing.T) {
	cases := map[string][]byte{
		"between messages": nil,
		"in the length":    {0, 0},
		"in a message":     {0, 0, 0, 9, 1, 2},
	}
	for name, bytes := range cases {
		t.Run(name, func(t *testing.T) {
			local, remote := open(t)
			if _, err := local.unix.Write(bytes); err != nil {
				t.Fatal(err)
			}
			_ = local.Close()
			if _, err := remote.Receive(&runtimev1.Execute{}); !errors.Is(err, io.EOF) {
				t.Errorf("got %v, want EOF", err)
			}
		})
	}
}

func TestMessagesThatAreRefused(t *testing.T) {
	cases := map[string][]byte{
		"too long":   binary.BigEndian.AppendUint32(nil, maxMessage+1),
		"no message": append([]byte{0, 0, 0, 4}, bytes.Repeat([]byte{0xff}, 4)...),
	}
	for name, sent := range cases {
		t.Run(name, func(t *testing.T) {
			local, remote := open(t)
			if _, err := local.unix.Write(sent); err != nil {
				t.Fatal(err)
			}
			if _, err := remote.Receive(&runtimev1.Execute{}); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("got %v, want an error that says what is wrong", err)
			}
		})
	}
	if _, err := Open(987654); err == nil {
		t.Error("a descriptor that is not open was taken")
	}
}
