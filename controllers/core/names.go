package core

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// fieldOwner marks what the Runtime controller applies. It never changes, or earlier fields would be orphaned.
const fieldOwner = "kruntimes-runtime-controller"

// Annotations that the Runtime controller keeps on what it makes, for itself.
const (
	// annotationApplied is a digest of what was applied last, so that nothing is written while nothing has changed.
	annotationApplied = "kruntimes.io/applied"
	// annotationTemplate is a digest of those fields of the Runtime that shape a Pod. While it stays, so does the template
	// of the Pods: another version or configuration of the manager rolls none.
	annotationTemplate = "kruntimes.io/template"
	// annotationPodTemplate is that template as JSON, as it was applied.
	annotationPodTemplate = "kruntimes.io/pod-template"
	// annotationNodeImage is the image of runtimed in it.
	annotationNodeImage = "kruntimes.io/node-image"
	// annotationRuntimeUID is, on a ServiceAccount and a RoleBinding, the UID of the Runtime that they were made for. Only what
	// carries it is deleted; see release.
	annotationRuntimeUID = "kruntimes.io/runtime-uid"
)

// Volumes and containers that are injected beside those named in apis/core/v1alpha1.
const (
	containerInstall = corev1alpha1.ReservedPrefix + "install"
	volumeBin        = corev1alpha1.ReservedPrefix + "bin"
	volumeSocket     = corev1alpha1.ReservedPrefix + "socket"
	volumeScratch    = corev1alpha1.ReservedPrefix + "scratch"
	volumeState      = corev1alpha1.ReservedPrefix + "state"
	volumeToken      = corev1alpha1.ReservedPrefix + "token"
	// volumeCredentials holds what spec.artifactStore.s3.credentialsSecretName names.
	volumeCredentials = corev1alpha1.ReservedPrefix + "artifact-credentials"
)

// Paths inside a Runtime's Pod. runtimed and the runtime server are told about them by flags.
const (
	pathBin     = "/kruntimes/bin"
	pathSocket  = "/kruntimes/socket"
	pathScratch = "/kruntimes/scratch"
	pathState   = "/kruntimes/state"
	pathToken   = "/var/run/secrets/kubernetes.io/serviceaccount"
	// pathArtifacts and pathCredentials are there in runtimed only.
	pathArtifacts   = "/artifacts"
	pathCredentials = "/var/run/kruntimes/artifact-credentials"

	socketFile = pathSocket + "/runtimed.sock"
	// envSocket tells a custom server where runtimed listens.
	envSocket = "KRUNTIME_SOCKET"
)

// maxName is the longest name that a Deployment may have so that the hostnames of its Pods stay unique.
const maxName = 63

// childName is the name of the Deployment and the ServiceAccount that are made for a Runtime: "runtime-" and the Runtime's name, shortened with a
// digest where that is longer than 63 characters.
func childName(runtime string) string {
	name := "runtime-" + runtime
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.TrimRight(name[:54], "-.") + "-" + hex.EncodeToString(sum[:4])
}

// bindingName is the name of the RoleBinding of a Runtime. The ClusterRole is in it because the role of a RoleBinding cannot
// be changed: another role makes another binding. No Runtime's name has a colon, so that no other name can be this one.
func bindingName(runtime, clusterRole string) string { return childName(runtime) + ":" + clusterRole }

// accountOf is the name of the ServiceAccount of a Runtime's Pods.
func accountOf(runtime *corev1alpha1.Runtime) string {
	return cmp.Or(runtime.Spec.Template.Spec.ServiceAccountName, childName(runtime.Name))
}

// podLabels selects the Pods of a Runtime.
func podLabels(runtime string) map[string]string {
	return map[string]string{corev1alpha1.LabelRuntime: corev1alpha1.RuntimeLabelValue(runtime)}
}

// childLabels are on everything that is made for a Runtime.
func childLabels(runtime string) map[string]string {
	return map[string]string{
		corev1alpha1.LabelRuntime:   corev1alpha1.RuntimeLabelValue(runtime),
		corev1alpha1.LabelManagedBy: corev1alpha1.ManagedBy,
	}
}
