package version

import (
	"cmp"
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// Labels of the Deployments of the control plane; see config/manager and config/scheduler.
const (
	labelName      = "app.kubernetes.io/name"
	labelComponent = "app.kubernetes.io/component"
	partOf         = "kruntimes"
)

// podLimit bounds the number of Runtime Pods that are looked at.
const podLimit = 500

// components lists the control plane's Deployments and the images of runtimed in Runtime Pods. A person who may not
// list them sees none; "krt dev" has no Deployments, because there the components are processes.
func components(ctx context.Context, c kubernetes.Interface) []component {
	var found []component
	deployments, err := c.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: labelName + "=" + partOf})
	if err == nil {
		for _, d := range deployments.Items {
			for _, container := range d.Spec.Template.Spec.Containers {
				found = append(found, component{Name: cmp.Or(d.Labels[labelComponent], d.Name), Image: container.Image})
			}
		}
	}
	pods, err := c.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: corev1alpha1.LabelManagedBy + "=" + corev1alpha1.ManagedBy + "," + corev1alpha1.LabelRuntime, Limit: podLimit})
	if err == nil {
		podsByImage := map[string]int{}
		for _, pod := range pods.Items {
			for _, container := range pod.Spec.Containers {
				if container.Name == corev1alpha1.ContainerRuntimed {
					podsByImage[container.Image]++
				}
			}
		}
		for image, n := range podsByImage {
			found = append(found, component{Name: corev1alpha1.ContainerRuntimed, Image: image, Pods: n})
		}
	}
	slices.SortFunc(found, func(a, b component) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Image, b.Image))
	})
	return found
}
