package core

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// applied is what there is of a Runtime after a plan was carried out, with what the API server adds.
func applied(t *testing.T, runtime *corev1alpha1.Runtime, s settings) *runtimeState {
	t.Helper()
	p, err := calculatePlan(runtime, &runtimeState{}, s)
	if err != nil {
		t.Fatal(err)
	}
	seen := &runtimeState{}
	for _, c := range p.apply {
		switch o := c.object.(type) {
		case *appsv1.Deployment:
			seen.deployment = o.DeepCopy()
			seen.deployment.Annotations["deployment.kubernetes.io/revision"] = "1"
			seen.deployment.Spec.ProgressDeadlineSeconds = ptr.To[int32](600)
			seen.deployment.Spec.Template.Spec.DNSPolicy = corev1.DNSClusterFirst
		case *corev1.ServiceAccount:
			seen.account = o.DeepCopy()
		case *rbacv1.RoleBinding:
			seen.binding = o.DeepCopy()
		}
	}
	return seen
}

// injectedOtherwise makes the Deployment one that a manager made which gives runtimed an argument less.
func injectedOtherwise(seen *runtimeState) {
	kept := keptTemplate(seen.deployment)
	runtimed := &kept.Spec.Containers[1]
	runtimed.Args = runtimed.Args[1:]
	seen.deployment.Spec.Template = *kept.DeepCopy()
	raw, err := json.Marshal(kept)
	if err != nil {
		panic(err) // it was JSON before
	}
	seen.deployment.Annotations[annotationPodTemplate] = string(raw)
	d, err := deployment(runtimeWith(nil), seen, testSettings)
	if err == nil {
		seen.deployment.Annotations[annotationApplied], err = digestOf(d)
	}
	if err != nil {
		panic(err)
	}
}

