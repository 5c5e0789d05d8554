package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// aged makes a Pod that was created at so many minutes, the present cost being what a scale-down would read.
func aged(name string, minutes int, ready bool, cost int32) corev1.Pod {
	pod := podNamed(name, ready)
	pod.Namespace, pod.UID = "ns", types.UID(name+"-uid")
	pod.CreationTimestamp = metav1.NewTime(epoch.Add(time.Duration(minutes) * time.Minute))
	if cost != 0 {
		pod.Annotations = map[string]string{corev1.PodDeletionCost: strconv.Itoa(int(cost))}
	}
	return pod
}

func TestCalculateMarks(t *testing.T) {
	leaving := aged("leaving", 9, true, 0)
	leaving.DeletionTimestamp = ptr.To(metav1.NewTime(epoch))
	odd := aged("odd", 0, true, 0)
	odd.Annotations = map[string]string{corev1.PodDeletionCost: "cheap"}
	cases := map[string]struct {
		replicas int32
		pods     []corev1.Pod
		load     map[string]podLoad
		want     map[string]int32
	}{
		"the idle ones go": {2, []corev1.Pod{aged("a", 0, true, 0), aged("b", 1, true, 0), aged("c", 2, true, 0), aged("d", 3, true, 0)},
			map[string]podLoad{"b": {runs: 1}, "d": {runs: 3}}, map[string]int32{"a": -1, "c": -1}},
		"where none is idle, those with the fewest Runs go": {1, []corev1.Pod{aged("a", 0, true, 0), aged("b", 1, true, 0), aged("c", 2, true, 0)},
			map[string]podLoad{"a": {runs: 4}, "b": {runs: 1}, "c": {runs: 2}}, map[string]int32{"b": -1, "c": -1}},
		"of two that are alike the newer one goes": {2, []corev1.Pod{aged("a", 0, true, 0), aged("b", 1, true, 0), aged("c", 2, true, 0)},
			map[string]podLoad{"c": {runs: 1}}, map[string]int32{"b": -1}},
		"where all are idle nothing is written": {1, []corev1.Pod{aged("a", 0, true, 0), aged("b", 1, true, 0)}, nil, nil},
		"where all are alike nothing is written": {1, []corev1.Pod{aged("a", 0, true, 0), aged("b", 1, true, 0)},
			map[string]podLoad{"a": {runs: 2}, "b": {runs: 2}}, nil},
		"a workspace is worth more than any number of Runs": {1, []corev1.Pod{aged("a", 0, true, 0), aged("b", 1, true, 0), aged("c", 2, true, 0)},
			map[string]podLoad{"a": {runs: 4}, "b": {runs: 1}, "c": {workspaces: 1}}, map[string]int32{"a": -1, "b": -1}},
		"those that are not ready go anyway": {2, []corev1.Pod{aged("a", 0, true, 0), aged("b", 1, true, 0), aged("c", 2, false, 0)},
			map[string]podLoad{"a": {runs: 1}}, nil},
		"one that is leaving does not count": {2, []corev1.Pod{aged("a", 0, true, 0), aged("b", 1, true, 0), leaving}, map[string]podLoad{"a": {runs: 1}}, nil},
		"fewer Pods than replicas":           {3, []corev1.Pod{aged("a", 0, true, 0), aged("b", 1, true, 0)}, map[string]podLoad{"a": {runs: 1}}, nil},
		"what an earlier scale-down left on a Pod that stays is gone below": {1, []corev1.Pod{aged("a", 0, true, -1), aged("b", 1, true, 0)},
			map[string]podLoad{"a": {runs: 1}}, map[string]int32{"b": -2}},
		"what is low enough stays": {1, []corev1.Pod{aged("a", 0, true, 0), aged("b", 1, true, -1)}, map[string]podLoad{"a": {runs: 1}}, nil},
		"somebody has given all the same cost": {1, []corev1.Pod{aged("a", 0, true, 100), aged("b", 1, true, 100)},
			map[string]podLoad{"a": {runs: 1}}, map[string]int32{"b": 99}},
		"nonsense counts as nothing": {1, []corev1.Pod{aged("a", 1, true, 0), odd}, map[string]podLoad{"a": {runs: 1}}, map[string]int32{"odd": -1}},
		"nothing is below the lowest": {1, []corev1.Pod{aged("a", 0, true, -2147483648), aged("b", 1, true, 0)},
			map[string]podLoad{"a": {runs: 1}}, map[string]int32{"b": -2147483648}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			runtime := runtimeWith(func(r *corev1alpha1.Runtime) { r.Spec.Replicas = ptr.To(tc.replicas) })
			var got map[string]int32
			for _, m := range calculateMarks(runtime, &runtimeState{pods: tc.pods, loadByPod: tc.load}) {
				if got == nil {
					got = map[string]int32{}
				}
				got[m.pod.Name] = m.cost
				if m.pod.Namespace != "ns" || m.uid != types.UID(m.pod.Name+"-uid") {
					t.Errorf("mark of another Pod: %+v", m)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("marks (-want +got):\n%s", diff)
			}
		})
	}
}

