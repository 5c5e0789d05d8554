package core

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

func TestRuntimeSpec(t *testing.T) {
	pod := func(spec string) string { return `{"template":{"spec":{` + spec + `}}}` }
	with := func(more string) string {
		return `{"template":{"spec":{"containers":[{"name":"runtime","image":"i"}]}},` + more + `}`
	}
	const runtime = `"containers":[{"name":"runtime","image":"i"}]`
	checkSpecs(t, "Runtime", map[string]specCase{
		"the least":                     {pod(runtime), ""},
		"no Pods":                       {with(`"replicas":0`), ""},
		"more resources":                {with(`"capacity":{"runs":"2","example.com/gpu":1}`), ""},
		"a claim as workspace":          {with(`"workspace":{"persistentVolumeClaim":{"claimName":"c"}}`), ""},
		"a filesystem store":            {with(`"artifactStore":{"filesystem":{"volumeClaimName":"c"}}`), ""},
		"a store beside other claims":   {`{"template":{"spec":{` + runtime + `,"volumes":[{"name":"x","persistentVolumeClaim":{"claimName":"a"}}]}},"workspace":{"persistentVolumeClaim":{"claimName":"b"}},"artifactStore":{"filesystem":{"volumeClaimName":"c"}}}`, ""},
		"an s3 store":                   {with(`"artifactStore":{"s3":{"bucket":"abc","endpoint":"http://minio:9000","forcePathStyle":true}}`), ""},
		"a custom server":               {with(`"server":"Custom"`), ""},
		"containers of one's own":       {pod(`"initContainers":[{"name":"setup","image":"i"}],"containers":[{"name":"runtime","image":"i"},{"name":"db","image":"i"}],"volumes":[{"name":"cache","emptyDir":{}}]`), ""},
		"hostPID and sharing, declined": {pod(runtime + `,"hostPID":false,"shareProcessNamespace":false`), ""},

		"no template":                      {`{"replicas":1}`, `spec.template: Required value`},
		"a template without a Pod":         {`{"template":{}}`, `the first container must be named runtime`},
		"no container":                     {pod(`"containers":[]`), `the first container must be named runtime`},
		"another first container":          {pod(`"containers":[{"name":"db","image":"i"},{"name":"runtime","image":"i"}]`), `spec.template: Invalid value: the first container must be named runtime`},
		"a container named runtimed":       {pod(`"containers":[{"name":"runtime","image":"i"},{"name":"runtimed","image":"i"}]`), `spec.template: Invalid value: container names runtimed and kruntimes-* are reserved`},
		"a container named kruntimes-x":    {pod(`"containers":[{"name":"runtime","image":"i"},{"name":"kruntimes-x","image":"i"}]`), `spec.template: Invalid value: container names runtimed and kruntimes-* are reserved`},
		"an init container kruntimes-x":    {pod(runtime + `,"initContainers":[{"name":"kruntimes-install","image":"i"}]`), `spec.template: Invalid value: init container names runtimed and kruntimes-* are reserved`},
		"a volume named workspace":         {pod(runtime + `,"volumes":[{"name":"workspace","emptyDir":{}}]`), `spec.template: Invalid value: volume names workspace, artifact-store and kruntimes-* are reserved: use spec.workspace and spec.artifactStore`},
		"a volume named artifact-store":    {pod(runtime + `,"volumes":[{"name":"artifact-store","emptyDir":{}}]`), `use spec.workspace and spec.artifactStore`},
		"a volume named kruntimes-x":       {pod(runtime + `,"volumes":[{"name":"kruntimes-x","emptyDir":{}}]`), `use spec.workspace and spec.artifactStore`},
		"hostPID":                          {pod(runtime + `,"hostPID":true`), `spec.template: Invalid value: hostPID is not allowed: executions must not see the processes of the node`},
		"a shared process namespace":       {pod(runtime + `,"shareProcessNamespace":true`), `spec.template: Invalid value: shareProcessNamespace is not allowed: executions must not see the processes of runtimed`},
		"a negative number of Pods":        {with(`"replicas":-1`), `spec.replicas`},
		"a negative capacity":              {with(`"capacity":{"runs":"-1"}`), `spec.capacity: Invalid value: capacity must not be negative`},
		"an interpreter without words":     {with(`"interpreter":[]`), `spec.interpreter`},
		"an interpreter with an empty one": {with(`"interpreter":[""]`), `spec.interpreter[0]`},
		"an interpreter with NUL":          {with(`"interpreter":["/bin/sh","a\u0000"]`), `spec.interpreter[1]: Invalid value: "a\x00": interpreter must not hold NUL characters: no process can be given one`},
		"a capacity of 1e30":               {with(`"capacity":{"runs":"1e30"}`), `spec.capacity: Invalid value: runs must be at most 1000000000`},
		"a unit without a name":            {with(`"capacity":{"":"1"}`), `spec.capacity: Invalid value: capacity must name units such as runs or example.com/gpu`},
		"a unit with two slashes":          {with(`"capacity":{"a/b/c":"1"}`), `spec.capacity: Invalid value: capacity must name units such as runs or example.com/gpu`},
		"another server":                   {with(`"server":"Mine"`), `spec.server: Unsupported value`},
		"two workspaces":                   {with(`"workspace":{"emptyDir":{},"hostPath":{"path":"/x"}}`), `spec.workspace: Too many: 2: must have at most 1 item`},
		"an empty store":                   {with(`"artifactStore":{}`), `spec.artifactStore: Invalid value: set exactly one of filesystem and s3`},
		"two stores":                       {with(`"artifactStore":{"filesystem":{"volumeClaimName":"c"},"s3":{"bucket":"abc"}}`), `spec.artifactStore: Invalid value: set exactly one of filesystem and s3`},
		"a store without a claim":          {with(`"artifactStore":{"filesystem":{}}`), `spec.artifactStore.filesystem.volumeClaimName: Required value`},
		"a store in the workspace": {with(`"workspace":{"persistentVolumeClaim":{"claimName":"c"}},"artifactStore":{"filesystem":{"volumeClaimName":"c"}}`),
			`spec.artifactStore: Invalid value: the claim of the artifact store must not be that of the workspace: every execution could read and change all artifacts`},
		"a store in a volume of the template": {`{"template":{"spec":{` + runtime + `,"volumes":[{"name":"x","persistentVolumeClaim":{"claimName":"c"}}]}},"artifactStore":{"filesystem":{"volumeClaimName":"c"}}}`,
			`spec.artifactStore: Invalid value: the claim of the artifact store must not be a volume of the template: every execution could read and change all artifacts`},
		"an endpoint that is no URL": {with(`"artifactStore":{"s3":{"bucket":"abc","endpoint":"minio"}}`), `spec.artifactStore.s3.endpoint`},
	})
}

