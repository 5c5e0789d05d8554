package runtimeserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// selfExecutable is the running program, even when its file was replaced or removed.
const selfExecutable = "/proc/self/exe"

// executableMode lets everybody run the installed program and nobody, its owner included, write to it.
const executableMode = 0o555

// Install copies the running program to dst. Either the whole program is there afterwards, or what was there before.
func Install(dst string) error {
	if err := install(dst); err != nil {
		return fmt.Errorf("installing %s: %w", dst, err)
	}
	return nil
}

func install(dst string) (err error) {
	source, err := os.Open(selfExecutable)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	temporary, err := os.CreateTemp(filepath.Dir(dst), "."+filepath.Base(dst)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temporary.Name()))
		}
	}()
	_, err = io.Copy(temporary, source)
	if err == nil {
		err = temporary.Chmod(executableMode)
	}
	if err == nil {
		err = temporary.Sync()
	}
	if err = errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), dst)
}