// scaledDown is a Runtime of three Pods, of which one executes, that is scaled down to one, with its Deployment.
func scaledDown(t *testing.T) []client.Object {
	t.Helper()
	runtime := runtimeWith(func(r *corev1alpha1.Runtime) { r.Spec.Replicas = ptr.To[int32](3) })
	p, err := calculatePlan(runtime, &runtimeState{}, settings{pod: podSettings{nodeImage: "node:1"}, clusterRole: testRole})
	if err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for _, c := range p.apply {
		objects = append(objects, c.object)
	}
	runtime.Spec.Replicas = ptr.To[int32](1)
	run := runIn(corev1alpha1.RunRunning, func(r *corev1alpha1.Run) {
		r.Namespace, r.Status.AssignedPod, r.Status.AssignedPodUID = "ns", "b", "b-uid"
	})
	stale := runIn(corev1alpha1.RunRunning, func(r *corev1alpha1.Run) {
		r.Namespace, r.Name, r.Status.AssignedPod, r.Status.AssignedPodUID = "ns", "stale", "c", "of an earlier Pod"
	})
	objects = append(objects, runtime, run, stale)
	for i, name := range []string{"a", "b", "c"} {
		pod := aged(name, i, true, 0)
		pod.Labels, pod.Annotations = podLabels("sh"), map[string]string{corev1alpha1.AnnotationRuntime: "sh"}
		objects = append(objects, &pod)
	}
	return objects
}

// TestPodsAreMarkedBeforeTheDeploymentIsLowered also has marks that are refused for good, and those that are not.
func TestPodsAreMarkedBeforeTheDeploymentIsLowered(t *testing.T) {
	cases := map[string]struct {
		refusal   error
		wantErr   bool
		wantApply int
	}{
		"they are written":             {nil, false, 1},
		"a Pod is gone":                {apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "a"), false, 1},
		"a Pod was replaced":           {apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", nil), false, 1},
		"somebody forbids it":          {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no")), false, 1},
		"the API server has a problem": {apierrors.NewInternalError(errors.New("etcd is away")), true, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var marked []string
			applied := 0
			api := fakeAPI(t, scaledDown(t)...).WithIndex(&corev1alpha1.Run{}, indexRunPod, func(o client.Object) []string {
				return []string{o.(*corev1alpha1.Run).Status.AssignedPod}
			}).Build()
			r := newReconciler(t, interceptor.Funcs{}, nil)
			r.Live = api
			r.Client = interceptor.NewClient(api, interceptor.Funcs{
				Patch: func(_ context.Context, _ client.WithWatch, o client.Object, p client.Patch, _ ...client.PatchOption) error {
					if applied > 0 {
						t.Errorf("Pod %s is marked after the Deployment was lowered", o.GetName())
					}
					data, err := p.Data(o)
					marked = append(marked, fmt.Sprintf("%T %s %s", o, o.GetName(), data))
					return errors.Join(err, tc.refusal)
				},
				Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
					applied++
					return nil
				},
			})
			_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "sh"}})
			if (err != nil) != tc.wantErr {
				t.Errorf("got error %v, want one: %t", err, tc.wantErr)
			}
			want := map[string]bool{
				`*v1.Pod a {"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"-1"},"uid":"a-uid"}}`: true,
				`*v1.Pod c {"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"-1"},"uid":"c-uid"}}`: true,
			}
			got := map[string]bool{}
			for _, m := range marked {
				got[m] = true
			}
			if diff := cmp.Diff(want, got); diff != "" || applied != tc.wantApply {
				t.Errorf("applied %d times, want %d; marks (-want +got):\n%s", applied, tc.wantApply, diff)
			}
		})
	}
}