func TestMountsOfATemplate(t *testing.T) {
	const mine = `,"volumes":[{"name":"mine","emptyDir":{}}]`
	in := func(mounts string) string {
		return `{"template":{"spec":{"containers":[{"name":"runtime","image":"i",` + mounts + `}]` + mine + `}}}`
	}
	at := func(path string) string { return in(`"volumeMounts":[{"name":"mine","mountPath":"` + path + `"}]`) }
	beside := func(kind, mounts string) string {
		return `{"template":{"spec":{"` + kind + `":[{"name":"other","image":"i",` + mounts + `}],"containers":[{"name":"runtime","image":"i"}]` + mine + `}}}`
	}
	const volume = "the volumes workspace, artifact-store and kruntimes-* are mounted by kruntimes only: name a volume of spec.template.spec.volumes"
	const reserved = "spec.template.spec.containers[0].volumeMounts: Invalid value: a mountPath of the container runtime must not be /workspace or /kruntimes, or lie below"
	const unclean = "spec.template.spec.containers[0].volumeMounts: Invalid value: a mountPath of the container runtime must be absolute, without empty parts, '.' or '..', and not /"
	cases := map[string]specCase{
		"runtimed's token": {in(`"volumeMounts":[{"name":"kruntimes-token","mountPath":"/t"}]`), `spec.template.spec.containers[0].volumeMounts[0].name: Invalid value: "kruntimes-token": ` + volume},
		"runtimed's state, second": {in(`"volumeMounts":[{"name":"mine","mountPath":"/m"},{"name":"kruntimes-state","mountPath":"/t"}]`),
			`spec.template.spec.containers[0].volumeMounts[1].name: Invalid value: "kruntimes-state": ` + volume},
		"the workspace elsewhere":        {in(`"volumeMounts":[{"name":"workspace","mountPath":"/w"}]`), volume},
		"the store as a device":          {in(`"volumeDevices":[{"name":"artifact-store","devicePath":"/dev/x"}]`), `containers[0].volumeDevices[0].name: Invalid value: "artifact-store": ` + volume},
		"the token in an init container": {beside("initContainers", `"volumeMounts":[{"name":"kruntimes-token","mountPath":"/t"}]`), `spec.template.spec.initContainers[0].volumeMounts[0].name: Invalid value: "kruntimes-token": ` + volume},
		"the token in a sidecar": {`{"template":{"spec":{"containers":[{"name":"runtime","image":"i"},{"name":"db","image":"i","volumeMounts":[{"name":"kruntimes-token","mountPath":"/t"}]}]}}}`,
			`spec.template.spec.containers[1].volumeMounts[0].name: Invalid value: "kruntimes-token": ` + volume},
		"one's own in a sidecar, anywhere": {`{"template":{"spec":{"containers":[{"name":"runtime","image":"i"},{"name":"db","image":"i","volumeMounts":[{"name":"mine","mountPath":"/workspace"}]}]` + mine + `}}}`, ""},
	}
	for _, path := range []string{"/data", "/data/", "/workspaces", "/kruntimes-x", "/.cache/..a/...", "/home/workspace"} {
		cases["at "+path] = specCase{at(path), ""}
	}
	for _, path := range []string{"/workspace", "/workspace/", "/workspace/cache", "/kruntimes", "/kruntimes/bin", "/kruntimes/socket/"} {
		cases["at "+path] = specCase{at(path), reserved}
	}
	for _, path := range []string{"/", "//", "workspace", "//workspace", "/./workspace", "/a/../workspace", "/a/..", "/a//b", "."} {
		cases["at "+path] = specCase{at(path), unclean}
	}
	checkSpecs(t, "Runtime", cases)
}

