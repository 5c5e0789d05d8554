package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"kruntimes.io/kruntimes/runtimeserver"
	"kruntimes.io/kruntimes/version"
	"kruntimes.io/kruntimes/version/logging"
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
	var verbosity logging.Verbosity
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.StringVar(&o.Socket, "socket", "", "`path` of the unix socket on which runtimed listens")
	flags.IntVar(&o.SpareSupervisors, "spare-supervisors", 2, "how many supervisor processes are kept ready")
	flags.DurationVar(&o.UnkillableAfter, "unkillable-after", unkillableAfter,
		"how long processes may survive being killed before the server takes no execution any more")
	verbosity.AddFlag(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	o.Signals = signals
	return runtimeserver.Serve(logr.NewContext(context.Background(), logging.New(os.Stderr, verbosity)), o)
}

func supervise(args []string) error {
	flags := flag.NewFlagSet(runtimeserver.SuperviseCommand, flag.ContinueOnError)
	after := flags.Duration("unkillable-after", unkillableAfter, "how long processes may survive being killed")
	if err := parse(flags, args); err != nil {
		return err
	}
	return runtimeserver.Supervise(*after, time.Now)
}

// parse reads a command line that consists of flags. Asked for help, it prints the flags and returns flag.ErrHelp.
func parse(flags *flag.FlagSet, args []string) error {
	flags.SetOutput(io.Discard) // the error says it all
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(os.Stdout)
		flags.PrintDefaults()
		return err
	case err != nil:
		return fmt.Errorf("reading the command line of %s: %w", flags.Name(), err)
	case flags.NArg() > 0:
		return fmt.Errorf("reading the command line of %s: unexpected argument %q", flags.Name(), flags.Arg(0))
	}
	return nil
}
