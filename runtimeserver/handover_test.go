package runtimeserver

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
	"kruntimes.io/kruntimes/runtimeserver/control"
)

// waiting makes a supervisor that waits, and its own end of the connection.
func waiting(t *testing.T) (*supervisorProcess, *control.Conn) {
	t.Helper()
	conn, file, err := control.Pair()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(file.Fd())) // Open takes its descriptor over, and so does file.
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	remote, err := control.Open(uintptr(fd))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = remote.Close() })
	return &supervisorProcess{conn: conn, gone: make(chan struct{})}, remote
}

// handOver hands a spec to the first supervisor that waits, of those given in the order in which they are taken. Where
// none is left, it gives up when its time is over.
func handOver(t *testing.T, spec *runtimev1.Execute, idle ...*supervisorProcess) (*supervisorProcess, *runtimev1.Exited) {
	t.Helper()
	processes := &processes{requests: make(chan chan<- spawned)} // nobody answers
	p := newPool(logr.Discard(), processes, 0)
	t.Cleanup(func() { p.trim.Stop() })
	for i := range idle {
		p.put(idle[len(idle)-1-i])
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	e := &execution{id: "x", spec: spec, server: &server{pool: p, options: Options{Now: time.Now}}}
	return e.handOver(ctx)
}

func TestASpecThatCannotBeSentIsNoLostSupervisor(t *testing.T) {
	process, remote := waiting(t)
	_, exited := handOver(t, &runtimev1.Execute{Argv: []string{"\xff"}}, process)
	if exited.GetCause() != runtimev1.ExitCause_EXIT_CAUSE_START_FAILED || !strings.Contains(exited.GetMessage(), "UTF-8") {
		t.Errorf("got %v", exited)
	}
	if _, err := remote.Receive(&runtimev1.Command{}); !errors.Is(err, io.EOF) {
		t.Errorf("the supervisor is not told to end: %v", err)
	}
}

func TestAnotherSupervisorTakesOverFromOneThatIsGone(t *testing.T) {
	dead, remote := waiting(t)
	if err := remote.Close(); err != nil {
		t.Fatal(err)
	}
	alive, _ := waiting(t)
	process, exited := handOver(t, &runtimev1.Execute{Argv: []string{"true"}}, dead, alive)
	if process != alive || exited != nil {
		t.Errorf("got %v, %v", process, exited)
	}
}
