package kubelet

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kruntimes.io/kruntimes/artifacts/beneath"
)

// apiRetry is how long to wait after the API server has refused a write.
const apiRetry = 500 * time.Millisecond

// worker looks after one Pod. All that happens to the Pod is posted to it and handled by one goroutine.
type worker struct {
	kubelet         *Kubelet
	namespace, name string
	uid             types.UID
	dir             string
	startedAt       time.Time
	log             logr.Logger

	mailMu sync.Mutex
	mail   []func(*worker)
	ring   chan struct{} // holds one element when there is mail

	viewMu sync.Mutex
	views  map[string]view // by container; what the server may look at

	// Only the worker's own goroutine uses what follows: it asks the API server, and nobody shall wait for the answer.
	pod        *corev1.Pod
	gone       bool
	containers []*container
	volumes    volumeState
	// killAt is when a Pod that is being deleted has had its grace. Zero: it is not being deleted.
	killAt  time.Time
	killed  bool
	written *corev1.PodStatus
	retryAt time.Time
}

// view is what logs and exec need to know of a container.
type view struct {
	run, previous *run // as in container
	running       bool
	// betweenRuns tells that the last run has ended and another one is to come.
	betweenRuns bool
	// waiting is the reason why the container does not run.
	waiting string
}

// volumeState is how far the Pod's volumes are.
type volumeState struct {
	dirs     map[string]string // nil until they are ready
	tokens   []*token
	since    time.Time // of the first failure
	retryAt  time.Time
	tries    int
	hopeless bool
}

func newWorker(k *Kubelet, pod *corev1.Pod) *worker {
	w := &worker{
		kubelet: k, namespace: pod.Namespace, name: pod.Name, uid: pod.UID, pod: pod,
		dir:       filepath.Join(k.config.PodsDir, podDirName(pod.UID)),
		startedAt: k.clock.Now(), ring: make(chan struct{}, 1),
		log:        k.log.WithValues("pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID),
		containers: newContainers(pod),
	}
	w.publish()
	return w
}

// publish lets the server see what has changed.
func (w *worker) publish() {
	views := make(map[string]view, len(w.containers))
	for _, c := range w.containers {
		views[c.spec.Name] = view{
			run: c.run, previous: c.previous, running: c.running,
			betweenRuns: c.seen.ended && c.waiting.Reason != "", waiting: c.waiting.Reason,
		}
	}
	w.viewMu.Lock()
	defer w.viewMu.Unlock()
	w.views = views
}

// view returns what is known of a container, if the Pod has one of that name.
func (w *worker) view(container string) (v view, found bool) {
	w.viewMu.Lock()
	defer w.viewMu.Unlock()
	v, found = w.views[container]
	return v, found
}

// post hands the worker something to do. It never blocks.
func (w *worker) post(do func(*worker)) {
	w.mailMu.Lock()
	w.mail = append(w.mail, do)
	w.mailMu.Unlock()
	select {
	case w.ring <- struct{}{}:
	default:
	}
}

func (w *worker) takeMail() []func(*worker) {
	w.mailMu.Lock()
	defer w.mailMu.Unlock()
	mail := w.mail
	w.mail = nil
	return mail
}

// run works until the Pod is gone and nothing of it is left, or until ctx ends.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		for _, do := range w.takeMail() {
			do(w)
		}
		w.publish()
		wake := w.step(ctx)
		w.publish() // Before the API server is told, so that who reads it there can ask for logs at once.
		idle := !w.anyRunning()
		if w.gone && idle {
			w.removeDir()
			return
		}
		if !w.gone {
			status := podStatus(w.pod, w.containers, w.written, w.startedAt, w.kubelet.clock.Now())
			wake = earliest(wake, w.report(ctx, status, w.pod.DeletionTimestamp != nil && idle))
		}
		if !w.sleep(ctx, wake) {
			return
		}
	}
}

// sleep waits for mail or for wake. It returns false when ctx ends.
func (w *worker) sleep(ctx context.Context, wake time.Time) bool {
	var alarm <-chan time.Time
	if !wake.IsZero() {
		timer := w.kubelet.clock.NewTimer(wake.Sub(w.kubelet.clock.Now()))
		defer timer.Stop()
		alarm = timer.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-w.ring:
	case <-alarm:
	}
	return true
}

// report writes the Pod's status if it changed, and removes the Pod from the API once it is being deleted and nothing of
// it runs. It returns when to try again after a failure.
func (w *worker) report(ctx context.Context, status *corev1.PodStatus, remove bool) (again time.Time) {
	now := w.kubelet.clock.Now()
	if now.Before(w.retryAt) {
		return w.retryAt
	}
	pods := w.kubelet.client.CoreV1().Pods(w.namespace)
	var err error
	if w.written == nil || !equality.Semantic.DeepEqual(w.written, status) {
		var patch []byte
		if patch, err = statusPatch(w.uid, status); err == nil {
			_, err = pods.Patch(ctx, w.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		}
		if err == nil {
			w.written = status
		}
	}
	if err == nil && remove {
		none := int64(0)
		err = pods.Delete(ctx, w.name, metav1.DeleteOptions{GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &w.uid}})
	}
	if err == nil || ctx.Err() != nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		// Gone or replaced: the watch will tell.
		if apierrors.IsConflict(err) {
			w.retryAt = now.Add(apiRetry)
			return w.retryAt
		}
		return time.Time{}
	}
	w.log.Error(err, "Could not write the Pod's status")
	w.retryAt = now.Add(apiRetry)
	return w.retryAt
}

func (w *worker) anyRunning() bool {
	for _, c := range w.containers {
		if c.running {
			return true
		}
	}
	return false
}

// removeDir removes everything that the Pod had on disk, also directories that were made read-only.
func (w *worker) removeDir() {
	if err := beneath.RemoveAll(w.dir); err != nil {
		w.log.Error(err, "Could not remove the Pod's directory")
	}
}

// earliest returns the earlier of two times; zero stands for never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
