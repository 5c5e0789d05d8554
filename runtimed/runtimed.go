// Package runtimed is the sidecar of a Runtime's Pod: it executes the Runs that the scheduler assigns to its Pod, by
// way of the runtime server in the container beside it, and reports what became of them.
//
//	API server --watch--> runs.Feed --> executor.Executor --> server.Connection <--stream-- runtime server
//	     ^                                 |     |    |
//	     +-------- status patches ---------+     |    +--> logs.Writer --> standard output
//	                                   staging.Area, state.Store, transfer.Mover <--> artifact store
//
// Nothing is written to the API while no Run is executed, unless the artifact store comes or goes. What must outlive a restart
// lies in state.Store.
package runtimed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"kruntimes.io/kruntimes/runtimed/bound"
	"kruntimes.io/kruntimes/runtimed/executor"
	"kruntimes.io/kruntimes/runtimed/gitsource"
	"kruntimes.io/kruntimes/runtimed/logs"
	"kruntimes.io/kruntimes/runtimed/runs"
	"kruntimes.io/kruntimes/runtimed/server"
	"kruntimes.io/kruntimes/runtimed/staging"
	"kruntimes.io/kruntimes/runtimed/state"
	"kruntimes.io/kruntimes/runtimed/workspace"
)

const (
	// shutdownTimeout bounds how long the runtime server may take to go once all executions have ended.
	shutdownTimeout = 5 * time.Second
	// claimsTimeout bounds how long claims that were told to end may take for what they are at. The network answers to
	// their context at once; a file system may not.
	claimsTimeout = 5 * time.Second
)

// Run works until ctx ends. Then it lets what executes go on, for as long as the Pod's grace period allows, shuts the
// runtime server down, and returns. It returns nil only when every Run that was ever started here was reported: the Run
// lifecycle controller relies on that. It logs to the logger in ctx.
func Run(ctx context.Context, opts Options) error {
	if err := opts.validate(); err != nil {
		return fmt.Errorf("checking the options: %w", err)
	}
	if err := opts.complete(); err != nil {
		return err
	}
	store, err := state.Open(opts.State, opts.BootID)
	if err != nil {
		return err
	}
	err = runWithState(ctx, opts, store)
	return errors.Join(err, store.Close())
}

func runWithState(ctx context.Context, opts Options, store *state.Store) error {
	if err := os.MkdirAll(filepath.Dir(opts.Socket), 0o700); err != nil {
		return fmt.Errorf("making the directory of the socket: %w", err)
	}
	area, err := staging.Open(opts.Scratch)
	if err != nil {
		return err
	}
	volume, err := workspace.Open(opts.Workspace)
	if err != nil {
		return errors.Join(err, area.Close())
	}
	err = runWithVolumes(ctx, opts, store, volumes{area, volume})
	return errors.Join(err, area.Close(), volume.Close())
}

// volumes are what runtimed shares with the runtime server.
type volumes struct {
	area      *staging.Area
	workspace *workspace.Volume
}

func runWithVolumes(ctx context.Context, opts Options, store *state.Store, volumes volumes) error {
	log := logr.FromContextOrDiscard(ctx)
	client, workspaces, err := newClients(opts)
	if err != nil {
		return err
	}
	connection, err := server.New(server.Options{Nonces: store, Clock: opts.Clock, Log: log.WithName("server")})
	if err != nil {
		return err
	}
	// The parts outlive ctx, since Runs are reported and the server is shut down after its end.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	mover, err := openArtifacts(work, opts, store, client)
	if err != nil {
		return err
	}
	occupancy := &workspace.Occupancy{}
	claims := executor.New(work, executor.Options{
		Pod: opts.Pod, Interpreter: opts.Interpreter, Client: client, Server: connection, Area: volumes.area, State: store,
		Logs: logs.NewWriter(opts.Stdout, opts.Clock.Now), Clock: opts.Clock, Timing: opts.Timing,
		Sources: gitsource.NewFetcher(gitsource.Options{Env: opts.FetchEnv}), Log: log.WithName("executor"),
		Workspaces: workspaces, Volume: volumes.workspace, Occupancy: occupancy, Artifacts: mover,
	})
	feed := runs.NewFeed(client, runs.FeedOptions{
		Pod: opts.Pod.Name, PodUID: opts.Pod.UID, Handler: claims, Clock: opts.Clock, Log: log.WithName("feed"),
	})
	keeper := bound.NewKeeper(bound.Options{
		Pod: opts.Pod.Name, PodUID: opts.Pod.UID, Client: workspaces, Active: feed.Active,
		Volume: volumes.workspace, Occupancy: occupancy, Clock: opts.Clock, Log: log.WithName("workspaces"),
	})
	ready := readiness{draining: ctx.Done(), checks: []func() (bool, string){connection.Ready, feed.Live}}

	listener, err := server.Listen(opts.Socket)
	if err != nil {
		return err
	}
	group, work := errgroup.WithContext(work)
	group.Go(func() error { return connection.Serve(work, listener) })
	group.Go(func() error { return serveHealth(work, opts.HealthAddress, ready) })
	group.Go(func() error { feed.Run(work); return nil })
	group.Go(func() error { keeper.Run(work); return nil })
	d := &drain{
		timing: opts.Shutdown, pod: opts.Pod, claims: claims, feed: feed, keeper: keeper, client: client, clock: opts.Clock, log: log,
	}
	group.Go(func() error { return endWith(ctx, work, stop, d, connection) })
	log.Info("Started runtimed", "pod", opts.Pod.Name, "namespace", opts.Pod.Namespace, "interpreter", opts.Interpreter)
	err = group.Wait()
	// A part has failed, or the time was up: the claims end before the caller closes what they use.
	stop()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimsTimeout)
	defer cancel()
	if !claims.Wait(last) {
		log.Info("Left claims behind", "timeout", claimsTimeout)
	}
	return err
}

func newClients(opts Options) (*runs.Client, *bound.Client, error) {
	client, err := runs.NewClient(opts.Config, opts.Pod.Namespace)
	if err != nil {
		return nil, nil, err
	}
	workspaces, err := bound.NewClient(opts.Config, opts.Pod.Namespace)
	return client, workspaces, err
}

// endWith waits for the end of ctx, lets drain end what is at work, and then ends the runtime server and everything else.
func endWith(ctx, work context.Context, stop func(), d *drain, connection *server.Connection) error {
	select {
	case <-ctx.Done():
	case <-work.Done():
		return nil
	}
	err := d.run(work)
	endServer(work, connection, d.log)
	stop()
	return err
}

// endServer ends the runtime server, and with it whatever still executes.
func endServer(work context.Context, connection *server.Connection, log logr.Logger) {
	shutdown, cancel := context.WithTimeout(work, shutdownTimeout)
	defer cancel()
	if err := connection.Shutdown(shutdown); err != nil {
		log.Error(err, "Could not end the runtime server")
	}
}
