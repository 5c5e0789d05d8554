package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// writerVariable makes the test binary write to its broken standard output and error.
const writerVariable = "KRUNTIMES_TEST_WRITER"

func TestMain(m *testing.M) {
	if os.Getenv(writerVariable) == "" {
		os.Exit(m.Run())
	}
	surviveBrokenPipes()
	for _, file := range []*os.File{os.Stdout, os.Stderr} {
		if _, err := fmt.Fprintln(file, "words"); !errors.Is(err, syscall.EPIPE) {
			os.Exit(1)
		}
	}
	os.Exit(42)
}

func TestBrokenPipesAreSurvived(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), writerVariable+"=1")
	cmd.Stdout, cmd.Stderr = writer, writer
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 42 {
		t.Errorf("it ended with %v, want exit status 42", err)
	}
}
