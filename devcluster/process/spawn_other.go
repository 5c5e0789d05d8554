//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// Attributes returns what every child gets: a session of its own. Only Linux can bind it to the life of its parent.
func Attributes(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// StartBound starts cmd.
func StartBound(cmd *exec.Cmd) error { return cmd.Start() }
