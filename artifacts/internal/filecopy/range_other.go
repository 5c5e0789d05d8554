//go:build !linux

package filecopy

import (
	"errors"
	"os"
)

func cannot(err error) bool { return errors.Is(err, errors.ErrUnsupported) }

func copyRange(_, _ *os.File, _ int) (int, error) { return 0, errors.ErrUnsupported }
