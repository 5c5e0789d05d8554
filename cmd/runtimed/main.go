// Command runtimed is the sidecar that executes the Runs assigned to its Pod.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"kruntimes.io/kruntimes/runtimed"
	"kruntimes.io/kruntimes/version/logging"
)

// gcPercent trades a little time for memory, of which every Pod pays for a runtimed: 2 MiB less after 300 Runs.
const gcPercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	opts, verbosity, err := parse(os.Args[1:], os.Getenv)
	// Standard output belongs to the log records of executions.
	log := logging.New(os.Stderr, verbosity).WithName("runtimed")
	klog.SetLogger(log)
	ctx, stop := signal.NotifyContext(logr.NewContext(context.Background(), log), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err == nil {
		err = runtimed.Run(ctx, opts)
	}
	if err != nil {
		log.Error(err, "Ended runtimed")
		os.Exit(1)
	}
}
