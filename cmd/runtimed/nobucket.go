//go:build !s3

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"kruntimes.io/kruntimes/artifacts/stores"
)

// openBucket is nil: the SDK for S3 costs every runtimed several MiB, of which only those have a use that keep artifacts in a
// bucket. They become runtimed-s3, the same program built with the tag s3.
var openBucket stores.Opener

// becomeS3 replaces this process by runtimed-s3, which lies beside it, with the same arguments. It returns only an error.
func becomeS3() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding runtimed itself: %w", err)
	}
	program := filepath.Join(filepath.Dir(self), "runtimed-s3")
	if err := syscall.Exec(program, os.Args, os.Environ()); err != nil {
		return fmt.Errorf("starting %s: %w", program, err)
	}
	return nil
}
