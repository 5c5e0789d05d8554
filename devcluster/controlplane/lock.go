package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// lockRetry is how often a caller looks whether another one has finished building.
const lockRetry = 200 * time.Millisecond

// lock waits until it alone holds the file at path. The kernel frees the lock of a process that dies, so a stale file
// never blocks anyone.
func lock(ctx context.Context, path string, options *EnsureOptions) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the control plane build: %w", err)
	}
	ticker := options.Clock.NewTicker(lockRetry)
	defer ticker.Stop()
	for announced := false; ; announced = true {
		err := tryLock(file)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, errLocked) {
			_ = file.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if !announced {
			fmt.Fprintf(options.Progress, "Waiting for another process that builds the control plane (%s)\n", path)
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("waiting for another build of the control plane: %w", ctx.Err())
		case <-ticker.C():
		}
	}
}
