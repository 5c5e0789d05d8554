package runs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// TestAPausedNode halts the kubelet and everything in a Pod, as a machine does that is suspended, until the Pod's Runs were
// given to another Pod. When the Pod wakes, one of its scripts ends and the other goes on: the late success changes nothing,
// and the script that goes on is ended by runtimed, for the kubelet still sleeps.
func TestAPausedNode(t *testing.T) {
	s := newScene(t)
	r := s.runtime("sh", 1, "2", nil)
	s.warm(r)
	dir := t.TempDir()
	gate, late := filepath.Join(dir, "gate"), filepath.Join(dir, "late")
	first := s.signs() + "[ $KRUNTIME_ATTEMPT = 1 ] || exit 0\n"
	s.retried("late", first+"while [ ! -e "+gate+" ]; do sleep 0.05; done\necho late > "+late+"\n", 0, corev1alpha1.RunReasonRuntimePodLost)
	s.retried("stays", first+"echo $$ > "+filepath.Join(dir, "pid")+"\nexec sleep 300\n", 0, corev1alpha1.RunReasonRuntimePodLost)
	pod := s.phase("late", corev1alpha1.RunRunning).Status.AssignedPod
	s.phase("stays", corev1alpha1.RunRunning)
	script := s.pidIn(filepath.Join(dir, "pid"))
	runtimed, server := s.runtimed(), s.runtimeServer()
	s.patch(r, func(r *corev1alpha1.Runtime) { r.Spec.Replicas = new(int32(2)) })
	s.warm(r)

	wakeKubelet := s.pause(s.childProcess("krt"), alone)
	wakeRuntimed, wakeScripts := s.pause(runtimed.pid, childrenOf), s.pause(server.pid, childrenOf)
	err := admin.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: pod}}, client.GracePeriodSeconds(1))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	before := map[string]*corev1alpha1.Run{}
	for _, name := range []string{"late", "stays"} {
		before[name] = s.phase(name, corev1alpha1.RunSucceeded)
		if status := before[name].Status; status.Attempt != 2 || status.AssignedPod == pod {
			t.Errorf("%s succeeded in attempt %d on Pod %s, want attempt 2 on another Pod than %s", name, status.Attempt, status.AssignedPod, pod)
		}
	}
	t.Logf("from the deletion of the Pod to the success elsewhere: %s, of which 31 s are its grace period and the wait after it", time.Since(began).Round(time.Second))

	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wakeScripts() // before runtimed, which would end the late one as well
	s.until("the late script has ended", func() (bool, string) {
		_, err := os.Stat(late)
		return err == nil, fmt.Sprint(err)
	})
	wakeRuntimed()
	s.until("the other script is ended", func() (bool, string) {
		return syscall.Kill(script, 0) == syscall.ESRCH, fmt.Sprintf("process %d is there", script)
	})
	wakeKubelet()
	s.gone(pod)
	for name, want := range before {
		run := &corev1alpha1.Run{}
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, run); err != nil {
			t.Fatal(err)
		}
		if run.ResourceVersion != want.ResourceVersion {
			t.Errorf("%s was changed after its end: now %+v, then %+v", name, run.Status, want.Status)
		}
	}
	if signed := s.signed(); signed["late"] != 2 || signed["stays"] != 2 {
		t.Errorf("executed %v times, want twice each", signed)
	}
}

// pidIn waits until a script has written its process id to a file.
func (s *scene) pidIn(path string) (pid int) {
	s.t.Helper()
	s.until("the script says which process it is", func() (bool, string) {
		raw, _ := os.ReadFile(path) // it may not be there yet
		_, err := fmt.Sscan(string(raw), &pid)
		return err == nil, string(raw)
	})
	return pid
}

// pause halts a process and what below names as its descendants, and returns what lets them go on.
func (s *scene) pause(pid int, below func(pid int) []int) (wake func()) {
	s.t.Helper()
	var halted []int
	wake = func() {
		for _, pid := range halted {
			_ = syscall.Kill(pid, syscall.SIGCONT) // it may have been killed while it was halted
		}
		halted = nil
	}
	s.t.Cleanup(func() { wake() })
	for pids := []int{pid}; len(pids) > 0; { // a parent is halted before its children are listed, so that it makes no more
		next := pids[0]
		if err := syscall.Kill(next, syscall.SIGSTOP); err != nil {
			s.t.Fatalf("halting process %d: %v", next, err)
		}
		halted = append(halted, next)
		pids = append(pids[1:], below(next)...)
	}
	return wake
}

// alone names no descendants: those of the kubelet are the processes of all Pods.
func alone(int) []int { return nil }

// childrenOf lists the children of a process.
func childrenOf(pid int) (children []int) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // a process that has ended has none
	for _, thread := range threads {
		raw, _ := os.ReadFile(thread)
		for _, field := range strings.Fields(string(raw)) {
			var child int
			if _, err := fmt.Sscan(field, &child); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}
