package core

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/manager"
)

// endRuntimed reports that runtimed of a Pod that is being deleted has ended, as a kubelet would.
func endRuntimed(t *testing.T, pod *corev1.Pod, exitCode int32) {
	t.Helper()
	if err := shared.Admin().Delete(t.Context(), pod.DeepCopy(), client.GracePeriodSeconds(600)); err != nil {
		t.Fatal(err)
	}
	if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	before := client.MergeFrom(pod.DeepCopy())
	over := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: corev1alpha1.ContainerRuntime, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		{Name: corev1alpha1.ContainerRuntimed, State: over},
	}
	if err := shared.Admin().Status().Patch(t.Context(), pod, before); err != nil {
		t.Fatal(err)
	}
}

// awaitWatching waits until the manager works on Runs, which it does once it knows all Pods: what ended before, it never
// hears of.
func awaitWatching(t *testing.T) {
	t.Helper()
	run := newRun(shared.Namespace(t), "r")
	run.Spec.CancelRequested = true
	shared.Create(t, run)
	awaitEnd(t, run.Namespace, run.Name)
}

// TestRunsThatAreAssignedTooLate has a scheduler that did not know that the Pod was being deleted, and assigns a Run after
// runtimed has looked for the last time. It lost nothing, since nothing was started.
func TestRunsThatAreAssignedTooLate(t *testing.T) {
	startManager(t)
	awaitWatching(t)
	cases := map[string]func(*testing.T, *corev1alpha1.Run, *corev1.Pod){
		"the Pod is there still": func(t *testing.T, run *corev1alpha1.Run, pod *corev1.Pod) {
			endRuntimed(t, pod, 0)
			assign(t, run, pod, corev1alpha1.RunScheduled)
		},
		"runtimed ends after the assignment": func(t *testing.T, run *corev1alpha1.Run, pod *corev1.Pod) {
			assign(t, run, pod, corev1alpha1.RunScheduled)
			endRuntimed(t, pod, 0)
		},
		"the Pod is gone": func(t *testing.T, run *corev1alpha1.Run, pod *corev1.Pod) {
			endRuntimed(t, pod, 0)
			shared.Delete(t, pod)
			assign(t, run, pod, corev1alpha1.RunScheduled)
		},
		"the Pod is gone, and has a successor of the name": func(t *testing.T, run *corev1alpha1.Run, pod *corev1.Pod) {
			endRuntimed(t, pod, 0)
			shared.Delete(t, pod)
			shared.RuntimePod(t, run.Namespace, "sh", pod.Name)
			assign(t, run, pod, corev1alpha1.RunScheduled)
		},
	}
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			ns := shared.Namespace(t)
			pod := shared.RuntimePod(t, ns, "sh", "a")
			run := newRun(ns, "r")
			shared.Create(t, run)
			prepare(t, run, pod)
			got := awaitHandedBack(t, run, 2).Status
			got.Conditions = nil
			want := corev1alpha1.RunStatus{Phase: "Pending", Attempt: 2, ObservedGeneration: 1, Reason: corev1alpha1.RunReasonPodTerminated,
				Message: "Pod a was shut down before the execution started"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRunsOfAPodThatDidNotDrain may have begun: nobody knows.
func TestRunsOfAPodThatDidNotDrain(t *testing.T) {
	startManager(t)
	cases := map[string]struct {
		phase    corev1alpha1.RunPhase
		exitCode int32
	}{
		"runtimed was killed":                     {corev1alpha1.RunScheduled, 137},
		"runtimed ran out of time":                {corev1alpha1.RunRunning, 1},
		"a Run executes, which cannot be, though": {corev1alpha1.RunRunning, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := shared.Namespace(t)
			pod := shared.RuntimePod(t, ns, "sh", "a")
			run := newRun(ns, "r")
			shared.Create(t, run)
			assign(t, run, pod, tc.phase)
			endRuntimed(t, pod, tc.exitCode)
			shared.Delete(t, pod)
			if diff := cmp.Diff(lost, endingOf(awaitEnd(t, ns, "r"))); diff != "" {
				t.Errorf("end (-want +got):\n%s", diff)
			}
		})
	}
}

// TestIdlePodsAreMarkedBeforeAScaleDown also makes sure that nothing is written at other times.
func TestIdlePodsAreMarkedBeforeAScaleDown(t *testing.T) {
	startManager(t)
	ns := shared.Namespace(t)
	sh := newRuntime(ns, "sh")
	sh.Spec.Replicas = ptr.To[int32](3)
	shared.Create(t, sh)
	eventually(t, "the Deployment", ns, "runtime-sh", &appsv1.Deployment{}, func(*appsv1.Deployment) bool { return true })
	for _, name := range []string{"a", "b", "c"} {
		pod := shared.RuntimePod(t, ns, "sh", name)
		if name == "b" {
			run := newRun(ns, "r")
			shared.Create(t, run)
			assign(t, run, pod, corev1alpha1.RunRunning)
		}
	}
	eventually(t, "the Pods to be counted", ns, "sh", &corev1alpha1.Runtime{}, func(r *corev1alpha1.Runtime) bool { return r.Status.ReadyReplicas == 3 })
	costs := func() map[string]string {
		got := map[string]string{}
		for _, name := range []string{"a", "b", "c"} {
			pod := &corev1.Pod{}
			if err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, pod); err != nil {
				t.Fatal(err)
			}
			if cost, ok := pod.Annotations[corev1.PodDeletionCost]; ok {
				got[name] = cost
			}
		}
		return got
	}
	if got := costs(); len(got) > 0 {
		t.Errorf("marked before there is a need: %v", got)
	}
	if err := shared.Admin().Patch(t.Context(), sh, mergePatch(`{"spec":{"replicas":1}}`)); err != nil {
		t.Fatal(err)
	}
	d := eventually(t, "1 replica", ns, "runtime-sh", &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 1 })
	if diff := cmp.Diff(map[string]string{"a": "-1", "c": "-1"}, costs()); diff != "" {
		t.Errorf("deletion costs (-want +got):\n%s", diff)
	}
	for _, name := range []string{"a", "c"} {
		pod := &corev1.Pod{}
		if err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, pod); err != nil {
			t.Fatal(err)
		}
		if version(t, pod) > version(t, d) {
			t.Errorf("Pod %s was marked after the Deployment was lowered", name)
		}
	}
}

