package scheduler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/scheduler"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// identity is the scheduler's own, with its own rights.
func identity(t *testing.T) *rest.Config {
	t.Helper()
	return shared.ServiceAccount(t, "kruntimes-system", "kruntimes-scheduler")
}

// process is a scheduler that runs.
type process struct {
	stop context.CancelFunc
	done chan struct{}
	err  error
}

// start runs a scheduler until stop, or the end of the test.
func start(t *testing.T, options scheduler.Options) *process {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &process{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = scheduler.Run(ctx, options)
	}()
	t.Cleanup(func() { p.end(t) })
	return p
}

// end stops the scheduler and waits until it has ended.
func (p *process) end(t *testing.T) {
	t.Helper()
	p.stop()
	<-p.done
	if p.err != nil {
		t.Errorf("the scheduler ended with %v", p.err)
	}
}

// roundTripper is a function that is an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// onPatch calls do in place of every PATCH of a configuration's requests, with its number, from 1.
func onPatch(cfg *rest.Config, do func(n int64, r *http.Request, send http.RoundTripper) (*http.Response, error)) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	var count atomic.Int64
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPatch {
				return next.RoundTrip(r)
			}
			return do(count.Add(1), r, next)
		})
	})
	return cfg
}

var errCut = errors.New("the connection was cut")

// runtimeOf makes a Runtime with a number of replicas and a capacity in Runs.
func runtimeOf(t *testing.T, namespace, name string, replicas int32, runs string) *corev1alpha1.Runtime {
	t.Helper()
	r := &corev1alpha1.Runtime{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1alpha1.RuntimeSpec{
			Replicas: &replicas, Capacity: corev1.ResourceList{corev1alpha1.ResourceRuns: resource.MustParse(runs)},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: corev1alpha1.ContainerRuntime, Image: "sh"}}}},
		},
	}
	shared.Create(t, r)
	return r
}

// newRun returns a Run that has not been created.
func newRun(namespace, name, runtime string, change ...func(*corev1alpha1.Run)) *corev1alpha1.Run {
	r := &corev1alpha1.Run{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1alpha1.RunSpec{Runtime: runtime, Source: &corev1alpha1.RunSource{Inline: "true"}},
	}
	for _, c := range change {
		c(r)
	}
	return r
}

// createRuns creates Runs r0000, r0001 and so on, sixteen at a time.
func createRuns(t *testing.T, namespace, runtime string, count int) {
	t.Helper()
	slots := make(chan struct{}, 16)
	var wg sync.WaitGroup
	for i := range count {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := shared.Admin().Create(t.Context(), newRun(namespace, fmt.Sprintf("r%04d", i), runtime)); err != nil {
				t.Errorf("creating Run %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

// patchStatus changes the status of a Run as an administrator, whatever its version.
func patchStatus(ctx context.Context, run *corev1alpha1.Run, change func(*corev1alpha1.RunStatus)) error {
	after := run.DeepCopy()
	change(&after.Status)
	return shared.Admin().Status().Patch(ctx, after, client.MergeFrom(run))
}

// eventuallyRun waits until a Run meets a condition, and returns it.
func eventuallyRun(t *testing.T, namespace, name, what string, holds func(*corev1alpha1.Run) bool) *corev1alpha1.Run {
	t.Helper()
	r := &corev1alpha1.Run{}
	cluster.Eventually(t, fmt.Sprintf("Run %s to be %s", name, what), func(ctx context.Context) (bool, error) {
		err := shared.Admin().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, r)
		if err == nil && !holds(r) {
			return false, fmt.Errorf("status %+v", r.Status)
		}
		return err == nil, err
	})
	return r
}

func isScheduled(r *corev1alpha1.Run) bool { return r.Status.Phase == corev1alpha1.RunScheduled }
