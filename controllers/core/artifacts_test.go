package core

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

func onFilesystem(r *corev1alpha1.Runtime) {
	r.Spec.ArtifactStore = &corev1alpha1.ArtifactStore{Filesystem: &corev1alpha1.FilesystemStore{VolumeClaimName: "kept"}}
}

func onS3(store corev1alpha1.S3Store) func(*corev1alpha1.Runtime) {
	return func(r *corev1alpha1.Runtime) { r.Spec.ArtifactStore = &corev1alpha1.ArtifactStore{S3: &store} }
}

func TestThePodsOfARuntimeWithAnArtifactStore(t *testing.T) {
	secret := func(mode int32) []corev1.Volume {
		return []corev1.Volume{{Name: "kruntimes-artifact-credentials", VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: "keys", Optional: ptr.To(true), DefaultMode: ptr.To(mode)}}}}
	}
	credentials := []corev1.VolumeMount{{Name: "kruntimes-artifact-credentials", MountPath: "/var/run/kruntimes/artifact-credentials", ReadOnly: true}}
	withKeys := onS3(corev1alpha1.S3Store{Bucket: "abc", CredentialsSecretName: "keys"})
	keyArgs := []string{"--artifact-s3-bucket=abc", "--artifact-credentials=/var/run/kruntimes/artifact-credentials"}
	user := func(id int64, next func(*corev1alpha1.Runtime)) func(*corev1alpha1.Runtime) {
		return func(r *corev1alpha1.Runtime) {
			r.Spec.Template.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To(id)}
			next(r)
		}
	}
	cases := map[string]struct {
		runtime func(*corev1alpha1.Runtime)
		limits  ArtifactLimits
		args    []string
		volumes []corev1.Volume
		mounts  []corev1.VolumeMount
	}{
		"a claim": {
			runtime: onFilesystem,
			limits:  ArtifactLimits{MaxBytes: 1 << 30, MaxCount: 8, SweepInterval: time.Hour, SweepGrace: 90 * time.Second},
			args: []string{"--artifact-directory=/artifacts", "--artifact-max-bytes=1073741824", "--artifact-max-count=8",
				"--artifact-sweep-interval=1h0m0s", "--artifact-sweep-grace=1m30s"},
			volumes: []corev1.Volume{{Name: "artifact-store", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "kept"}}}},
			mounts: []corev1.VolumeMount{{Name: "artifact-store", MountPath: "/artifacts"}},
		},
		"a bucket with everything": {
			runtime: onS3(corev1alpha1.S3Store{Bucket: "abc", Prefix: "ci/$(POD_NAME)", Region: "eu-1", Endpoint: "http://minio:9000",
				ForcePathStyle: true, CredentialsSecretName: "keys"}),
			args: []string{"--artifact-s3-bucket=abc", "--artifact-s3-prefix=ci/$$(POD_NAME)", "--artifact-s3-region=eu-1",
				"--artifact-s3-endpoint=http://minio:9000", "--artifact-s3-force-path-style",
				"--artifact-credentials=/var/run/kruntimes/artifact-credentials"},
			volumes: secret(0o440), mounts: credentials,
		},
		"a bucket without credentials":                       {runtime: onS3(corev1alpha1.S3Store{Bucket: "abc"}), args: []string{"--artifact-s3-bucket=abc"}},
		"credentials for root":                               {runtime: user(0, withKeys), args: keyArgs, volumes: secret(0o400), mounts: credentials},
		"credentials for a user whose volumes have no group": {runtime: user(7, withKeys), args: keyArgs, volumes: secret(0o444), mounts: credentials},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			runtime := runtimeWith(tc.runtime)
			settings := testSettings
			settings.artifactLimits = tc.limits.arguments()
			without := runtime.DeepCopy()
			without.Spec.ArtifactStore = nil
			want := podTemplate(without, settings)
			runtimed := &want.Spec.Containers[1]
			runtimed.Args = append(runtimed.Args, tc.args...)
			runtimed.VolumeMounts = append(runtimed.VolumeMounts, tc.mounts...)
			want.Spec.Volumes = append(want.Spec.Volumes, tc.volumes...)
			if diff := cmp.Diff(want, podTemplate(runtime, settings)); diff != "" {
				t.Errorf("what the store adds to a Pod (-want +got):\n%s", diff)
			}
		})
	}
}

