package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"kruntimes.io/kruntimes/artifacts/stores"
	"kruntimes.io/kruntimes/runtimed"
	"kruntimes.io/kruntimes/runtimed/gitsource"
	"kruntimes.io/kruntimes/version/logging"
)

// run is runtimed or, when its arguments say so, the process that fetches a git source for it, or one that reads an
// artifact. It reports its error.
func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if slices.Equal(args, []string{gitsource.Subcommand}) {
		err := gitsource.Serve(ctx, os.Stdin, os.Stdout)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return err
	}
	if len(args) > 0 && args[0] == "artifact" {
		err := artifactCommand(ctx, args[1:], os.Stdout, os.Stderr)
		if errors.Is(err, stores.ErrNoDriver) {
			err = becomeS3()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return err
	}
	surviveBrokenPipes()
	opts, verbosity, err := parse(args, os.Getenv)
	// Standard output belongs to the log records of executions.
	log := logging.New(os.Stderr, verbosity).WithName("runtimed")
	klog.SetLogger(log)
	if store := opts.Artifacts.Store; err == nil && store != nil && store.S3 != nil && openBucket == nil {
		err = becomeS3()
	}
	opts.Artifacts.OpenBucket = openBucket
	if err == nil {
		err = runtimed.Run(logr.NewContext(ctx, log), opts)
	}
	if err != nil {
		log.Error(err, "Ended runtimed")
	}
	return err
}

// surviveBrokenPipes keeps this process, and with it the executions, alive when nobody reads its logs any more: writes then
// return an error. What it starts is killed by broken pipes as usual.
func surviveBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
