package core

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

var testSettings = podSettings{nodeImage: "node:1", defaultUser: ptr.To[int64](65532)}

// runtimeWith is a Runtime named sh as the API server would return it, with its template's Pod changed.
func runtimeWith(change func(*corev1alpha1.Runtime)) *corev1alpha1.Runtime {
	r := &corev1alpha1.Runtime{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sh", UID: "uid", Generation: 1},
		Spec: corev1alpha1.RuntimeSpec{
			Replicas: ptr.To[int32](1), Interpreter: []string{"/bin/sh", "-e"}, Server: corev1alpha1.ServerInjected,
			Workspace: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
			Template:  corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "runtime", Image: "debian:13"}}}},
		},
	}
	if change != nil {
		change(r)
	}
	return r
}

// golden is the whole template of the plainest Runtime.
const golden = `
metadata:
  annotations: {kruntimes.io/runtime: sh}
  labels: {app.kubernetes.io/managed-by: kruntimes, kruntimes.io/runtime: sh}
spec:
  automountServiceAccountToken: false
  serviceAccountName: runtime-sh
  terminationGracePeriodSeconds: 600
  securityContext: {runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  tolerations:
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 30}
  - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 30}
  initContainers:
  - name: kruntimes-install
    image: node:1
    command: [/runtime-server, install, /kruntimes/bin/runtime-server]
    resources: {requests: {cpu: 10m, memory: 32Mi}}
    securityContext: {runAsUser: 65532, runAsGroup: 65532, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    volumeMounts:
    - {name: kruntimes-bin, mountPath: /kruntimes/bin}
  containers:
  - name: runtime
    image: debian:13
    command: [/kruntimes/bin/runtime-server, serve]
    args: [--socket=/kruntimes/socket/runtimed.sock]
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    volumeMounts:
    - {name: workspace, mountPath: /workspace}
    - {name: kruntimes-bin, mountPath: /kruntimes/bin, readOnly: true}
    - {name: kruntimes-socket, mountPath: /kruntimes/socket, readOnly: true}
    - {name: kruntimes-scratch, mountPath: /kruntimes/scratch}
  - name: runtimed
    image: node:1
    command: [/runtimed]
    args:
    - --socket=/kruntimes/socket/runtimed.sock
    - --scratch=/kruntimes/scratch
    - --state=/kruntimes/state
    - --workspace=/workspace
    - --token-dir=/var/run/secrets/kubernetes.io/serviceaccount
    - --health-address=:8086
    - --interpreter=/bin/sh
    - --interpreter=-e
    env:
    - {name: POD_NAME, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}
    - {name: POD_NAMESPACE, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}}
    - {name: POD_UID, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.uid}}}
    ports:
    - {name: health, containerPort: 8086, protocol: TCP}
    readinessProbe: {httpGet: {path: /readyz, port: health, scheme: HTTP}, periodSeconds: 1, failureThreshold: 2, timeoutSeconds: 1}
    resources: {requests: {cpu: 10m, memory: 32Mi}}
    securityContext: {runAsUser: 65532, runAsGroup: 65532, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    volumeMounts:
    - {name: workspace, mountPath: /workspace}
    - {name: kruntimes-socket, mountPath: /kruntimes/socket}
    - {name: kruntimes-scratch, mountPath: /kruntimes/scratch}
    - {name: kruntimes-state, mountPath: /kruntimes/state}
    - {name: kruntimes-token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
  volumes:
  - {name: workspace, emptyDir: {}}
  - {name: kruntimes-bin, emptyDir: {}}
  - {name: kruntimes-socket, emptyDir: {}}
  - {name: kruntimes-scratch, emptyDir: {}}
  - {name: kruntimes-state, emptyDir: {}}
  - name: kruntimes-token
    projected:
      sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3607}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
      - downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]}
`

