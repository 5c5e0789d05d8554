package upgrade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
	workspacesv1alpha1 "kruntimes.io/kruntimes/apis/workspaces/v1alpha1"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

// recordedKinds are what a file holds: our kinds, and what our controllers and suites make for them.
var recordedKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Namespace"}, {Version: "v1", Kind: "Node"}, {Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "ServiceAccount"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apps", Version: "v1", Kind: "ControllerRevision"},
	{Group: "kruntimes.io", Version: "v1alpha1", Kind: "Runtime"}, {Group: "kruntimes.io", Version: "v1alpha1", Kind: "Run"},
	{Group: "workspaces.kruntimes.io", Version: "v1alpha1", Kind: "PersistentWorkspace"},
	{Group: "workflows.kruntimes.io", Version: "v1alpha1", Kind: "Workflow"}, {Group: "workflows.kruntimes.io", Version: "v1alpha1", Kind: "Action"},
	{Group: "workflows.kruntimes.io", Version: "v1alpha1", Kind: "WorkflowRun"},
}

// recordedStates are where the recorder leaves the objects of testdata/objects.yaml, by kind and name, and Runs of steps by
// their step.
var recordedStates = map[string]string{
	"Run/pending": "Pending", "Run/scheduled": "Scheduled", "Run/running": "Running", "Run/succeeded": "Succeeded", "Run/failed": "Failed",
	"Run/cancelled": "Cancelled", "Run/retried": "Pending", "Run/in-workspace": "Running",
	"Run/mid/second": "Running", "Run/tools/setup/unpack": "Running", "Run/smoke/curl": "Running",
	"PersistentWorkspace/bound": "Bound", "PersistentWorkspace/waiting": "Pending", "PersistentWorkspace/released": "Released", "PersistentWorkspace/lost": "Lost",
	"WorkflowRun/done": "Succeeded", "WorkflowRun/broke": "Failed", "WorkflowRun/stopped": "Cancelled",
	"WorkflowRun/steps": "Running", "WorkflowRun/action": "Running", "WorkflowRun/call": "Running",
	"Workflow/release": "Ready=True", "Workflow/verify": "Ready=True", "Workflow/unresolved": "Ready=False", "Action/toolchain": "Ready=True", "Action/broken": "Ready=False",
}

// TestRecord writes the objects of this version into a file, where one is named.
func TestRecord(t *testing.T) {
	if *recordTo == "" {
		t.Skip("no file is named with -record")
	}
	startCluster(t)
	shared.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	stopManager := shared.StartManager(t)
	stopScheduler := startScheduler(t)
	p := &player{
		holds: map[string]corev1alpha1.RunPhase{"scheduled": corev1alpha1.RunScheduled, "running": corev1alpha1.RunRunning, "in-workspace": corev1alpha1.RunRunning,
			"mid/second": corev1alpha1.RunRunning, "tools/setup/unpack": corev1alpha1.RunRunning, "smoke/curl": corev1alpha1.RunRunning},
		ends: map[string]corev1alpha1.RunReason{"failed": corev1alpha1.RunReasonScriptFailed, "retried": corev1alpha1.RunReasonScriptFailed,
			"breaks/fails": corev1alpha1.RunReasonScriptFailed},
		keeps: []string{"released"},
	}
	stopPlayer := p.start(t)
	for _, object := range manifests(t) {
		object.SetNamespace(namespace)
		shared.Create(t, object)
	}
	shared.RuntimePod(t, namespace, "sh", "sh-0")
	shared.RuntimePod(t, namespace, "sh", "sh-1")
	doomed := shared.RuntimePod(t, namespace, "gone", "gone-0")
	awaitStates(t, map[string]string{"PersistentWorkspace/lost": "Bound", "PersistentWorkspace/released": "Bound"})
	shared.Delete(t, doomed)
	if err := shared.Admin().Delete(t.Context(), &workspacesv1alpha1.PersistentWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "released"}}); err != nil {
		t.Fatal(err)
	}
	awaitStates(t, recordedStates)
	stopPlayer()
	stopScheduler()
	stopManager()
	awaitStates(t, recordedStates) // nothing moved before all had stopped
	write(t, *recordTo)
}

// manifests are the objects that are recorded.
func manifests(t *testing.T) (objects []*unstructured.Unstructured) {
	t.Helper()
	raw, err := os.ReadFile("testdata/objects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := decoder.Decode(&u.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, u)
	}
}

// list returns the objects of a kind.
func list(ctx context.Context, kind schema.GroupVersionKind) ([]unstructured.Unstructured, error) {
	found := &unstructured.UnstructuredList{}
	found.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	var options []client.ListOption
	switch kind.Kind {
	case "Node":
	case "Namespace":
		options = append(options, client.MatchingFields{"metadata.name": namespace})
	default:
		options = append(options, client.InNamespace(namespace))
	}
	err := shared.Admin().List(ctx, found, options...)
	return found.Items, err
}

// states tells where all objects stand, as recordedStates does.
func states(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	for _, kind := range recordedKinds {
		objects, err := list(ctx, kind)
		if err != nil {
			return nil, err
		}
		for i := range objects {
			u := &objects[i]
			name := u.GetName()
			if kind.Kind == "Run" {
				name = stepOf(&corev1alpha1.Run{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: u.GetLabels()}})
			}
			all[kind.Kind+"/"+name] = stateOf(u)
		}
	}
	return all, nil
}

// stateOf is the phase of an object; where it has none, whether it is ready.
func stateOf(u *unstructured.Unstructured) string {
	if phase, _, _ := unstructured.NestedString(u.Object, "status", "phase"); phase != "" {
		return phase
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == "Ready" {
			return fmt.Sprintf("Ready=%v", condition["status"])
		}
	}
	return ""
}

// awaitStates waits until the named objects stand where they should.
func awaitStates(t *testing.T, want map[string]string) {
	t.Helper()
	var last string
	defer func() {
		if t.Failed() {
			t.Logf("objects (-want +got):\n%s", last)
		}
	}()
	cluster.Eventually(t, "the objects to stand where they should", func(ctx context.Context) (bool, error) {
		all, err := states(ctx)
		if err != nil {
			return false, err
		}
		got := map[string]string{}
		for name := range want {
			got[name] = all[name]
		}
		last = cmp.Diff(want, got)
		return last == "", nil
	})
}

// write records all objects: one line of JSON for each.
func write(t *testing.T, file string) {
	t.Helper()
	var out bytes.Buffer
	for _, kind := range recordedKinds {
		objects, err := list(t.Context(), kind)
		if err != nil {
			t.Fatal(err)
		}
		for i := range objects {
			objects[i].SetResourceVersion("") // it is no part of what is stored
			line, err := json.Marshal(objects[i].Object)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(append(line, '\n'))
		}
	}
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("recorded %d bytes into %s", out.Len(), file)
}
