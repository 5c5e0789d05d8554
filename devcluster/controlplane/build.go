package controlplane

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

const (
	// progressEvery is how often a running build says that it is alive.
	progressEvery = 10 * time.Second
	// interruptGrace is how long the Go command has for cleaning up after an interrupt.
	interruptGrace = 5 * time.Second
	// keptErrorLines is how much of the Go command's output an error quotes.
	keptErrorLines = 20
)

// build makes the programs in a directory of its own beside dir and moves each into dir when it is complete. The caller
// holds the lock, so whatever an earlier, killed build left there is garbage.
func build(ctx context.Context, dir string, binaries []Binary, options *EnsureOptions) error {
	goCommand, err := findGo(options.Environ)
	if err != nil {
		return err
	}
	if err := removeLeftovers(dir); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".building-")
	if err != nil {
		return fmt.Errorf("making a directory to build in: %w", err)
	}
	defer os.RemoveAll(work)
	if err := writePins(work); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the directory of the binaries: %w", err)
	}
	fmt.Fprintf(options.Progress, "Building the control plane (Kubernetes %s) into %s; the first time takes some minutes\n",
		kubernetesVersion(), dir)
	for i, binary := range binaries {
		b := builder{goCommand: goCommand, work: work, options: options, title: fmt.Sprintf("[%d/%d] %s", i+1, len(binaries), binary)}
		made, err := b.build(ctx, binary)
		if err != nil {
			return err
		}
		if err := os.Rename(made, filepath.Join(dir, string(binary))); err != nil {
			return fmt.Errorf("moving %s into place: %w", binary, err)
		}
	}
	return nil
}

// findGo returns the path of the Go command, or an error that says what a person can do without one.
func findGo(environ []string) (string, error) {
	for _, dir := range filepath.SplitList(lookupEnv(environ, "PATH")) {
		candidate := filepath.Join(dir, "go")
		if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("building the control plane needs the Go command, and there is none on PATH: "+
		"install Go (https://go.dev/dl), or set %s to a directory that holds %s", AssetsVariable, joinNames(All()))
}

func joinNames(binaries []Binary) string {
	names := make([]string, len(binaries))
	for i, b := range binaries {
		names[i] = string(b)
	}
	return strings.Join(names, ", ")
}

func removeLeftovers(dir string) error {
	left, err := filepath.Glob(dir + ".building-*")
	if err != nil {
		return fmt.Errorf("looking for leftovers of earlier builds: %w", err)
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing what an earlier build left: %w", err)
		}
	}
	return nil
}

func writePins(dir string) error {
	files := map[string][]byte{"go.mod": pinnedMod, "go.sum": pinnedSum, "tools.go": pinnedTools}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return fmt.Errorf("writing the pinned modules: %w", err)
		}
	}
	return nil
}

// builder runs one Go build and reports on it.
type builder struct {
	goCommand, work, title string
	options                *EnsureOptions
	downloaded, compiled   atomic.Int64
}

// build returns the path of the finished program.
func (b *builder) build(ctx context.Context, binary Binary) (string, error) {
	pkg, err := packageOf(binary)
	if err != nil {
		return "", err
	}
	target := filepath.Join(b.work, string(binary))
	args := append([]string{"build", "-v", "-o", target}, buildFlags()...)
	cmd := exec.CommandContext(ctx, b.goCommand, append(args, pkg)...)
	cmd.Dir, cmd.Env = b.work, buildEnviron(b.options.Environ)
	interruptGroup(cmd)
	output, err := cmd.StderrPipe()
	if err != nil {
		return "", fmt.Errorf("connecting to the Go command: %w", err)
	}
	started := b.options.Clock.Now()
	fmt.Fprintf(b.options.Progress, "%s: building\n", b.title)
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("starting the Go command: %w", err)
	}
	stop := b.reportProgress(started)
	tail := b.follow(output)
	err = cmd.Wait()
	stop()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("building %s: %w", binary, ctx.Err())
	case err != nil:
		return "", fmt.Errorf("building %s: %w\n%s", binary, err, tail)
	}
	fmt.Fprintf(b.options.Progress, "%s: done after %s\n", b.title, elapsed(b.options.Clock, started))
	return target, nil
}

// follow reads the Go command's output until its end and returns the last lines. With -v there is one line for each
// module that is downloaded and one for each package that is compiled.
func (b *builder) follow(output io.Reader) string {
	var last []string
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadString('\n')
		if line = strings.TrimRight(line, "\n"); line != "" {
			if strings.HasPrefix(line, "go: downloading ") {
				b.downloaded.Add(1)
			} else {
				b.compiled.Add(1)
			}
			if last = append(last, line); len(last) > keptErrorLines {
				last = last[1:]
			}
		}
		if err != nil {
			return strings.Join(last, "\n")
		}
	}
}

// reportProgress says every few seconds how far the build is, until stop is called.
func (b *builder) reportProgress(started time.Time) (stop func()) {
	ticker := b.options.Clock.NewTicker(progressEvery)
	done, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		for {
			select {
			case <-done:
				return
			case <-ticker.C():
				fmt.Fprintf(b.options.Progress, "%s: %s, %d modules downloaded, %d packages compiled\n",
					b.title, elapsed(b.options.Clock, started), b.downloaded.Load(), b.compiled.Load())
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
		<-finished
	}
}

func elapsed(c clock.PassiveClock, since time.Time) time.Duration {
	return c.Since(since).Round(time.Second)
}

// buildEnviron is the environment of the Go command: the caller's, without what would change or break the build.
func buildEnviron(environ []string) []string {
	fixed := []string{
		"CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GO111MODULE=on", "GOEXPERIMENT=",
		"GOOS=" + runtime.GOOS, "GOARCH=" + runtime.GOARCH,
	}
	kept := slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		return slices.ContainsFunc(fixed, func(f string) bool {
			name, _, _ := strings.Cut(f, "=")
			return strings.HasPrefix(entry, name+"=")
		})
	})
	return append(kept, fixed...)
}
