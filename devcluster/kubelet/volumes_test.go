package kubelet

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// testSources reads from a namespace with one ConfigMap and one Secret.
func testSources() sources {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }
	return sources{namespace: "ns", client: fake.NewClientset(
		&corev1.ConfigMap{ObjectMeta: meta("conf"), Data: map[string]string{"a": "1", "not-a-name": "x"}, BinaryData: map[string][]byte{"b": {0, 255}}},
		&corev1.Secret{ObjectMeta: meta("secret"), Data: map[string][]byte{"password": []byte("hunter2")}},
	)}
}

func labelledPod(change func(*corev1.PodSpec)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "pod", UID: "uid", Labels: map[string]string{"tier": "web", "app": `a"b`},
	}}
	pod.Spec.NodeName = "dev"
	if change != nil {
		change(&pod.Spec)
	}
	return pod
}

func named(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func TestEnvironment(t *testing.T) {
	yes := true
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	key := func(name, key string, optional *bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named(name), Key: key, Optional: optional}}
	}
	cases := map[string]struct {
		container corev1.Container
		want      map[string]string
		wantErr   string
	}{
		"nothing but the base": {want: map[string]string{"PATH": "/bin"}},
		"values see those before them, and paths are translated": {
			container: corev1.Container{Env: []corev1.EnvVar{
				{Name: "DIR", Value: "/data/x"}, {Name: "LIST", Value: "$(DIR):$(NONE):$$(DIR)"}, {Name: "PATH", Value: "/data/bin:$(PATH)"},
			}},
			want: map[string]string{"PATH": "/host/data/bin:/bin", "DIR": "/host/data/x", "LIST": "/host/data/x:$(NONE):$(DIR)"},
		},
		"fields of the Pod": {
			container: corev1.Container{Env: []corev1.EnvVar{
				{Name: "NAME", ValueFrom: field("metadata.name")}, {Name: "UID", ValueFrom: field("metadata.uid")},
				{Name: "TIER", ValueFrom: field("metadata.labels['tier']")}, {Name: "NODE", ValueFrom: field("spec.nodeName")},
				{Name: "IP", ValueFrom: field("status.podIP")},
			}},
			want: map[string]string{"PATH": "/bin", "NAME": "pod", "UID": "uid", "TIER": "web", "NODE": "dev", "IP": "127.0.0.1"},
		},
		"whole ConfigMaps and Secrets, with a prefix or optional": {
			container: corev1.Container{EnvFrom: []corev1.EnvFromSource{
				{Prefix: "C_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("conf")}},
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("secret")}},
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("nowhere"), Optional: &yes}},
			}},
			want: map[string]string{"PATH": "/bin", "C_a": "1", "C_b": "\x00\xff", "C_not-a-name": "x", "password": "hunter2"},
		},
		"an optional key that is not there": {
			container: corev1.Container{Env: []corev1.EnvVar{{Name: "A", ValueFrom: key("conf", "nowhere", &yes)}}},
			want:      map[string]string{"PATH": "/bin"},
		},
		"a key that is not there": {
			container: corev1.Container{Env: []corev1.EnvVar{{Name: "A", ValueFrom: key("conf", "nowhere", nil)}}},
			wantErr:   "variable A: there is no key nowhere",
		},
		"a ConfigMap that is not there": {
			container: corev1.Container{Env: []corev1.EnvVar{{Name: "A", ValueFrom: key("nowhere", "a", nil)}}},
			wantErr:   `variable A: reading ConfigMap nowhere: configmaps "nowhere" not found`,
		},
		"a field that a dev cluster has not": {
			container: corev1.Container{Env: []corev1.EnvVar{{Name: "A", ValueFrom: field("spec.x")}}},
			wantErr:   "variable A: field spec.x is not available in a dev cluster",
		},
	}
	m := mounts{{path: "/data", dir: "/host/data"}}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := testSources().environment(t.Context(), labelledPod(nil), &tc.container, m, map[string]string{"PATH": "/bin"})
			if diff := cmp.Diff(tc.wantErr, text(err)); diff != "" {
				t.Fatalf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, got); err == nil && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestVolumes(t *testing.T) {
	yes, readOnly := true, int32(0o440)
	volume := func(source corev1.VolumeSource) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} }
	}
	type file struct {
		Content string
		Mode    fs.FileMode
	}
	cases := map[string]struct {
		source  corev1.VolumeSource
		want    map[string]file
		wantErr string
	}{
		"an empty directory": {source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, want: map[string]file{}},
		"a ConfigMap": {
			source: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("conf")}},
			want:   map[string]file{"a": {"1", 0o644}, "b": {"\x00\xff", 0o644}, "not-a-name": {"x", 0o644}},
		},
		"one key under another name and mode": {
			source: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
				SecretName: "secret", Items: []corev1.KeyToPath{{Key: "password", Path: "deep/pw", Mode: &readOnly}}}},
			want: map[string]file{"deep/pw": {"hunter2", 0o440}},
		},
		"an optional one that is not there": {
			source: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
				SecretName: "nowhere", Optional: &yes, Items: []corev1.KeyToPath{{Key: "k", Path: "k"}}}},
			want: map[string]file{},
		},
		"one that is not there": {
			source:  corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("nowhere")}},
			wantErr: `volume v: reading ConfigMap nowhere: configmaps "nowhere" not found`,
		},
		"several sources in one": {
			source: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &readOnly, Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("conf"), Items: []corev1.KeyToPath{{Key: "a", Path: "ca.crt"}}}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
					{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}},
			}}},
			want: map[string]file{"ca.crt": {"1", 0o440}, "labels": {"app=\"a\\\"b\"\ntier=\"web\"", 0o440}},
		},
		"a kind that only a real node has": {
			source: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nfs", Path: "/"}},
			wantErr: "volume v: a dev cluster has no volumes of this kind: " +
				"use emptyDir, persistentVolumeClaim, configMap, secret, projected, downwardAPI or hostPath",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := volumes{sources: testSources(), pod: labelledPod(volume(tc.source)), dir: t.TempDir()}
			dirsByVolume, tokens, err := v.prepare(t.Context(), noon)
			if diff := cmp.Diff(tc.wantErr, text(err)); diff != "" {
				t.Fatalf("error (-want +got):\n%s", diff)
			}
			if err != nil {
				return
			}
			if len(tokens) > 0 || dirsByVolume["v"] != filepath.Join(v.dir, "v") {
				t.Errorf("directories %v, tokens %v", dirsByVolume, tokens)
			}
			got := map[string]file{}
			root := dirsByVolume["v"]
			if err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				info, err := entry.Info()
				if err != nil {
					return err
				}
				content, err := os.ReadFile(path)
				relative, _ := filepath.Rel(root, path)
				got[relative] = file{string(content), info.Mode().Perm()}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAClaimIsTheDirectoryOfItsVolume(t *testing.T) {
	claim := func(phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "claim"},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}, Status: corev1.PersistentVolumeClaimStatus{Phase: phase},
		}
	}
	bound := func(claim types.UID, source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{UID: claim}, PersistentVolumeSource: source}}
	}
	onHost := corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv/data"}}
	cases := map[string]struct {
		objects []runtime.Object
		wantErr string
	}{
		"bound":     {[]runtime.Object{claim(corev1.ClaimBound), bound("claim", onHost)}, ""},
		"not there": {nil, `volume v: reading PersistentVolumeClaim data: persistentvolumeclaims "data" not found`},
		"not bound": {[]runtime.Object{claim(corev1.ClaimPending)}, "volume v: PersistentVolumeClaim data is Pending, not Bound"},
		"its volume is gone": {[]runtime.Object{claim(corev1.ClaimBound)},
			`volume v: reading the volume of PersistentVolumeClaim data: persistentvolumes "pv" not found`},
		"its volume belongs to another": {[]runtime.Object{claim(corev1.ClaimBound), bound("other", onHost)},
			"volume v: PersistentVolume pv is bound to another claim than data"},
		"a volume that only a real node has": {
			[]runtime.Object{claim(corev1.ClaimBound), bound("claim", corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{}})},
			"volume v: a dev cluster has no volumes such as that of PersistentVolumeClaim data: use its default StorageClass, or a PersistentVolume with hostPath"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := labelledPod(func(s *corev1.PodSpec) {
				s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
			})
			v := volumes{sources: sources{namespace: "ns", client: fake.NewClientset(tc.objects...)}, pod: pod, dir: t.TempDir()}
			got, _, err := v.prepare(t.Context(), noon)
			if diff := cmp.Diff(tc.wantErr, text(err)); diff != "" {
				t.Fatalf("error (-want +got):\n%s", diff)
			}
			if err == nil && got["v"] != "/srv/data" {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestHostPathIsTheHostsOwnDirectory(t *testing.T) {
	pod := labelledPod(func(s *corev1.PodSpec) {
		s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv/data"}}}}
	})
	got, _, err := volumes{sources: testSources(), pod: pod, dir: t.TempDir()}.prepare(t.Context(), noon)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"v": "/srv/data"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
