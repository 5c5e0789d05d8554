//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/test/cluster"
	"kruntimes.io/kruntimes/test/e2e"
)

const (
	// shortestPause and longestPause bound the time between two kills.
	shortestPause, longestPause = 3 * time.Second, 10 * time.Second
)

// harm kills.
type harm struct {
	env     *e2e.Env
	cluster *cluster.Cluster
	random  *rand.Rand
	// kills counts, by kind.
	kills map[string]int
}

// means are the kinds of kills. One that is listed twice is twice as likely.
func (h *harm) means() []struct {
	kind string
	do   func(context.Context) (bool, error)
} {
	type means = struct {
		kind string
		do   func(context.Context) (bool, error)
	}
	often := []means{
		{"runtimed killed", func(ctx context.Context) (bool, error) { return h.killFirst(ctx, corev1alpha1.ContainerRuntimed) }},
		{"runtime server killed", func(ctx context.Context) (bool, error) { return h.killFirst(ctx, corev1alpha1.ContainerRuntime) }},
		{"Pod deleted", func(ctx context.Context) (bool, error) { return h.deletePod(ctx) }},
		{"Pod lost", func(ctx context.Context) (bool, error) { return h.deletePod(ctx, client.GracePeriodSeconds(0)) }},
		{"manager lost", func(ctx context.Context) (bool, error) { return h.loseComponent(ctx, e2e.Manager) }},
		{"scheduler lost", func(ctx context.Context) (bool, error) { return h.loseComponent(ctx, e2e.Scheduler) }},
	}
	return append(slices.Concat(often, often), means{"API server killed", h.killAPIServer})
}

// run kills at random until ctx ends. What cannot be killed at the moment is left alone.
func (h *harm) run(ctx context.Context) error {
	means := h.means()
	timer := time.NewTimer(longestPause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		m := means[h.random.IntN(len(means))]
		done, err := m.do(ctx)
		if err != nil && ctx.Err() == nil {
			fmt.Printf("%s: %v\n", m.kind, err)
		}
		if done {
			h.kills[m.kind]++
		}
		timer.Reset(shortestPause + time.Duration(h.random.Int64N(int64(longestPause-shortestPause))))
	}
}

// choose takes one of the Pods of the Runtime that are not being deleted; nil where there is none.
func (h *harm) choose(ctx context.Context) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := h.env.Client.List(ctx, &pods, client.InNamespace(h.env.Namespace), client.HasLabels{corev1alpha1.LabelRuntime}); err != nil {
		return nil, fmt.Errorf("listing Pods: %w", err)
	}
	pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil || !e2e.IsReady(&p) })
	if len(pods.Items) == 0 {
		return nil, nil
	}
	return &pods.Items[h.random.IntN(len(pods.Items))], nil
}

func (h *harm) deletePod(ctx context.Context, options ...client.DeleteOption) (bool, error) {
	pod, err := h.choose(ctx)
	if pod == nil || err != nil {
		return false, err
	}
	err = h.env.Client.Delete(ctx, pod, options...)
	return err == nil, err
}

func (h *harm) loseComponent(ctx context.Context, component string) (bool, error) {
	err := h.env.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(e2e.SystemNamespace),
		client.MatchingLabels{"app.kubernetes.io/component": component}, client.GracePeriodSeconds(0))
	return err == nil, err
}

// killAPIServer has no wait in it: all others find it away for some seconds.
func (h *harm) killAPIServer(ctx context.Context) (bool, error) {
	if err := h.cluster.Kill(ctx, cluster.PartAPIServer); err != nil {
		return false, err
	}
	return true, h.cluster.Again(context.WithoutCancel(ctx), cluster.PartAPIServer)
}

// killFirst kills the first process of a container, which ends all others of it.
func (h *harm) killFirst(ctx context.Context, container string) (bool, error) {
	pod, err := h.choose(ctx)
	if pod == nil || err != nil {
		return false, err
	}
	for pid, p := range processesOf(pod, container) {
		if p.isFirst {
			err := syscall.Kill(pid, syscall.SIGKILL)
			return err == nil, err
		}
	}
	return false, errors.New("its process was not found")
}

type process struct {
	// isFirst tells whether it is number 1 in its container.
	isFirst bool
	line    string
}

// processesOf returns the processes of a container by their numbers on this machine.
func processesOf(pod *corev1.Pod, container string) map[int]process {
	id := ""
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == container {
			_, id, _ = strings.Cut(status.ContainerID, "://")
		}
	}
	groups, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	found := map[int]process{}
	for _, path := range groups {
		dir := filepath.Dir(path)
		group, err := os.ReadFile(path)
		if err != nil || id == "" || !strings.Contains(string(group), id) {
			continue // it has ended, or is another one's
		}
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		status, statusErr := os.ReadFile(filepath.Join(dir, "status"))
		pid, pidErr := strconv.Atoi(filepath.Base(dir))
		if errors.Join(err, statusErr, pidErr) != nil || len(line) == 0 {
			continue
		}
		found[pid] = process{isFirst: numberInside(string(status)) == "1", line: strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))}
	}
	return found
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
