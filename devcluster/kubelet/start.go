package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kruntimes.io/kruntimes/devcluster/kubelet/containerlog"
	"kruntimes.io/kruntimes/devcluster/process"
)

const (
	// startRetry is how long to wait before a container is tried again that could not be started.
	startRetry = 2 * time.Second
	// drainGrace is how long the log is read after the last process of a container has ended.
	drainGrace = 2 * time.Second
	// invalidRegistry begins the images that cannot be pulled, so that a missing image can be tried out.
	invalidRegistry = "invalid/"
)

// run is one run of a container: from a start to its end.
type run struct {
	// owner names the run: its processes carry it in their environment.
	owner string
	child *process.Child
	log   *containerlog.Log
	// mounts, environ and workDir are what exec needs too.
	mounts  mounts
	environ map[string]string
	workDir string
	// ports maps ports of the container to those of the host that it was told to use instead.
	ports map[int32]int32
	// endProbe ends the readiness probe.
	endProbe context.CancelFunc
}

// startError says why a container cannot be started, in the words of a kubelet.
type startError struct {
	reason string
	err    error
}

func (e *startError) Error() string { return e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

// start starts a container, or says in its state why that is not possible and when it is tried again.
func (w *worker) start(ctx context.Context, c *container) {
	now := w.kubelet.clock.Now()
	if strings.HasPrefix(c.spec.Image, invalidRegistry) {
		c.pulls++
		c.notBefore = now.Add(time.Duration(c.pulls*c.pulls) * pullRetry)
		c.waiting = corev1.ContainerStateWaiting{
			Reason: reasonErrImagePull, Message: fmt.Sprintf("failed to pull image %q: no such image", c.spec.Image),
		}
		if c.pulls > 1 {
			c.waiting = corev1.ContainerStateWaiting{
				Reason: reasonImagePullBackOff, Message: fmt.Sprintf("Back-off pulling image %q", c.spec.Image),
			}
		}
		return
	}
	r, err := w.launch(ctx, c)
	if err != nil {
		c.waiting = corev1.ContainerStateWaiting{Reason: reasonCreateContainerError, Message: err.Error()}
		var explained *startError
		if errors.As(err, &explained) {
			c.waiting.Reason = explained.reason
		}
		c.notBefore = now.Add(startRetry)
		return
	}
	if c.started {
		c.restarts++
	}
	if c.previous != nil {
		_ = c.previous.log.Remove()
	}
	c.previous, c.run = c.run, r
	c.started, c.running, c.seen.ended, c.startAt = true, true, false, now
	c.waiting = corev1.ContainerStateWaiting{}
	c.ready = c.spec.ReadinessProbe == nil
	w.probe(ctx, c, r)
	w.log.Info("Started container", "container", c.spec.Name, "pid", r.child.PID(), "restarts", c.restarts)
}

// launch starts the container's process and sees to its output and its end.
func (w *worker) launch(ctx context.Context, c *container) (*run, error) {
	r, err := w.newRun(ctx, c)
	if err != nil {
		return nil, err
	}
	argv, err := w.commandLine(c, r)
	if err != nil {
		return nil, err
	}
	cmd, err := w.kubelet.command(r, argv)
	if err != nil {
		return nil, err
	}
	logDir := filepath.Join(w.dir, "l")
	if err := os.MkdirAll(logDir, 0o700); err != nil {
		return nil, fmt.Errorf("making the log's directory: %w", err)
	}
	count := c.restarts
	if c.started {
		count++
	}
	r.log, err = containerlog.Create(filepath.Join(logDir, fmt.Sprintf("%s.%d", c.spec.Name, count)), w.kubelet.clock.Now)
	if err != nil {
		return nil, err
	}
	output, err := w.startLogged(c, r, cmd)
	if err != nil {
		_ = r.log.Close()
		return nil, err
	}
	w.kubelet.running.Go(func() { w.await(c, r, output) })
	return r, nil
}

func (w *worker) newRun(ctx context.Context, c *container) (*run, error) {
	r := &run{
		owner:  fmt.Sprintf("%s/%s/%d/%d", w.uid, c.spec.Name, c.restarts, w.kubelet.clock.Now().UnixNano()),
		mounts: newMounts(c.spec.VolumeMounts, w.volumes.dirs),
		ports:  map[int32]int32{},
	}
	for _, m := range r.mounts { // a sub-path, or a path on the host, may not be there yet
		if err := os.MkdirAll(m.dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTDIR) {
			return nil, fmt.Errorf("making %s: %w", m.path, err)
		}
	}
	home := filepath.Join(w.dir, "c", c.spec.Name)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, fmt.Errorf("making the container's directory: %w", err)
	}
	base := map[string]string{"HOME": home, "HOSTNAME": w.name}
	for name, value := range w.kubelet.config.Environment {
		base[name] = value
	}
	var err error
	source := sources{client: w.kubelet.client, namespace: w.namespace}
	if r.environ, err = source.environment(ctx, w.pod, c.spec, r.mounts, base); err != nil {
		return nil, &startError{reason: reasonCreateConfigError, err: err}
	}
	r.workDir = home
	if c.spec.WorkingDir != "" {
		r.workDir = r.mounts.translate(c.spec.WorkingDir)
		if err := os.MkdirAll(r.workDir, 0o777); err != nil {
			return nil, fmt.Errorf("making the working directory: %w", err)
		}
	}
	return r, nil
}

