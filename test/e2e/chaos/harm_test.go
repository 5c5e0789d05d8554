//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
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

// killLimit is how long a kill may be tried: the API server may be away, or no Pod be ready.
const killLimit = time.Minute

// harm kills.
type harm struct {
	env     *e2e.Env
	cluster *cluster.Cluster
	random  *rand.Rand
	// kills counts, by kind.
	kills map[string]int
	// inVain tells, by kind, why it could not be done within killLimit.
	inVain map[string]error
}

// means are the kinds of kills. One that is listed twice is twice as likely.
func (h *harm) means() []struct {
	kind string
	do   func(context.Context) error
} {
	type means = struct {
		kind string
		do   func(context.Context) error
	}
	often := []means{
		{"runtimed killed", func(ctx context.Context) error { return h.killFirst(ctx, corev1alpha1.ContainerRuntimed) }},
		{"runtime server killed", func(ctx context.Context) error { return h.killFirst(ctx, corev1alpha1.ContainerRuntime) }},
		{"Pod deleted", func(ctx context.Context) error { return h.deletePod(ctx) }},
		{"Pod lost", func(ctx context.Context) error { return h.deletePod(ctx, client.GracePeriodSeconds(0)) }},
		{"manager lost", func(ctx context.Context) error { return h.loseComponent(ctx, e2e.Manager) }},
		{"scheduler lost", func(ctx context.Context) error { return h.loseComponent(ctx, e2e.Scheduler) }},
	}
	return append(slices.Concat(often, often), means{"API server killed", h.killAPIServer})
}

// run kills at random until ctx ends. What cannot be killed at the moment is tried again.
func (h *harm) run(ctx context.Context) {
	means := h.means()
	timer := time.NewTimer(longestPause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		m := means[h.random.IntN(len(means))]
		trying, cancel := context.WithTimeout(ctx, killLimit)
		err := insist(trying, m.do)
		cancel()
		switch {
		case err == nil:
			h.kills[m.kind]++
		case ctx.Err() == nil:
			fmt.Printf("%s: %v\n", m.kind, err)
			h.inVain[m.kind] = err
		}
		timer.Reset(shortestPause + time.Duration(h.random.Int64N(int64(longestPause-shortestPause))))
	}
}

// expectDone fails the test when nothing was killed, or a kind of kills that was drawn could not be done once: what the verdict says
// would be about other harm than that which is named.
func (h *harm) expectDone(t *testing.T) {
	t.Helper()
	if len(h.kills) == 0 {
		t.Error("nothing was killed")
	}
	for kind, err := range h.inVain {
		if h.kills[kind] == 0 {
			t.Errorf("%s: never done: %v", kind, err)
		}
	}
}

// choose takes one of the Pods of the Runtime that are ready and not being deleted.
func (h *harm) choose(ctx context.Context) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := h.env.Client.List(ctx, &pods, client.InNamespace(h.env.Namespace), client.HasLabels{corev1alpha1.LabelRuntime}); err != nil {
		return nil, fmt.Errorf("listing Pods: %w", err)
	}
	pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil || !e2e.IsReady(&p) })
	if len(pods.Items) == 0 {
		return nil, errors.New("no Pod is ready")
	}
	return &pods.Items[h.random.IntN(len(pods.Items))], nil
}

func (h *harm) deletePod(ctx context.Context, options ...client.DeleteOption) error {
	pod, err := h.choose(ctx)
	if err != nil {
		return err
	}
	return h.env.Client.Delete(ctx, pod, options...)
}

func (h *harm) loseComponent(ctx context.Context, component string) error {
	return h.env.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(e2e.SystemNamespace),
		client.MatchingLabels{"app.kubernetes.io/component": component}, client.GracePeriodSeconds(0))
}

// killAPIServer has no wait in it: all others find it away for some seconds. What was killed is started again, also when the
// harm is over in between.
func (h *harm) killAPIServer(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if err := h.cluster.Kill(ctx, cluster.PartAPIServer); err != nil {
		return err
	}
	return h.cluster.Again(ctx, cluster.PartAPIServer)
}

// killFirst kills the first process of a container, which ends all others of it.
func (h *harm) killFirst(ctx context.Context, container string) error {
	pod, err := h.choose(ctx)
	if err != nil {
		return err
	}
	processes, err := e2e.ProcessesOf(pod, container)
	if err != nil {
		return err
	}
	for pid, p := range processes {
		if p.IsFirst {
			return syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return errors.New("its process was not found")
}