func TestStrategyFollowsTheClaims(t *testing.T) {
	const recreate, rolling = appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType
	claim := func(modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes}}
	}
	claimed := func(replicas int32) func(*corev1alpha1.Runtime) {
		return func(r *corev1alpha1.Runtime) {
			r.Spec.Replicas = ptr.To(replicas)
			r.Spec.Workspace.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}
		}
	}
	storing := func(replicas int32) func(*corev1alpha1.Runtime) {
		return func(r *corev1alpha1.Runtime) {
			onFilesystem(r)
			r.Spec.Replicas = ptr.To(replicas)
		}
	}
	const workspace, store = "WorkspaceNotShareable ", "ArtifactStoreNotShareable "
	one, all := claim(corev1.ReadWriteOnce), claim(corev1.ReadWriteOnce, corev1.ReadWriteMany)
	cases := map[string]struct {
		change     func(*corev1alpha1.Runtime)
		data, kept *corev1.PersistentVolumeClaim
		want       appsv1.DeploymentStrategyType
		conditions []string
	}{
		"no claim":              {nil, nil, nil, rolling, nil},
		"a claim for all nodes": {claimed(3), all, nil, rolling, []string{workspace + "False ClaimShareable: PersistentVolumeClaim data is ReadWriteMany"}},
		"a claim for one node": {claimed(3), one, nil, recreate, []string{
			workspace + "True ClaimNotShareable: PersistentVolumeClaim data is [ReadWriteOnce] and not ReadWriteMany: of 3 Pods, those on other nodes than the first cannot start"}},
		"a claim for one node, and one Pod": {claimed(1), one, nil, recreate, []string{
			workspace + "False SingleReplica: PersistentVolumeClaim data is not ReadWriteMany, and one Pod at most uses it"}},
		"a claim that is not there": {claimed(1), nil, nil, recreate, []string{workspace + "Unknown ClaimNotFound: PersistentVolumeClaim data is not there"}},
		"a store for all nodes":     {storing(3), nil, all, rolling, []string{store + "False ClaimShareable: PersistentVolumeClaim kept is ReadWriteMany"}},
		"a store for one node": {storing(3), nil, one, recreate, []string{
			store + "True ClaimNotShareable: PersistentVolumeClaim kept is [ReadWriteOnce] and not ReadWriteMany: of 3 Pods, those on other nodes than the first cannot start"}},
		"a store that is not there": {storing(1), nil, nil, recreate, []string{store + "Unknown ClaimNotFound: PersistentVolumeClaim kept is not there"}},
		"both": {func(r *corev1alpha1.Runtime) { claimed(1)(r); storing(1)(r) }, all, one, recreate, []string{
			store + "False SingleReplica: PersistentVolumeClaim kept is not ReadWriteMany, and one Pod at most uses it",
			workspace + "False ClaimShareable: PersistentVolumeClaim data is ReadWriteMany"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			runtime := runtimeWith(tc.change)
			seen := &runtimeState{claimsByName: map[string]*corev1.PersistentVolumeClaim{"data": tc.data, "kept": tc.kept}}
			d, err := deployment(runtime, seen, testSettings)
			if err != nil {
				t.Fatal(err)
			}
			if s := d.Spec.Strategy; s.Type != tc.want || (s.RollingUpdate != nil) != (tc.want == rolling) {
				t.Errorf("got strategy %+v, want %s", s, tc.want)
			}
			// What an earlier workspace or store has left must go.
			runtime.Status.Conditions = []metav1.Condition{conditionFrom("WorkspaceNotShareable", "True ClaimNotShareable: once"),
				conditionFrom("ArtifactStoreNotShareable", "True ClaimNotShareable: once")}
			status := calculateStatus(runtime, seen, "", epoch)
			var got []string
			for _, c := range status.Conditions {
				if strings.HasSuffix(c.Type, "NotShareable") {
					got = append(got, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.conditions, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}
