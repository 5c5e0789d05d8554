package e2e

import (
	"context"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Volumes are the durable volumes of one test. On the cluster of "make e2e" they are directories of its node, as local
// PersistentVolumes of a class that waits for the first Pod; on another cluster they are what its default class makes.
type Volumes struct {
	t       *testing.T
	admin   client.Client
	objects []client.Object
	dirs    []string
}

// NewVolumes is called before New: so the volumes are removed after the namespace with all that uses them.
func NewVolumes(t *testing.T) *Volumes {
	t.Helper()
	v := &Volumes{t: t}
	t.Cleanup(v.remove)
	return v
}

// remove uses a context of its own: that of the test has ended when it is called.
func (v *Volumes) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), Deadline)
	defer cancel()
	for _, object := range v.objects {
		if err := v.admin.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			v.t.Errorf("deleting %T %s: %v", object, object.GetName(), err)
		}
	}
	for _, dir := range v.dirs {
		if err := os.RemoveAll(dir); err != nil {
			v.t.Errorf("removing the directory of a volume: %v", err)
		}
	}
}

// Claim creates a ReadWriteOnce claim in the namespace of e, and where nobody else makes volumes one that fits. It does not
// wait: the class waits for a Pod.
func (v *Volumes) Claim(e *Env, name string) {
	v.t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: claimSize},
		},
	}
	if Setting("CLUSTER") != "" {
		claim.Spec.StorageClassName = ptr.To(v.local(e, name))
	}
	e.Create(claim)
}

// claimSize is what a claim asks for. A local volume does not enforce it.
var claimSize = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}

// local makes a directory of the node, a volume of it and the volume's class, and returns the name of that.
func (v *Volumes) local(e *Env, name string) string {
	v.t.Helper()
	dir, err := os.MkdirTemp(e.Cluster().Volumes(), name+"-")
	if err != nil {
		v.t.Fatalf("making the directory of a volume: %v", err)
	}
	v.admin, v.dirs = e.Client, append(v.dirs, dir)
	unique := e.Namespace + "-" + name
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: unique}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: unique},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      claimSize,
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			StorageClassName:              unique,
			NodeAffinity:                  &corev1.VolumeNodeAffinity{Required: v.onlyNode(e)},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}},
		},
	}
	for _, object := range []client.Object{class, volume} {
		if err := e.Client.Create(v.t.Context(), object); err != nil {
			v.t.Fatalf("creating %T %s: %v", object, unique, err)
		}
		v.objects = append(v.objects, object)
	}
	return unique
}

// onlyNode selects the node of the cluster of "make e2e".
func (v *Volumes) onlyNode(e *Env) *corev1.NodeSelector {
	v.t.Helper()
	var nodes corev1.NodeList
	if err := e.Client.List(v.t.Context(), &nodes); err != nil || len(nodes.Items) != 1 {
		v.t.Fatalf("looking for the only node: found %d: %v", len(nodes.Items), err)
	}
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{nodes.Items[0].Labels[corev1.LabelHostname]},
		}},
	}}}
}
