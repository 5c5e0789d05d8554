package config

import (
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestTheManagerFindsItsConfiguration follows the flag: file, mount, volume, ConfigMap.
func TestTheManagerFindsItsConfiguration(t *testing.T) {
	objects := renderWith(t, "configuration")
	pod := typed[appsv1.Deployment](t, objects, "Deployment")["kruntimes-manager"].Spec.Template.Spec
	file := ""
	for _, arg := range pod.Containers[0].Args {
		if value, ok := strings.CutPrefix(arg, "--config="); ok {
			file = value
		}
	}
	volume := ""
	var mounts []string
	for _, mount := range pod.Containers[0].VolumeMounts {
		mounts = append(mounts, mount.MountPath)
		if mount.MountPath == path.Dir(file) {
			volume = mount.Name
		}
	}
	if diff := cmp.Diff([]string{"/configuration", "/certificates/webhook"}, mounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	configMap := ""
	for _, v := range pod.Volumes {
		if v.Name == volume && v.ConfigMap != nil {
			configMap = v.ConfigMap.Name
		}
	}
	content := typed[corev1.ConfigMap](t, objects, "ConfigMap")[configMap]
	if content == nil || content.Namespace != Namespace || !strings.HasPrefix(configMap, "kruntimes-manager-configuration-") {
		t.Fatalf("file %q, volume %q, ConfigMap %q: %+v", file, volume, configMap, content)
	}
	if text := content.Data[path.Base(file)]; !strings.Contains(text, "\nkind: ManagerConfiguration\n") {
		t.Errorf("the file holds %q", text)
	}
}
