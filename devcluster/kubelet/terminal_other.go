//go:build unix && !linux

package kubelet

import (
	"errors"
	"os"
	"os/exec"

	"kruntimes.io/kruntimes/devcluster/process"
)

func openTerminal(*process.Keeper, string, *exec.Cmd) (*os.File, *process.Child, error) {
	return nil, nil, errors.New("terminals need Linux")
}

func setTerminalSize(*os.File, uint16, uint16) {}
