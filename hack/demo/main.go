// Command demo shows the main job on the embedded control plane: two warm Runtimes, scripts from files run on them
// with their output, outputs and exit codes, 50 Runs at once, and WorkflowRuns with their trees, logs, outputs and artifacts:
// one that calls a Workflow and an Action, one that fails, and one that is triggered. It exits 0 only if every result is right.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"kruntimes.io/kruntimes/devcluster"
)

// limit bounds the whole demo once the control plane is built.
const limit = 5 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// demo holds what the steps share.
type demo struct {
	client     client.Client
	kubeconfig string
	krt        string
	namespace  string
	python     bool
}

func run(ctx context.Context) error {
	begin := time.Now()
	state, err := os.MkdirTemp("", "kruntimes-demo-")
	if err != nil {
		return fmt.Errorf("making a state directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(state) }()
	title("Starting etcd, kube-apiserver, kube-controller-manager, and kruntimes on top of them")
	cluster, err := devcluster.Start(ctx, devcluster.Options{
		StateDir: state, Progress: os.Stdout, Environ: os.Environ(), OwnsProcess: true,
		Binaries: devcluster.Binaries{
			Kubelet:  []string{"bin/krt", "dev", "kubelet"},
			Runtimed: "bin/runtimed", RuntimeServer: "bin/runtime-server",
		},
	})
	if err != nil {
		return fmt.Errorf("starting the control plane: %w", err)
	}
	defer cluster.Stop()
	say("ready after %s", since(begin))

	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	d, err := newDemo(cluster)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- d.steps(ctx, begin) }()
	select {
	case err := <-ended:
		return err
	case <-cluster.Done():
		return errors.Join(errors.New("the control plane ended under the demo"), cluster.Err())
	}
}

func newDemo(cluster *devcluster.Cluster) (*demo, error) {
	c, err := client.New(cluster.Config(), client.Options{Scheme: scheme()})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	_, err = exec.LookPath("python3")
	return &demo{client: c, kubeconfig: cluster.Kubeconfig(), krt: "bin/krt", namespace: "default", python: err == nil}, nil
}

func (d *demo) steps(ctx context.Context, begin time.Time) error {
	if err := d.apply(ctx, runtimeFiles); err != nil {
		return err
	}
	if err := d.runScripts(ctx); err != nil {
		return err
	}
	say("first to last script done %s after the start of the demo", since(begin))
	if err := d.runMany(ctx, 50); err != nil {
		return err
	}
	if err := d.apply(ctx, definitionFiles); err != nil {
		return err
	}
	if err := d.runWorkflows(ctx); err != nil {
		return err
	}
	fmt.Printf("\nAll of it is right. The demo took %s.\n\nNext: bin/krt dev up, and look around by hand as README.md says.\n", since(begin))
	return nil
}

func title(format string, args ...any) { fmt.Printf("\n==> "+format+"\n", args...) }

func say(format string, args ...any) { fmt.Printf("    "+format+"\n", args...) }

func since(t time.Time) time.Duration { return time.Since(t).Round(10 * time.Millisecond) }