func TestPodTemplate(t *testing.T) {
	plain := func() corev1.PodTemplateSpec {
		var want corev1.PodTemplateSpec
		if err := yaml.UnmarshalStrict([]byte(golden), &want); err != nil {
			t.Fatal(err)
		}
		return want
	}
	cases := map[string]struct {
		runtime func(*corev1alpha1.Runtime)
		// change turns the template of the plainest Runtime into the wanted one.
		change func(*corev1.PodTemplateSpec)
	}{
		"the plainest Runtime": {func(*corev1alpha1.Runtime) {}, func(*corev1.PodTemplateSpec) {}},
		"what the user wrote stays, and reserved labels win": {
			func(r *corev1alpha1.Runtime) {
				tpl := &r.Spec.Template
				tpl.Labels = map[string]string{"team": "a", "kruntimes.io/runtime": "stolen"}
				tpl.Annotations = map[string]string{"note": "x"}
				tpl.Spec.TerminationGracePeriodSeconds = ptr.To[int64](5)
				tpl.Spec.AutomountServiceAccountToken = ptr.To(true)
				tpl.Spec.ServiceAccountName = "builder"
				tpl.Spec.NodeSelector = map[string]string{"disk": "ssd"}
				tpl.Spec.Volumes = []corev1.Volume{{Name: "cache"}}
				tpl.Spec.InitContainers = []corev1.Container{{Name: "setup"}}
				tpl.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "cache", MountPath: "/cache"}}
				tpl.Spec.Containers = append(tpl.Spec.Containers, corev1.Container{Name: "db", Image: "postgres"})
			},
			func(want *corev1.PodTemplateSpec) {
				want.Labels["team"], want.Annotations["note"] = "a", "x"
				p := &want.Spec
				p.TerminationGracePeriodSeconds = ptr.To[int64](5)
				p.ServiceAccountName = "builder"
				p.NodeSelector = map[string]string{"disk": "ssd"}
				p.Volumes = append([]corev1.Volume{{Name: "cache"}}, p.Volumes...)
				p.InitContainers = append(p.InitContainers, corev1.Container{Name: "setup"})
				p.Containers[0].VolumeMounts = append([]corev1.VolumeMount{{Name: "cache", MountPath: "/cache"}}, p.Containers[0].VolumeMounts...)
				p.Containers = []corev1.Container{p.Containers[0], {Name: "db", Image: "postgres"}, p.Containers[1]}
			}},
		"a command of the image is replaced": {
			func(r *corev1alpha1.Runtime) {
				r.Spec.Template.Spec.Containers[0].Command, r.Spec.Template.Spec.Containers[0].Args = []string{"sleep"}, []string{"1d"}
			}, func(*corev1.PodTemplateSpec) {}},
		"a custom server keeps its command and is told the socket": {
			func(r *corev1alpha1.Runtime) {
				r.Spec.Server = corev1alpha1.ServerCustom
				r.Spec.Template.Spec.Containers[0].Args = []string{"--mine"}
			},
			func(want *corev1.PodTemplateSpec) {
				c := &want.Spec.Containers[0]
				c.Command, c.Args = nil, []string{"--mine"}
				c.Env = []corev1.EnvVar{{Name: "KRUNTIME_SOCKET", Value: "/kruntimes/socket/runtimed.sock"}}
				c.VolumeMounts = append(c.VolumeMounts[:1:1], c.VolumeMounts[2:]...)
				want.Spec.InitContainers = nil
				want.Spec.Volumes = append(want.Spec.Volumes[:1:1], want.Spec.Volumes[2:]...)
			}},
		"the workspace is the user's volume": {
			func(r *corev1alpha1.Runtime) {
				r.Spec.Workspace = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}
			},
			func(want *corev1.PodTemplateSpec) {
				want.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}
			}},
		"another interpreter": {
			func(r *corev1alpha1.Runtime) { r.Spec.Interpreter = []string{"python3"} },
			func(want *corev1.PodTemplateSpec) {
				c := &want.Spec.Containers[1]
				c.Args = append(c.Args[:6:6], "--interpreter=python3")
			}},
		"a restart": {
			func(r *corev1alpha1.Runtime) {
				r.Annotations = map[string]string{"kruntimes.io/restartedAt": "today", "other": "x"}
			},
			func(want *corev1.PodTemplateSpec) { want.Annotations["kruntimes.io/restartedAt"] = "today" }},
		"a toleration of one's own is not doubled": {
			func(r *corev1alpha1.Runtime) {
				r.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists}}
			},
			func(want *corev1.PodTemplateSpec) {
				want.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists}, want.Spec.Tolerations[0]}
			}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			runtime := runtimeWith(tc.runtime)
			before := runtime.DeepCopy()
			want := plain()
			tc.change(&want)
			if diff := cmp.Diff(want, podTemplate(runtime, testSettings)); diff != "" {
				t.Errorf("template (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, runtime); diff != "" {
				t.Errorf("the Runtime was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// who says under which user and group each part of a Pod runs; -1 stands for unset.
type who struct{ podUser, podGroup, fsGroup, runtimeUser, runtimeGroup, runtimedUser, runtimedGroup int64 }

func TestSecurity(t *testing.T) {
	id := ptr.To[int64]
	onPod := func(c corev1.PodSecurityContext) func(*corev1alpha1.Runtime) {
		return func(r *corev1alpha1.Runtime) { r.Spec.Template.Spec.SecurityContext = &c }
	}
	onContainer := func(c corev1.SecurityContext) func(*corev1alpha1.Runtime) {
		return func(r *corev1alpha1.Runtime) { r.Spec.Template.Spec.Containers[0].SecurityContext = &c }
	}
	cases := map[string]struct {
		runtime func(*corev1alpha1.Runtime)
		none    bool
		want    who
	}{
		"nothing is said":                            {nil, false, who{65532, 65532, 65532, -1, -1, 65532, 65532}},
		"nothing is said, and the cluster assigns":   {nil, true, who{-1, -1, -1, -1, -1, -1, -1}},
		"the Pod names a user":                       {onPod(corev1.PodSecurityContext{RunAsUser: id(1000)}), false, who{1000, -1, -1, -1, 1000, 1000, 1000}},
		"the Pod names a user and a group":           {onPod(corev1.PodSecurityContext{RunAsUser: id(1000), RunAsGroup: id(5)}), false, who{1000, 5, -1, -1, 5, 1000, 5}},
		"the container names a user":                 {onContainer(corev1.SecurityContext{RunAsUser: id(0)}), false, who{-1, -1, -1, 0, 0, 0, 0}},
		"the container names a user, none otherwise": {onContainer(corev1.SecurityContext{RunAsUser: id(7)}), true, who{-1, -1, -1, 7, 7, 7, 7}},
		"only a group for volumes":                   {onPod(corev1.PodSecurityContext{FSGroup: id(9)}), false, who{65532, 65532, 9, -1, -1, 65532, 65532}},
		"only a group":                               {onPod(corev1.PodSecurityContext{RunAsGroup: id(9)}), false, who{65532, 9, 9, -1, -1, 65532, 9}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			settings := testSettings
			if tc.none {
				settings.defaultUser = nil
			}
			pod := podTemplate(runtimeWith(tc.runtime), settings).Spec
			value := func(p *int64) int64 { return ptr.Deref(p, -1) }
			runtime, runtimed := ptr.Deref(pod.Containers[0].SecurityContext, corev1.SecurityContext{}), pod.Containers[1].SecurityContext
			got := who{value(pod.SecurityContext.RunAsUser), value(pod.SecurityContext.RunAsGroup), value(pod.SecurityContext.FSGroup),
				value(runtime.RunAsUser), value(runtime.RunAsGroup), value(runtimed.RunAsUser), value(runtimed.RunAsGroup)}
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if diff := cmp.Diff(runtimed, pod.InitContainers[0].SecurityContext); diff != "" {
				t.Errorf("the install container differs from runtimed (-runtimed +install):\n%s", diff)
			}
		})
	}
}

func TestAPrivilegedContainerIsNotHalfRestricted(t *testing.T) {
	own := &corev1.SecurityContext{Privileged: ptr.To(true)}
	pod := podTemplate(runtimeWith(func(r *corev1alpha1.Runtime) { r.Spec.Template.Spec.Containers[0].SecurityContext = own.DeepCopy() }), testSettings).Spec
	if diff := cmp.Diff(own, pod.Containers[0].SecurityContext); diff != "" {
		t.Errorf("security context (-want +got):\n%s", diff)
	}
}

func TestChildName(t *testing.T) {
	long := strings.Repeat("a", 45) + "." + strings.Repeat("b", 200)
	a, b := childName(long), childName(long+"b")
	if len(a) > 63 || a == b || strings.Contains(a, ".-") {
		t.Errorf("want two valid names of at most 63 characters, got %q and %q", a, b)
	}
	if got := childName("sh"); got != "runtime-sh" {
		t.Errorf("got %q, want runtime-sh", got)
	}
}
