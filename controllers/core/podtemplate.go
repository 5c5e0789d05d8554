package core

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// podSettings is what the Pods of a Runtime depend on besides the Runtime itself.
type podSettings struct {
	// nodeImage holds runtimed and the runtime server.
	nodeImage string
	// defaultUser is the user and group of Pods whose template names none. Nil: the cluster assigns one.
	defaultUser *int64
	// artifactLimits are the arguments of runtimed that bound artifacts.
	artifactLimits []string
}

// Bounds and defaults of a Pod.
const (
	defaultGraceSeconds          = int64(corev1alpha1.DefaultGrace / time.Second)
	tolerateLostSeconds    int64 = 30
	tokenSeconds           int64 = 3607
	healthPort             int32 = 8086
	healthPortName               = "health"
	readinessPeriodSeconds int32 = 1
	readinessFailures      int32 = 2
)

// podTemplate is the template of runtime's Pods: the user's, with the runtime server injected into the first container,
// and runtimed beside it. What the user wrote stays unless it is reserved. The result shares nothing with runtime.
func podTemplate(runtime *corev1alpha1.Runtime, settings podSettings) corev1.PodTemplateSpec {
	t := *runtime.Spec.Template.DeepCopy()
	t.Labels = merged(t.Labels, childLabels(runtime.Name))
	// No default container is named to kubectl: logs are of more use from runtimed, but exec, cp and attach are not, whose
	// image holds nothing but programs of ours and whose token is none of the user's business.
	t.Annotations = merged(t.Annotations, map[string]string{corev1alpha1.AnnotationRuntime: runtime.Name})
	if at, ok := runtime.Annotations[corev1alpha1.AnnotationRestartedAt]; ok {
		t.Annotations[corev1alpha1.AnnotationRestartedAt] = at
	}
	pod := &t.Spec
	pod.ServiceAccountName = accountOf(runtime)
	// A token in the runtime container would let user code report in the name of the Pod.
	pod.AutomountServiceAccountToken = ptr.To(false)
	if pod.TerminationGracePeriodSeconds == nil {
		pod.TerminationGracePeriodSeconds = ptr.To(defaultGraceSeconds)
	}
	pod.Tolerations = withTolerations(pod.Tolerations)
	pod.Volumes = append(pod.Volumes, volumes(runtime)...)

	sidecar := runtimedContainer(runtime, settings.nodeImage)
	injectServer(&pod.Containers[0], runtime.Spec.Server)
	owner := secure(pod, settings.defaultUser)
	sidecar.SecurityContext = owner.restricted()
	if store := runtime.Spec.ArtifactStore; store != nil {
		withArtifactStore(pod, &sidecar, store, settings.artifactLimits)
	}
	pod.Containers = append(pod.Containers, sidecar)
	if runtime.Spec.Server != corev1alpha1.ServerCustom {
		install := installContainer(settings.nodeImage)
		install.SecurityContext = owner.restricted()
		pod.InitContainers = append([]corev1.Container{install}, pod.InitContainers...)
	}
	return t
}

// injectServer makes the user's container run the runtime server, or tells a custom one where runtimed listens.
func injectServer(c *corev1.Container, server corev1alpha1.ServerMode) {
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: corev1alpha1.VolumeWorkspace, MountPath: corev1alpha1.WorkspaceMountPath})
	if server == corev1alpha1.ServerCustom {
		c.Env = append(c.Env, corev1.EnvVar{Name: envSocket, Value: socketFile})
	} else {
		c.Command = []string{pathBin + "/runtime-server", "serve"}
		c.Args = []string{"--socket=" + socketFile}
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volumeBin, MountPath: pathBin, ReadOnly: true})
	}
	c.VolumeMounts = append(c.VolumeMounts,
		corev1.VolumeMount{Name: volumeSocket, MountPath: pathSocket, ReadOnly: true},
		corev1.VolumeMount{Name: volumeScratch, MountPath: pathScratch})
}

