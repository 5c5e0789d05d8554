// Package devcluster runs a whole kruntimes cluster on one machine without containers: a real etcd, kube-apiserver and
// kube-controller-manager, the manager and the scheduler of kruntimes, and a stand-in for the kubelet that runs Pods as
// processes of the calling user. It serves `krt dev`, the demo, the system tests and the benchmarks.
//
// Nothing in it isolates anything: what runs in a Pod can do whatever the user can do who started the cluster.
package devcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"kruntimes.io/kruntimes/devcluster/controlplane"
	"kruntimes.io/kruntimes/devcluster/process"
)

// Cluster is a running dev cluster.
type Cluster struct {
	options Options
	dirs    dirs
	creds   *credentials
	config  *rest.Config
	log     logr.Logger
	// ctx ends with the cluster, and with it what watches the parts; cancel ends it.
	ctx     context.Context
	cancel  context.CancelCauseFunc
	started time.Time

	// replacing is held while a part is replaced, and from the beginning of the end: nothing is started after that.
	replacing sync.Mutex

	webhookPort int // where the manager answers the API server; chosen by install

	mu    sync.Mutex
	parts []*part // in the order of their start
	phase Phase

	done chan struct{}
	err  error // why the cluster ended; readable once done is closed
}

// PartError says that a part of the cluster ended although nobody asked it to.
type PartError struct {
	// Part is the name of the part, Err how it ended and the last lines of its log.
	Part string
	Err  error
}

func (e *PartError) Error() string { return fmt.Sprintf("%s ended unexpectedly: %v", e.Part, e.Err) }

// Unwrap returns how the part ended.
func (e *PartError) Unwrap() error { return e.Err }

// errStopped is the cause of an end that was asked for.
var errStopped = errors.New("the dev cluster was stopped")

// Start brings a cluster up and returns when it takes work. The cluster lives until Stop is called, ctx ends, or one of
// its parts ends. When Start returns an error, nothing of the cluster is left.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	release, err := takeStateDir(options.StateDir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c := &Cluster{options: options, log: logr.FromContextOrDiscard(ctx), ctx: ctx, cancel: cancel, started: options.Clock.Now(), phase: Starting, done: make(chan struct{})}
	if err := c.prepare(); err != nil {
		cancel(err)
		release()
		return nil, err
	}
	startErr := c.start(ctx)
	go func() {
		defer close(c.done)
		defer release()
		<-ctx.Done()
		c.err = errors.Join(endOf(ctx), c.shutdown())
	}()
	if startErr != nil {
		cancel(startErr)
		<-c.done
		return nil, startErr
	}
	return c, nil
}

// endOf returns the error that ended the cluster, or nil when the end was asked for.
func endOf(ctx context.Context) error {
	var failure *PartError
	if errors.As(context.Cause(ctx), &failure) {
		return failure
	}
	return nil
}

func (c *Cluster) prepare() (err error) {
	if c.options.OwnsProcess {
		if err := process.BecomeReaper(); err != nil {
			return err
		}
	}
	if c.dirs, err = prepareStateDir(c.options.StateDir); err != nil {
		return err
	}
	if err := c.publish(); err != nil {
		return err
	}
	if c.options.OwnsProcess {
		if err := c.divertLogs(); err != nil {
			return err
		}
	}
	c.creds, err = makeCredentials(c.dirs, &c.options)
	return err
}

// start brings the parts up, one after the other where one needs the other. The controllers of Kubernetes come after the
// kinds of kruntimes, because they look for new kinds only now and then.
func (c *Cluster) start(ctx context.Context) error {
	steps := []struct {
		doing string
		run   func(context.Context) error
	}{
		{"providing the control plane", c.ensureControlPlane},
		{"starting etcd", c.startEtcd},
		{"starting kube-apiserver", c.startAPIServer},
		{"installing kruntimes", c.install},
		{"starting kube-controller-manager", c.startControllerManager},
		{"starting the kubelet stand-in", c.startKubelet},
		{"starting manager and scheduler", c.startProduct},
		{"waiting for the node", c.waitForNode},
	}
	for _, step := range steps {
		began := c.options.Clock.Now()
		if err := step.run(ctx); err != nil {
			var failure *PartError
			if errors.As(context.Cause(ctx), &failure) { // the true reason, whatever it made fail
				return failure
			}
			return fmt.Errorf("%s: %w", step.doing, err)
		}
		fmt.Fprintf(c.options.Progress, "  %-34s %5.1f s\n", step.doing, c.options.Clock.Since(began).Seconds())
	}
	c.mu.Lock()
	c.phase = Ready
	c.mu.Unlock()
	return c.publish()
}

func (c *Cluster) ensureControlPlane(ctx context.Context) error {
	if c.options.Binaries.ControlPlane != "" {
		return nil
	}
	dir, err := controlplane.Ensure(ctx, c.options.controlPlaneOptions())
	c.options.Binaries.ControlPlane = dir
	return err
}

// Config returns the configuration of a client that may do everything.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns the path of a kubeconfig of somebody who may do everything.
func (c *Cluster) Kubeconfig() string { return c.dirs.kubeconfig() }

// State returns what the cluster tells other processes about itself.
func (c *Cluster) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := State{PID: os.Getpid(), Phase: c.phase, StartedAt: c.started, Node: NodeName, Sockets: c.dirs.external()}
	if c.config != nil {
		s.URL, s.Kubeconfig = c.config.Host, c.dirs.kubeconfig()
	}
	for _, p := range c.parts {
		s.Parts = append(s.Parts, p.Part)
	}
	return s
}

// Stop ends the cluster and returns when nothing of it is left.
func (c *Cluster) Stop() {
	c.cancel(errStopped)
	<-c.done
}

// Kill ends the cluster without giving its parts time, and returns when nothing of it is left. Pods that should end in
// peace do not. It may be called while Stop waits.
func (c *Cluster) Kill() {
	c.cancel(errStopped)
	c.mu.Lock()
	parts := slices.Clone(c.parts)
	c.mu.Unlock()
	for _, p := range parts {
		if p.process != nil {
			p.process.Kill()
		}
	}
	<-c.done
}

// Done is closed when the cluster has ended and nothing of it is left.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Err says why the cluster ended: nil when that was asked for, a PartError when a part ended on its own. It is nil
// while the cluster lives.
func (c *Cluster) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// publish writes down for other processes what there is.
func (c *Cluster) publish() error { return writeStateFile(c.options.StateDir, c.State()) }
