package core

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	"kruntimes.io/kruntimes/manager"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

func newRuntime(namespace, name string) *corev1alpha1.Runtime {
	return &corev1alpha1.Runtime{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1alpha1.RuntimeSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "runtime", Image: "debian:13"}}}}}}
}

// bindingOfSh is the name of the RoleBinding of a Runtime named sh.
const bindingOfSh = "runtime-sh:kruntimes-runtimed"

// childrenOfSh are empty objects of what belongs to a Runtime named sh, by name.
func childrenOfSh() map[string][]client.Object {
	return map[string][]client.Object{
		"runtime-sh": {&appsv1.Deployment{}, &corev1.ServiceAccount{}},
		bindingOfSh:  {&rbacv1.RoleBinding{}},
	}
}

// eventually gets an object until check is content with it.
func eventually[T client.Object](t *testing.T, what, namespace, name string, into T, check func(T) bool) T {
	t.Helper()
	cluster.Eventually(t, what, func(ctx context.Context) (bool, error) {
		err := shared.Admin().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
		return err == nil && check(into), err
	})
	return into
}

func condition(r *corev1alpha1.Runtime, kind string) string {
	c := meta.FindStatusCondition(r.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

func TestARuntimeGetsItsObjects(t *testing.T) {
	startManager(t)
	ns := shared.Namespace(t)
	runtime := newRuntime(ns, "sh")
	shared.Create(t, runtime)
	owner := []metav1.OwnerReference{{APIVersion: "kruntimes.io/v1alpha1", Kind: "Runtime", Name: "sh", UID: runtime.UID, Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}}

	d := eventually(t, "the Deployment", ns, "runtime-sh", &appsv1.Deployment{}, func(*appsv1.Deployment) bool { return true })
	account := eventually(t, "the ServiceAccount", ns, "runtime-sh", &corev1.ServiceAccount{}, func(*corev1.ServiceAccount) bool { return true })
	binding := eventually(t, "the RoleBinding", ns, bindingOfSh, &rbacv1.RoleBinding{}, func(*rbacv1.RoleBinding) bool { return true })
	if diff := cmp.Diff(owner, d.GetOwnerReferences()); diff != "" {
		t.Errorf("owners of the Deployment (-want +got):\n%s", diff)
	}
	for _, o := range []client.Object{account, binding} { // They outlive the Runtime until its Pods are gone.
		if owners := o.GetOwnerReferences(); len(owners) > 0 {
			t.Errorf("owners of %T: %v", o, owners)
		}
	}
	wantBinding := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "runtime-sh", Namespace: ns}}
	if diff := cmp.Diff(wantBinding, binding.Subjects); diff != "" || binding.RoleRef.Name != "kruntimes-runtimed" {
		t.Errorf("RoleBinding names %s (-want +got):\n%s", binding.RoleRef.Name, diff)
	}
	if d.Spec.Template.Spec.Containers[1].Image != nodeImage || *d.Spec.Replicas != 1 {
		t.Errorf("got image %s and %d replicas", d.Spec.Template.Spec.Containers[1].Image, *d.Spec.Replicas)
	}
	r := eventually(t, "the status", ns, "sh", &corev1alpha1.Runtime{}, func(r *corev1alpha1.Runtime) bool { return r.Status.ObservedGeneration == r.Generation })
	if got, want := condition(r, "Available"), "False PodsStarting: 0 of 1 Pods ready"; got != want {
		t.Errorf("Available is %q, want %q", got, want)
	}
	if got, want := r.Status.Selector, "kruntimes.io/runtime=sh"; got != want {
		t.Errorf("selector is %q, want %q", got, want)
	}
}

