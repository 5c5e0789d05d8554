//go:build e2e && linux

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"

	"kruntimes.io/kruntimes/test/cluster"
)

const bin = "../../bin"

// machine is what a cluster could leave behind on the machine.
type machine struct {
	Mounts, Links, Routes, Rules, Cgroups, Sysctls, Processes []string
}

func output(t *testing.T, program string, args ...string) []string {
	t.Helper()
	out, err := exec.Command(program, args...).Output()
	if err != nil {
		t.Fatalf("running %s: %v", program, err)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		// Comments hold times, and counters move.
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

func look(t *testing.T, state string) machine {
	t.Helper()
	m := machine{
		Mounts: output(t, "sh", "-c", "cut -d' ' -f5,9- /proc/self/mountinfo"),
		Links:  output(t, "sh", "-c", "ls /sys/class/net"),
		Routes: output(t, "ip", "route", "show"),
		Rules:  output(t, "iptables-save"),
	}
	for i, rule := range m.Rules { // the older iptables counts what each chain lets through: ":INPUT ACCEPT [12:345]"
		m.Rules[i] = counters.ReplaceAllString(rule, "")
	}
	for _, name := range []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
		"kernel/keys/root_maxbytes", "net/ipv4/ip_forward", "kernel/hostname",
	} {
		value, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if err != nil {
			t.Fatal(err)
		}
		m.Sysctls = append(m.Sysctls, name+"="+strings.TrimSpace(string(value)))
	}
	for _, pattern := range []string{"/sys/fs/cgroup/kruntimes-*", "/sys/fs/cgroup/*/kruntimes-*"} { // version 2, and version 1
		groups, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		m.Cgroups = append(m.Cgroups, groups...)
	}
	for _, line := range processes(t) {
		if strings.Contains(line, state) {
			m.Processes = append(m.Processes, line)
		}
	}
	// A group that is gone held no process, so that those of containers need no look of their own.
	for _, names := range []*[]string{&m.Mounts, &m.Links, &m.Routes, &m.Rules, &m.Cgroups, &m.Processes} {
		slices.Sort(*names)
	}
	return m
}

var counters = regexp.MustCompile(` \[\d+:\d+\]$`)

// processes returns the command lines of all processes of this machine, by their numbers.
func processes(t *testing.T) map[int]string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[int]string{}
	for _, file := range files {
		pid, pidErr := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		line, err := os.ReadFile(file)
		if errors.Join(pidErr, err) == nil { // else it has ended
			lines[pid] = strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return lines
}

func newCluster(t *testing.T, state string) *cluster.Cluster {
	t.Helper()
	executable, err := filepath.Abs(filepath.Join(bin, "cluster"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.New(cluster.Options{
		State: state, Executable: executable, Pause: filepath.Join(bin, "pause"), Environ: os.Environ(), Progress: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A short path: sockets are below it.
func stateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "kr") //nolint:usetesting // a name of t.TempDir() is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func up(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := c.Up(ctx); err != nil {
		t.Fatal(err)
	}
}

func nodePID(t *testing.T, state string) int {
	t.Helper()
	for pid, line := range processes(t) {
		if strings.HasSuffix(line, "node --state "+state) {
			return pid
		}
	}
	t.Fatalf("no node runs for %s", state)
	return 0
}

func TestDownLeavesNothing(t *testing.T) {
	state := stateDir(t)
	c := newCluster(t, state)
	before := look(t, state)
	up(t, c)
	t.Cleanup(func() {
		if err := c.Down(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	first := nodePID(t, state)
	up(t, c)
	if second := nodePID(t, state); second != first {
		t.Errorf("the second up replaced node %d by %d", first, second)
	}
	kubectl(t, c, "run", "held", "--image=kruntimes/pause:dev", "--image-pull-policy=Never")
	kubectl(t, c, "wait", "--for=condition=Ready", "--timeout=120s", "pod/held")

	// Whoever kills the first process kills all, and the next start finds nothing in its way.
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	up(t, c)
	kubectl(t, c, "wait", "--for=condition=Ready", "--timeout=120s", "node/"+cluster.NodeName)

	if err := c.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, look(t, state)); diff != "" {
		t.Errorf("the machine (-before +after):\n%s", diff)
	}
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("the state directory is still there: %v", err)
	}
}

func kubectl(t *testing.T, c *cluster.Cluster, args ...string) {
	t.Helper()
	program := os.Getenv("KUBECTL")
	if program == "" {
		program = filepath.Join(bin, "tools", "kubectl")
	}
	// ServiceAccounts come a moment after the API server.
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		out, err := exec.CommandContext(ctx, program, append([]string{"--kubeconfig=" + c.Kubeconfig()}, args...)...).CombinedOutput()
		if err != nil && !strings.Contains(string(out), "serviceaccount") {
			return false, fmt.Errorf("%w: %s", err, out)
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
}

func TestDownRefusesADirectoryThatIsNotACluster(t *testing.T) {
	state := stateDir(t)
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	precious := filepath.Join(state, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := newCluster(t, state).Down(t.Context()); err == nil {
		t.Error("Down removed a directory that no cluster made")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}
