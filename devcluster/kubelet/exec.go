package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"kruntimes.io/kruntimes/devcluster/process"
)

// execIdleTimeout is how long a session may be silent.
const execIdleTimeout = 4 * time.Hour

func (k *Kubelet) serveExec(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	worker, v := k.findContainer(w, r)
	if worker == nil {
		return
	}
	name := r.PathValue("container")
	if !v.running {
		http.Error(w, fmt.Sprintf("container %q in pod %q is not running", name, worker.name), http.StatusConflict)
		return
	}
	remotecommand.ServeExec(w, r, &executor{kubelet: k, run: v.run}, worker.name, string(worker.uid), name,
		r.URL.Query()["command"], options, execIdleTimeout, remotecommand.DefaultStreamCreationTimeout,
		remotecommand.SupportedStreamingProtocols)
}

// executor runs commands beside the main process of one run.
type executor struct {
	kubelet *Kubelet
	run     *run
}

var _ remotecommand.Executor = (*executor)(nil)

// ExecInContainer implements remotecommand.Executor, whose many parameters are not ours.
//
//nolint:revive // argument-limit: the interface is given
func (e *executor) ExecInContainer(ctx context.Context, _, _, _ string, argv []string, in io.Reader, out, errOut io.WriteCloser,
	tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	for i := range argv {
		argv[i] = e.run.mounts.translate(argv[i])
	}
	cmd, err := e.kubelet.command(e.run, argv)
	if err != nil {
		return err
	}
	if tty {
		return e.inTerminal(cmd, in, out, resize)
	}
	return e.piped(cmd, in, out, errOut)
}

// piped runs cmd with a pipe for each stream.
func (e *executor) piped(cmd *exec.Cmd, in io.Reader, out, errOut io.WriteCloser) error {
	var p pipes
	defer p.close()
	stdin, err := p.toChild(&cmd.Stdin, in)
	if err != nil {
		return err
	}
	stdout, err := p.fromChild(&cmd.Stdout, out)
	if err != nil {
		return err
	}
	stderr, err := p.fromChild(&cmd.Stderr, errOut)
	if err != nil {
		return err
	}
	child, err := e.kubelet.keeper.Join(e.run.owner, cmd)
	p.closeChildEnds()
	if err != nil {
		return err
	}
	if in != nil {
		go func() {
			_, _ = io.Copy(stdin, in)
			_ = stdin.Close()
		}()
	}
	var copying sync.WaitGroup
	for from, to := range map[*os.File]io.Writer{stdout: out, stderr: errOut} {
		if from != nil {
			copying.Go(func() { relay(child, to, from) })
		}
	}
	copying.Wait() // what the command left running may hold the streams open, as it would in a container
	return exitError(child.Wait())
}

// relay copies what a child writes, and kills the child when nobody takes it any more.
func relay(child *process.Child, to io.Writer, from io.Reader) {
	if _, err := io.Copy(to, from); err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, os.ErrClosed) {
		child.Signal(syscall.SIGKILL)
	}
}

// inTerminal runs cmd on a terminal of its own.
func (e *executor) inTerminal(cmd *exec.Cmd, in io.Reader, out io.Writer, resize <-chan remotecommand.TerminalSize) error {
	terminal, child, err := openTerminal(e.kubelet.keeper, e.run.owner, cmd)
	if err != nil {
		return err
	}
	defer terminal.Close()
	if in != nil {
		go func() { _, _ = io.Copy(terminal, in) }()
	}
	go func() {
		for size := range resize {
			setTerminalSize(terminal, size.Width, size.Height)
		}
	}()
	relay(child, out, terminal) // ends with an I/O error when the last process has closed the terminal
	return exitError(child.Wait())
}

// exitError turns the end of a process into what the protocol can carry.
func exitError(err error) error {
	if err == nil {
		return nil
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &utilexec.CodeExitError{Err: err, Code: int(exitCode(err))}
	}
	return err
}

// pipes are the files between a session and its child.
type pipes struct{ ours, childs []*os.File }

func (p *pipes) open() (reader, writer *os.File, err error) {
	if reader, writer, err = os.Pipe(); err != nil {
		return nil, nil, fmt.Errorf("making a pipe: %w", err)
	}
	return reader, writer, nil
}

// toChild gives the child something to read, unless the session has nothing.
func (p *pipes) toChild(slot *io.Reader, in io.Reader) (*os.File, error) {
	if in == nil {
		return nil, nil
	}
	reader, writer, err := p.open()
	if err != nil {
		return nil, err
	}
	*slot, p.childs, p.ours = reader, append(p.childs, reader), append(p.ours, writer)
	return writer, nil
}

// fromChild gives the child something to write to, unless the session does not listen.
func (p *pipes) fromChild(slot *io.Writer, out io.Writer) (*os.File, error) {
	if out == nil {
		return nil, nil
	}
	reader, writer, err := p.open()
	if err != nil {
		return nil, err
	}
	*slot, p.childs, p.ours = writer, append(p.childs, writer), append(p.ours, reader)
	return reader, nil
}

func (p *pipes) closeChildEnds() {
	for _, file := range p.childs {
		_ = file.Close()
	}
	p.childs = nil
}

func (p *pipes) close() {
	p.closeChildEnds()
	for _, file := range p.ours {
		_ = file.Close()
	}
}