// TestARenamedClusterRoleIsBound changes what the API server lets nobody change in a RoleBinding that is there.
func TestARenamedClusterRoleIsBound(t *testing.T) {
	stop := startManager(t)
	ns := shared.Namespace(t)
	shared.Create(t, newRuntime(ns, "sh"))
	eventually(t, "the RoleBinding", ns, bindingOfSh, &rbacv1.RoleBinding{}, func(*rbacv1.RoleBinding) bool { return true })
	eventually(t, "the Deployment", ns, "runtime-sh", &appsv1.Deployment{}, func(*appsv1.Deployment) bool { return true })
	stop()
	role := &rbacv1.ClusterRole{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKey{Name: "kruntimes-runtimed"}, role); err != nil {
		t.Fatal(err)
	}
	role.ObjectMeta = metav1.ObjectMeta{Name: "renamed-runtimed"}
	shared.Create(t, role)
	allowBinding(t, role.Name)
	startManager(t, func(o *manager.Options) { o.RuntimedClusterRole = role.Name })
	// A change of the Runtime shows in its status what became of everything.
	runtime := eventually(t, "the Runtime", ns, "sh", &corev1alpha1.Runtime{}, func(*corev1alpha1.Runtime) bool { return true })
	if err := shared.Admin().Patch(t.Context(), runtime, mergePatch(`{"spec":{"replicas":2}}`)); err != nil {
		t.Fatal(err)
	}
	binding := eventually(t, "the other RoleBinding", ns, "runtime-sh:renamed-runtimed", &rbacv1.RoleBinding{}, func(*rbacv1.RoleBinding) bool { return true })
	if binding.RoleRef.Name != role.Name {
		t.Errorf("RoleBinding names %s, want %s", binding.RoleRef.Name, role.Name)
	}
	r := eventually(t, "the status", ns, "sh", &corev1alpha1.Runtime{}, func(r *corev1alpha1.Runtime) bool { return r.Status.ObservedGeneration == r.Generation })
	if got, want := condition(r, "Progressing"), "True PodsStarting: 0 of 2 Pods ready"; got != want {
		t.Errorf("Progressing is %q, want %q", got, want)
	}
}

// allowBinding lets the manager hand out another role, as whoever renames it has to.
func allowBinding(t *testing.T, role string) {
	t.Helper()
	shared.Create(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "binds-" + role}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{role}, Verbs: []string{"bind"},
	}}})
	shared.Create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "binds-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "binds-" + role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "kruntimes-system", Name: "kruntimes-manager"}},
	})
}

func TestScaleAndCapacityChangeNoTemplate(t *testing.T) {
	startManager(t)
	ns := shared.Namespace(t)
	runtime := newRuntime(ns, "sh")
	shared.Create(t, runtime)
	before := eventually(t, "the Deployment", ns, "runtime-sh", &appsv1.Deployment{}, func(*appsv1.Deployment) bool { return true }).DeepCopy()

	admin := shared.Admin()
	if err := admin.Patch(t.Context(), runtime, mergePatch(`{"spec":{"capacity":{"runs":"9"}}}`)); err != nil {
		t.Fatal(err)
	}
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
	if err := admin.SubResource("scale").Update(t.Context(), runtime, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	after := eventually(t, "3 replicas", ns, "runtime-sh", &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 3 })
	if diff := cmp.Diff(before.Spec.Template, after.Spec.Template); diff != "" {
		t.Errorf("template changed (-before +after):\n%s", diff)
	}
	if err := admin.Patch(t.Context(), runtime, mergePatch(`{"metadata":{"annotations":{"kruntimes.io/restartedAt":"now"}}}`)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a restart to reach the template", ns, "runtime-sh", &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Annotations["kruntimes.io/restartedAt"] == "now"
	})
	if err := admin.Patch(t.Context(), after, mergePatch(`{"spec":{"replicas":0,"template":{"spec":{"terminationGracePeriodSeconds":1}}}}`)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a change by hand to be taken back", ns, "runtime-sh", &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		return *d.Spec.Replicas == 3 && *d.Spec.Template.Spec.TerminationGracePeriodSeconds == 600
	})
}

func TestAFieldThatTheTemplateDropsIsDropped(t *testing.T) {
	startManager(t)
	ns := shared.Namespace(t)
	runtime := newRuntime(ns, "sh")
	runtime.Spec.Template.Spec.HostNetwork = true
	runtime.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}
	shared.Create(t, runtime)
	eventually(t, "the Deployment", ns, "runtime-sh", &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return d.Spec.Template.Spec.HostNetwork })
	patch := `{"spec":{"template":{"spec":{"hostNetwork":null,"containers":[{"name":"runtime","image":"debian:13","env":[{"name":"A","value":"1"}]}]}}}}`
	if err := shared.Admin().Patch(t.Context(), runtime, mergePatch(patch)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the fields to go", ns, "runtime-sh", &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		pod := d.Spec.Template.Spec
		return !pod.HostNetwork && len(pod.Containers[0].Env) == 1
	})
}

