package workflows

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// The files below testdata/seeds are the YAML examples of the design documents, letter by letter save the group and
// version of their kinds. Whole objects are created; excerpts are applied to an object that has what they leave out.

func seed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "seeds", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheObjectsOfTheDesignAreAccepted(t *testing.T) {
	for _, name := range []string{"inline-run", "workflow", "calling-run", "action", "action-calling-run", "data-sharing-workflow", "release-run"} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: fromYAML(t, seed(t, name))}
			want := u.DeepCopy()
			u.SetNamespace(shared.Namespace(t))
			expectError(t, "create", shared.Admin().Create(t.Context(), u, client.FieldValidation("Strict")), "")
			checkTyped(t, u, want)
		})
	}
}

// checkTyped checks that the Go types hold everything that was written.
func checkTyped(t *testing.T, stored, written *unstructured.Unstructured) {
	t.Helper()
	typed, err := shared.Admin().Scheme().New(stored.GroupVersionKind())
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(stored), typed.(client.Object)); err != nil {
		t.Fatal(err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(written.Object["spec"], fields["spec"]); diff != "" {
		t.Errorf("the spec, read with the Go types (-want +got):\n%s", diff)
	}
}

func TestTheExcerptsOfTheDesignAreAccepted(t *testing.T) {
	const steps = `{runs-on: bash, steps: [{name: package, run: make}]}`
	tests := map[string]string{
		"cancelled-run":       `{spec: {jobs: {build: ` + steps + `, test: {needs: [build], uses: unit}}}}`,
		"status-of-steps":     `{spec: {jobs: {build: ` + steps + `, test: {needs: [build], runs-on: bash, steps: [{name: unit, run: make}]}}}}`,
		"status-of-artifacts": `{spec: {jobs: {build: ` + steps + `}}, status: {jobs: {build: {phase: Succeeded, steps: [{name: package, phase: Succeeded}]}}}}`,
		"status-of-call":      `{spec: {jobs: {deploy: {uses: deploy-workflow}}}}`,
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			base := &unstructured.Unstructured{Object: fromYAML(t, text)}
			base.SetNamespace(shared.Namespace(t))
			base.SetName("r")
			base.SetKind("WorkflowRun")
			base.SetAPIVersion(workflowsv1alpha1.GroupVersion.String())
			excerpt := &unstructured.Unstructured{Object: fromYAML(t, strings.ReplaceAll(seed(t, name), "<run-uid>", "0b6c1f0e-5a43-4a0e-8f0e-3a1d1b1c1d1e"))}
			apply(t, base, "base")
			excerpt.SetGroupVersionKind(base.GroupVersionKind())
			excerpt.SetNamespace(base.GetNamespace())
			excerpt.SetName(base.GetName())
			apply(t, excerpt, "excerpt")
		})
	}
}

// apply applies what the object holds of spec and status. Unknown fields are refused.
func apply(t *testing.T, u *unstructured.Unstructured, owner string) {
	t.Helper()
	parts := map[string]*unstructured.Unstructured{}
	for _, part := range []string{"spec", "status"} {
		if body, has := u.Object[part]; has {
			parts[part] = u.DeepCopy()
			delete(parts[part].Object, "spec")
			delete(parts[part].Object, "status")
			parts[part].Object[part] = body
		}
	}
	if part := parts["spec"]; part != nil {
		err := shared.Admin().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(part), client.FieldOwner(owner), client.ForceOwnership)
		expectError(t, "applying the spec of the "+owner, err, "")
	}
	if part := parts["status"]; part != nil {
		err := shared.Admin().Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(part), client.FieldOwner(owner), client.ForceOwnership)
		expectError(t, "applying the status of the "+owner, err, "")
	}
}

// TestTheWorkspacesOfTheDesignAreAccepted covers Runtime and Run; test/envtest/workspaces has PersistentWorkspace.
func TestTheWorkspacesOfTheDesignAreAccepted(t *testing.T) {
	ns := shared.Namespace(t)
	warm := &unstructured.Unstructured{Object: fromYAML(t, seed(t, "runtime"))}
	warm.SetNamespace(ns)
	warm.Object["spec"].(map[string]any)["template"] = fromYAML(t, `{spec: {containers: [{name: runtime, image: bash}]}}`)
	expectError(t, "a Runtime", shared.Admin().Create(t.Context(), warm, client.DryRunAll, client.FieldValidation("Strict")), "")

	run := &unstructured.Unstructured{Object: fromYAML(t, seed(t, "run-with-workspace"))}
	run.SetNamespace(ns)
	err := shared.Admin().Create(t.Context(), run.DeepCopy(), client.DryRunAll, client.FieldValidation("Strict"))
	expectError(t, "a Run with a workspace", err, "")

	unstructured.RemoveNestedField(run.Object, "spec", "workspace")
	affinity := fromYAML(t, seed(t, "run-with-affinity"))["spec"].(map[string]any)["affinity"]
	run.Object["spec"].(map[string]any)["affinity"] = affinity
	expectError(t, "a Run with affinity", shared.Admin().Create(t.Context(), run, client.DryRunAll, client.FieldValidation("Strict")), "")
}

func TestASnapshotOfTheDesignIsAccepted(t *testing.T) {
	ns := shared.Namespace(t)
	owner := &workflowsv1alpha1.WorkflowRun{}
	if err := yaml.Unmarshal([]byte(seed(t, "output-contract")), owner); err != nil {
		t.Fatal(err)
	}
	owner.Namespace, owner.Name = ns, "release-call-deploy"
	snapshot := &unstructured.Unstructured{Object: fromYAML(t, seed(t, "snapshot"))}
	data, err := yaml.Marshal(snapshot.Object["data"].(map[string]any)["spec"])
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &owner.Spec); err != nil {
		t.Fatal(err)
	}
	shared.Create(t, owner)
	snapshot.SetNamespace(ns)
	references := snapshot.GetOwnerReferences()
	if want := []metav1.OwnerReference{{APIVersion: workflowsv1alpha1.GroupVersion.String(), Kind: "WorkflowRun", Name: owner.Name}}; cmp.Diff(want, references) != "" {
		t.Errorf("the snapshot is owned by (-want +got):\n%s", cmp.Diff(want, references))
	}
	references[0].UID = owner.UID
	snapshot.SetOwnerReferences(references)
	expectError(t, "the snapshot", shared.Admin().Create(t.Context(), snapshot, client.FieldValidation("Strict")), "")
	stored := &appsv1.ControllerRevision{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(snapshot), stored); err != nil {
		t.Fatal(err)
	}
	var envelope struct {
		Spec workflowsv1alpha1.WorkflowRunSpec `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(stored.Data.Raw, &envelope); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(owner.Spec, envelope.Spec); diff != "" {
		t.Errorf("the spec in the snapshot (-want +got):\n%s", diff)
	}
}
