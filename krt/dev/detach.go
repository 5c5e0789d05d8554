package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"kruntimes.io/kruntimes/devcluster"
)

// lookEvery is how often a command looks whether a cluster has come as far as it waits for.
const lookEvery = 50 * time.Millisecond

// detach starts "krt dev up" again in the background, shows what it says, and returns when its cluster takes work. When
// the person loses patience with ctrl-C, the cluster that is only starting ends too.
func detach(ctx context.Context, o *upOptions) error {
	dir, err := stateDir(o.factory, o.cluster.StateDir)
	if err != nil {
		return err
	}
	if state, err := devcluster.ReadState(dir); err == nil {
		return explainStart(o.factory, &devcluster.RunningError{Dir: dir, State: state})
	} else if !errors.Is(err, devcluster.ErrNotRunning) {
		return err
	}
	if err := devcluster.Claim(dir); err != nil {
		return err
	}
	words, err := os.OpenFile(filepath.Join(dir, "up.log"), os.O_CREATE|os.O_RDWR|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer words.Close()
	child, ended, err := startDetached(o, words)
	if err != nil {
		return err
	}
	return awaitDetached(ctx, o, dir, &background{process: child, ended: ended, words: words})
}

// background is a "krt dev up" without a terminal.
type background struct {
	process *os.Process
	ended   <-chan error
	words   *os.File
}

func startDetached(o *upOptions, words *os.File) (*os.Process, <-chan error, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("finding krt itself: %w", err)
	}
	args := slices.DeleteFunc(slices.Clone(o.factory.Args), func(arg string) bool {
		return arg == "--detach" || arg == "-d" || strings.HasPrefix(arg, "--detach=")
	})
	cmd := exec.Command(executable, append(args, "--"+backgroundFlag)...)
	cmd.Stdout, cmd.Stderr = words, words
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting in the background: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return cmd.Process, ended, nil
}

func awaitDetached(ctx context.Context, o *upOptions, dir string, b *background) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var shown int64
	for {
		state, err := devcluster.ReadState(dir)
		if err == nil && state.PID == b.process.Pid && state.Phase == devcluster.Ready {
			show(o.factory.IO.ErrOut, b.words, &shown)
			summarise(o.factory, state)
			fmt.Fprintf(o.factory.IO.ErrOut, "\nEnd it with \"%s\".\n", command(o.factory, "down", dir))
			return nil
		}
		select {
		case <-ctx.Done():
			_ = b.process.Signal(syscall.SIGTERM)
			<-b.ended //nolint:errcheck // how it ended says nothing: it was told to end
			return ctx.Err()
		case err := <-b.ended:
			show(o.factory.IO.ErrOut, b.words, &shown)
			return fmt.Errorf("the dev cluster did not start: %w", orReturned(err))
		case <-ticker.C:
			show(o.factory.IO.ErrOut, b.words, &shown)
		}
	}
}

func orReturned(err error) error {
	if err == nil {
		return errors.New("it ended at once")
	}
	return err
}

// show copies what was added to words since the last time.
func show(out io.Writer, words io.ReaderAt, shown *int64) {
	n, _ := io.Copy(out, io.NewSectionReader(words, *shown, 1<<40))
	*shown += n
}
