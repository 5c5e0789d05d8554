package runs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// graceOf changes the grace period of a Runtime's Pods.
func graceOf(seconds int64) func(*corev1alpha1.Runtime) {
	return func(r *corev1alpha1.Runtime) { r.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To(seconds) }
}

// gate is a script line that goes on only when open has made the gate.
func (s *scene) gate(name string) (wait string, open func()) {
	path := filepath.Join(filepath.Dir(s.ledger), name)
	return fmt.Sprintf("until [ -e %s ]; do sleep 0.05; done\n", path), func() {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
}

// pods returns the Pods of the scene that are there, by name.
func (s *scene) pods() map[string]corev1.Pod {
	s.t.Helper()
	list := &corev1.PodList{}
	if err := admin.List(s.t.Context(), list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	podsByName := map[string]corev1.Pod{}
	for _, pod := range list.Items {
		podsByName[pod.Name] = pod
	}
	return podsByName
}

// gone waits until a Pod is not there any more.
func (s *scene) gone(name string) {
	s.t.Helper()
	s.until("Pod "+name+" is gone", func() (bool, string) {
		pod, ok := s.pods()[name]
		return !ok, fmt.Sprintf("%+v", pod.Status)
	})
}

// evict asks for the end of a Pod as a node drain does.
func (s *scene) evict(name string) {
	s.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	if err := admin.SubResource("eviction").Create(s.t.Context(), pod, &policyv1.Eviction{}); err != nil {
		s.t.Fatal(err)
	}
}

// terminating waits until a Pod is being deleted and not ready any more.
func (s *scene) terminating(name string) {
	s.t.Helper()
	s.until("Pod "+name+" drains", func() (bool, string) {
		pod, ok := s.pods()[name]
		return ok && pod.DeletionTimestamp != nil && !corev1alpha1.PodIsReady(&pod), fmt.Sprintf("%t %+v", ok, pod.Status)
	})
}

// patch changes a Runtime.
func (s *scene) patch(r *corev1alpha1.Runtime, change func(*corev1alpha1.Runtime)) {
	s.t.Helper()
	before := client.MergeFrom(r.DeepCopy())
	change(r)
	if err := admin.Patch(s.t.Context(), r, before); err != nil {
		s.t.Fatal(err)
	}
}

// rolled waits until the Runtime has exactly its replicas, all ready and none of them among the old ones.
func (s *scene) rolled(r *corev1alpha1.Runtime, old map[string]corev1.Pod) {
	s.t.Helper()
	s.until("all Pods are new", func() (bool, string) {
		pods := s.pods()
		for name, pod := range pods {
			if _, isOld := old[name]; isOld || !corev1alpha1.PodIsReady(&pod) {
				return false, fmt.Sprintf("%s: old %t, %+v", name, isOld, pod.Status.Conditions)
			}
		}
		return len(pods) == int(*r.Spec.Replicas), fmt.Sprint(len(pods))
	})
}

// TestScaleDownAndRolloutUnderLoad scales 4 to 2 and changes the image at once while five Runs a second arrive, short and
// long ones: none is lost, none is executed twice, and none is cut off.
func TestScaleDownAndRolloutUnderLoad(t *testing.T) {
	const total, perSecond, changeAt = 75, 5, 20
	s := newScene(t)
	r := s.runtime("sh", 4, "4", nil)
	s.warm(r)
	old := s.pods()
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	for i := range total {
		script := s.signs()
		switch {
		case i%5 == 0:
			script += "sleep 6\n"
		case i%2 == 0:
			script += "sleep 0.7\n"
		}
		s.run(fmt.Sprintf("run-%03d", i), "sh", script)
		if i == changeAt {
			s.patch(r, func(r *corev1alpha1.Runtime) {
				r.Spec.Replicas = ptr.To[int32](2)
				r.Spec.Template.Spec.Containers[0].Image = "debian:13-slim"
			})
		}
		<-tick.C
	}
	attempts := map[int32]int{}
	for name, run := range s.settled() {
		attempts[run.Status.Attempt]++
		if run.Status.Phase != corev1alpha1.RunSucceeded {
			t.Errorf("%s: %s/%s %s", name, run.Status.Phase, run.Status.Reason, run.Status.Message)
		}
	}
	s.eachSignedOnce(total)
	s.rolled(r, old)
	t.Logf("Runs by number of attempts: %v", attempts)
}

// TestPodsComeAndGoUnderLoad deletes Pods, one after the other, each as soon as a Run was assigned to it, so that more
// assignments are under way: none of the Runs is lost or executed twice.
func TestPodsComeAndGoUnderLoad(t *testing.T) {
	const rounds, burst = 10, 12
	s := newScene(t)
	s.warm(s.runtime("sh", 3, "4", nil))
	for round := range rounds {
		first := ""
		for i := range burst {
			name := fmt.Sprintf("run-%02d-%02d", round, i)
			s.run(name, "sh", s.signs())
			if i == burst/2 {
				first = name
			}
		}
		pod := ""
		s.until(first+" is assigned", func() (bool, string) {
			run := &corev1alpha1.Run{}
			err := admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: first}, run)
			pod = run.Status.AssignedPod
			return err == nil && pod != "", fmt.Sprint(err)
		})
		err := admin.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: pod}})
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
	attempts := map[int32]int{}
	for name, run := range s.settled() {
		attempts[run.Status.Attempt]++
		if run.Status.Phase != corev1alpha1.RunSucceeded {
			t.Errorf("%s: %s/%s %s", name, run.Status.Phase, run.Status.Reason, run.Status.Message)
		}
	}
	s.eachSignedOnce(rounds * burst)
	t.Logf("Runs by number of attempts: %v", attempts)
}

