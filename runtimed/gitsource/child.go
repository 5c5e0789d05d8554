package gitsource

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// request is what the child process reads, as JSON. Its standard input stays open behind it: its end is the end of the
// parent, and of the checkout.
type request struct {
	Source Source
	Limits Limits
}

// answer is what the child process writes, as JSON.
type answer struct {
	Commit string
	// Error says what went wrong; empty when nothing did.
	Error string
}

const (
	// maxAnswer bounds what is read of the child's answer. Unit: bytes.
	maxAnswer = 64 << 10
	// maxNoise bounds what is kept of the child's standard error. Unit: bytes.
	maxNoise = 4 << 10
	// closeDelay bounds how long the pipes of a dead child are read.
	closeDelay = 5 * time.Second
)

// runChild hands source to a child process and waits for its end.
func (f *Fetcher) runChild(ctx context.Context, dir *os.File, source Source) (string, error) {
	cmd := exec.CommandContext(ctx, f.opts.Command[0], f.opts.Command[1:]...)
	out, noise := &capped{max: maxAnswer}, &capped{max: maxNoise}
	cmd.Stdout, cmd.Stderr = out, noise
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{dir}
	cmd.Env = append([]string{"HOME=", "PATH=", "GOMAXPROCS=2"}, f.opts.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = closeDelay
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", fmt.Errorf("starting the process that fetches: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("starting the process that fetches: %w", err)
	}
	// A child that does not read it ends without an answer.
	_ = json.NewEncoder(stdin).Encode(request{Source: source, Limits: f.opts.Limits})
	err = cmd.Wait()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	return result(out.Bytes(), noise.Bytes(), err)
}

// result makes sense of what a child process left.
func result(out, noise []byte, ended error) (string, error) {
	var a answer
	if err := json.Unmarshal(out, &a); err == nil && (a.Commit != "" || a.Error != "") {
		if a.Error != "" {
			return "", errors.New(printable(a.Error))
		}
		return a.Commit, nil
	}
	if bytes.Contains(noise, []byte("out of memory")) || bytes.Contains(noise, []byte("cannot allocate memory")) {
		return "", fmt.Errorf("%w: unpacking it takes too much memory", errTooLarge)
	}
	if ended == nil {
		ended = errors.New("no answer")
	}
	first, _, _ := strings.Cut(string(noise), "\n")
	return "", fmt.Errorf("the process that fetches ended early: %w %s", ended, printable(first))
}

// capped keeps the first bytes that are written to it and drops the rest.
type capped struct {
	bytes.Buffer
	max int
}

func (c *capped) Write(p []byte) (int, error) {
	c.Buffer.Write(p[:min(len(p), max(0, c.max-c.Len()))])
	return len(p), nil
}

// directoryFD is the descriptor under which the child process finds the directory to fill.
const directoryFD = 3

// Serve is the child process: it reads a request, fills the directory that it was handed, and writes an answer. ctx ends
// it, and so does the end of stdin.
func Serve(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	decoder := json.NewDecoder(stdin)
	var r request
	if err := decoder.Decode(&r); err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	go func() { // ends with the parent, or the process
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	r.Limits = r.Limits.withDefaults()
	confine(r.Limits)
	commit, err := serve(ctx, r)
	a := answer{Commit: commit}
	if err != nil {
		a = answer{Error: explain(err)}
	}
	if err := json.NewEncoder(stdout).Encode(a); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

func serve(ctx context.Context, r request) (commit string, err error) {
	// The directory is held by its descriptor, so nobody can put another one in its place.
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", directoryFD))
	if err != nil {
		return "", fmt.Errorf("opening the directory to fill: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return clone(ctx, root, r.Source, newBudget(r.Limits))
}
