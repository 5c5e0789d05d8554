package runtimeserver

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	runtimev1 "kruntimes.io/kruntimes/apis/runtime/v1"
	"kruntimes.io/kruntimes/runtimeserver/hardening"
	"kruntimes.io/kruntimes/runtimeserver/supervisor"
)

// SuperviseCommand is the hidden subcommand under which the server starts its own program as a supervisor. The program
// must answer it by calling Supervise.
const SuperviseCommand = "supervise"

// umask lets everybody read what executions write, and only their own user write.
const umask = 0o022

// Options configure a runtime server.
type Options struct {
	// Socket is the path of the unix socket on which runtimed listens.
	Socket string
	// Version is told to runtimed, for its logs.
	Version string
	// Environ is what every execution's environment starts from.
	Environ []string
	// SpareSupervisors is how many supervisors are kept ready.
	SpareSupervisors int
	// UnkillableAfter is how long processes may survive being killed before the server takes no execution any more.
	UnkillableAfter time.Duration
	// Root is where proc and sys are found.
	Root string
	// Signals are the signals that ask the server to end. Once runtimed has welcomed it, that ends the server, and a signal
	// only tells that nobody will start a runtimed again that has died: without one the server ends after 5 s.
	Signals <-chan os.Signal
	// Now is the clock.
	Now func() time.Time
}

// Validate returns everything that is wrong with the options.
func (o Options) Validate() error {
	var errs []error
	if o.Socket == "" {
		errs = append(errs, errors.New("the path of runtimed's socket is missing"))
	}
	if o.SpareSupervisors < 0 || o.SpareSupervisors > maxIdle {
		errs = append(errs, errors.New("the number of spare supervisors is not between 0 and 32"))
	}
	if o.UnkillableAfter <= 0 {
		errs = append(errs, errors.New("the time after which a process counts as unkillable is not positive"))
	}
	return errors.Join(errs...)
}

// Serve runs processes for runtimed until runtimed says Shutdown. It returns nil then, and also when a signal comes
// before runtimed welcomed it, or has come and runtimed is gone. It takes over the process: its children, its umask and what it is to other processes.
func Serve(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if err := hardening.Apply(); err != nil {
		return err
	}
	unix.Umask(umask)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	log := logr.FromContextOrDiscard(ctx)
	var dropped []string
	if o.Environ, dropped = textual(o.Environ); len(dropped) > 0 {
		log.Info("Dropped environment variables that are no UTF-8", "names", dropped)
	}
	processes, err := newProcesses(log, []string{
		os.Args[0], SuperviseCommand, "--unkillable-after=" + o.UnkillableAfter.String(),
	})
	if err != nil {
		return err
	}
	conn, err := dial(o.Socket)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	server := newServer(log, o, processes)
	go server.pool.fill(ctx)
	s := &sessions{server: server, client: runtimev1.NewRuntimedServiceClient(conn), signalled: make(chan struct{})}
	go s.heed(o.Signals, cancel)
	s.run(ctx)
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer done()
	server.pool.close(closing)
	return nil
}

// Supervise is a supervisor's whole life. It returns when the server is gone and nothing is left below it.
func Supervise(unkillableAfter time.Duration, now func() time.Time) error {
	return supervisor.Run(supervisor.Options{
		Control: controlDescriptor, UnkillableAfter: unkillableAfter, Now: now,
	})
}