func TestAForeignDeploymentIsLeftAlone(t *testing.T) {
	startManager(t)
	ns := shared.Namespace(t)
	labels := map[string]string{"app": "mine"}
	foreign := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "runtime-sh"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}
	shared.Create(t, foreign)
	shared.Create(t, newRuntime(ns, "sh"))
	r := eventually(t, "the status", ns, "sh", &corev1alpha1.Runtime{}, func(r *corev1alpha1.Runtime) bool { return len(r.Status.Conditions) > 0 })
	const want = "False DeploymentRefused: Deployment runtime-sh exists and belongs to somebody else: delete it, or give the Runtime another name"
	for _, kind := range []string{"Available", "Progressing"} {
		if got := condition(r, kind); got != want {
			t.Errorf("%s is %q, want %q", kind, got, want)
		}
	}
	now := &appsv1.Deployment{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(foreign), now); err != nil || now.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("the foreign Deployment was written (error %v)", err)
	}
}

// The garbage collector, which does not run here, takes the owner off when a Runtime is deleted with --cascade=orphan.
func TestAnOrphanedDeploymentIsTakenOver(t *testing.T) {
	startManager(t)
	ns := shared.Namespace(t)
	first := newRuntime(ns, "sh")
	shared.Create(t, first)
	d := eventually(t, "the Deployment", ns, "runtime-sh", &appsv1.Deployment{}, func(*appsv1.Deployment) bool { return true })
	shared.Delete(t, first)
	if err := shared.Admin().Patch(t.Context(), d, mergePatch(`{"metadata":{"ownerReferences":null}}`)); err != nil {
		t.Fatal(err)
	}
	second := newRuntime(ns, "sh")
	second.Spec.Replicas = new(int32(3))
	shared.Create(t, second)
	now := eventually(t, "the Deployment to be that of the second Runtime", ns, "runtime-sh", &appsv1.Deployment{}, func(d *appsv1.Deployment) bool {
		return metav1.IsControlledBy(d, second) && *d.Spec.Replicas == 3
	})
	if now.UID != d.UID {
		t.Error("it is another Deployment, and the Pods of the first are nobody's")
	}
}

func TestARefusedTemplateIsExplained(t *testing.T) {
	startManager(t)
	ns := shared.Namespace(t)
	runtime := newRuntime(ns, "sh")
	runtime.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "nowhere", MountPath: "/x"}}
	shared.Create(t, runtime)
	r := eventually(t, "the status", ns, "sh", &corev1alpha1.Runtime{}, func(r *corev1alpha1.Runtime) bool { return len(r.Status.Conditions) > 0 })
	const want = `False DeploymentRefused: applying Deployment runtime-sh: Deployment.apps "runtime-sh" is invalid: spec.template.spec.containers[0].volumeMounts[0].name: Not found: "nowhere"`
	if got := condition(r, "Available"); got != want {
		t.Errorf("Available is %q, want %q", got, want)
	}
	patch := `{"spec":{"template":{"spec":{"containers":[{"name":"runtime","image":"debian:13"}]}}}}`
	if err := shared.Admin().Patch(t.Context(), runtime, mergePatch(patch)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the corrected Deployment", ns, "runtime-sh", &appsv1.Deployment{}, func(*appsv1.Deployment) bool { return true })
}

func TestStatusFollowsThePods(t *testing.T) {
	startManager(t)
	ns := shared.Namespace(t)
	shared.Create(t, newRuntime(ns, "sh"))
	d := eventually(t, "the Deployment", ns, "runtime-sh", &appsv1.Deployment{}, func(*appsv1.Deployment) bool { return true })
	reported := client.MergeFrom(d.DeepCopy())
	d.Status.ObservedGeneration, d.Status.Replicas, d.Status.UpdatedReplicas = d.Generation, 1, 1
	if err := shared.Admin().Status().Patch(t.Context(), d, reported); err != nil {
		t.Fatal(err)
	}
	awaitCondition := func(kind, want string) {
		t.Helper()
		eventually(t, kind+" to be "+want, ns, "sh", &corev1alpha1.Runtime{}, func(r *corev1alpha1.Runtime) bool { return condition(r, kind) == want })
	}
	pod := shared.RuntimePod(t, ns, "sh", "runtime-sh-a")
	awaitCondition("Available", "True PodsReady: 1 of 1 Pods ready")
	awaitCondition("Progressing", "False PodsReady: 1 of 1 Pods ready")
	before := client.MergeFrom(pod.DeepCopy())
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "runtime", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"}}}}
	if err := shared.Admin().Status().Patch(t.Context(), pod, before); err != nil {
		t.Fatal(err)
	}
	awaitCondition("Available", "False PodsFailing: 0 of 1 Pods ready; container runtime of Pod runtime-sh-a: ImagePullBackOff: Back-off pulling image")
	shared.Delete(t, pod)
	awaitCondition("Available", "False PodsStarting: 0 of 1 Pods ready")
}