// TestIdlePodsGoFirst scales down while half of the Pods execute: none of these is touched.
func TestIdlePodsGoFirst(t *testing.T) {
	s := newScene(t)
	r := s.runtime("sh", 4, "1", nil)
	s.warm(r)
	wait, open := s.gate("go")
	busy := map[string]bool{}
	for _, name := range []string{"a", "b"} {
		s.run(name, "sh", s.signs()+wait)
		busy[s.phase(name, corev1alpha1.RunRunning).Status.AssignedPod] = true
	}
	s.patch(r, func(r *corev1alpha1.Runtime) { r.Spec.Replicas = ptr.To[int32](2) })
	s.until("two Pods are left", func() (bool, string) { n := len(s.pods()); return n == 2, fmt.Sprint(n) })
	for name, pod := range s.pods() {
		if !busy[name] || pod.DeletionTimestamp != nil || pod.Annotations[corev1.PodDeletionCost] != "" {
			t.Errorf("Pod %s (executes: %t) is left, deleted at %v, with annotations %v", name, busy[name], pod.DeletionTimestamp, pod.Annotations)
		}
	}
	open()
	for name, run := range s.settled() {
		if run.Status.Phase != corev1alpha1.RunSucceeded || run.Status.Attempt != 1 {
			t.Errorf("%s: %s/%s in attempt %d", name, run.Status.Phase, run.Status.Reason, run.Status.Attempt)
		}
	}
	s.eachSignedOnce(2)
}

// TestDrainedNode evicts a Pod as a node drain does, with a Run that ends within the grace period, one that does not, and
// one of these that may be tried again.
func TestDrainedNode(t *testing.T) {
	s := newScene(t)
	r := s.runtime("sh", 1, "4", graceOf(15))
	s.warm(r)
	wait, open := s.gate("go")
	s.run("short", "sh", s.signs()+wait)
	s.run("long", "sh", s.signs()+"exec sleep 300\n")
	s.retried("retried", s.signs()+"[ $KRUNTIME_ATTEMPT = 1 ] || exit 0\nexec sleep 300\n", 0, corev1alpha1.RunReasonPodTerminated)
	pod := ""
	for _, name := range []string{"short", "long", "retried"} {
		pod = s.phase(name, corev1alpha1.RunRunning).Status.AssignedPod
	}
	s.evict(pod)
	evicted := time.Now()
	s.terminating(pod)
	s.run("new", "sh", s.signs())
	if on := s.phase("new", corev1alpha1.RunSucceeded).Status.AssignedPod; on == pod {
		t.Errorf("a new Run was executed on Pod %s, which is being deleted", pod)
	}
	open()
	if short := s.phase("short", corev1alpha1.RunSucceeded); short.Status.Attempt != 1 || short.Status.AssignedPod != pod {
		t.Errorf("short: %+v", short.Status)
	}
	long := s.phase("long", corev1alpha1.RunFailed)
	if long.Status.Reason != corev1alpha1.RunReasonPodTerminated {
		t.Errorf("long: %s (%s), want PodTerminated", long.Status.Reason, long.Status.Message)
	}
	if after := long.Status.CompletionTime.Sub(evicted); after < 3*time.Second || after > 14*time.Second {
		t.Errorf("long was ended %s after the eviction, with a grace period of 15 s", after)
	}
	if retried := s.phase("retried", corev1alpha1.RunSucceeded).Status; retried.Attempt != 2 || retried.AssignedPod == pod {
		t.Errorf("retried: %+v", retried)
	}
	s.gone(pod)
	signed := s.signed()
	for name, want := range map[string]int{"short": 1, "long": 1, "retried": 2, "new": 1} {
		if signed[name] != want {
			t.Errorf("%s was executed %d times, want %d", name, signed[name], want)
		}
	}
}