func TestCalculatePlan(t *testing.T) {
	s := settings{pod: testSettings, clusterRole: "kruntimes-runtimed"}
	upgraded := s
	upgraded.pod.nodeImage, upgraded.pod.defaultUser = "node:2", ptr.To[int64](1234)
	renamed := s
	renamed.clusterRole = "prod-kruntimes-runtimed"
	type outcome struct {
		Apply, Foreign []string
		NodeImage      string
	}
	cases := map[string]struct {
		runtime  func(*corev1alpha1.Runtime)
		seen     func(*runtimeState)
		settings settings
		want     outcome
	}{
		"nothing changed": {nil, nil, s, outcome{}},
		"nothing is there": {nil, func(seen *runtimeState) { *seen = runtimeState{} }, s,
			outcome{Apply: []string{"ServiceAccount", "RoleBinding", "Deployment"}, NodeImage: "node:1"}},
		"the manager was upgraded":                                       {nil, nil, upgraded, outcome{}},
		"the manager was upgraded, from one that injects something else": {nil, injectedOtherwise, upgraded, outcome{}},
		"the manager was upgraded, from one that noted no template": {nil, func(seen *runtimeState) {
			delete(seen.deployment.Annotations, annotationPodTemplate)
		}, upgraded, outcome{Apply: []string{"Deployment"}, NodeImage: "node:1"}},
		"somebody changed the template after an upgrade": {nil, func(seen *runtimeState) {
			injectedOtherwise(seen)
			seen.deployment.Spec.Template.Spec.Containers[1].Image = "else"
		}, upgraded, outcome{Apply: []string{"Deployment"}, NodeImage: "node:1"}},
		"the manager was upgraded, then the Runtime scaled": {func(r *corev1alpha1.Runtime) { r.Spec.Replicas = ptr.To[int32](5) }, nil, upgraded,
			outcome{Apply: []string{"Deployment"}, NodeImage: "node:1"}},
		"the manager was upgraded, then the template changed": {func(r *corev1alpha1.Runtime) { r.Spec.Template.Spec.Containers[0].Image = "debian:14" }, nil, upgraded,
			outcome{Apply: []string{"Deployment"}, NodeImage: "node:2"}},
		"the manager was upgraded, then the Runtime restarted": {func(r *corev1alpha1.Runtime) { r.Annotations = map[string]string{"kruntimes.io/restartedAt": "x"} }, nil, upgraded,
			outcome{Apply: []string{"Deployment"}, NodeImage: "node:2"}},
		"capacity changed":                 {func(r *corev1alpha1.Runtime) { r.Spec.Capacity = corev1.ResourceList{} }, nil, s, outcome{}},
		"somebody scaled by hand":          {nil, func(seen *runtimeState) { seen.deployment.Spec.Replicas = ptr.To[int32](0) }, s, outcome{Apply: []string{"Deployment"}, NodeImage: "node:1"}},
		"somebody changed a label":         {nil, func(seen *runtimeState) { delete(seen.account.Labels, corev1alpha1.LabelManagedBy) }, s, outcome{Apply: []string{"ServiceAccount"}}},
		"somebody added a label":           {nil, func(seen *runtimeState) { seen.account.Labels["team"] = "a" }, s, outcome{}},
		"rights were taken away":           {nil, func(seen *runtimeState) { seen.binding.Subjects = nil }, s, outcome{Apply: []string{"RoleBinding"}}},
		"the ClusterRole got another name": {nil, func(seen *runtimeState) { seen.binding = nil }, renamed, outcome{Apply: []string{"RoleBinding"}}},
		"the template names an account": {func(r *corev1alpha1.Runtime) { r.Spec.Template.Spec.ServiceAccountName = "builder" }, nil, s,
			outcome{Apply: []string{"RoleBinding", "Deployment"}, NodeImage: "node:1"}},
		"the names are taken": {nil, func(seen *runtimeState) {
			seen.deployment.OwnerReferences, seen.deployment.Annotations, seen.binding.Annotations = nil, nil, nil
		}, s, outcome{Foreign: []string{"RoleBinding runtime-sh:kruntimes-runtimed", "Deployment runtime-sh"}}},
		"a Runtime of the name was deleted, and its Deployment kept": {nil, func(seen *runtimeState) {
			seen.deployment.OwnerReferences = nil
		}, s, outcome{Apply: []string{"Deployment"}, NodeImage: "node:1"}},
		"a Deployment was kept that is another Runtime's": {nil, func(seen *runtimeState) {
			seen.deployment.OwnerReferences, seen.deployment.Labels[corev1alpha1.LabelRuntime] = nil, "other"
		}, s, outcome{Foreign: []string{"Deployment runtime-sh"}}},
		"an earlier version made an owner of the Runtime": {nil, func(seen *runtimeState) {
			for _, o := range []client.Object{seen.account, seen.binding} {
				o.SetOwnerReferences(seen.deployment.OwnerReferences)
				o.SetAnnotations(nil)
			}
		}, s, outcome{Apply: []string{"ServiceAccount", "RoleBinding"}}},
		"Pods of an earlier Runtime of the name still need its rights": {nil, func(seen *runtimeState) {
			seen.account.Annotations[annotationRuntimeUID], seen.binding.Annotations[annotationRuntimeUID] = "earlier", "earlier"
		}, s, outcome{Apply: []string{"ServiceAccount", "RoleBinding"}}},
		"an earlier Runtime of the name still owns the Deployment": {nil, func(seen *runtimeState) {
			seen.deployment.OwnerReferences[0].UID = "earlier"
		}, s, outcome{Foreign: []string{"Deployment runtime-sh"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			seen := applied(t, runtimeWith(nil), s)
			if tc.seen != nil {
				tc.seen(seen)
			}
			p, err := calculatePlan(runtimeWith(tc.runtime), seen, tc.settings)
			if err != nil {
				t.Fatal(err)
			}
			got := outcome{Foreign: p.foreign}
			for _, c := range p.apply {
				got.Apply = append(got.Apply, c.object.GetObjectKind().GroupVersionKind().Kind)
				if d, ok := c.object.(*appsv1.Deployment); ok {
					got.NodeImage = d.Spec.Template.Spec.Containers[len(d.Spec.Template.Spec.Containers)-1].Image
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}
