package kubelet

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"kruntimes.io/kruntimes/devcluster/process"
)

// openTerminal starts cmd on a new pseudo terminal and returns the side of it that a user would sit at.
func openTerminal(keeper *process.Keeper, owner string, cmd *exec.Cmd) (*os.File, *process.Child, error) {
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening a terminal: %w", err)
	}
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		_ = user.Close()
		return nil, nil, fmt.Errorf("opening a terminal: %w", err)
	}
	side, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		_ = user.Close()
		return nil, nil, fmt.Errorf("opening a terminal: %w", err)
	}
	defer side.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = side, side, side
	cmd.SysProcAttr = process.Attributes(syscall.SIGKILL)
	cmd.SysProcAttr.Setctty = true // of file 0
	child, err := keeper.Join(owner, cmd)
	if err != nil {
		_ = user.Close()
		return nil, nil, err
	}
	return user, child, nil
}

// setTerminalSize tells the program on a terminal how large its window is.
func setTerminalSize(terminal *os.File, width, height uint16) {
	_ = unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height})
}
