// Command controlplane makes sure that the binaries of the test control plane are there and prints their directory.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"kruntimes.io/kruntimes/devcluster/controlplane"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := controlplane.Ensure(ctx, controlplane.EnsureOptions{Progress: os.Stderr, Environ: os.Environ()})
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}
