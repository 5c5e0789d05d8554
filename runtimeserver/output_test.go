package runtimeserver_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
)

func TestOutputIsByteEqual(t *testing.T) {
	line := bytes.Repeat([]byte("0123456789abcdef"), 200<<10/16)
	binaryBytes := make([]byte, 256*1024)
	for i := range binaryBytes {
		binaryBytes[i] = byte(i ^ i>>8)
	}
	cases := map[string][]byte{
		"nothing":              nil,
		"no final newline":     []byte("a\nb"),
		"carriage returns":     []byte("10%\r20%\r\n\r\r\n"),
		"200 KiB on one line":  line,
		"every byte":           binaryBytes,
		"invalid UTF-8":        []byte("\xff\xfe\x00\xc3\x28"),
		"exactly one message":  line[:32<<10],
		"one byte over":        line[:32<<10+1],
		"a pipe full, and one": line[:64<<10+1],
	}
	r, _ := start(t)
	dir := t.TempDir()
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, "bytes")
			if err := os.WriteFile(file, want, 0o600); err != nil {
				t.Fatal(err)
			}
			r.script(t, name, "cat "+file+"; cat "+file+" >&2")
			rec := r.awaitExited(t, name)
			if !bytes.Equal(rec.stdout.Bytes(), want) || !bytes.Equal(rec.stderr.Bytes(), want) {
				t.Errorf("wrote %d bytes, got %d on stdout and %d on stderr, or others",
					len(want), rec.stdout.Len(), rec.stderr.Len())
			}
		})
	}
}

func TestOutputOfAllProcessesIsComplete(t *testing.T) {
	r, _ := start(t)
	const script = `for i in 1 2 3 4; do ( for j in 1 2 3 4 5; do echo line $i $j; done ) & done; wait; echo end; exit 1`
	r.script(t, "x", script)
	rec := r.awaitExited(t, "x")
	if got := bytes.Count(rec.stdout.Bytes(), []byte("\n")); got != 21 {
		t.Errorf("got %d lines, want 21:\n%s", got, rec.stdout.String())
	}
}

func TestAScriptThatDeletesItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "work")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r, _ := start(t)
	r.execute(t, &runtimev1.Execute{
		ExecutionId: "x", WorkingDirectory: dir, Argv: []string{"/bin/sh", "-c", `rm -rf "$PWD"; echo gone; exit 6`},
	})
	want := outcome{Started: true, Cause: exitedCause, Code: 6, Stdout: "gone\n"}
	if diff := cmp.Diff(want, outcomeOf(r.awaitExited(t, "x"))); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

// A script hands its standard output to a process of another execution. Its own end must not wait for that process,
// and what is in the pipe must arrive.
func TestAPipeHeldByAnotherExecution(t *testing.T) {
	dir := t.TempDir()
	r, _ := start(t)
	in := func(id, script string) {
		r.execute(t, &runtimev1.Execute{
			ExecutionId: id, WorkingDirectory: dir, Argv: []string{"/bin/sh", "-c", "mkfifo " + id + "; " + script},
		})
	}
	in("lender", "echo $$ first; read x <lender; echo last")
	pid := r.awaitStdout(t, "lender", "first\n")[0]
	in("borrower", fmt.Sprintf("exec 3>/proc/%s/fd/1; echo go >lender; exec sleep 1000", pid))
	rec := r.awaitExited(t, "lender")
	want := outcome{Started: true, Cause: exitedCause, Stdout: pid + " first\nlast\n"}
	if diff := cmp.Diff(want, outcomeOf(rec)); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	r.stop(t, "borrower", 0)
	r.awaitExited(t, "borrower")
}

// While one execution writes as fast as it can, the memory of the server stays where it was, and others get through.
func TestANoisyExecution(t *testing.T) {
	r, server := start(t)
	r.script(t, "warm", "head -c 4000000 /dev/zero")
	r.awaitExited(t, "warm")
	r.drop("noisy")
	before, _ := residentKiB(server.cmd.Process.Pid)
	r.script(t, "noisy", "yes")
	for i := range 5 {
		r.await(t, "output", func() bool { return r.record("noisy").bytes() >= (i+1)*muchOutput/5 })
		id := fmt.Sprintf("quiet%d", i)
		r.script(t, id, "echo quiet")
		r.awaitExited(t, id)
	}
	after, _ := residentKiB(server.cmd.Process.Pid)
	r.stop(t, "noisy", time.Hour)
	r.awaitExited(t, "noisy")
	t.Logf("resident: %d KiB before, %d KiB after %d MiB of output", before, after, muchOutput>>20)
	if before == 0 || after-before > 16<<10 && !isRace {
		t.Errorf("grew from %d KiB to %d KiB", before, after)
	}
}

// A runtimed that does not read stops the writers instead of filling the server's memory, and gets everything later.
func TestASlowRuntimed(t *testing.T) {
	r, server := start(t)
	r.script(t, "warm", "head -c 4000000 /dev/zero")
	r.awaitExited(t, "warm")
	before, _ := residentKiB(server.cmd.Process.Pid)
	r.script(t, "x", fmt.Sprintf("echo $$; exec head -c %d /dev/zero", muchOutput))
	pid := pids(t, r.awaitStdout(t, "x", "\n"))[0]
	r.pause(true)
	awaitState(t, pid, "S")
	after, _ := residentKiB(server.cmd.Process.Pid)
	r.pause(false)
	rec := r.awaitExited(t, "x")
	if got := rec.stdout.Len() - len(fmt.Sprintln(pid)); got != muchOutput {
		t.Errorf("got %d bytes, want %d", got, muchOutput)
	}
	t.Logf("resident: %d KiB before, %d KiB while the writer was held", before, after)
	if before == 0 || after-before > 16<<10 && !isRace {
		t.Errorf("grew from %d KiB to %d KiB", before, after)
	}
}

// awaitState waits until a process stays in a state: it looks a hundred times in a row the same.
func awaitState(t *testing.T, pid int, state string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for same := 0; same < 100; {
		same++
		if stateOf(pid) != state {
			same = 0
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d did not come to the state %s", pid, state)
		}
		_, _ = unix.Poll(nil, 1)
	}
}
