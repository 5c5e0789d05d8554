package runtimeserver

import (
	"context"
	"fmt"
	"net"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxSocketPath is how long the address of a unix socket may be.
const maxSocketPath = 107

// dialUnix connects to the socket at path, however long path is.
func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	var dialer net.Dialer
	if len(path) <= maxSocketPath {
		return dialer.DialContext(ctx, "unix", path)
	}
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening directory of %s: %w", path, err)
	}
	defer func() { _ = unix.Close(dir) }()
	return dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path)))
}