// commandLine is the container's command with variables expanded, paths translated and ports replaced by free ones.
func (w *worker) commandLine(c *container, r *run) ([]string, error) {
	if len(c.spec.Command) == 0 {
		return nil, fmt.Errorf("container %s has no command, and a dev cluster does not pull image %s to look for one",
			c.spec.Name, c.spec.Image)
	}
	argv := make([]string, 0, len(c.spec.Command)+len(c.spec.Args))
	for _, list := range [][]string{c.spec.Command, c.spec.Args} {
		for _, argument := range list {
			argument = r.mounts.translate(expand(argument, r.environ))
			if before, port, ok := portArgument(argument, c.spec.Ports); ok {
				free, err := r.hostPort(port)
				if err != nil {
					return nil, err
				}
				argument = fmt.Sprintf("%s%s:%d", before, podIP, free)
			}
			argv = append(argv, argument)
		}
	}
	return argv, nil
}

// command prepares a process in the container of r.
func (k *Kubelet) command(r *run, argv []string) (*exec.Cmd, error) {
	program, err := k.resolve(argv[0], r)
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: program, Args: argv, Env: list(r.environ), Dir: r.workDir}, nil
}

// resolve finds a program on the host as the container would find it in its image.
func (k *Kubelet) resolve(name string, r *run) (string, error) {
	if program, ok := k.config.Programs[name]; ok {
		return program, nil
	}
	candidates := []string{name}
	switch {
	case strings.Contains(name, "/") && !filepath.IsAbs(name):
		candidates = []string{filepath.Join(r.workDir, name)}
	case !strings.Contains(name, "/"):
		candidates = nil
		for _, dir := range filepath.SplitList(r.environ["PATH"]) {
			candidates = append(candidates, filepath.Join(dir, name))
		}
	}
	for _, candidate := range candidates {
		if info, err := os.Stat(candidate); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("%q is not a program on this host: a dev cluster runs containers as host processes and does not use their images", name)
}

// output is what a process still has to say.
type output struct {
	readers []*os.File
	copied  chan struct{}
}

// startLogged starts cmd with its output going to the run's log.
func (w *worker) startLogged(c *container, r *run, cmd *exec.Cmd) (*output, error) {
	o := &output{copied: make(chan struct{})}
	var writers []*os.File
	closeAll := func(files []*os.File) {
		for _, file := range files {
			_ = file.Close()
		}
	}
	for range 2 {
		reader, writer, err := os.Pipe()
		if err != nil {
			closeAll(o.readers)
			closeAll(writers)
			return nil, fmt.Errorf("making a pipe: %w", err)
		}
		o.readers, writers = append(o.readers, reader), append(writers, writer)
	}
	cmd.Stdout, cmd.Stderr = writers[0], writers[1]
	child, err := w.kubelet.keeper.Start(r.owner, cmd)
	closeAll(writers)
	if err != nil {
		closeAll(o.readers)
		return nil, err
	}
	r.child = child
	var copying sync.WaitGroup
	for i, stream := range []string{containerlog.Stdout, containerlog.Stderr} {
		copying.Go(func() {
			if err := r.log.Copy(stream, o.readers[i]); err != nil {
				w.log.Error(err, "Lost output of container", "container", c.spec.Name, "stream", stream)
			}
		})
	}
	go func() {
		copying.Wait()
		closeAll(o.readers)
		close(o.copied)
	}()
	return o, nil
}

// await waits for the end of a run: of its main process first, then of all that it has left behind.
func (w *worker) await(c *container, r *run, o *output) {
	err := r.child.Wait()
	at := w.kubelet.clock.Now()
	if finishErr := w.kubelet.keeper.Finish(r.owner); finishErr != nil {
		w.log.Error(finishErr, "Could not end all processes of the container", "container", c.spec.Name)
	}
	select {
	case <-o.copied:
	case <-w.kubelet.clock.After(drainGrace): // somebody outside holds the pipe
		for _, reader := range o.readers {
			_ = reader.Close()
		}
		<-o.copied
	}
	_ = r.log.Close()
	r.endProbe()
	w.post(func(w *worker) { w.ended(c, r, exitCode(err), at) })
}

// exitCode returns what a container runtime reports: the code of the process, or 128 and the signal that ended it.
func exitCode(err error) int32 {
	if err == nil {
		return 0
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 128
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int32(status.Signal())
	}
	return int32(exit.ExitCode())
}