func version(t *testing.T, o client.Object) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestTheNodeImageIsPinned upgrades the manager: what follows on that is a matter of each Runtime.
func TestTheNodeImageIsPinned(t *testing.T) {
	const upgraded = "example.com/node:2"
	changes := map[string]string{
		"a restart is asked for": `{"metadata":{"annotations":{"kruntimes.io/restartedAt":"now"}}}`,
		"the template changes":   `{"spec":{"template":{"metadata":{"labels":{"team":"a"}}}}}`,
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			stop := startManager(t)
			ns := shared.Namespace(t)
			sh := newRuntime(ns, "sh")
			shared.Create(t, sh)
			before := eventually(t, "the Deployment", ns, "runtime-sh", &appsv1.Deployment{}, func(*appsv1.Deployment) bool { return true }).DeepCopy()
			stop()
			startManager(t, func(o *manager.Options) { o.NodeImage = upgraded })
			// What changes no template shows that the upgraded manager has looked at the Runtime.
			if err := shared.Admin().Patch(t.Context(), sh, mergePatch(`{"spec":{"replicas":2}}`)); err != nil {
				t.Fatal(err)
			}
			scaled := eventually(t, "2 replicas", ns, "runtime-sh", &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 2 })
			if diff := cmp.Diff(before.Spec.Template, scaled.Spec.Template); diff != "" {
				t.Errorf("the upgrade of the manager rolls Pods (-before +after):\n%s", diff)
			}
			if err := shared.Admin().Patch(t.Context(), sh, mergePatch(change)); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the new image", ns, "runtime-sh", &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
				pod := d.Spec.Template.Spec
				return pod.Containers[1].Image == upgraded && pod.InitContainers[0].Image == upgraded
			})
		})
	}
}

