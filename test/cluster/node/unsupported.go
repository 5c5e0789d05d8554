//go:build !linux

package node

import (
	"context"
	"errors"
	"io"
)

// Main is not possible on this system.
func Main(context.Context, io.Reader) error { return errors.New("a node needs Linux") }
