package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"

	"kruntimes.io/kruntimes/runtimeserver"
	"kruntimes.io/kruntimes/version"
)

const usage = "usage: runtime-server serve --socket=PATH | install DST"

// unkillableAfter is how long a process may survive being killed.
const unkillableAfter = 30 * time.Second

func run(args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] {
	case "serve":
		return serve(args[1:])
	case "install":
		if len(args) != 2 {
			return errors.New(usage)
		}
		return runtimeserver.Install(args[1])
	case runtimeserver.SuperviseCommand:
		return supervise(args[1:])
	default:
		return errors.New(usage)
	}
}

func serve(args []string) error {
	o := runtimeserver.Options{Version: version.String(), Environ: os.Environ(), Root: "/", Now: time.Now}
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	flags.StringVar(&o.Socket, "socket", "", "`path` of the unix socket on which runtimed listens")
	flags.IntVar(&o.SpareSupervisors, "spare-supervisors", 2, "how many supervisor processes are kept ready")
	flags.DurationVar(&o.UnkillableAfter, "unkillable-after", unkillableAfter,
		"how long processes may survive being killed before the server takes no execution any more")
	if err := flags.Parse(args); err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	o.Signals = signals
	zapLog, err := zap.NewProduction()
	if err != nil {
		return err
	}
	return runtimeserver.Serve(logr.NewContext(context.Background(), zapr.NewLogger(zapLog)), o)
}

func supervise(args []string) error {
	flags := flag.NewFlagSet(runtimeserver.SuperviseCommand, flag.ExitOnError)
	after := flags.Duration("unkillable-after", unkillableAfter, "how long processes may survive being killed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return runtimeserver.Supervise(*after, time.Now)
}
