// Package workflows tests the kinds of workflows.kruntimes.io and their policies against a real API server.
package workflows

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/test/envtest/cluster"
)

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	shared = cluster.MustStart()
	defer shared.Stop()
	m.Run()
}

// manifest makes an object from the YAML of its spec, as a person might write it: with fields that no Go type has.
func manifest(t *testing.T, kind, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"spec": fromYAML(t, spec)}}
	u.SetAPIVersion(workflowsv1alpha1.GroupVersion.String())
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func fromYAML(t *testing.T, text string) map[string]any {
	t.Helper()
	var body map[string]any
	if err := yaml.Unmarshal([]byte(text), &body); err != nil {
		t.Fatalf("decoding %s: %v", text, err)
	}
	return body
}

func mergePatch(text string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(text))
}

// expectError checks that err holds want, or that there is no error where want is empty.
func expectError(t *testing.T, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: got error %v, want none", what, err)
	case want != "" && err == nil:
		t.Errorf("%s: accepted, want an error with %q", what, want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("%s: got error %v, want one with %q", what, err, want)
	}
}

// expectInvalid checks that the API server calls an object invalid for exactly the given reason and no other, or that
// there is no error where want is empty.
func expectInvalid(t *testing.T, what string, err error, want string) {
	t.Helper()
	if want == "" || err == nil {
		expectError(t, what, err, want)
		return
	}
	_, got, found := strings.Cut(err.Error(), " is invalid: ")
	// What the schema refuses is not seen by every rule; the API server says so in a cause of its own.
	if rest, has := strings.CutSuffix(got, ", <nil>: Invalid value: null: some validation rules were not checked because the "+
		"object was invalid; correct the existing errors to complete validation]"); has {
		got = strings.TrimPrefix(rest, "[")
	}
	if !found || got != want {
		t.Errorf("%s: got error\n%v\nwant invalid because of\n%s", what, err, want)
	}
}
