package core

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// settings is what the plan depends on besides the Runtime and what there is of it.
type settings struct {
	pod         podSettings
	clusterRole string
}

// plan says what has to be written so that a Runtime has what its spec asks for.
type plan struct {
	// apply holds the objects that are missing or differ, in the order in which they are written.
	apply []change
	// marks are written before the Deployment is.
	marks []mark
	// foreign names the objects that are in the way because somebody else owns them. They are left alone.
	foreign []string
}

// change is one object to apply.
type change struct {
	object client.Object
	// exists tells that an object of ours is there; what others changed on it is then taken back.
	exists bool
}

// calculatePlan compares what a Runtime should have with what there is. It changes neither of its arguments.
func calculatePlan(runtime *corev1alpha1.Runtime, seen *runtimeState, s settings) (plan, error) {
	var p plan
	d, err := deployment(runtime, seen, s.pod)
	if err != nil {
		return plan{}, err
	}
	account := accountOf(runtime)
	if account == childName(runtime.Name) {
		a := &corev1.ServiceAccount{TypeMeta: typeMeta("v1", "ServiceAccount"), ObjectMeta: rightsMeta(runtime, account)}
		if err := p.consider(runtime, a, seen.account); err != nil {
			return plan{}, err
		}
	}
	if err := p.consider(runtime, roleBinding(runtime, s.clusterRole, account), seen.binding); err != nil {
		return plan{}, err
	}
	if scalesDown(runtime, seen) {
		p.marks = calculateMarks(runtime, seen)
	}
	return p, p.consider(runtime, d, seen.deployment)
}

// consider adds desired to the plan when live is missing or differs from it.
func (p *plan) consider(runtime *corev1alpha1.Runtime, desired, live client.Object) error {
	exists := !reflect.ValueOf(live).IsNil()
	if exists && !isOurs(runtime, desired, live) {
		p.foreign = append(p.foreign, fmt.Sprintf("%s %s", desired.GetObjectKind().GroupVersionKind().Kind, desired.GetName()))
		return nil
	}
	digest, err := digestOf(desired)
	if err != nil {
		return err
	}
	desired.SetAnnotations(merged(desired.GetAnnotations(), map[string]string{annotationApplied: digest}))
	if exists {
		same, err := contains(live, desired)
		if err != nil {
			return err
		}
		if same {
			return nil
		}
	}
	p.apply = append(p.apply, change{object: desired, exists: exists})
	return nil
}

// isOurs tells whether live is what was made for runtime: by its owner or, where it has or should have none, by its marks. A Deployment has
// none after "kubectl delete runtime --cascade=orphan", and is taken over by the next Runtime of the name.
func isOurs(runtime *corev1alpha1.Runtime, desired, live client.Object) bool {
	if metav1.GetControllerOf(live) != nil {
		return metav1.IsControlledBy(live, runtime)
	}
	if len(desired.GetOwnerReferences()) > 0 {
		return live.GetLabels()[corev1alpha1.LabelRuntime] == runtime.Name && live.GetAnnotations()[annotationApplied] != ""
	}
	marks := live.GetAnnotations()
	return marks[corev1alpha1.AnnotationRuntime] == runtime.Name && marks[annotationRuntimeUID] != ""
}

// deployment is the Deployment that runtime should have.
func deployment(runtime *corev1alpha1.Runtime, seen *runtimeState, s podSettings) (*appsv1.Deployment, error) {
	inputs, err := digestOf(templateInputs(runtime))
	if err != nil {
		return nil, err
	}
	var template corev1.PodTemplateSpec
	image := s.nodeImage
	if live := seen.deployment; live != nil && live.Annotations[annotationTemplate] == inputs {
		template, image = keptTemplate(live), live.Annotations[annotationNodeImage]
	} else {
		template = podTemplate(runtime, s)
	}
	raw, err := json.Marshal(template)
	if err != nil {
		return nil, fmt.Errorf("encoding the template of the Pods: %w", err)
	}
	meta := childMeta(runtime)
	meta.Annotations = map[string]string{
		annotationTemplate: inputs, annotationNodeImage: image, annotationPodTemplate: string(raw),
	}
	return &appsv1.Deployment{
		TypeMeta:   typeMeta("apps/v1", "Deployment"),
		ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas:             ptr.To(runtime.DesiredReplicas()),
			Selector:             &metav1.LabelSelector{MatchLabels: podLabels(runtime.Name)},
			Template:             template,
			Strategy:             strategy(runtime, seen.claimsByName),
			RevisionHistoryLimit: ptr.To[int32](2),
		},
	}, nil
}

// keptTemplate is the template that was applied to a Deployment. One that was made before this was noted on it, or whose note
// somebody has spoilt, keeps what it has.
func keptTemplate(live *appsv1.Deployment) corev1.PodTemplateSpec {
	var kept corev1.PodTemplateSpec
	if err := json.Unmarshal([]byte(live.Annotations[annotationPodTemplate]), &kept); err != nil {
		return *live.Spec.Template.DeepCopy()
	}
	return kept
}

// templateInputs are the fields of a Runtime that shape its Pods. Replicas and capacity are not among them. Nor may be a field
// that is new in a version and gets a default: it would roll the Pods of every Runtime.
func templateInputs(runtime *corev1alpha1.Runtime) any {
	spec := runtime.Spec.DeepCopy()
	spec.Replicas, spec.Capacity = nil, nil
	return struct {
		Spec      *corev1alpha1.RuntimeSpec
		Restarted string
	}{spec, runtime.Annotations[corev1alpha1.AnnotationRestartedAt]}
}

func roleBinding(runtime *corev1alpha1.Runtime, clusterRole, account string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   typeMeta(rbacv1.SchemeGroupVersion.String(), "RoleBinding"),
		ObjectMeta: rightsMeta(runtime, bindingName(runtime.Name, clusterRole)),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: runtime.Namespace, Name: account}},
	}
}

func childMeta(runtime *corev1alpha1.Runtime) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: runtime.Namespace,
		Name:      childName(runtime.Name),
		Labels:    childLabels(runtime.Name),
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(runtime, corev1alpha1.GroupVersion.WithKind("Runtime")),
		},
	}
}

// rightsMeta is that of what runtimed needs to report how Runs end. It has no owner, for that would take it away before the
// Pods; see release.
func rightsMeta(runtime *corev1alpha1.Runtime, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: runtime.Namespace, Name: name, Labels: childLabels(runtime.Name),
		Annotations: map[string]string{corev1alpha1.AnnotationRuntime: runtime.Name, annotationRuntimeUID: string(runtime.UID)},
	}
}

func typeMeta(apiVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
}

// digestOf is a short digest of a value's JSON form, which has sorted keys.
func digestOf(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encoding %T: %w", v, err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}