// lossPatience is how long after the API server knows of the loss of a Pod its Runs are judged at the latest.
const lossPatience = 10 * time.Second

// TestPodDeletedWithoutGrace leaves nobody time to report anything.
func TestPodDeletedWithoutGrace(t *testing.T) {
	s := newScene(t)
	s.warm(s.runtime("sh", 1, "4", nil))
	s.run("lost", "sh", s.signs()+"exec sleep 300\n")
	pod := s.phase("lost", corev1alpha1.RunRunning).Status.AssignedPod
	err := admin.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: pod}}, client.GracePeriodSeconds(0))
	if err != nil {
		t.Fatal(err)
	}
	deleted := time.Now()
	if run := s.phase("lost", corev1alpha1.RunFailed); run.Status.Reason != corev1alpha1.RunReasonRuntimePodLost {
		t.Errorf("lost: %s (%s), want RuntimePodLost", run.Status.Reason, run.Status.Message)
	}
	if took := time.Since(deleted); took > lossPatience {
		t.Errorf("the Run was judged %s after the loss of its Pod, want at most %s", took, lossPatience)
	} else {
		t.Logf("judged %s after the loss of its Pod", took)
	}
	s.run("next", "sh", s.signs())
	s.phase("next", corev1alpha1.RunSucceeded)
	s.eachSignedOnce(2)
}

// TestRuntimedKilledWhileDraining kills runtimed in a Pod that nobody starts it in again: the Pod goes soon, and only then
// is the Run given to another one.
func TestRuntimedKilledWhileDraining(t *testing.T) {
	s := newScene(t)
	s.warm(s.runtime("sh", 1, "4", nil))
	s.run("lost", "sh", s.signs()+"exec sleep 300\n")
	alive := fmt.Sprintf("[ $KRUNTIME_ATTEMPT = 1 ] || ! kill -0 $(cat %[1]s) || echo both >>%[2]s\necho $$ >%[1]s\n", filepath.Join(t.TempDir(), "pid"), s.ledger)
	s.retried("retried", s.signs()+alive+"[ $KRUNTIME_ATTEMPT = 1 ] || exit 0\nexec sleep 300\n", 0, corev1alpha1.RunReasonRuntimePodLost)
	pod := ""
	for _, name := range []string{"lost", "retried"} {
		pod = s.phase(name, corev1alpha1.RunRunning).Status.AssignedPod
	}
	victim := s.runtimed()
	err := admin.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: pod}})
	if err != nil {
		t.Fatal(err)
	}
	s.terminating(pod)
	killed := time.Now()
	s.kill(victim)
	run := s.phase("lost", corev1alpha1.RunFailed)
	if run.Status.Reason != corev1alpha1.RunReasonRuntimePodLost {
		t.Errorf("lost: %s (%s), want RuntimePodLost", run.Status.Reason, run.Status.Message)
	}
	t.Logf("verdict %s after the kill, of a grace period of 600 s", time.Since(killed).Round(100*time.Millisecond))
	if retried := s.phase("retried", corev1alpha1.RunSucceeded).Status; retried.Attempt != 2 || retried.AssignedPod == pod {
		t.Errorf("retried: %+v", retried)
	}
	signed := s.signed()
	if signed["lost"] != 1 || signed["retried"] != 2 || signed["both"] != 0 {
		t.Errorf("executed: %v; the first attempt must be over before the second one begins", signed)
	}
}

