package storage

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

// claimOf is a claim for which the binder has asked for a volume, changed.
func claimOf(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "1-2", Annotations: map[string]string{annotationAsked: provisionerName}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, StorageClassName: ptr.To(ClassName),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if change != nil {
		change(claim)
	}
	return claim
}

func TestWhichClaimsGetAVolume(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	cases := map[string]struct {
		change func(*corev1.PersistentVolumeClaim)
		want   bool
	}{
		"one that waits for it":         {nil, true},
		"one of another class":          {func(c *corev1.PersistentVolumeClaim) { c.Annotations[annotationAsked] = "csi.example.com" }, false},
		"one that nobody has asked for": {func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }, false},
		"one that has one":              {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }, false},
		"one that is being deleted":     {func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &now }, false},
		"one of raw blocks":             {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := wantsVolume(claimOf(tc.change)); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestWhichVolumesAreRemoved(t *testing.T) {
	cases := map[string]struct {
		change func(*corev1.PersistentVolume)
		want   bool
	}{
		"one whose claim is gone": {func(*corev1.PersistentVolume) {}, true},
		"one that is bound":       {func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }, false},
		"one that is to be kept": {func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}, false},
		"one that somebody else made":  {func(v *corev1.PersistentVolume) { v.Annotations = nil }, false},
		"one that lies somewhere else": {func(v *corev1.PersistentVolume) { v.Spec.HostPath.Path = "/home" }, false},
		"one that is no directory":     {func(v *corev1.PersistentVolume) { v.Spec.HostPath = nil }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			volume := volumeFor(claimOf(nil), "/state/volumes")
			volume.Status.Phase = corev1.VolumeReleased
			tc.change(volume)
			if got := isSpent(volume, "/state/volumes"); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

// start runs a Provisioner against a stand-in for the API server.
func start(t *testing.T, dir string, objects ...runtime.Object) kubernetes.Interface {
	t.Helper()
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	ctx, cancel := context.WithCancel(t.Context())
	p, err := New(ctx, client, factory, dir)
	if err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done; factory.Shutdown() })
	return client
}

func eventually(t *testing.T, what string, condition wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 20*time.Second, true, condition); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

func TestAVolumeComesAndGoesWithItsClaim(t *testing.T) {
	dir := t.TempDir()
	client := start(t, dir, claimOf(nil))
	made := &corev1.PersistentVolume{}
	eventually(t, "the volume", func(ctx context.Context) (_ bool, err error) {
		made, err = client.CoreV1().PersistentVolumes().Get(ctx, "pvc-1-2", metav1.GetOptions{})
		return err == nil, nil
	})
	inside := filepath.Join(dir, "pvc-1-2")
	want := corev1.PersistentVolumeSpec{
		AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, StorageClassName: "dev",
		ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "ns", Name: "data", UID: "1-2"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: inside, Type: ptr.To(corev1.HostPathDirectory)}},
	}
	if diff := cmp.Diff(want, made.Spec); diff != "" {
		t.Errorf("the volume (-want +got):\n%s", diff)
	}
	sealed := filepath.Join(inside, "sealed")
	if err := os.MkdirAll(filepath.Join(sealed, "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(sealed, 0o500); err != nil {
		t.Fatal(err)
	}
	made.Status.Phase = corev1.VolumeReleased
	if _, err := client.CoreV1().PersistentVolumes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the volume to go", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().PersistentVolumes().Get(ctx, "pvc-1-2", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left are %v (%v)", entries, err)
	}
}
