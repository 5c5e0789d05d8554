package devcluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// podWith runs a script that has a claim at /data, once.
func podWith(claim, script string) *corev1.Pod {
	main := shell("main", script)
	main.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	pod := podOf(main)
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	return pod
}

func hasSucceeded(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded }

// TestAClaimHoldsWhatPodsWrite follows a claim that names no class from the first Pod to the end of its directory.
func TestAClaimHoldsWhatPodsWrite(t *testing.T) {
	ns := newNamespace(t)
	first := createPod(t, ns, podWith("data", "echo hello >/data/greeting")) // It waits for its claim.
	claims := api.CoreV1().PersistentVolumeClaims(ns)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}}}}
	if _, err := claims.Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, first, "the first Pod has succeeded", hasSucceeded)
	second := awaitPod(t, createPod(t, ns, podWith("data", "cat /data/greeting; sleep 600")), "the second Pod runs", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning
	})
	claim, err := claims.Get(t.Context(), "data", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(filepath.Dir(cluster.Kubeconfig()), "volumes", "pvc-"+string(claim.UID))
	if content, err := os.ReadFile(filepath.Join(dir, "greeting")); err != nil || string(content) != "hello\n" {
		t.Errorf("the directory of the volume holds %q (%v)", content, err)
	}

	if err := claims.Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := claims.Get(t.Context(), "data", metav1.GetOptions{}); err != nil {
		t.Errorf("the claim is gone though a Pod uses it: %v", err)
	}
	eventually(t, "the second Pod has printed what it read", func() error {
		if diff := cmp.Diff("hello\n", logs(t, second, &corev1.PodLogOptions{})); diff != "" {
			return fmt.Errorf("output (-want +got):\n%s", diff)
		}
		return nil
	})
	for _, pod := range []string{first.Name, second.Name} {
		if err := api.CoreV1().Pods(ns).Delete(t.Context(), pod, *metav1.NewDeleteOptions(0)); err != nil {
			t.Fatal(err)
		}
	}
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		_, claimErr := claims.Get(ctx, "data", metav1.GetOptions{})
		_, volumeErr := api.CoreV1().PersistentVolumes().Get(ctx, filepath.Base(dir), metav1.GetOptions{})
		_, dirErr := os.Stat(dir)
		return apierrors.IsNotFound(claimErr) && apierrors.IsNotFound(volumeErr) && os.IsNotExist(dirErr), nil
	})
	if err != nil {
		t.Errorf("waiting for claim, volume and directory to go: %v", err)
	}
}
