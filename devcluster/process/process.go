// Package process starts the child processes of a dev cluster so that none of them outlives its parent, whatever ends
// the parent, and keeps the last words of those that end on their own.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"k8s.io/utils/clock"
)

// Command describes a child.
type Command struct {
	// Path is the executable and Args are its arguments, without the name of the program.
	Path string
	Args []string
	// Env is the whole environment of the child.
	Env []string
	// LogFile receives what the child writes to stdout and stderr. It is truncated first.
	LogFile string
	// ParentDeath is the signal that the child gets when its parent dies. Default: SIGKILL.
	ParentDeath syscall.Signal
	// Clock measures grace periods. Default: the real one.
	Clock clock.Clock
}

// Process is a running or ended child.
type Process struct {
	command Command
	cmd     *exec.Cmd
	done    chan struct{}
	err     error // how it ended; readable once done is closed
}

// Start runs a child in a process group of its own, so that ctrl-C at a terminal reaches only the parent.
func Start(command Command) (*Process, error) {
	if command.ParentDeath == 0 {
		command.ParentDeath = syscall.SIGKILL
	}
	if command.Clock == nil {
		command.Clock = clock.RealClock{}
	}
	log, err := os.OpenFile(command.LogFile, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	defer log.Close() // the child has a copy
	cmd := exec.Command(command.Path, command.Args...)
	cmd.Env = command.Env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = Attributes(command.ParentDeath)
	if err := StartBound(cmd); err != nil {
		return nil, err
	}
	p := &Process{command: command, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the child ended, with the last lines of its log. It is nil while the child runs.
func (p *Process) Err() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	how := "exit status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	if tail := LogTail(p.command.LogFile, quotedLines); tail != "" {
		return fmt.Errorf("%s; the end of %s:\n%s", how, p.command.LogFile, tail)
	}
	return errors.New(how)
}

// Stop sends signal, waits up to grace for the end, and kills the child if that was in vain.
func (p *Process) Stop(signal syscall.Signal, grace time.Duration) {
	_ = p.cmd.Process.Signal(signal) // the only error is that it has ended already
	timer := p.command.Clock.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return
	case <-timer.C():
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Kill ends the child at once. It does not wait for the end.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() } // the only error is that it has ended already

const (
	// quotedLines is how much of a log an error quotes.
	quotedLines = 15
	// tailBytes bounds what is read of a log for that.
	tailBytes = 16 << 10
)

// LogTail returns the last lines of a log, indented, or nothing when it cannot be read.
func LogTail(path string, lines int) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	offset := max(0, info.Size()-tailBytes)
	content := make([]byte, info.Size()-offset)
	n, _ := file.ReadAt(content, offset)
	all := strings.Split(strings.TrimRight(string(content[:n]), "\n"), "\n")
	all = all[max(0, len(all)-lines):]
	if len(all) == 1 && all[0] == "" {
		return ""
	}
	return "    " + strings.Join(all, "\n    ")
}