// TestArtifactLimitsArePinned has managers of several versions and configurations look at a Runtime.
func TestArtifactLimitsArePinned(t *testing.T) {
	with := func(image string, limits ArtifactLimits) podSettings {
		s := testSettings
		s.nodeImage, s.artifactLimits = image, limits.arguments()
		return s
	}
	first, second := with("node:1", ArtifactLimits{MaxCount: 8}), with("node:2", ArtifactLimits{MaxCount: 16})
	args := func(d *appsv1.Deployment) []string {
		all := d.Spec.Template.Spec.Containers[1].Args
		return all[slices.Index(all, "--interpreter=-e")+1:]
	}
	build := func(runtime *corev1alpha1.Runtime, live *appsv1.Deployment, s podSettings) *appsv1.Deployment {
		t.Helper()
		d, err := deployment(runtime, &runtimeState{deployment: live}, s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	runtime := runtimeWith(onFilesystem)
	made := build(runtime, nil, first)
	if diff := cmp.Diff([]string{"--artifact-directory=/artifacts", "--artifact-max-count=8"}, args(made)); diff != "" {
		t.Errorf("a new Runtime (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(made.Spec, build(runtime, made, second).Spec); diff != "" {
		t.Errorf("another configuration rolls Pods (-before +after):\n%s", diff)
	}
	unlimited := build(runtime, nil, with("node:1", ArtifactLimits{}))
	if diff := cmp.Diff(unlimited.Spec, build(runtime, unlimited, second).Spec); diff != "" {
		t.Errorf("a configuration after none rolls Pods (-before +after):\n%s", diff)
	}

	restarted := runtimeWith(onFilesystem)
	restarted.Annotations = map[string]string{corev1alpha1.AnnotationRestartedAt: "now"}
	after := []string{"--artifact-directory=/artifacts", "--artifact-max-count=16"}
	if diff := cmp.Diff(after, args(build(restarted, made, second))); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}

	early := made.DeepCopy() // A manager that knew no stores made it, with an image that knows none either, and noted no template.
	delete(early.Annotations, annotationPodTemplate)
	early.Spec.Template = build(runtimeWith(nil), nil, first).Spec.Template
	if diff := cmp.Diff(early.Spec.Template, build(runtime, early, second).Spec.Template); diff != "" {
		t.Errorf("an earlier version's Pods are rolled (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(after, args(build(restarted, early, second))); diff != "" {
		t.Errorf("an earlier version's Pods after a restart (-want +got):\n%s", diff)
	}
}

// TestTheConditionOfAnArtifactStore is runtimed's own, as long as there is a store.
func TestTheConditionOfAnArtifactStore(t *testing.T) {
	theirs := metav1.Condition{Type: corev1alpha1.RuntimeConditionArtifactStoreReady, Status: metav1.ConditionFalse,
		Reason: corev1alpha1.ReasonStoreFailed, Message: "Pod x: no such bucket", LastTransitionTime: metav1.NewTime(epoch)}
	for name, tc := range map[string]struct {
		runtime func(*corev1alpha1.Runtime)
		want    []metav1.Condition
	}{
		"a store":  {onS3(corev1alpha1.S3Store{Bucket: "abc"}), []metav1.Condition{theirs}},
		"no store": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			runtime := runtimeWith(tc.runtime)
			runtime.Status.Conditions = []metav1.Condition{theirs}
			var got []metav1.Condition
			for _, c := range calculateStatus(runtime, &runtimeState{}, "", epoch.Add(time.Hour)).Conditions {
				if c.Type == theirs.Type {
					got = append(got, c)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
