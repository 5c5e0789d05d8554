//go:build unix && !linux

package process

import (
	"context"
	"os"
	"os/exec"

	"k8s.io/utils/clock"
)

// Keeper is not possible here.
type Keeper struct{}

// Child is not possible here.
type Child struct{}

// NewKeeper is not possible here.
func NewKeeper(context.Context, clock.Clock) (*Keeper, error) { return nil, errLinuxOnly }

// Start is not possible here.
func (*Keeper) Start(string, *exec.Cmd) (*Child, error) { return nil, errLinuxOnly }

// Join is not possible here.
func (*Keeper) Join(string, *exec.Cmd) (*Child, error) { return nil, errLinuxOnly }

// Finish is not possible here.
func (*Keeper) Finish(string) error { return errLinuxOnly }

// Close is not possible here.
func (*Keeper) Close() error { return errLinuxOnly }

// PID is not possible here.
func (*Child) PID() int { return 0 }

// Signal is not possible here.
func (*Child) Signal(os.Signal) {}

// Wait is not possible here.
func (*Child) Wait() error { return errLinuxOnly }