// TestCancelWhileDraining ends what executes, and with it the Pod.
func TestCancelWhileDraining(t *testing.T) {
	s := newScene(t)
	s.warm(s.runtime("sh", 1, "4", nil))
	run := s.run("long", "sh", s.signs()+"exec sleep 300\n")
	pod := s.phase("long", corev1alpha1.RunRunning).Status.AssignedPod
	s.evict(pod)
	s.terminating(pod)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cancelRequested":true}}`))
	if err := admin.Patch(t.Context(), run, patch); err != nil {
		t.Fatal(err)
	}
	s.phase("long", corev1alpha1.RunCancelled)
	s.gone(pod)
	s.eachSignedOnce(1)
}

// TestNamespaceDeletedWhileDraining takes a namespace away in which a Pod has the longest grace period: it goes with its
// Runs, and nothing goes on.
func TestNamespaceDeletedWhileDraining(t *testing.T) {
	s := newScene(t)
	s.warm(s.runtime("sh", 1, "4", graceOf(60)))
	pidFile := filepath.Join(t.TempDir(), "pid")
	s.run("long", "sh", s.signs()+fmt.Sprintf("echo $$ >%s\nexec sleep 300\n", pidFile))
	pod := s.phase("long", corev1alpha1.RunRunning).Status.AssignedPod
	s.evict(pod)
	s.terminating(pod)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if err := admin.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s.gone(pod)
	t.Logf("the Pod was gone after %s, of a grace period of 60 s", time.Since(began).Round(100*time.Millisecond))
	s.until("the namespace is gone", func() (bool, string) {
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(ns), ns)
		return apierrors.IsNotFound(err), fmt.Sprintf("%v %+v", err, ns.Status)
	})
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there (%v)", pid, err)
	}
	s.eachSignedOnce(1)
}

// TestRolloutOfIdlePods shows that Pods without Runs do not use their grace period.
func TestRolloutOfIdlePods(t *testing.T) {
	s := newScene(t)
	r := s.runtime("sh", 4, "4", nil)
	s.warm(r)
	old := s.pods()
	began := time.Now()
	s.patch(r, func(r *corev1alpha1.Runtime) {
		r.Annotations = map[string]string{corev1alpha1.AnnotationRestartedAt: "now"}
	})
	s.rolled(r, old)
	took := time.Since(began)
	t.Logf("4 Pods without Runs were replaced in %s", took.Round(100*time.Millisecond))
	if took > 60*time.Second {
		t.Errorf("that took %s, of a grace period of 600 s for each", took)
	}
}

// TestASchedulerThatSleepsThroughADrain stops the scheduler while all Pods drain and are replaced. When it wakes it may
// assign Runs to Pods that it believes to be ready and that are gone: they are handed back, since nothing of them began.
func TestASchedulerThatSleepsThroughADrain(t *testing.T) {
	const rounds, perRound = 4, 8
	s := newScene(t)
	r := s.runtime("sh", 2, "4", nil)
	s.warm(r)
	for round := range rounds {
		old := s.pods()
		scheduler := s.childProcess("scheduler")
		if err := syscall.Kill(scheduler, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		wake := sync.OnceFunc(func() { _ = syscall.Kill(scheduler, syscall.SIGCONT) })
		t.Cleanup(wake)
		for i := range perRound {
			s.run(fmt.Sprintf("run-%d-%d", round, i), "sh", s.signs())
		}
		for name := range old {
			if err := admin.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}); err != nil {
				t.Fatal(err)
			}
		}
		s.rolled(r, old)
		wake()
	}
	attempts := map[int32]int{}
	for name, run := range s.settled() {
		attempts[run.Status.Attempt]++
		if run.Status.Phase != corev1alpha1.RunSucceeded {
			t.Errorf("%s: %s/%s %s", name, run.Status.Phase, run.Status.Reason, run.Status.Message)
		}
	}
	s.eachSignedOnce(rounds * perRound)
	t.Logf("Runs by number of attempts: %v", attempts)
}

// childProcess finds the program of the cluster that is a child of this process.
func (s *scene) childProcess(program string) (found int) {
	s.t.Helper()
	s.until(program+" is there", func() (bool, string) {
		children := childrenOf(os.Getpid())
		for _, child := range children {
			argv := zeroSeparated(fmt.Sprintf("/proc/%d/cmdline", child))
			if len(argv) > 0 && filepath.Base(argv[0]) == program {
				found = child
				return true, ""
			}
		}
		return false, fmt.Sprintf("none of the children %v", children)
	})
	return found
}
