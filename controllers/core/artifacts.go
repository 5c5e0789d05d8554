package core

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// ArtifactLimits bound what Runs keep in the artifact store of their Runtime, and say how runtimed sweeps it. A zero field
// leaves it to runtimed's own default.
type ArtifactLimits struct {
	// MaxBytes bounds one artifact. Unit: bytes.
	MaxBytes int64
	// MaxCount bounds the artifacts of one Run.
	MaxCount int32
	// SweepInterval is how often a Pod looks for what Runs have left that are gone.
	SweepInterval time.Duration
	// SweepGrace is how long that is kept.
	SweepGrace time.Duration
}

// arguments are what runtimed is told of the limits.
func (l ArtifactLimits) arguments() []string {
	var args []string
	for _, limit := range []struct {
		flag, value string
		isSet       bool
	}{
		{"--artifact-max-bytes", fmt.Sprint(l.MaxBytes), l.MaxBytes != 0},
		{"--artifact-max-count", fmt.Sprint(l.MaxCount), l.MaxCount != 0},
		{"--artifact-sweep-interval", l.SweepInterval.String(), l.SweepInterval != 0},
		{"--artifact-sweep-grace", l.SweepGrace.String(), l.SweepGrace != 0},
	} {
		if limit.isSet {
			args = append(args, limit.flag+"="+limit.value)
		}
	}
	return args
}

// withArtifactStore gives runtimed the artifact store of a Runtime, and nobody else: what other Runs have stored is none of
// an execution's business. limits are further arguments of runtimed.
func withArtifactStore(pod *corev1.PodSpec, runtimed *corev1.Container, store *corev1alpha1.ArtifactStore, limits []string) {
	switch {
	case store.Filesystem != nil:
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: corev1alpha1.VolumeArtifactStore, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: store.Filesystem.VolumeClaimName}}})
		runtimed.VolumeMounts = append(runtimed.VolumeMounts, corev1.VolumeMount{Name: corev1alpha1.VolumeArtifactStore, MountPath: pathArtifacts})
		runtimed.Args = append(runtimed.Args, "--artifact-directory="+pathArtifacts)
	case store.S3 != nil:
		runtimed.Args = append(runtimed.Args, bucketArguments(store.S3)...)
		if name := store.S3.CredentialsSecretName; name != "" {
			pod.Volumes = append(pod.Volumes, corev1.Volume{Name: volumeCredentials, VolumeSource: corev1.VolumeSource{
				// Pods start without the Secret, for work that needs no store; the Runtime's condition says what is missing.
				Secret: &corev1.SecretVolumeSource{SecretName: name, Optional: ptr.To(true), DefaultMode: ptr.To(credentialsMode(pod, runtimed))}}})
			runtimed.VolumeMounts = append(runtimed.VolumeMounts,
				corev1.VolumeMount{Name: volumeCredentials, MountPath: pathCredentials, ReadOnly: true})
			runtimed.Args = append(runtimed.Args, "--artifact-credentials="+pathCredentials)
		}
	}
	runtimed.Args = append(runtimed.Args, limits...)
}

// bucketArguments are what runtimed is told of a bucket.
func bucketArguments(s *corev1alpha1.S3Store) []string {
	args := []string{"--artifact-s3-bucket=" + s.Bucket}
	for _, option := range []struct{ flag, value string }{
		{"--artifact-s3-prefix", s.Prefix}, {"--artifact-s3-region", s.Region}, {"--artifact-s3-endpoint", s.Endpoint},
	} {
		if option.value != "" {
			// Kubernetes replaces $(NAME) in arguments; $$ stands for one $.
			args = append(args, option.flag+"="+strings.ReplaceAll(option.value, "$", "$$"))
		}
	}
	if s.ForcePathStyle {
		args = append(args, "--artifact-s3-force-path-style")
	}
	return args
}

// credentialsMode is the mode of the files of credentials, which belong to root. They are runtimed's group's where the Pod
// has a group for its volumes. Where it has none, runtimed may be any user, and only its container has them.
func credentialsMode(pod *corev1.PodSpec, runtimed *corev1.Container) int32 {
	user := runtimed.SecurityContext.RunAsUser
	switch {
	case pod.SecurityContext.FSGroup != nil:
		return 0o440
	case user != nil && *user == 0:
		return 0o400
	default:
		return 0o444
	}
}
