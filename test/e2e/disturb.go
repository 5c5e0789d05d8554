package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The components of kruntimes, as their label app.kubernetes.io/component calls them.
const (
	Manager   = "manager"
	Scheduler = "scheduler"
)

// SystemPods returns the Pods of a component.
func (e *Env) SystemPods(component string) []corev1.Pod {
	e.t.Helper()
	var pods corev1.PodList
	err := e.Client.List(e.t.Context(), &pods, client.InNamespace(SystemNamespace), client.MatchingLabels{"app.kubernetes.io/component": component})
	if err != nil {
		e.t.Fatalf("listing Pods of the %s: %v", component, err)
	}
	return pods.Items
}

// RestartComponent replaces the Pods of a component one after the other, as an upgrade does, and waits for the end of it.
func (e *Env) RestartComponent(component string) {
	e.t.Helper()
	deployment := "deployment/kruntimes-" + component
	e.Kubectl("--namespace="+SystemNamespace, "rollout", "restart", deployment)
	e.Kubectl("--namespace="+SystemNamespace, "rollout", "status", "--timeout="+Deadline.String(), deployment)
}

// LoseComponent deletes the Pods of a component without grace, as the loss of a node does, and waits until others are ready.
func (e *Env) LoseComponent(component string) {
	e.t.Helper()
	lost := map[types.UID]bool{}
	for _, pod := range e.SystemPods(component) {
		lost[pod.UID] = true
		e.LosePod(&pod)
	}
	e.Eventually("the "+component+" is back", func() string {
		for _, pod := range e.SystemPods(component) {
			if !lost[pod.UID] && IsReady(&pod) {
				return ""
			}
		}
		return "no new Pod of it is ready"
	})
}

// LosePod deletes a Pod without grace.
func (e *Env) LosePod(pod *corev1.Pod) {
	e.t.Helper()
	err := e.Client.Delete(e.t.Context(), pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	if client.IgnoreNotFound(err) != nil {
		e.t.Fatalf("deleting Pod %s: %v", pod.Name, err)
	}
}

// IsReady tells whether a Pod is ready.
func IsReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Exec runs a command in a container of a Pod of the test's namespace.
func (e *Env) Exec(pod, container string, command ...string) Result {
	e.t.Helper()
	return e.TryKubectl("", append([]string{"exec", pod, "--container=" + container, "--"}, command...)...)
}

// Processes returns the processes of a container, by their command lines, as this machine numbers them: the first one of the
// container is among them. On somebody else's cluster the test is skipped.
func (e *Env) Processes(pod *corev1.Pod, container string) map[int]string {
	e.t.Helper()
	e.Cluster()
	processes, err := ProcessesOf(pod, container)
	if err != nil {
		e.t.Fatal(err)
	}
	lines := map[int]string{}
	for pid, p := range processes {
		lines[pid] = p.Line
	}
	return lines
}

// Process is a process of a container.
type Process struct {
	// Line is its command line.
	Line string
	// IsFirst tells whether it is number 1 in its container, whose end is that of all others.
	IsFirst bool
}

// ProcessesOf returns the processes of a container by their numbers on this machine, on which the node has to be. It is an
// error when the container does not run.
func ProcessesOf(pod *corev1.Pod, container string) (map[int]Process, error) {
	id := ""
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == container {
			_, id, _ = strings.Cut(status.ContainerID, "://")
		}
	}
	if id == "" {
		return nil, fmt.Errorf("container %s of Pod %s does not run", container, pod.Name)
	}
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	processes := map[int]Process{}
	for _, path := range groups {
		dir := filepath.Dir(path)
		group, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(group), id) {
			continue // it has ended, or is another one's
		}
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		status, statusErr := os.ReadFile(filepath.Join(dir, "status"))
		pid, pidErr := strconv.Atoi(filepath.Base(dir))
		if errors.Join(err, statusErr, pidErr) == nil && len(line) > 0 {
			text := strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
			processes[pid] = Process{Line: text, IsFirst: numberInside(string(status)) == "1"}
		}
	}
	return processes, nil
}

// numberInside is the number that a process has in the innermost namespace.
func numberInside(status string) string {
	for line := range strings.Lines(status) {
		if numbers, found := strings.CutPrefix(line, "NSpid:"); found {
			words := strings.Fields(numbers)
			return words[len(words)-1]
		}
	}
	return ""
}

// Kill sends SIGKILL to the processes of a container whose command line contains text, the container's first process
// included, and fails the test when there is none.
func (e *Env) Kill(pod *corev1.Pod, container, text string) {
	e.t.Helper()
	killed := 0
	for pid, line := range e.Processes(pod, container) {
		if !strings.Contains(line, text) {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			e.t.Fatalf("killing %q of Pod %s: %v", line, pod.Name, err)
		}
		killed++
	}
	if killed == 0 {
		e.t.Fatalf("no process of container %s of Pod %s is called %q", container, pod.Name, text)
	}
}
