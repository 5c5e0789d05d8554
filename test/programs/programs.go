// Package programs provides the programs of the tree to suites that run them as processes.
package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Variable names the environment variable that holds the directory with the programs, which "make test-integration" has just built.
const Variable = "KRUNTIMES_BIN"

// The programs, by their file names. RuntimedS3 is runtimed with the driver for artifacts in buckets.
const (
	Krt           = "krt"
	Manager       = "manager"
	Scheduler     = "scheduler"
	Runtimed      = "runtimed"
	RuntimedS3    = "runtimed-s3"
	RuntimeServer = "runtime-server"
)

// In returns a directory with programs: the one of make, or else dir, an existing one, in which they are built first.
func In(dir string, names ...string) (string, error) {
	if made := os.Getenv(Variable); made != "" {
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(made, name)); err != nil {
				return "", fmt.Errorf("%s=%s holds no %s (make build): %w", Variable, made, name, err)
			}
		}
		return made, nil
	}
	for _, name := range names {
		if err := build(name, filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// build builds one program as hack/make/build.mk does, but for its version.
func build(name, path string) error {
	folder, tags := name, "grpcnotrace"
	if name == RuntimedS3 {
		folder, tags = Runtimed, "grpcnotrace,s3"
	}
	cmd := exec.Command("go", "build", "-tags="+tags, "-trimpath", "-ldflags=-s -w", "-o", path, "kruntimes.io/kruntimes/cmd/"+folder)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return nil
}