func TestARuntimeKeepsItsTemplateAndGetsDefaults(t *testing.T) {
	ns := shared.Namespace(t)
	created := manifest(t, "Runtime", ns, "r", `{"template":{"metadata":{"labels":{"team":"a"},"annotations":{"x":"y"}},
		"spec":{"containers":[{"name":"runtime","image":"i","resources":{"limits":{"cpu":"1500m"}}}]}}}`)
	shared.Create(t, created)
	got := &corev1alpha1.Runtime{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(created), got); err != nil {
		t.Fatal(err)
	}
	want := corev1alpha1.RuntimeSpec{
		Replicas: ptr.To[int32](1), Capacity: corev1.ResourceList{"runs": resource.MustParse("4")},
		Interpreter: []string{"/bin/sh", "-e"}, Server: corev1alpha1.ServerInjected,
		Workspace: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "runtime", Image: "i",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1500m")}}}}}},
	}
	want.Template.Labels, want.Template.Annotations = map[string]string{"team": "a"}, map[string]string{"x": "y"}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// TestAWorkspaceOfAnotherKindReplacesTheDefault guards against the default of emptyDir being merged into a claim.
func TestAWorkspaceOfAnotherKindReplacesTheDefault(t *testing.T) {
	ns := shared.Namespace(t)
	r := newRuntime(ns, "r")
	shared.Create(t, r)
	err := shared.Admin().Patch(t.Context(), r, mergePatch(`{"spec":{"workspace":{"emptyDir":null,"persistentVolumeClaim":{"claimName":"c"}}}}`))
	expectError(t, "changing the workspace", err, "")
	if r.Spec.Workspace.EmptyDir != nil || r.Spec.Workspace.PersistentVolumeClaim == nil {
		t.Errorf("workspace is %+v", r.Spec.Workspace)
	}
}
