// Package cluster runs a real Kubernetes cluster of one node on this machine: etcd, kube-apiserver, a whole
// kube-controller-manager, kube-scheduler, kube-proxy, kubelet and containerd, for the end-to-end suite and for people who
// want to see Pods on a kubelet. It needs Linux and root.
//
// Everything that runs lives in namespaces whose first process is that of package node. So nothing of it is seen in the
// machine's mounts, addresses and packet filter but one end of a network interface, several clusters do not meet each other,
// and what one process started cannot outlive it. Below the state directory is everything else, and the cgroups of containers
// are below one group. There is no route to the world outside: images are loaded, never pulled. There is no DNS either;
// what talks to the API server finds it by KUBERNETES_SERVICE_HOST.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kruntimes.io/kruntimes/test/cluster/node"
)

// Options says which cluster is meant and how it starts.
type Options struct {
	// State is the directory of the cluster. Required. It is removed by Down.
	State string
	// Executable is the program that calls node.Main when its first argument is "node". Required by Up.
	Executable string
	// Pause is the static program of the image that holds a Pod's namespaces. Required by Up.
	Pause string
	// Environ is the environment to look variables up in, as os.Environ returns it. Required by Up.
	Environ []string
	// Progress receives lines for people. Default: nothing is written.
	Progress io.Writer
}

// Cluster is a cluster that may or may not run.
type Cluster struct {
	layout
	options Options
	node    *node.Client
}

// ErrUnsupported says that this machine cannot have a cluster.
var ErrUnsupported = errors.New("a cluster with a real node needs Linux and root")

// New returns the cluster of a state directory. It changes nothing.
func New(options Options) (*Cluster, error) {
	if options.State == "" {
		return nil, errors.New("no state directory is given")
	}
	state, err := filepath.Abs(options.State)
	if err != nil {
		return nil, fmt.Errorf("resolving the state directory: %w", err)
	}
	if options.Progress == nil {
		options.Progress = io.Discard
	}
	l := layout{state: state}
	// The longest socket below the state directory is that of etcd's peers; the kernel takes 107 bytes.
	if path := l.etcdSocket() + ".peer"; len(path) > 107 {
		return nil, fmt.Errorf("the path of state directory %s is too long for the sockets in it", state)
	}
	if err := checkSeen("state directory", state); err != nil {
		return nil, err
	}
	return &Cluster{layout: l, options: options, node: node.NewClient(l.nodeSocket())}, nil
}

// checkSeen returns an error, which says what the path is of, when the node does not see it.
func checkSeen(what, path string) error {
	for _, hidden := range node.Hidden() {
		if inside(path, hidden) {
			return fmt.Errorf("%s %s must not be below %s, which the node does not see", what, path, hidden)
		}
	}
	return nil
}

// inside tells whether path is dir or lies below it.
func inside(path, dir string) bool {
	relative, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(relative)
}

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig() }

// Log is the path of a part's log.
func (c *Cluster) Log(part string) string { return c.log(part) }

// Volumes is a directory that the node sees as well, for directories of local PersistentVolumes.
func (c *Cluster) Volumes() string { return c.volumes() }

// Config returns how the administrator reaches the API server, without a limit on requests.
func (c *Cluster) Config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1
	return config, nil
}

// Parts returns how the parts are doing, in the order of their start.
func (c *Cluster) Parts(ctx context.Context) ([]node.State, error) { return c.node.Parts(ctx) }

// stopGrace is how long a part has for ending by itself.
const stopGrace = 30 * time.Second

// Start runs a program as a part of the cluster: on its node, and not longer than it.
func (c *Cluster) Start(ctx context.Context, part node.Part) error {
	if len(part.Args) > 0 {
		if err := checkSeen("program", part.Args[0]); err != nil {
			return err
		}
	}
	return c.node.Start(ctx, part)
}

// Stop ends a part as its operator would.
func (c *Cluster) Stop(ctx context.Context, part string) error {
	return c.node.Stop(ctx, part, stopGrace)
}

// Kill ends a part without warning.
func (c *Cluster) Kill(ctx context.Context, part string) error { return c.node.Stop(ctx, part, 0) }

// Again starts a part that was stopped or killed. It does not wait until the part answers.
func (c *Cluster) Again(ctx context.Context, part string) error { return c.node.Again(ctx, part) }

// Restart stops a part, starts it again, and waits until the API server and the Node are ready.
func (c *Cluster) Restart(ctx context.Context, part string) error {
	if err := c.Stop(ctx, part); err != nil {
		return err
	}
	if err := c.Again(ctx, part); err != nil {
		return err
	}
	if err := c.waitForAPIServer(ctx); err != nil {
		return err
	}
	return c.waitForNode(ctx)
}

// isUp tells whether the cluster's node runs and takes orders.
func (c *Cluster) isUp(ctx context.Context) bool {
	if _, err := os.Stat(c.nodeSocket()); err != nil {
		return false
	}
	states, err := c.node.Parts(ctx)
	if err != nil {
		return false
	}
	for _, state := range states {
		if state.Name == PartKubelet {
			return state.Running
		}
	}
	return false
}