func installContainer(image string) corev1.Container {
	return corev1.Container{
		Name:         containerInstall,
		Image:        image,
		Command:      []string{"/runtime-server", "install", pathBin + "/runtime-server"},
		Resources:    sidecarResources(),
		VolumeMounts: []corev1.VolumeMount{{Name: volumeBin, MountPath: pathBin}},
	}
}

func runtimedContainer(runtime *corev1alpha1.Runtime, image string) corev1.Container {
	args := []string{
		"--socket=" + socketFile,
		"--scratch=" + pathScratch,
		"--state=" + pathState,
		"--workspace=" + corev1alpha1.WorkspaceMountPath,
		"--token-dir=" + pathToken,
		fmt.Sprintf("--health-address=:%d", healthPort),
	}
	for _, word := range runtime.Spec.Interpreter {
		args = append(args, "--interpreter="+word)
	}
	return corev1.Container{
		Name:    corev1alpha1.ContainerRuntimed,
		Image:   image,
		Command: []string{"/runtimed"},
		Args:    args,
		Env: []corev1.EnvVar{
			fieldEnv("POD_NAME", "metadata.name"),
			fieldEnv("POD_NAMESPACE", "metadata.namespace"),
			fieldEnv("POD_UID", "metadata.uid"),
		},
		Ports: []corev1.ContainerPort{{Name: healthPortName, ContainerPort: healthPort, Protocol: corev1.ProtocolTCP}},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Path: "/readyz", Port: intstr.FromString(healthPortName), Scheme: corev1.URISchemeHTTP}},
			PeriodSeconds:    readinessPeriodSeconds,
			FailureThreshold: readinessFailures,
			TimeoutSeconds:   1,
		},
		Resources: sidecarResources(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: corev1alpha1.VolumeWorkspace, MountPath: corev1alpha1.WorkspaceMountPath},
			{Name: volumeSocket, MountPath: pathSocket},
			{Name: volumeScratch, MountPath: pathScratch},
			{Name: volumeState, MountPath: pathState},
			{Name: volumeToken, MountPath: pathToken, ReadOnly: true},
		},
	}
}

func fieldEnv(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
}

// sidecarResources are requests only: a limit on memory would end every Run of a Pod for one large output.
func sidecarResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")}}
}

// volumes are those that are injected, in a fixed order.
func volumes(runtime *corev1alpha1.Runtime) []corev1.Volume {
	workspace := *runtime.Spec.Workspace.DeepCopy()
	if workspace == (corev1.VolumeSource{}) {
		workspace.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	injected := []corev1.Volume{{Name: corev1alpha1.VolumeWorkspace, VolumeSource: workspace}}
	for _, name := range []string{volumeBin, volumeSocket, volumeScratch, volumeState} {
		if name == volumeBin && runtime.Spec.Server == corev1alpha1.ServerCustom {
			continue
		}
		injected = append(injected, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	return append(injected, corev1.Volume{Name: volumeToken, VolumeSource: corev1.VolumeSource{Projected: tokenProjection()}})
}

// tokenProjection is what the API server's own admission would mount into every container, here for runtimed only.
func tokenProjection() *corev1.ProjectedVolumeSource {
	return &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To(tokenSeconds)}},
		{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
			Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
			Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
	}}
}

// withTolerations makes a Pod leave a lost node soon, unless the template has a say about that.
func withTolerations(own []corev1.Toleration) []corev1.Toleration {
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		covered := slices.ContainsFunc(own, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		})
		if !covered {
			own = append(own, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists,
				Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To(tolerateLostSeconds)})
		}
	}
	return own
}

// merged returns a new map with the entries of both; those of over win.
func merged(under, over map[string]string) map[string]string {
	result := maps.Clone(under)
	if result == nil {
		result = map[string]string{}
	}
	maps.Copy(result, over)
	return result
}