// TestTheRightsOfADeletedRuntimeOutliveItsPods takes the last Pod away, also while no manager is there.
func TestTheRightsOfADeletedRuntimeOutliveItsPods(t *testing.T) {
	for name, restart := range map[string]bool{"the manager is there": false, "the manager is away meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			stop := startManager(t)
			ns := shared.Namespace(t)
			sh := newRuntime(ns, "sh")
			shared.Create(t, sh)
			eventually(t, "the status", ns, "sh", &corev1alpha1.Runtime{}, func(r *corev1alpha1.Runtime) bool { return len(r.Status.Conditions) > 0 })
			pod := shared.RuntimePod(t, ns, "sh", "runtime-sh-a")
			shared.Delete(t, sh)
			// A Runtime that comes later is dealt with after that.
			shared.Create(t, newRuntime(ns, "later"))
			eventually(t, "the later status", ns, "later", &corev1alpha1.Runtime{}, func(r *corev1alpha1.Runtime) bool { return len(r.Status.Conditions) > 0 })
			account := eventually(t, "the ServiceAccount", ns, "runtime-sh", &corev1.ServiceAccount{}, func(*corev1.ServiceAccount) bool { return true })
			binding := eventually(t, "the RoleBinding", ns, bindingOfSh, &rbacv1.RoleBinding{}, func(*rbacv1.RoleBinding) bool { return true })
			if len(account.OwnerReferences) > 0 || len(binding.OwnerReferences) > 0 {
				t.Errorf("while a Pod is there, owners are %v and %v", account.OwnerReferences, binding.OwnerReferences)
			}
			if restart {
				stop()
			}
			shared.Delete(t, pod)
			if restart {
				startManager(t)
			}
			for _, right := range []client.Object{account, binding} {
				cluster.Eventually(t, fmt.Sprintf("%T %s to go", right, right.GetName()), func(ctx context.Context) (bool, error) {
					err := shared.Admin().Get(ctx, client.ObjectKeyFromObject(right), right)
					return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
				})
			}
		})
	}
}

// TestIdleWritesNothing restarts the manager, which reads everything anew, and expects no new version of anything.
func TestIdleWritesNothing(t *testing.T) {
	stop := startManager(t)
	ns := shared.Namespace(t)
	shared.Create(t, newRuntime(ns, "sh"))
	eventually(t, "the status", ns, "sh", &corev1alpha1.Runtime{}, func(r *corev1alpha1.Runtime) bool { return len(r.Status.Conditions) > 0 })
	stop()
	versions := func() map[string]string {
		all := map[string]string{}
		for name, objects := range childrenOfSh() {
			for _, o := range objects {
				if err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, o); err != nil {
					t.Fatal(err)
				}
				all[fmt.Sprintf("%T", o)] = o.GetResourceVersion()
			}
		}
		r := &corev1alpha1.Runtime{}
		if err := shared.Admin().Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "sh"}, r); err != nil {
			t.Fatal(err)
		}
		all["Runtime"] = r.ResourceVersion
		return all
	}
	before := versions()
	startManager(t)
	// A Runtime that comes later is dealt with after the first one.
	shared.Create(t, newRuntime(ns, "later"))
	eventually(t, "the later status", ns, "later", &corev1alpha1.Runtime{}, func(r *corev1alpha1.Runtime) bool { return len(r.Status.Conditions) > 0 })
	if diff := cmp.Diff(before, versions()); diff != "" {
		t.Errorf("versions (-before +after):\n%s", diff)
	}
}
