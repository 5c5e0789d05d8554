package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"kruntimes.io/kruntimes/devcluster/controlplane"
	"kruntimes.io/kruntimes/test/cluster/images"
	"kruntimes.io/kruntimes/test/cluster/node"
)

// Up starts the cluster and returns when its Node takes Pods. A cluster that is up already stays as it is; what is left of one
// that was killed is removed first. The binaries of Kubernetes are built when this machine has none, which takes minutes.
func (c *Cluster) Up(ctx context.Context) (err error) {
	if os.Geteuid() != 0 {
		return ErrUnsupported
	}
	if c.isUp(ctx) {
		c.say("The cluster is up already")
		return nil
	}
	programs, err := findPrograms()
	if err != nil {
		return err
	}
	binaries, err := controlplane.EnsurePaths(ctx, controlplane.EnsureOptions{
		Progress: c.options.Progress, Environ: c.options.Environ, Binaries: append(controlplane.All(), controlplane.Node()...),
	})
	if err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Values(binaries)) {
		if err := checkSeen("program", path); err != nil {
			return err
		}
	}
	if err := c.Down(ctx); err != nil {
		return fmt.Errorf("removing what an earlier cluster left: %w", err)
	}
	defer func() {
		if err != nil && ctx.Err() != nil {
			// Who interrupts the start wants no half of a cluster; after another error its logs are of use.
			err = errors.Join(err, c.Down(context.WithoutCancel(ctx)))
		}
	}()
	link, err := chooseLink()
	if err != nil {
		return err
	}
	commands := commands{layout: c.layout, binaries: binaries, containerdPath: programs["containerd"], address: link.node}
	if err := c.prepare(commands); err != nil {
		return err
	}
	c.say("Starting the node at %s", link.node)
	if err := c.startNode(ctx, link); err != nil {
		return err
	}
	return c.startParts(ctx, commands)
}

func (c *Cluster) say(format string, args ...any) {
	fmt.Fprintf(c.options.Progress, format+"\n", args...)
}

// prepare fills the state directory.
func (c *Cluster) prepare(commands commands) error {
	if err := os.MkdirAll(c.state, 0o755); err != nil {
		return fmt.Errorf("making the state directory: %w", err)
	}
	if err := os.WriteFile(c.marker(), nil, 0o644); err != nil {
		return fmt.Errorf("marking the state directory: %w", err)
	}
	for _, dir := range c.dirs() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the state directory: %w", err)
		}
	}
	if err := commands.writeCredentials(time.Now()); err != nil {
		return err
	}
	if err := commands.writeConfigs(); err != nil {
		return err
	}
	return makeCgroups(c.cgroup())
}

// nodePath is where the parts look for programs.
const nodePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// nodeEnviron is all that the parts see of the machine's environment.
var nodeEnviron = []string{"PATH=" + nodePath, "HOME=/root"}

// startNode starts the first process of the node, gives it the other end of a new interface, and waits until it takes orders.
func (c *Cluster) startNode(ctx context.Context, link link) error {
	log, err := os.OpenFile(c.log("node"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of the node: %w", err)
	}
	defer log.Close() // the node has a copy
	cmd := exec.Command(c.options.Executable, nodeArguments(c.state)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = nodeEnviron, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("connecting to the node: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the node: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its log tells why
		close(ended)
	}()
	if err := link.create(ctx, c.hostInterface(), cmd.Process.Pid); err != nil {
		return err
	}
	if err := json.NewEncoder(stdin).Encode(node.Config{
		State: c.state, Socket: c.nodeSocket(), Logs: c.logs(), Hostname: NodeName,
		Address: link.node + link.prefix, Gateway: link.host,
	}); err != nil {
		return fmt.Errorf("configuring the node: %w", err)
	}
	if err := stdin.Close(); err != nil {
		return fmt.Errorf("configuring the node: %w", err)
	}
	return until(ctx, time.Minute, "the node takes orders", func(ctx context.Context) (bool, error) {
		select {
		case <-ended:
			content, _ := os.ReadFile(c.log("node"))
			return false, fmt.Errorf("it has ended: %s", content)
		default:
		}
		_, err := c.node.Parts(ctx)
		return err == nil, nil
	})
}

// startParts starts each part when those that it cannot wait for are ready.
func (c *Cluster) startParts(ctx context.Context, commands commands) error {
	began := time.Now()
	start := func(parts ...node.Part) error {
		for _, part := range parts {
			if err := c.node.Start(ctx, part); err != nil {
				return err
			}
		}
		return nil
	}
	if err := start(commands.containerdPart(), commands.etcdPart(), commands.apiServerPart()); err != nil {
		return err
	}
	if err := c.waitForContainerd(ctx); err != nil {
		return err
	}
	pause := filepath.Join(c.temporary(), "pause.tar")
	if err := images.Write(pause, images.Pause(pauseImage, c.options.Pause)); err != nil {
		return err
	}
	if err := c.Load(ctx, pause); err != nil {
		return err
	}
	if err := c.waitForAPIServer(ctx); err != nil {
		return err
	}
	c.say("The API server is ready after %s", time.Since(began).Round(100*time.Millisecond))
	if err := start(commands.controllerManagerPart(), commands.schedulerPart(), commands.proxyPart(), commands.kubeletPart()); err != nil {
		return err
	}
	if err := c.waitForNode(ctx); err != nil {
		return err
	}
	c.say("The node is ready after %s", time.Since(began).Round(100*time.Millisecond))
	return nil
}

// Load imports images from archives, as docker save and Write make them, into the node.
func (c *Cluster) Load(ctx context.Context, archives ...string) error {
	ctr, err := findProgram("ctr")
	if err != nil {
		return err
	}
	for _, archive := range archives {
		cmd := exec.CommandContext(ctx, ctr, "--address="+c.containerdSocket(), "--namespace=k8s.io", "images", "import", archive)
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("loading %s: %w: %s", archive, err, output)
		}
	}
	return nil
}
