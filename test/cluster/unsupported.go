//go:build !linux

package cluster

import "context"

const cniPlugins = ""

// Up is not possible on this system.
func (c *Cluster) Up(context.Context) error { return ErrUnsupported }

// Down is not possible on this system.
func (c *Cluster) Down(context.Context) error { return ErrUnsupported }

// Load is not possible on this system.
func (c *Cluster) Load(context.Context, ...string) error { return ErrUnsupported }
