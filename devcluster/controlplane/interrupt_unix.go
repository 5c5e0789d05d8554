//go:build unix

package controlplane

import (
	"os/exec"
	"syscall"
)

// interruptGroup gives cmd a process group of its own and has it interrupted as a whole when its context ends, so that
// the compilers that the Go command has started end with it and its temporary files are removed.
func interruptGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = interruptGrace
}
