package workspaces

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
)

// manifest makes a workspace from the YAML of its spec, as a person might write it.
func manifest(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	var body map[string]any
	if err := yaml.Unmarshal([]byte(spec), &body); err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": body}}
	u.SetAPIVersion(workspacesv1alpha1.GroupVersion.String())
	u.SetKind(workspacesv1alpha1.Kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// expectInvalid checks that the API server calls an object invalid for exactly the given reason and no other, or that
// there is no error where want is empty.
func expectInvalid(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" || err == nil {
		expectError(t, "the object", err, want)
		return
	}
	_, got, found := strings.Cut(err.Error(), " is invalid: ")
	if rest, has := strings.CutSuffix(got, ", <nil>: Invalid value: null: some validation rules were not checked because the "+
		"object was invalid; correct the existing errors to complete validation]"); has {
		got = strings.TrimPrefix(rest, "[")
	}
	if !found || got != want {
		t.Errorf("got error\n%v\nwant invalid because of\n%s", err, want)
	}
}

func TestSpecs(t *testing.T) {
	ns := shared.Namespace(t)
	for name, tc := range map[string]struct{ spec, want string }{
		"a Runtime":                    {`{runtime: sh}`, ""},
		"all of the design's manifest": {`{runtime: bash, mode: RuntimePodLocal, ttlSecondsAfterUnused: 3600, cleanupPolicy: DeleteAfterTTL}`, ""},
		"Retain":                       {`{runtime: sh, cleanupPolicy: Retain}`, ""},
		"Retain with a time":           {`{runtime: sh, cleanupPolicy: Retain, ttlSecondsAfterUnused: 5}`, ""},
		"no time at all":               {`{runtime: sh, cleanupPolicy: DeleteAfterTTL, ttlSecondsAfterUnused: 0}`, ""},
		"ten years":                    {`{runtime: sh, ttlSecondsAfterUnused: 315360000}`, ""},
		"a Runtime with a long name":   {`{runtime: ` + strings.Repeat("r", 253) + `}`, ""},

		"nothing":             {`{}`, `spec.runtime: Required value`},
		"an empty Runtime":    {`{runtime: ""}`, `spec.runtime: Invalid value: "": spec.runtime in body should be at least 1 chars long`},
		"a Runtime too long":  {`{runtime: ` + strings.Repeat("r", 254) + `}`, `spec.runtime: Too long: may not be more than 253 bytes`},
		"another mode":        {`{runtime: sh, mode: Shared}`, `spec.mode: Unsupported value: "Shared": supported values: "RuntimePodLocal"`},
		"another policy":      {`{runtime: sh, cleanupPolicy: Never}`, `spec.cleanupPolicy: Unsupported value: "Never": supported values: "DeleteAfterTTL", "Retain"`},
		"a negative time":     {`{runtime: sh, ttlSecondsAfterUnused: -1}`, `spec.ttlSecondsAfterUnused: Invalid value: -1: spec.ttlSecondsAfterUnused in body should be greater than or equal to 0`},
		"more than ten years": {`{runtime: sh, ttlSecondsAfterUnused: 315360001}`, `spec.ttlSecondsAfterUnused: Invalid value: 315360001: spec.ttlSecondsAfterUnused in body should be less than or equal to 315360000`},
		"a time with a unit":  {`{runtime: sh, ttlSecondsAfterUnused: 1h}`, `spec.ttlSecondsAfterUnused: Invalid value: "string": spec.ttlSecondsAfterUnused in body must be of type integer: "string"`},
	} {
		t.Run(name, func(t *testing.T) {
			expectInvalid(t, shared.Admin().Create(t.Context(), manifest(t, ns, "ws", tc.spec), client.DryRunAll), tc.want)
		})
	}
}

func TestDefaults(t *testing.T) {
	ns := shared.Namespace(t)
	u := manifest(t, ns, "ws", `{runtime: sh}`)
	shared.Create(t, u)
	want := map[string]any{
		"spec":   map[string]any{"runtime": "sh", "mode": "RuntimePodLocal", "cleanupPolicy": "Retain"},
		"status": map[string]any{"phase": "Pending"},
	}
	got := map[string]any{"spec": u.Object["spec"], "status": u.Object["status"]}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

func TestWhatMayChange(t *testing.T) {
	ns := shared.Namespace(t)
	shared.Create(t, manifest(t, ns, "ws", `{runtime: sh}`))
	for name, tc := range map[string]struct{ patch, want string }{
		"the policy":        {`{"cleanupPolicy":"DeleteAfterTTL"}`, ""},
		"the time":          {`{"ttlSecondsAfterUnused":5}`, ""},
		"the Runtime":       {`{"runtime":"other"}`, `spec.runtime: Invalid value: runtime is immutable: create another workspace`},
		"no Runtime":        {`{"runtime":null}`, `spec.runtime: Required value`},
		"the mode, dropped": {`{"mode":null}`, ""}, // the schema's default puts it back
		"the mode":          {`{"mode":"Shared"}`, `spec.mode: Unsupported value: "Shared": supported values: "RuntimePodLocal"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := shared.Admin().Patch(t.Context(), newWorkspace(ns, "ws"), mergePatch(`{"spec":`+tc.patch+`}`), client.DryRunAll)
			expectInvalid(t, err, tc.want)
		})
	}
}

func dryStatus() *client.SubResourcePatchOptions {
	return &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}}
}

// statusIn is a status in which a phase may be stored.
func statusIn(phase workspacesv1alpha1.WorkspacePhase, isBound bool) map[string]any {
	status := map[string]any{"phase": phase, "runtime": nil, "boundPod": nil, "boundPodUID": nil, "path": nil}
	if isBound {
		status["runtime"], status["boundPod"], status["boundPodUID"], status["path"] = "sh", "a", "a-uid", "/workspace/persistent/ws"
	}
	return status
}

func writeStatus(t *testing.T, namespace, name string, status map[string]any, options ...client.SubResourcePatchOption) error {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		t.Fatal(err)
	}
	return shared.Admin().Status().Patch(t.Context(), newWorkspace(namespace, name), mergePatch(string(patch)), options...)
}

// TestPhasesFollowTheirOrder tries every pair of phases, with the Pod that was there, or without one where there was none.
func TestPhasesFollowTheirOrder(t *testing.T) {
	ns := shared.Namespace(t)
	const (
		pending, bound, lost, released = workspacesv1alpha1.WorkspacePending, workspacesv1alpha1.WorkspaceBound,
			workspacesv1alpha1.WorkspaceLost, workspacesv1alpha1.WorkspaceReleased
	)
	allowed := map[[2]workspacesv1alpha1.WorkspacePhase]bool{
		{pending, bound}: true, {pending, released}: true, {bound, lost}: true, {bound, released}: true, {released, lost}: true,
	}
	paths := map[workspacesv1alpha1.WorkspacePhase][]workspacesv1alpha1.WorkspacePhase{
		pending: nil, bound: {bound}, lost: {bound, lost}, released: {bound, released},
	}
	for from, path := range paths {
		name := strings.ToLower(string(from))
		shared.Create(t, newWorkspace(ns, name))
		for _, phase := range path {
			if err := writeStatus(t, ns, name, statusIn(phase, true)); err != nil {
				t.Fatal(err)
			}
		}
		for to := range paths {
			t.Run(fmt.Sprintf("%s to %s", from, to), func(t *testing.T) {
				err := writeStatus(t, ns, name, statusIn(to, from != pending || to != pending), dryStatus())
				switch want := from == to || allowed[[2]workspacesv1alpha1.WorkspacePhase{from, to}]; {
				case want:
					expectError(t, "the change", err, "")
				default:
					expectError(t, "the change", err, "this phase cannot follow the one before")
				}
			})
		}
	}
}

func TestStatuses(t *testing.T) {
	ns := shared.Namespace(t)
	shared.Create(t, newWorkspace(ns, "pending"))
	shared.Create(t, newWorkspace(ns, "bound"))
	if err := writeStatus(t, ns, "bound", statusIn(workspacesv1alpha1.WorkspaceBound, true)); err != nil {
		t.Fatal(err)
	}
	const together = "boundPod, boundPodUID and path are set together"
	for name, tc := range map[string]struct{ of, patch, want string }{
		"bound":                      {"pending", `{"phase":"Bound","boundPod":"a","boundPodUID":"u","path":"/p"}`, ""},
		"released, never bound":      {"pending", `{"phase":"Released"}`, ""},
		"bound without a Pod":        {"pending", `{"phase":"Bound"}`, "this phase needs a bound Pod"},
		"bound without a UID":        {"pending", `{"phase":"Bound","boundPod":"a","path":"/p"}`, together},
		"bound without a path":       {"pending", `{"phase":"Bound","boundPod":"a","boundPodUID":"u"}`, together},
		"a Pod while it is Pending":  {"pending", `{"boundPod":"a","boundPodUID":"u","path":"/p"}`, "a Pending workspace has no bound Pod"},
		"a Pod's UID that is long":   {"pending", `{"phase":"Bound","boundPod":"a","boundPodUID":"` + strings.Repeat("u", 65) + `","path":"/p"}`, "status.boundPodUID: Too long: may not be more than 64 bytes"},
		"no such phase":              {"pending", `{"phase":"Ready"}`, `status.phase: Unsupported value: "Ready"`},
		"no phase":                   {"bound", `{"phase":null}`, "this phase cannot follow the one before"},
		"another Pod":                {"bound", `{"boundPod":"b"}`, "boundPod never changes"},
		"another UID":                {"bound", `{"boundPodUID":"other"}`, "boundPodUID never changes"},
		"another path":               {"bound", `{"path":"/workspace/persistent/other"}`, "path never changes"},
		"another Pod with all of it": {"bound", `{"boundPod":"b","boundPodUID":"other","path":"/p"}`, "boundPod never changes"},
		"no Pod":                     {"bound", `{"boundPod":null,"boundPodUID":null,"path":null}`, "boundPod never changes"},
		"back to Pending":            {"bound", `{"phase":"Pending","boundPod":null,"boundPodUID":null,"path":null}`, "this phase cannot follow the one before"},
		"last used":                  {"bound", `{"lastUsedTime":"2026-07-06T12:00:00Z"}`, ""},
		"last used, not as a time":   {"bound", `{"lastUsedTime":"yesterday"}`, "status.lastUsedTime"},
		"two conditions of a type": {"bound", `{"conditions":[{"type":"Bound","status":"True","reason":"Bound","message":"","lastTransitionTime":"2026-07-06T12:00:00Z"},` +
			`{"type":"Bound","status":"False","reason":"Bound","message":"","lastTransitionTime":"2026-07-06T12:00:00Z"}]}`, "Duplicate value"},
	} {
		t.Run(name, func(t *testing.T) {
			err := shared.Admin().Status().Patch(t.Context(), newWorkspace(ns, tc.of), mergePatch(`{"status":`+tc.patch+`}`), dryStatus())
			expectError(t, "the status", err, tc.want)
		})
	}
}

func TestTheBoundPodIsSelectable(t *testing.T) {
	ns := shared.Namespace(t)
	for _, name := range []string{"one", "two"} {
		shared.Create(t, newWorkspace(ns, name))
	}
	if err := writeStatus(t, ns, "two", statusIn(workspacesv1alpha1.WorkspaceBound, true)); err != nil {
		t.Fatal(err)
	}
	var list workspacesv1alpha1.PersistentWorkspaceList
	if err := shared.Admin().List(t.Context(), &list, client.InNamespace(ns), client.MatchingFields{workspacesv1alpha1.FieldBoundPod: "a"}); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Name != "two" {
		t.Errorf("selected %d workspaces", len(list.Items))
	}
}

// TestTheTableOfWorkspaces reads what "kubectl get persistentworkspaces -o wide" prints, made by the API server.
func TestTheTableOfWorkspaces(t *testing.T) {
	ns := shared.Namespace(t)
	shared.Create(t, newWorkspace(ns, "ws", ttl(60)))
	status := statusIn(workspacesv1alpha1.WorkspaceBound, true)
	status["conditions"] = []any{map[string]any{"type": "Available", "status": "False", "reason": "PodNotReady", "message": "",
		"lastTransitionTime": "2026-01-02T03:04:05Z"}}
	if err := writeStatus(t, ns, "ws", status); err != nil {
		t.Fatal(err)
	}
	clientset, err := kubernetes.NewForConfig(shared.Config())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := clientset.CoreV1().RESTClient().Get().AbsPath("/apis/workspaces.kruntimes.io/v1alpha1/namespaces/"+ns+"/persistentworkspaces").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for i, column := range table.ColumnDefinitions {
		if column.Name != "Age" {
			got[column.Name] = table.Rows[0].Cells[i]
		}
	}
	want := map[string]any{"Name": "ws", "Runtime": "sh", "Phase": "Bound", "Available": "False", "Last Used": nil, "Pod": "a",
		"Policy": "DeleteAfterTTL", "TTL": float64(60)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTheManifestOfTheDesignIsAccepted has the manifest of the design, in the group of its kind, with a Pod that is there.
func TestTheManifestOfTheDesignIsAccepted(t *testing.T) {
	ns := shared.Namespace(t)
	const status = `
phase: Bound
runtime: bash
boundPod: runtime-bash-7f587b4668-njcks
boundPodUID: 2c24c1f0-9f8f-4f80-82d5-3dd16a12d1e6
path: /workspace/persistent/ci-build-workspace
lastUsedTime: "2026-07-06T12:00:00Z"
`
	u := manifest(t, ns, "ci-build-workspace", `{runtime: bash, mode: RuntimePodLocal, ttlSecondsAfterUnused: 3600, cleanupPolicy: DeleteAfterTTL}`)
	expectError(t, "the spec", shared.Admin().Create(t.Context(), u, client.FieldValidation("Strict")), "")
	want := manifest(t, ns, "", status).Object["spec"]
	patch, err := json.Marshal(map[string]any{"status": want})
	if err != nil {
		t.Fatal(err)
	}
	expectError(t, "the status", shared.Admin().Status().Patch(t.Context(), u, mergePatch(string(patch))), "")
	if diff := cmp.Diff(want, u.Object["status"]); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}