// TestAClaimThatPodsCannotShare follows a Runtime whose workspace is a claim for one node.
func TestAClaimThatPodsCannotShare(t *testing.T) {
	startManager(t)
	ns := shared.Namespace(t)
	sh := newRuntime(ns, "sh")
	shared.Create(t, sh)
	rolling := func(d *appsv1.Deployment) bool {
		return d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType && d.Spec.Strategy.RollingUpdate != nil
	}
	eventually(t, "a Deployment that rolls", ns, "runtime-sh", &appsv1.Deployment{}, rolling)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}
	shared.Create(t, claim)
	awaitCondition := func(want string) {
		t.Helper()
		eventually(t, "WorkspaceNotShareable to be "+want, ns, "sh", &corev1alpha1.Runtime{}, func(r *corev1alpha1.Runtime) bool {
			return condition(r, corev1alpha1.RuntimeConditionWorkspaceNotShareable) == want
		})
	}
	awaitCondition("")
	for _, step := range []struct{ change, want string }{
		{`{"spec":{"workspace":{"emptyDir":null,"persistentVolumeClaim":{"claimName":"data"}}}}`,
			"False SingleReplica: PersistentVolumeClaim data is not ReadWriteMany, and one Pod at most uses it"},
		{`{"spec":{"replicas":2}}`,
			"True ClaimNotShareable: PersistentVolumeClaim data is [ReadWriteOnce] and not ReadWriteMany: of 2 Pods, those on other nodes than the first cannot start"},
	} {
		if err := shared.Admin().Patch(t.Context(), sh, mergePatch(step.change)); err != nil {
			t.Fatal(err)
		}
		awaitCondition(step.want)
		eventually(t, "a Deployment that recreates its Pods", ns, "runtime-sh", &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
			return d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType && d.Spec.Strategy.RollingUpdate == nil
		})
	}
	if err := shared.Admin().Patch(t.Context(), sh, mergePatch(`{"spec":{"workspace":{"emptyDir":{},"persistentVolumeClaim":null}}}`)); err != nil {
		t.Fatal(err)
	}
	awaitCondition("")
	eventually(t, "a Deployment that rolls again", ns, "runtime-sh", &appsv1.Deployment{}, rolling)
}

// TestAClaimThatComesLater has Pods that wait for their claim: they change when it comes.
func TestAClaimThatComesLater(t *testing.T) {
	startManager(t)
	ns := shared.Namespace(t)
	sh := newRuntime(ns, "sh")
	sh.Spec.Workspace = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}
	shared.Create(t, sh)
	awaitCondition := func(want string) {
		t.Helper()
		eventually(t, "WorkspaceNotShareable to be "+want, ns, "sh", &corev1alpha1.Runtime{}, func(r *corev1alpha1.Runtime) bool {
			return condition(r, corev1alpha1.RuntimeConditionWorkspaceNotShareable) == want
		})
	}
	awaitCondition("Unknown ClaimNotFound: PersistentVolumeClaim data is not there")
	shared.Create(t, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}})
	shared.RuntimePod(t, ns, "sh", "a")
	awaitCondition("False ClaimShareable: PersistentVolumeClaim data is ReadWriteMany")
	eventually(t, "a Deployment that rolls", ns, "runtime-sh", &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		return d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType
	})
}

// TestTheGraceOfPods leaves it to the template, and else gives what long executions need.
func TestTheGraceOfPods(t *testing.T) {
	startManager(t)
	ns := shared.Namespace(t)
	for name, grace := range map[string]*int64{"default": nil, "own": ptr.To[int64](42)} {
		sh := newRuntime(ns, name)
		sh.Spec.Template.Spec.TerminationGracePeriodSeconds = grace
		shared.Create(t, sh)
		want := int64(corev1alpha1.DefaultGrace / time.Second)
		if grace != nil {
			want = *grace
		}
		d := eventually(t, "the Deployment", ns, "runtime-"+name, &appsv1.Deployment{}, func(*appsv1.Deployment) bool { return true })
		if got := d.Spec.Template.Spec.TerminationGracePeriodSeconds; got == nil || *got != want {
			t.Errorf("%s: got %v, want %d", name, got, want)
		}
	}
}
