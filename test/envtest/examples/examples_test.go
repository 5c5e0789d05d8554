package examples

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"kruntimes.io/kruntimes/test/envtest/cluster"
)

const root = "../../.."

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	shared = cluster.MustStart()
	defer shared.Stop()
	m.Run()
}

// TestManifests sends every manifest to the API server as a person would with strict validation, which refuses unknown
// fields. Nothing is stored, so that examples may share names.
func TestManifests(t *testing.T) {
	manifests, err := Collect(root, "examples", "config/samples", "README.md", "docs")
	if err != nil {
		t.Fatal(err)
	}
	perSource := map[string]int{}
	namespace := shared.Namespace(t)
	for _, m := range manifests {
		perSource[m.Source]++
		t.Run(m.Source+"/"+m.Object.GetKind()+"/"+m.Object.GetName(), func(t *testing.T) {
			m.Object.SetNamespace(namespace)
			err := shared.Admin().Create(t.Context(), m.Object, client.DryRunAll, client.FieldValidation("Strict"))
			if err != nil {
				t.Errorf("refused: %v", err)
			}
		})
	}
	for _, source := range []string{"examples/runtimes.yaml", "examples/artifacts.yaml", "examples/ci.yaml", "examples/s3/runtime.yaml", "examples/s3/make.yaml",
		"examples/s3/take.yaml", "examples/runs/first.yaml", "examples/reuse/build.yaml",
		"examples/reuse/verify.yaml", "examples/reuse/release.yaml", "docs/workflows/calls.md", "README.md"} {
		if perSource[source] == 0 {
			t.Errorf("found no manifest in %s", source)
		}
	}
}

// TestStrict proves that the test above can fail: a field that does not exist is refused.
func TestStrict(t *testing.T) {
	manifests, err := decode([]byte("apiVersion: kruntimes.io/v1alpha1\nkind: Run\nmetadata: {name: x}\n" +
		"spec: {runtime: sh, mode: {task: {args: [ls]}}, timeot: 5s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	object := manifests[0].Object
	object.SetNamespace(shared.Namespace(t))
	err = shared.Admin().Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict"))
	if err == nil {
		t.Error("a misspelt field was accepted")
	}
}
