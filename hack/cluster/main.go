// Command cluster starts and ends a real Kubernetes cluster of one node on this machine, and works on it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"kruntimes.io/kruntimes/test/cluster/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command.New(os.Environ()).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		stop()
		os.Exit(1)
	}
}
