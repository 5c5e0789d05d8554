// Command krt is the command line of kruntimes. Under the name kubectl-krt it serves as a plugin of kubectl.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"kruntimes.io/kruntimes/krt"
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(krt.Main(context.Background(), krt.Options{
		Args: os.Args, In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr, Signals: signals,
		Environ: os.Environ(), Now: time.Now,
	}))
}
