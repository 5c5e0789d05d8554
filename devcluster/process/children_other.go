//go:build unix && !linux

package process

import (
	"errors"
	"time"

	"k8s.io/utils/clock"
)

var errLinuxOnly = errors.New("tracking orphaned processes needs Linux")

// BecomeReaper is not possible here.
func BecomeReaper() error { return errLinuxOnly }

// Children is not possible here.
func Children() ([]int, error) { return nil, errLinuxOnly }

// KillChildren is not possible here.
func KillChildren(clock.Clock, time.Duration) error { return errLinuxOnly }
